"""What the memory of a plan is used for, in words.

in : a plan
out: its size against the lower bound, and what is alive where it needs most; or the same steps with
     their buffers laid out in the arena
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.errors import MemoryLimitError
from graphc.ir.size_guards import typical
from graphc.records import replace
from graphc.schedule.arena import aligned, lower_bound, plan_offsets, plan_slots
from graphc.schedule.plan import Plan, PlanBuffer, Step, live_ranges

SHOWN = 5
"""Buffers named in a report."""


def laid_out(
    steps: tuple[Step, ...], buffers: Sequence[PlanBuffer], when: Sequence[int], share: bool
) -> tuple[tuple[PlanBuffer, ...], int, int]:
    """The buffers with their offsets in the arena, its size and its lower bound. Step i runs at
    `when[i]`, together with others of that time; parts have offsets in what they are parts of. With
    `share` false no two buffers lie in one place. Where sizes are known only at run time, whole
    slots are shared (`plan_slots`), so that what overlaps is the same at all sizes."""
    arena, sizes, lives = [], [], []
    for number, (buffer, used) in enumerate(zip(buffers, live_ranges(steps, buffers), strict=True)):
        if buffer.place == "arena" and used is not None:
            arena.append(number)
            sizes.append(typical(buffer.type.nbytes))
            lives.append((when[used[0]], when[used[1]]))
    everywhere = [(0, len(steps))] * len(lives)
    place = plan_slots if any(b.type.is_symbolic for b in buffers) else plan_offsets
    offsets, total = place(sizes, lives if share else everywhere)
    placed = list(buffers)
    for number, offset in zip(arena, offsets, strict=True):
        placed[number] = replace(buffers[number], slot=offset)
    for number, buffer in enumerate(buffers):
        if buffer.within is not None:
            slot = placed[buffer.within].slot + typical(buffer.offset)
            placed[number] = replace(buffer, slot=slot)
    return tuple(placed), total, lower_bound(sizes, lives)


def summary(arena_bytes: int, lower_bound: int) -> str:
    """One line: `memory: 264,832 bytes, 1.00 of the greatest sum of live sizes`."""
    ratio = arena_bytes / lower_bound if lower_bound else 1.0
    return f"memory: {arena_bytes:,} bytes, {ratio:.2f} of the greatest sum of live sizes"


def report(plan: Plan) -> str:
    """The summary, the step at which most is alive, and the largest buffers there."""
    ranges = live_ranges(plan.steps, plan.buffers)
    arena = [
        (buffer, range_)
        for buffer, range_ in zip(plan.buffers, ranges, strict=True)
        if buffer.place == "arena" and range_ is not None
    ]
    lines = [summary(plan.arena_bytes, plan.arena_lower_bound)]
    if not arena:
        return lines[0]
    size = [0] * len(plan.steps)
    for buffer, (first, last) in arena:
        for position in range(first, last + 1):
            size[position] += aligned(buffer.type.nbytes)
    peak = max(range(len(size)), key=lambda position: size[position])
    where = plan.steps[peak].location
    alive = [(b, range_) for b, range_ in arena if range_[0] <= peak <= range_[1]]
    alive.sort(key=lambda item: -item[0].type.nbytes)
    lines.append(f"most is alive at step {peak}" + (f" ({where})" if where else "") + ":")
    for buffer, (first, last) in alive[:SHOWN]:
        origin = plan.steps[first].location
        lines.append(f"  {buffer.type.nbytes:,} bytes {buffer.type}, steps {first} to {last}"
                     + (f", made at {origin}" if origin else ""))  # fmt: skip
    if len(alive) > SHOWN:
        rest = sum(buffer.type.nbytes for buffer, _ in alive[SHOWN:])
        lines.append(f"  {rest:,} bytes in {len(alive) - SHOWN} others")
    return "\n".join(lines)


def check_limit(plan: Plan, name: str, needed: int, max_bytes: int) -> None:
    """Raise MemoryLimitError where `needed` bytes are more than `max_bytes`."""
    if needed > max_bytes:
        text = report(plan).replace("\n", "\n  ")
        raise MemoryLimitError(
            f"{name} needs {needed:,} bytes of memory, max_bytes is {max_bytes:,}\n  {text}",
            hint="a smaller batch, or a larger limit",
        )
