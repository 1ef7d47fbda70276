"""The processes that this one works with: the transport, the collectives under way, and what waits
for them. One per process, from `init_process_group` to `destroy_process_group`.

in : generators (`exchange`) that yield the messages they wait for
out: `Work`, which PyTorch's users get of `async_op=True`

Everything moves in `World.advance`, on the thread that asks; collectives that were started earlier
go on while a later one is waited for, so an asynchronous one needs no thread. A wait ends by what
it waits for, by the departure of a rank it needs, or by its timeout.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from frontend.distributed.errors import DistBackendError
from frontend.distributed.transport import Message, Transport
from graphc.ir.builder import user_location
from graphc.system import after_fork

Steps = Generator[Sequence[tuple[int, Message]], None, Any]
"""Yields messages with the ranks they are exchanged with; what it returns is the result."""
SETTLING = 0.05
"""Seconds in which messages of a rank that has left can still come."""


class Work:
    """A collective under way: `wait()` for it, or ask `is_completed()`."""

    def __init__(self, world: World, name: str, steps: Steps, timeout: float):
        self.world, self.name, self.timeout = world, name, timeout
        self.location = user_location()
        self.start = time.monotonic()
        self.error: BaseException | None = None
        self.value: Any = None
        self.done = False
        self._steps: Steps | None = steps
        self._missing: Sequence[tuple[int, Message]] = ()
        self._then: list[Callable[[Work], None]] = []

    def advance(self) -> bool:
        """Go on as far as messages allow; whether anything moved."""
        moved = False
        while not self.done:
            self._missing = [pair for pair in self._missing if not pair[1].done]
            if self._missing:
                break
            moved = True
            try:
                assert self._steps is not None
                self._missing = next(self._steps)
            except StopIteration as stop:
                self.value = stop.value
                self._end()
            except Exception as error:
                self.error = error
                self._end()
        return moved

    def fail(self, error: BaseException) -> None:
        self.error = error
        self._end()

    def _end(self) -> None:
        self.done, self._steps, self._missing = True, None, ()
        then, self._then = self._then, []
        for callback in then:
            callback(self)

    def ended(self) -> bool:
        return self.done

    def missing(self) -> list[int]:
        """The ranks that messages are awaited of."""
        return sorted({rank for rank, message in self._missing if not message.done})

    def where(self) -> str:
        return self.name if self.location is None else f"{self.name} at {self.location}"

    # -- PyTorch's names -------------------------------------------------------------------------

    def wait(self, timeout: Any = None) -> bool:
        """Wait until it is done. Raises DistBackendError where it cannot be."""
        limit = self.timeout if timeout is None else timeout.total_seconds()
        self.world.wait(self, limit)
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        self.world.advance()
        return self.done

    def is_success(self) -> bool:
        return self.is_completed() and self.error is None

    def exception(self) -> BaseException | None:
        return self.error

    def result(self) -> Any:
        """What was computed, a list of tensors."""
        self.wait()
        return self.value

    def get_future(self) -> WorkFuture:
        return WorkFuture(self)


class WorkFuture:
    """`torch.futures.Future` of a collective, or of what `then` makes of it."""

    def __init__(self, work: Work, function: Callable[[WorkFuture], Any] | None = None):
        self.work, self.function = work, function
        self.before: WorkFuture | None = None
        self._made: list[Any] = []

    def done(self) -> bool:
        return self.work.is_completed()

    def wait(self) -> Any:
        """The result, once it is there."""
        if self.function is None:
            return self.work.result()
        if not self._made:
            assert self.before is not None
            self.before.wait()
            self._made.append(self.function(self.before))
        return self._made[0]

    value = wait

    def then(self, function: Callable[[WorkFuture], Any]) -> WorkFuture:
        """A future of `function(this future)`, called when it is waited for."""
        later = WorkFuture(self.work, function)
        later.before = self
        return later


class World:
    """All processes, by the ranks that `init_process_group` gave them."""

    def __init__(self, transport: Transport, backend: str, timeout: float, store: Any):
        self.transport, self.backend, self.timeout, self.store = transport, backend, timeout, store
        self.works: list[Work] = []
        self.groups = 0
        self.everybody: Any = None  # the ProcessGroup of all
        self.lock = threading.RLock()
        self.reason: str | None = None

    def start(self, name: str, steps: Steps, timeout: float) -> Work:
        """Begin a collective."""
        with self.lock:
            work = Work(self, name, steps, timeout)
            self.works.append(work)
            self.advance()
            return work

    def advance(self) -> bool:
        """Let all collectives go on, the earlier ones first; whether anything moved."""
        with self.lock:
            moved = False
            for work in [*self.works]:
                moved |= work.advance()
            if moved:
                self.works = [work for work in self.works if not work.done]
            return moved

    def wait(self, work: Work, timeout: float) -> None:
        """Wait for one of them."""
        with self.lock:
            try:
                self.wait_until(work.ended, work.missing, work.where(), timeout, work.start)
            except DistBackendError as error:
                work.fail(error)
                raise
            finally:
                self.works = [each for each in self.works if not each.done]

    def wait_until(
        self, done: Callable[[], bool], missing: Callable[[], list[int]], where: str,
        timeout: float, start: float | None = None,
    ) -> None:  # fmt: skip
        """Wait until something is done that needs the ranks `missing`. Raises DistBackendError for
        a rank of these that has left, and when the time is up."""
        now = last = time.monotonic()
        start = now if start is None else start
        departed: float | None = None
        while True:
            moved = self.advance()
            if done():
                return
            now = time.monotonic()
            last = now if moved else last
            if self.transport.left:
                gone = [rank for rank in missing() if rank in self.transport.left]
                departed = (departed or now) if gone else None
                if departed is not None and now - departed > SETTLING and not moved:
                    raise self._gone(where, gone)
            if now - start > timeout:
                raise self._late(where, missing(), now - start)
            self.transport.poll(now - last)

    def _gone(self, where: str, gone: Iterable[int]) -> DistBackendError:
        said = "; ".join(f"rank {rank} is gone: {self.transport.left[rank]}" for rank in gone)
        return DistBackendError(f"rank {self.transport.rank} was in {where}: {said}")

    def _late(self, where: str, missing: Sequence[int], waited: float) -> DistBackendError:
        ranks = ", ".join(map(str, missing))
        return DistBackendError(
            f"rank {self.transport.rank} was in {where}: nothing came of rank {ranks} for "
            f"{waited:.1f} s",
            hint="give ranks that are slow (one that compiles, or reads data) more time by "
            "init_process_group(timeout=…)",
        )

    def leave(self, reason: str) -> None:
        """Tell the others, once."""
        if self.reason is None:
            self.reason = reason
            self.transport.leave(reason)


class _Here:
    """The world of this process, and what is done when the process ends."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.hooked = False
        self.status = 0

    def enter(self, world: World) -> None:
        self.world = world
        if not self.hooked:
            self.hooked = True
            atexit.register(self._at_exit)
            self._before = sys.excepthook
            sys.excepthook = self._failed

    def _failed(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        """An exception ends this process: say so here, and to the others."""
        if self.world is not None and self.world.reason is None:
            rank, size = self.world.transport.rank, self.world.transport.size
            if self._before is sys.__excepthook__:  # in one piece: ranks share the stream
                text = "".join(traceback.format_exception(kind, error, trace))
                sys.stderr.write(f"rank {rank} of {size}: {text}")
            else:
                self._before(kind, error, trace)
            sys.stderr.flush()
            self.status = 1
            self.world.leave(reason_of(error, trace))
            return
        self._before(kind, error, trace)

    def _at_exit(self) -> None:
        if self.world is not None:
            self.world.leave("its process ended without destroy_process_group()")
            if self.status:
                self.world.transport.end(self.status)

    def forked(self) -> None:
        """A child is no rank. It closes its copies of the sockets: a rank that is killed is seen
        by their end."""
        if self.world is not None:
            world, self.world = self.world, None
            if world.transport.name == "local":
                world.transport.close()


HERE = _Here()
after_fork(HERE.forked)


def reason_of(error: BaseException, trace: Any = None) -> str:
    """What a rank that fails tells the others."""
    trace = trace or error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = ""
    if trace is not None:
        file = os.path.basename(trace.tb_frame.f_code.co_filename)
        place = f" ({file}:{trace.tb_lineno})"
    first = next(iter(str(error).splitlines()), "")
    return f"it raised {type(error).__name__}: {first[:250]}{place}"


def current() -> World:
    """The world. Raises ValueError where there is none yet."""
    if HERE.world is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return HERE.world
