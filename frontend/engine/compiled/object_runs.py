"""A function run again and again, eagerly or compiled: what ladders compare.

in : a function or Module, its arguments, and the way to run it
out: an `ObjectRun`
"""

from __future__ import annotations

import contextlib
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from frontend.engine.compiled.compiler import CompiledFunction
from frontend.engine.compiled.options import Options
from frontend.engine.tensors import tree
from frontend.engine.tensors.observer import Note
from frontend.engine.tensors.state import set_eager_backend, swap_observer
from frontend.engine.tensors.tensor import Tensor
from graphc.debug.traced import ObjectRun, WayToRun
from graphc.records import replace


def object_run(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: Options, way: WayToRun
) -> ObjectRun:
    """Runs `function` on these arguments. Eager runs choose this thread's backend, for good."""
    if way.compile is None:
        if way.eager is not None:
            set_eager_backend(way.eager)
        run: Callable[..., Any] = function
    else:
        chosen = replace(
            options, compiler=way.compile, keep_grads=way.keep_grads, level="exact", dynamic=False,
            fullgraph=True,
        )  # fmt: skip
        run = CompiledFunction(function, chosen)
    return ObjectRun(
        lambda: run(*arguments), _arrays, lambda: _counted(lambda: run(*arguments)),
        None if way.compile is not None else lambda: _watched(lambda: run(*arguments)),
    )  # fmt: skip


def sweep(
    compiled: CompiledFunction, sets: Sequence[tuple[Any, ...]], seconds: float
) -> list[dict[str, Any]]:
    """A function on one set of arguments after the other, eagerly and compiled: of each, what the
    first call took and the median of further ones in microseconds; how often it was traced by then,
    and why it was for these."""
    rows: list[dict[str, Any]] = []
    for arguments in sets:
        row: dict[str, Any] = {"shapes": [list(x.shape) for x in arguments]}
        for name, function in (("eager", compiled.function), ("compiled", compiled)):
            first, *times = _timed(lambda: function(*arguments), seconds)  # noqa: B023
            row |= {f"{name}_first_us": first, f"{name}_us": statistics.median(times)}
        # Where it was called is here, and tells nothing.
        reasons = [why.rpartition(" at ")[0] for why in compiled.trace_reasons]
        row |= {"traces": len(reasons), "why": reasons[rows[-1]["traces"] if rows else 0 :]}
        rows.append(row)
    return rows


def _timed(call: Callable[[], Any], seconds: float) -> list[float]:
    """Microseconds of at least three calls."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e6)
    return times


def _watched(step: Callable[[], Any]) -> list[tuple[str, str, int, int, int]]:
    """The ops of a step, those inside another left out. Memory is that of a second step, since to
    follow it takes time."""
    ops = _observed(step, time.perf_counter_ns)
    tracemalloc.start()
    try:
        held = _observed(step, lambda: tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    held += [held[-1]] * (len(ops) - len(held)) if held else []
    return [(*op, max(0, over)) for op, (_, _, _, over) in zip(ops, held)]


def _observed(
    step: Callable[[], Any], measure: Callable[[], int]
) -> list[tuple[str, str, int, int]]:
    """Of each op of a step the name, the type of what it reads first, and what was measured when it
    began and when it was over, less that at the beginning."""
    ops: list[tuple[str, str, int, int]] = []
    depth, begin = 0, measure()

    @contextlib.contextmanager
    def watched(op: Any, operands: tuple[Any, ...]) -> Iterator[None]:
        nonlocal depth
        depth, started = depth + 1, measure()
        try:
            yield
        finally:
            depth -= 1
            if not depth:
                name = op if isinstance(op, str) else op.name
                kind = str(operands[0].tensor_type) if operands else ""
                ops.append((name, kind, started - begin, measure() - begin))

    before = swap_observer(OpObserver(watched))
    try:
        step()
    finally:
        swap_observer(before)
    return ops


def _arrays(result: Any) -> list[np.ndarray]:
    tensors: list[Tensor] = []
    tree.flatten(result, tensors)
    return [np.array(tensor.detach().numpy()) for tensor in tensors]


def _counted(step: Callable[[], Any]) -> tuple[int, int]:
    """How many ops compute something in a step, views left out, and the bytes they read and
    write."""
    counts = [0, 0]

    @contextlib.contextmanager
    def counting(op: Any, operands: tuple[Any, ...]) -> Iterator[Note]:
        def note(results: tuple[Any, ...]) -> None:
            bases = {id(_base(operand)) for operand in operands}
            if op.kind != "movement" or all(id(_base(r)) not in bases for r in results):
                counts[0] += 1
                counts[1] += sum(_nbytes(x) for x in (*operands, *results))

        yield note

    before = swap_observer(OpObserver(counting))
    try:
        step()
    finally:
        swap_observer(before)
    return counts[0], counts[1]


class OpObserver:
    """An observer of eager ops alone, by the block that each runs in; what is compiled runs as
    ever."""

    def __init__(self, block: Callable[..., AbstractContextManager[Note | None]]):
        self._block = block

    def __call__(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> AbstractContextManager[Note | None]:
        return self._block(op, operands)

    def run(self, executable: Any, arrays: list[Any]) -> Any:
        return executable.run(arrays)


def _value(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor._value
    return array


def _nbytes(tensor: Any) -> int:
    """Bytes of a tensor in memory: what is broadcast lies there once."""
    return min(_value(tensor).nbytes, _base(tensor).nbytes)


def _base(tensor: Any) -> Any:
    """The array that holds a tensor's memory."""
    array = _value(tensor)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
