"""The process of one rung: it runs a step as the rung says, and speaks lines of JSON.

In: one JSON object as its argument (`Task`), then lines `turn SECONDS` on standard input. Out:
first what the rung is (or why it is not available), then for each turn the least and the median
time of a step in microseconds, and how many there were. What the program prints goes to standard
error.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.debug.compare.graph_runs import graph_run
from graphc.debug.compare.peers import peer_run
from graphc.debug.compare.rung_compiler import RungCompiler
from graphc.debug.compare.rungs import Rung, rungs
from graphc.debug.load import loaded_object
from graphc.debug.program import LoadError, ProgramOptions
from graphc.debug.traced import DrawnInput, ObjectRun, WayToRun
from graphc.ir.nodes import Graph
from graphc.records import as_dict, record
from graphc.runtime.allocator import keep_freed_memory

FEWEST_STEPS = 2
Array = np.ndarray[Any, Any]


@record
class Task:
    """What a worker runs: the object, its inputs as texts, how its file is imported, the number of
    its rung among those of a machine with so many processors; or a peer, or sizes to sweep over."""

    reference: str
    inputs: tuple[str, ...]
    rung: int
    processors: int
    alias: str | None = None
    arguments: tuple[str, ...] = ()
    peer: str = ""
    sizes: tuple[int, ...] = ()

    def text(self) -> str:
        return json.dumps(as_dict(self))

    @staticmethod
    def parse(text: str) -> Task:
        fields = json.loads(text)
        lists = {name: tuple(fields[name]) for name in ("inputs", "arguments", "sizes")}
        return Task(**{**fields, **lists})

    @property
    def program(self) -> ProgramOptions:
        return ProgramOptions(self.arguments, self.alias)


def serve(task: Task, requests: Any, answer: Callable[[dict[str, Any]], None]) -> None:
    """Set the rung up, say what it is, and answer turns until the input ends."""
    inputs = [DrawnInput.parse(text) for text in task.inputs]
    if task.peer or task.sizes:
        _stay_on(1)
        _serve_other(task, inputs, requests, answer)
        return
    rung = rungs(task.processors)[task.rung]
    _stay_on(rung.threads)
    compiler = RungCompiler(rung)
    with loaded_object(task.reference, inputs, task.program) as (loaded, arrays):
        if rung.keeps:
            keep_freed_memory()
        way = WayToRun(rung.backend, compiler if rung.compiled else None, rung.keep_grads)
        run = _run(loaded, arrays, way)
        answer(_facts(run, rung, compiler))
        for line in requests:
            answer(_turn(run.step, float(line.split()[1])))


def _serve_other(
    task: Task, inputs: Sequence[DrawnInput], requests: Any,
    answer: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """A peer, or a sweep over sizes."""
    if task.peer:
        with peer_run(task.peer, task.reference, inputs, task.program, 1) as run:
            answer(_first_steps(run))
            for line in requests:
                answer(_turn(run.step, float(line.split()[1])))
        return
    keep_freed_memory()
    with loaded_object(task.reference, inputs, task.program) as (loaded, arrays):
        if isinstance(loaded, Graph) or loaded.sweep is None:
            raise LoadError("sizes are swept over for functions and modules")
        sets = [_at_size(arrays, size) for size in task.sizes]
        answer({"sizes": loaded.sweep(sets, float(next(iter(requests)).split()[1]))})


def _at_size(arrays: Sequence[Array], size: int) -> list[Array]:
    """The arrays with another first extent, those that share it with the first array."""
    shared = next((array.shape[0] for array in arrays if array.ndim), 0)
    return [
        np.resize(array, (size, *array.shape[1:])) if array.ndim and array.shape[0] == shared
        else array
        for array in arrays
    ]  # fmt: skip


def _run(loaded: Any, arrays: Sequence[np.ndarray[Any, Any]], way: WayToRun) -> ObjectRun:
    if isinstance(loaded, Graph):
        return graph_run(loaded, arrays, way)
    if loaded.running is None:
        raise LoadError("the tracer of this object knows no way to run it again and again")
    object_run: ObjectRun = loaded.running(arrays, way)
    return object_run


def _facts(run: ObjectRun, rung: Rung, compiler: RungCompiler) -> dict[str, Any]:
    facts = _first_steps(run)
    if rung.compiled:
        return facts | compiler.facts() | {"parts": compiler.parts}
    ops, moved = run.counted()
    facts |= {"launches": ops, "calls": ops, "moved_bytes": moved, "arena_bytes": 0}
    watched = run.watched if rung.backend == "native" else None
    return facts if watched is None else facts | {"tape": watched()}


def _first_steps(run: ObjectRun) -> dict[str, Any]:
    """How long the first step takes, what the second gives, what another allocates."""
    started = time.perf_counter()
    run.step()
    first = time.perf_counter() - started
    value = checksum(run.read(run.step()))
    tracemalloc.start()
    run.step()
    allocated = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    facts: dict[str, Any] = {"first_s": first, "value": value, "allocated_bytes": allocated}
    return facts


def checksum(arrays: Sequence[np.ndarray[Any, Any]]) -> float | None:
    """A number that shows what came out: a scalar itself, the root mean square of an array."""
    if not arrays or not arrays[0].size:
        return None
    first = np.asarray(arrays[0], np.float64)
    return float(first) if first.ndim == 0 else float(np.sqrt(np.mean(first**2)))


def _turn(step: Callable[[], Any], seconds: float) -> dict[str, Any]:
    times: list[int] = []
    clock = time.perf_counter_ns
    began, on_processor = clock(), time.thread_time_ns()
    stop = began + seconds * 1e9
    while len(times) < FEWEST_STEPS or clock() < stop:
        start = clock()
        step()
        times.append(clock() - start)
    share = (time.thread_time_ns() - on_processor) / max(clock() - began, 1)
    median = statistics.median(times)
    return {
        "min_us": min(times) / 1e3, "median_us": median / 1e3, "steps": len(times),
        "p99_us": sorted(times)[int(0.99 * (len(times) - 1) + 0.5)] / 1e3,
        "on_processor": share,
    }  # fmt: skip


def _stay_on(processors: int) -> None:
    """Keep this process on so many processors: a rung of one thread gains nothing from others."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-processors:])


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(content: dict[str, Any]) -> None:
        print(json.dumps(content), file=out, flush=True)

    try:
        serve(Task.parse(sys.argv[1]), sys.stdin, answer)
    except Exception as error:
        # The other rungs can still be measured; this one is told as failed.
        line = str(error).splitlines()[0] if str(error) else ""
        answer({"missing": f"{type(error).__name__}: {line}"[:400]})


if __name__ == "__main__":
    main()
