"""The gradient worker: a process that compiles the kernels of backward while forward still runs.

in : ops as they are recorded for the first time, with the types and layouts of their operands
out: nothing but time: their gradients' kernels lie in the cache on disk when backward asks

The first step of a model on native kernels is mostly compiling, and what backward will need is
known from what forward recorded. Once this process has compiled for `WORTH` seconds, a second one
is started and given these ops, the earliest first, while backward begins with the latest: what it
has not begun by then is compiled here, what it is at work on is waited for. It ends when it had
nothing to do for `IDLE` seconds.

There is none without a cache on disk, on one processor, or with the setting GRAPHC_PROCESSES=1. If
it cannot be started or fails, the log says so, and this process compiles. It is ended when this
process ends, and nobody hears of that.
"""

from __future__ import annotations

import atexit
import logging
import pickle
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.engine.eager.kernels.layouts import layout_of
from graphc.ir.nodes import exact
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.op import Types
from graphc.system import IMPORTING, after_fork

if TYPE_CHECKING:
    from subprocess import Popen

WORTH = 0.15
"""Seconds of compiling that promise more of it: a worker takes some tenths of one to start."""
IDLE = 1.0
MOST = 512
"""Ops that wait for the worker, at most."""
PROGRAM = "from frontend.engine.eager.gradients.gradient_worker_main import main; main()"
THREAD = "graphc gradient worker"
Flags = tuple[bool, ...]
_log = logging.getLogger("graphc.compile")


class _Request:
    """An op to be differentiated; `done` is set when there is nothing to wait for."""

    def __init__(self, message: Any):
        self.message = message
        self.done = threading.Event()


class _Asked:
    """What was asked for and is not done. All is written under `changed`."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: dict[Any, _Request] = {}
        self.working: dict[Any, _Request] = {}
        self.spent = 0.0
        self.feeds = False

    def next(self) -> tuple[Any, _Request] | None:
        """The op that waits longest, now worked on; None where none came for a while: then nobody
        feeds the worker any more."""
        with self.changed:
            if not self.waiting:
                self.changed.wait(IDLE)
            if not self.waiting:
                self.feeds, self.spent = False, 0.0
                return None
            key = next(iter(self.waiting))
            self.working[key] = self.waiting.pop(key)
            return key, self.working[key]

    def finish(self, key: Any) -> None:
        with self.changed:
            self.working.pop(key).done.set()

    def give_up(self) -> None:
        """No worker: what waited for one is compiled where it is needed."""
        with self.changed:
            for request in (*self.waiting.values(), *self.working.values()):
                request.done.set()
            self.waiting.clear()
            self.working.clear()
            self.feeds, self.spent = False, float("-inf")


_asked = _Asked()
# The thread that feeds a worker does not live in a forked child, nor is the worker the child's.
after_fork(_asked.__init__)  # type: ignore[misc]


def compiled(seconds: float) -> None:
    """Told that eager mode compiled, for so long."""
    with _asked.changed:
        _asked.spent += seconds
    _start_if_it_pays()


def ask_ahead(op: Any, attributes: dict[str, Any], operands: Sequence[Any], wanted: Flags) -> None:
    """Have the gradients of an op compiled that was recorded for the first time."""
    if isinstance(op, Elementwise):
        return  # what its rule computes is soon compiled, and often was for forward
    if _asked.spent <= 0 or not _worker_helps() or len(_asked.waiting) >= MOST:
        return  # all that was needed so far was on disk: so will be what is to come
    arrays = [x._value for x in operands]
    if any([type(array) is not np.ndarray for array in arrays]):
        return  # in a trace, or without memory
    types = tuple([x.tensor_type for x in operands])
    layouts = tuple([layout_of(array) for array in arrays])
    request = _Request((op.name, attributes, types, layouts, wanted))
    with _asked.changed:
        _asked.waiting[_key(op, attributes, types, wanted)] = request
        _asked.changed.notify()
    _start_if_it_pays()


def settle(op: Any, attributes: dict[str, Any], types: Types, wanted: Flags) -> None:
    """Before the kernels of an op's gradients are compiled: they are taken from the worker, or
    waited for where it is at work on them."""
    if not _asked.waiting and not _asked.working:
        return
    key = _key(op, attributes, types, wanted)
    with _asked.changed:
        if _asked.waiting.pop(key, None) is not None:
            return
        request = _asked.working.get(key)
    if request is not None:
        request.done.wait()


def _key(op: Any, attributes: dict[str, Any], types: Any, wanted: Flags) -> Any:
    return (op, types, wanted, *map(exact, attributes.items()))


def _start_if_it_pays() -> None:
    with _asked.changed:
        if _asked.feeds or not _asked.waiting or _asked.spent < WORTH:
            return
        _asked.feeds = True
    try:
        threading.Thread(target=_feed, name=THREAD, daemon=True).start()
    except RuntimeError as error:  # no more threads, or none while Python ends
        _failed(error, quietly=not threading.main_thread().is_alive())


def _worker_helps() -> bool:
    with IMPORTING:
        from graphc.codegen.cache.object_cache import user_cache
        from graphc.codegen.program.compile_worker import worker_helps

    return worker_helps() and user_cache() is not None


def _feed() -> None:
    """Hand one op after the other to a worker until none comes."""
    with IMPORTING:
        from graphc.codegen.program.compile_worker import start_worker

    ended = threading.Event()
    try:
        with start_worker(PROGRAM) as worker:

            def end() -> None:
                ended.set()
                worker.kill()

            atexit.register(end)
            try:
                _hand_over(worker)
            finally:
                atexit.unregister(end)
    except Exception as error:  # whatever it is, nobody may wait for it
        _failed(error, quietly=ended.is_set())


def _failed(error: Exception, *, quietly: bool) -> None:
    if not quietly:
        _log.warning("the gradient worker failed: %r", error)
    _asked.give_up()


def _hand_over(worker: Popen[bytes]) -> None:
    assert worker.stdin is not None and worker.stdout is not None
    pickle.load(worker.stdout)  # it is ready: what it is given from now on is not waited for long
    while (asked := _asked.next()) is not None:
        key, request = asked
        try:
            message = pickle.dumps(request.message)
        except (pickle.PickleError, TypeError, AttributeError) as error:
            _log.debug("no gradients ahead of %s: %r", request.message[0], error)
        else:
            worker.stdin.write(message)
            worker.stdin.flush()
            failure = pickle.load(worker.stdout)
            if failure:
                _log.debug("no gradients ahead of %s: %s", request.message[0], failure)
        _asked.finish(key)
    worker.stdin.close()
