"""Kernels compiled in a second process, beside this one.

In: kernels to compile. Out: their object code. Lowering is Python, and LLVM here compiles one
module at a time, so a second processor helps only another process. It is started where many
kernels are missing, or already while a large graph is planned; gets one after the other over a pipe
(a pair of spec and target in, a `Compiled` out), and ends when its input does.

With the setting GRAPHC_PROCESSES=1 there is none. If it cannot be started or dies, this process
compiles what is left, and the log says so.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from graphc.codegen.target import Target
from graphc.config import compile_processes
from graphc.schedule.plan import KernelSpec

MANY = 12
"""Kernels from which a second process pays: it takes some tenths of a second to start."""
NODES = 200
"""Nodes of a graph that promise so many kernels: then it is started ahead of the plan."""
PROGRAM = "from graphc.codegen.program.compile_worker import main; main()"
_log = logging.getLogger("graphc.compile")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as the other process gives it."""

    symbol: str
    extent: int
    scratch_bytes: int
    object: bytes = field(repr=False)


_started: list[subprocess.Popen[bytes]] = []
"""Processes started ahead that have no work yet."""


@contextlib.contextmanager
def ahead(nodes: int) -> Iterator[None]:
    """Has the second process start while a graph of so many nodes is planned. One that was not
    needed then is ended."""
    if nodes < NODES or not _helps():
        yield
        return
    try:
        process = _start()
    except OSError as error:
        _log.warning("no second process to compile: %r", error)
        yield
        return
    _started.append(process)
    try:
        yield
    finally:
        if process in _started:
            _started.remove(process)
            process.kill()
            with process:  # closes its pipes and waits for its end
                pass


def _helps() -> bool:
    return _processors() > 1 and bool(sys.executable)


def _start() -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def _processors() -> int:
    """How many this process may use to compile."""
    if compile_processes() == 1:
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compile_all(
    specs: Sequence[KernelSpec], target: Target, here: Callable[[KernelSpec], object]
) -> dict[KernelSpec, Compiled]:
    """Compile all: some by `here(spec)`, the others in a second process, whose results are given
    back. Small numbers are all compiled here."""
    work = deque(specs)
    found: dict[KernelSpec, Compiled] = {}
    feeder = None
    if len(specs) >= MANY and _helps():
        feeder = threading.Thread(target=_feed, args=(work, target, found), daemon=True)
        feeder.start()
    try:
        while True:
            try:
                spec = work.pop()
            except IndexError:
                break
            here(spec)
    finally:
        work.clear()
        if feeder is not None:
            feeder.join()
    for spec in specs:  # what a process that died was at work on
        if feeder is not None and spec not in found:
            here(spec)
    return found


def _feed(work: deque[KernelSpec], target: Target, found: dict[KernelSpec, Compiled]) -> None:
    """Hand work to another process until there is none."""
    try:
        with _started.pop() if _started else _start() as process:
            assert process.stdin is not None and process.stdout is not None
            while work:
                try:
                    spec = work.popleft()
                except IndexError:
                    break
                pickle.dump((spec, target), process.stdin)
                process.stdin.flush()
                found[spec] = pickle.load(process.stdout)
            process.stdin.close()
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        _log.warning("the process that compiles beside this one failed: %r", error)


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """The other process: kernels in, object code out."""
    while True:
        try:
            spec, target = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_compiled(spec, target), replies)
        replies.flush()


def _compiled(spec: KernelSpec, target: Target) -> Compiled:
    from graphc.codegen.llvm.jit import compile_kernel
    from graphc.codegen.llvm.kernel import scratch_layout
    from graphc.codegen.llvm.object_cache import user_cache
    from graphc.codegen.recipes.lower import lower

    kernel = lower(spec, target)
    made = compile_kernel(kernel, target, user_cache())
    return Compiled(made.symbol, kernel.extent, scratch_layout(kernel)[1], made.object)


def main() -> None:
    """The other process."""
    gc.disable()  # it makes objects that stay until it ends
    # Nothing but replies goes to the pipe, whatever a library prints.
    pipe: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import graphc.codegen.program.link  # noqa: F401  (all that compiling takes, while work is found)

    serve(sys.stdin.buffer, pipe)
    os._exit(0)  # who waits for the end need not wait for tidying up
