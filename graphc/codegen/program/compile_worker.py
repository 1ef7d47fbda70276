"""The compile worker: a subprocess that compiles some of the kernels; this is the side that asks.

In: kernels to compile. Out: their object code. Lowering is Python, and LLVM here compiles one
module at a time, so a second processor helps only another process. The worker is started where many
kernels are missing, or already while a large graph is planned; gets one after the other over a pipe
(a pair of spec and target in, a `CompiledSpec` out), and ends when its input does. Its side of
the pipe is graphc.codegen.program.compile_worker_main.

With the setting GRAPHC_PROCESSES=1 there is none. If it cannot be started or dies, this process
compiles what is left, and the log says so.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from graphc.codegen.program.compiled_spec import CompiledSpec
from graphc.codegen.target import Target
from graphc.config import compile_processes
from graphc.schedule.plan import KernelSpec
from graphc.system import after_fork, processors

MANY = 12
"""Kernels from which a worker pays: it takes some tenths of a second to start."""
NODES = 200
"""Nodes of a graph that promise so many kernels: then it is started before the plan."""
PROGRAM = "from graphc.codegen.program.compile_worker_main import main; main()"
_log = logging.getLogger("graphc.compile")


_early_workers: list[subprocess.Popen[bytes]] = []
"""Workers started early that have no work yet."""
after_fork(_early_workers.clear)  # they work for the parent


@contextlib.contextmanager
def worker_started_early(nodes: int) -> Iterator[None]:
    """Has the worker start while a graph of so many nodes is planned. One that was not needed then
    is ended."""
    if nodes < NODES or not worker_helps():
        yield
        return
    try:
        worker = start_worker(PROGRAM)
    except OSError as error:
        _log.warning("no compile worker: %r", error)
        yield
        return
    _early_workers.append(worker)
    try:
        yield
    finally:
        if worker in _early_workers:
            _early_workers.remove(worker)
            worker.kill()
            with worker:  # closes its pipes and waits for its end
                pass


def worker_helps() -> bool:
    """Whether there is a processor for another process, and a way to start one."""
    return _processors() > 1 and bool(sys.executable)


def start_worker(program: str) -> subprocess.Popen[bytes]:
    """A process that runs a program of this package, with pipes to it, in a session of its own: it
    ends when its input does, not by a signal that a terminal sends to all. Raises OSError."""
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        start_new_session=True,
    )  # fmt: skip


def _processors() -> int:
    """How many this process may use to compile."""
    if compile_processes() == 1:
        return 1
    return processors()


def compile_all(
    specs: Sequence[KernelSpec], target: Target, compile_here: Callable[[KernelSpec], object]
) -> dict[KernelSpec, CompiledSpec]:
    """Compile all: some by `compile_here(spec)`, the others by a worker, whose results are
    returned. Small numbers are all compiled here."""
    work = deque(specs)
    from_worker: dict[KernelSpec, CompiledSpec] = {}
    feeder = None
    if len(specs) >= MANY and worker_helps():
        feeder = _feeder(work, target, from_worker)
    try:
        while True:
            try:
                spec = work.pop()
            except IndexError:
                break
            compile_here(spec)
    finally:
        work.clear()
        if feeder is not None:
            feeder.join()
    for spec in specs:  # what a worker that died was at work on
        if feeder is not None and spec not in from_worker:
            compile_here(spec)
    return from_worker


def _feeder(
    work: deque[KernelSpec], target: Target, from_worker: dict[KernelSpec, CompiledSpec]
) -> threading.Thread | None:
    """The thread that feeds a worker, started; None where there can be none: of too many, or while
    Python ends."""
    feeder = threading.Thread(target=_feed, args=(work, target, from_worker), daemon=True)
    try:
        feeder.start()
    except RuntimeError as error:
        if threading.main_thread().is_alive():
            _log.warning("no compile worker: %r", error)
        return None
    return feeder


def _feed(
    work: deque[KernelSpec], target: Target, from_worker: dict[KernelSpec, CompiledSpec]
) -> None:
    """Hand work to a worker until there is none."""
    try:
        with _early_workers.pop() if _early_workers else start_worker(PROGRAM) as worker:
            assert worker.stdin is not None and worker.stdout is not None
            while work:
                try:
                    spec = work.popleft()
                except IndexError:
                    break
                pickle.dump((spec, target), worker.stdin)
                worker.stdin.flush()
                from_worker[spec] = pickle.load(worker.stdout)
            worker.stdin.close()
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        _log.warning("the compile worker failed: %r", error)
