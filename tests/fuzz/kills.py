"""Processes killed at drawn moments while they compile into one cache, or keep large files in it.

Whatever the moment, every file under a final name is whole, and the next process gets the right
results. A case is how the two writers of a round begin and when they are killed.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

import graphc
from graphc.codegen.cache.object_cache import ObjectCache
from tests.fuzz.cache_files import using
from tests.fuzz.frame import Broken, Fuzzer

Case = tuple[str, int, float, float]  # what is written, a number, when each writer is killed
LARGE = 1 << 20
COMPILING, KEEPING = 0.4, 0.05  # seconds a writer is left at most
LIMIT = 60.0


def draw(random: np.random.Generator, size: int) -> Case:
    kind = ("compile", "keep")[int(random.integers(2))]
    longest = COMPILING if kind == "compile" else KEEPING
    first, second = random.uniform(0, longest, 2)
    return kind, int(random.integers(1 << 30)), float(first), float(second)


def graph_of(number: int) -> graphc.Graph:
    """A graph that no earlier case compiled."""
    return graphc.parse(
        f"graph g(%x: f32[{2 + number % 7}]) {{\n"
        f"  %1 = constant f32[{2 + number % 7}] splat {number}.0\n"
        f"  %2 = add(%x, %1) : f32[{2 + number % 7}]\n  %3 = exp(%x) : f32[{2 + number % 7}]\n"
        f"  %4 = mul(%2, %3) : f32[{2 + number % 7}]\n  return %4\n}}"
    )


def compiles(number: int) -> None:
    """Compile a graph and compare with the reference."""
    graph = graph_of(number)
    x = np.linspace(-1, 1, graph.input_types[0].numel, dtype=np.float32)
    (result,), (expected,) = graphc.compile(graph)(x), graphc.run(graph, x)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def keeps(folder: Path, number: int) -> None:
    store = ObjectCache(folder, 1 << 30)
    for round in range(20):
        store.put(f"kernel_{number % 4:02}{round % 2}", bytes([number % 256]) * LARGE, {})


def child(folder: Path, work: Callable[[], None]) -> int:
    """The process id of a copy of this process that does the work and ends."""
    identity = os.fork()
    if identity:
        return identity
    status = 1
    try:
        with using(folder):
            work()
        status = 0
    finally:
        os._exit(status)


def killed(identity: int, moment: float) -> bool:
    """Kill a process at a moment (of time.monotonic). Whether it was still at work."""
    time.sleep(max(0.0, moment - time.monotonic()))
    with suppress(ProcessLookupError):
        os.kill(identity, signal.SIGKILL)
    _, status = os.waitpid(identity, 0)
    return os.WIFSIGNALED(status)


def ended(identity: int) -> int:
    """The exit code of a process. Raises Broken where it does not end."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        waited, status = os.waitpid(identity, os.WNOHANG)
        if waited:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(identity, signal.SIGKILL)
    os.waitpid(identity, 0)
    raise Broken("the process after the killed ones does not end")


def check(case: Case) -> str:
    kind, number, *moments = case
    with tempfile.TemporaryDirectory(prefix="graphc-fuzz-") as name:
        folder = Path(name) / "cache"
        work = (lambda: compiles(number)) if kind == "compile" else lambda: keeps(folder, number)
        start = time.monotonic()
        writers = [child(folder, work) for _ in moments]
        order = sorted(zip(moments, writers))
        alive = [killed(writer, start + moment) for moment, writer in order]
        _check_files(folder)
        if ended(child(folder, lambda: compiles(number))):
            raise Broken("the process after the killed ones fails")
        unfinished = bool(list(folder.glob("??/*.part")))
    if unfinished:
        return f"{kind}: a file was unfinished"
    return f"{kind}: killed at work" if any(alive) else f"{kind}: done before"


def _check_files(folder: Path) -> None:
    """Every file under a final name is whole."""
    store = ObjectCache(folder, 1 << 30)
    symbols = [kept.symbol for kept in store.entries()]
    if len(symbols) != len(list(folder.glob("??/*.object"))):
        raise Broken("a file without its header")
    broken = [symbol for symbol in symbols if store.get(symbol) is None]
    if broken:
        raise Broken(f"{broken} are not whole")


def program(case: Case) -> str:
    return f"from tests.fuzz import kills\nprint(kills.check({case!r}))"


FUZZER = Fuzzer("kills", draw, check, program)
