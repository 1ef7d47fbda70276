"""The Plan: kernels over planned buffers, in order. The level between graph and loops.

A kernel is a recipe and a body: a small graph whose inputs are the buffers it reads and whose
outputs are those it writes. Bodies of equal text are one kernel. A `Check` stops the run before
any state is written, if a content check fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.errors import GraphError, VerifyError
from graphc.ir.nodes import Constant, Graph, Location
from graphc.ir.types import TensorType
from graphc.ops.interpreter import evaluate
from graphc.ops.op import broken

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a value lies. `place`: `argument` (number `slot`), `output` (number `slot`),
    `constant` (number `slot` of the plan's constants) or `arena` (byte offset `slot`)."""

    type: TensorType
    place: str
    slot: int

    def __str__(self) -> str:
        at = f"arena+{self.slot}" if self.place == "arena" else f"{self.place} {self.slot}"
        return f"{self.type} in {at}"


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """`recipe` names how the body becomes loops: a key of `RECIPES` (graphc.codegen.lower)."""

    recipe: str
    body: Graph


@dataclass(frozen=True, slots=True)
class Launch:
    """One run of a kernel: the buffers its body's inputs and outputs stand for."""

    kernel: KernelSpec
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """Fails unless 0 <= least and greatest < bound (buffers of 0-d integers), or, with `bound`
    None, unless the 0-d bool in `least` is false."""

    least: int
    greatest: int
    bound: int | None
    message: str
    location: Location | None = field(default=None, compare=False)

    def error(self, least: int, greatest: int) -> GraphError:
        bad = least if least < 0 else greatest
        return broken(self.message, self.bound, bad, self.location)


Step = Launch | Check


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order over `buffers`. `outputs[i]` is the buffer of the graph's output i; an output
    that updates an argument in place has that argument's buffer."""

    name: str
    argument_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    aliases: tuple[tuple[int, int], ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    constants: tuple[Constant, ...]
    outputs: tuple[int, ...]
    arena_bytes: int
    arena_lower_bound: int

    def __str__(self) -> str:
        return print_plan(self)


def kernels(plan: Plan) -> dict[KernelSpec, str]:
    """Each distinct kernel and its name in the text form."""
    names: dict[KernelSpec, str] = {}
    for step in plan.steps:
        if isinstance(step, Launch) and step.kernel not in names:
            names[step.kernel] = f"k{len(names)}_{_headline(step.kernel)}"
    return names


def _headline(kernel: KernelSpec) -> str:
    """The op a kernel is best known by: its anchor, else its last."""
    ops = [node.op for node in kernel.body.nodes if node.op not in ("input", "constant")]
    for op in ("matmul", "conv", "conv_input_grad", "conv_weight_grad", "sum", "max"):
        if op in ops:
            return op
    return ops[-1] if ops else "copy"


def print_plan(plan: Plan) -> str:
    """The text of a plan: buffers, kernels with their bodies, steps."""
    names = kernels(plan)
    ratio = plan.arena_bytes / plan.arena_lower_bound if plan.arena_lower_bound else 1.0
    lines = [
        f"plan {plan.name} {{",
        f"  arena {plan.arena_bytes} bytes  // {ratio:.2f} of the greatest sum of live sizes",
    ]
    lines += [f"  buffer b{i}: {buffer}" for i, buffer in enumerate(plan.buffers)]
    for kernel, name in names.items():
        body = str(kernel.body).replace("\n", "\n  ")
        lines.append(f"  kernel {name} ({kernel.recipe}) {body}")
    for step in plan.steps:
        comment = f"  // {step.location}" if step.location else ""
        if isinstance(step, Check):
            bound = "nonzero" if step.bound is None else f"in [0, {step.bound})"
            lines.append(f"  check b{step.least}..b{step.greatest} {bound}{comment}")
            continue
        read = ", ".join(f"b{i}" for i in step.reads)
        written = ", ".join(f"b{i}" for i in step.writes)
        lines.append(f"  {written} = {names[step.kernel]}({read}){comment}")
    lines.append("  return " + ", ".join(f"b{i}" for i in plan.outputs))
    return "\n".join([*lines, "}"])


def verify_plan(plan: Plan) -> Plan:
    """Numbered rules: P1 buffers exist and fit the body's types; P2 a buffer is written before it
    is read; P3 arena buffers that are alive together do not overlap and lie inside the arena;
    P4 no argument is written before the last check; P5 outputs are written. Raises VerifyError."""
    written = {i for i, b in enumerate(plan.buffers) if b.place in ("argument", "constant")}
    checks = [i for i, step in enumerate(plan.steps) if isinstance(step, Check)]
    last_check = max(checks, default=-1)
    for position, step in enumerate(plan.steps):
        if isinstance(step, Check):
            _hold({step.least, step.greatest} <= written, "P2", position)
            continue
        body = step.kernel.body
        types = [plan.buffers[i].type for i in step.reads]
        _hold(types == list(body.input_types), "P1", position)
        _hold(
            [plan.buffers[i].type for i in step.writes] == list(body.output_types), "P1", position
        )
        _hold(set(step.reads) <= written, "P2", position)
        for i in step.writes:
            _hold(plan.buffers[i].place != "constant", "P1", position)
            _hold(plan.buffers[i].place != "argument" or position > last_check, "P4", position)
        written |= set(step.writes)
    _hold(set(plan.outputs) <= written, "P5", len(plan.steps))
    _verify_arena(plan)
    return plan


def live_ranges(plan_steps: tuple[Step, ...], count: int) -> list[tuple[int, int] | None]:
    """First and last step of each buffer's use; None where a buffer is not used."""
    ranges: list[tuple[int, int] | None] = [None] * count
    for position, step in enumerate(plan_steps):
        used = (
            (step.least, step.greatest) if isinstance(step, Check) else (*step.reads, *step.writes)
        )
        for i in used:
            known = ranges[i]
            ranges[i] = (position, position) if known is None else (known[0], position)
    return ranges


def _verify_arena(plan: Plan) -> None:
    ranges = live_ranges(plan.steps, len(plan.buffers))
    placed = [
        (buffer.slot, buffer.slot + buffer.type.nbytes, ranges[i], i)
        for i, buffer in enumerate(plan.buffers)
        if buffer.place == "arena" and ranges[i] is not None
    ]
    for number, (start, end, range_, i) in enumerate(placed):
        _hold(start >= 0 and end <= plan.arena_bytes, "P3", i)
        for other_start, other_end, other_range, _ in placed[:number]:
            assert range_ is not None and other_range is not None
            together = range_[0] <= other_range[1] and other_range[0] <= range_[1]
            apart = end <= other_start or other_end <= start
            _hold(apart or not together, "P3", i)


def _hold(holds: bool, rule: str, position: int) -> None:
    if not holds:
        raise VerifyError(f"plan rule {rule} broken at step or buffer {position}")


def run_plan(
    plan: Plan,
    arrays: tuple[Array, ...],
    run_kernel: Callable[[KernelSpec, list[Array], list[Array]], None] | None = None,
) -> tuple[Array, ...]:
    """The plan on NumPy arrays, kernel by kernel: bodies by the reference interpreter, or by
    `run_kernel(kernel, read arrays, written arrays)`. Arguments that are updated in place are
    copied first, so the caller's arrays stay as they are."""
    run_kernel = run_kernel or _interpret
    arena = np.zeros(plan.arena_bytes, np.uint8)
    arguments = [np.array(array, order="C") for array in arrays]
    outputs = [np.empty(type.shape, type.dtype.numpy) for type in plan.output_types]
    views = []
    for buffer in plan.buffers:
        if buffer.place == "argument":
            views.append(arguments[buffer.slot])
        elif buffer.place == "output":
            views.append(outputs[buffer.slot])
        elif buffer.place == "constant":
            views.append(plan.constants[buffer.slot].array)
        else:
            raw = arena[buffer.slot : buffer.slot + buffer.type.nbytes]
            views.append(raw.view(buffer.type.dtype.numpy).reshape(buffer.type.shape))
    for step in plan.steps:
        if isinstance(step, Launch):
            run_kernel(step.kernel, [views[i] for i in step.reads], [views[i] for i in step.writes])
            continue
        least, greatest = views[step.least].item(), views[step.greatest].item()
        failed = least if step.bound is None else least < 0 or greatest >= step.bound
        if failed:
            raise step.error(least, greatest)
    return tuple(views[i] for i in plan.outputs)


def _interpret(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
    results = evaluate(kernel.body, tuple(array.copy() for array in reads), reference=True)
    for target, result in zip(writes, results, strict=True):
        target[...] = result
