"""A plan run on NumPy arrays, kernel by kernel: the runner of this level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.ir.dims import fixed
from graphc.ir.types import TensorType
from graphc.ops.interpreter import evaluate
from graphc.schedule.plan import Branch, KernelSpec, Launch, Loop, Plan

Array = np.ndarray[Any, Any]
RunKernel = Callable[[KernelSpec, list[Array], list[Array]], None]

POISON = 0xBF
"""Each byte of memory that nothing was written to: -1.498 as f32, large as an integer."""


def run_plan(
    plan: Plan, arrays: tuple[Array, ...], run_kernel: RunKernel | None = None
) -> tuple[Array, ...]:
    """The plan on NumPy arrays, kernel by kernel: bodies by the reference interpreter, or by
    `run_kernel(kernel, read arrays, written arrays)`. Arguments that are updated in place are
    copied first, so the caller's arrays stay as they are. Memory starts as poison, so that reading
    it before writing shows."""
    arguments = [np.array(array, order="C") for array in arrays]
    outputs = [_poisoned(type) for type in plan.output_types]
    arena = np.full(plan.arena_bytes, POISON, np.uint8)
    return _run_plan(plan, arguments, outputs, arena, run_kernel or interpret_kernel)


def _poisoned(type: TensorType) -> Array:
    return np.full(type.nbytes, POISON, np.uint8).view(type.dtype.numpy).reshape(type.shape)


def _run_plan(
    plan: Plan, arguments: list[Array], outputs: list[Array], arena: Array, run_kernel: RunKernel
) -> tuple[Array, ...]:
    views = []
    for buffer in plan.buffers:
        if buffer.place == "argument":
            # What a loop reads may have another shape around it.
            views.append(arguments[buffer.slot].reshape(buffer.type.shape))
        elif buffer.place == "output":
            views.append(outputs[buffer.slot].reshape(buffer.type.shape))
        elif buffer.place == "constant":
            views.append(plan.constants[buffer.slot].array)
        else:
            raw = arena[buffer.slot : buffer.slot + buffer.type.nbytes]
            views.append(raw.view(buffer.type.dtype.numpy).reshape(buffer.type.shape))
    for step in plan.steps:
        if isinstance(step, Launch):
            run_kernel(step.kernel, [views[i] for i in step.reads], [views[i] for i in step.writes])
            continue
        if isinstance(step, Loop | Branch):
            _run_region(step, views, run_kernel)
            continue
        least, greatest = views[step.least].item(), views[step.greatest].item()
        failed = least if step.bound is None else least < 0 or greatest >= step.bound
        if failed:
            raise step.error(least, greatest)
    return tuple(views[i] for i in plan.outputs)


def _run_region(step: Loop | Branch, views: list[Array], run_kernel: RunKernel) -> None:
    memory = np.zeros(0, np.uint8) if step.memory is None else views[step.memory].view(np.uint8)
    reads = [views[i] for i in step.reads]
    writes = [views[i] for i in step.writes]
    if isinstance(step, Branch):
        chosen = step.then if views[step.predicate].item() else step.otherwise
        _run_plan(chosen, reads, writes, memory, run_kernel)
        return
    if step.condition is not None:
        assert step.flag is not None
        while True:
            _run_plan(step.condition, reads, [views[step.flag]], memory, run_kernel)
            if not views[step.flag].item():
                return
            _run_plan(step.body, reads, writes, memory, run_kernel)
    assert step.count is not None
    count = fixed(step.count)
    for run in range(count):
        t = count - 1 - run if step.reverse else run
        cut = [
            array.reshape(count, array.size // count)[t] if sliced else array
            for array, sliced in zip((*reads, *writes), step.sliced)
        ]
        _run_plan(step.body, cut[: len(reads)], cut[len(reads) :], memory, run_kernel)


def interpret_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
    """A kernel's body by the reference interpreter."""
    results = evaluate(kernel.body, tuple(array.copy() for array in reads), reference=True)
    for target, result in zip(writes, results, strict=True):
        target[...] = result
