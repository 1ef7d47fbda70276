"""A plan of sizes known only at run time, at certain sizes.

In: a plan, and a number for each of its sizes. Out: the same steps with numbers: types, offsets,
counts and bounds. Slots of the arena are as long as the longest buffer in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphc.ir.dims import Extent, fixed
from graphc.ir.instances import at_sizes, substitute, type_at
from graphc.ir.types import TensorType
from graphc.records import replace
from graphc.schedule.arena import ALIGNMENT, aligned
from graphc.schedule.plan import Branch, Check, KernelSpec, Launch, Loop, Plan, PlanBuffer, Step

Sizes = Mapping[str, Extent]


def plan_at(plan: Plan, sizes: Mapping[str, int]) -> Plan:
    """The plan at these sizes; itself where all its sizes are numbers."""
    if not plan.example:
        return plan
    steps = tuple(_step_at(step, sizes) for step in plan.steps)
    buffers = [replace(b, type=type_at(b.type, sizes)) for b in plan.buffers]
    for step in steps:
        if isinstance(step, Loop | Branch) and step.memory is not None:
            longest = max(inner.arena_bytes for inner in step.plans)
            memory = buffers[step.memory]
            buffers[step.memory] = replace(memory, type=TensorType(memory.type.dtype, (longest,)))
    starts, total = slot_starts(plan, buffers)
    placed = [
        replace(b, slot=starts[b.slot]) if b.place == "arena" and b.within is None else b
        for b in buffers
    ]
    for number, buffer in enumerate(placed):
        if buffer.within is not None:
            offset = fixed(substitute(buffer.offset, sizes))
            slot = placed[buffer.within].slot + offset
            placed[number] = replace(buffer, slot=slot, offset=offset)
    return replace(
        plan, steps=steps, buffers=tuple(placed), arena_bytes=total, example=(), guards=(),
        argument_types=tuple(type_at(type, sizes) for type in plan.argument_types),
        output_types=tuple(type_at(type, sizes) for type in plan.output_types),
        graph=None if plan.graph is None else at_sizes(plan.graph, sizes),
    )  # fmt: skip


def slots_of(plan: Plan) -> dict[int, list[int]]:
    """The buffers of each slot of the arena, by the slot's offset in the example."""
    slots: dict[int, list[int]] = {}
    for number, buffer in enumerate(plan.buffers):
        if buffer.place == "arena" and buffer.within is None:
            slots.setdefault(buffer.slot, []).append(number)
    return dict(sorted(slots.items()))


def slot_starts(plan: Plan, buffers: list[PlanBuffer]) -> tuple[dict[int, int], int]:
    """Where each slot starts with buffers of these types, and the bytes of all."""
    starts, total = {-1: -1}, 0  # -1: what no step uses
    for slot, members in slots_of(plan).items():
        if slot < 0:
            continue
        starts[slot] = total
        total += max(ALIGNMENT, *(aligned(buffers[i].type.nbytes) for i in members))
    return starts, total


def _step_at(step: Step, sizes: Sizes) -> Step:
    if isinstance(step, Launch):
        own: dict[str, Extent] = {
            f"s{i}": substitute(size, sizes) for i, size in enumerate(step.sizes)
        }
        body = step.kernel.body
        kernel = KernelSpec(step.kernel.recipe, at_sizes(body, own) if own else body)
        return replace(step, kernel=kernel, sizes=())
    if isinstance(step, Check):
        bound = None if step.bound is None else substitute(step.bound, sizes)
        return replace(step, bound=bound)
    numbers: Any = {name: fixed(size) for name, size in sizes.items()}
    if isinstance(step, Branch):
        then, otherwise = (plan_at(plan, numbers) for plan in step.plans)
        return replace(step, then=then, otherwise=otherwise)
    return replace(
        step, body=plan_at(step.body, numbers),
        condition=None if step.condition is None else plan_at(step.condition, numbers),
        count=None if step.count is None else substitute(step.count, sizes),
    )  # fmt: skip
