"""Effects of steps on memory, and the dependences and hazards between them.

in : a plan, and where its arguments, outputs and arena lie
out: the ranges each step reads and writes; for each step the earlier ones it depends on (read after
     write, write after read, write after write); whether a hazard came up since the last barrier

Bytes are what counts, not buffers: two buffers that lie in the same place of the arena one after
the other are the same memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from graphc.records import record
from graphc.schedule.plan import Check, Launch, Plan, Step

MemoryRange = tuple[str, int, int]  # place, first byte or slot, one past the last


@record
class Effects:
    """What a step reads and writes."""

    read: list[MemoryRange]
    written: list[MemoryRange]


def root_buffer_ranges(plan: Plan) -> list[MemoryRange]:
    """Where each buffer of a whole plan lies."""
    arguments = [("argument", i, i + 1) for i in range(len(plan.argument_types))]
    outputs = [("output", i, i + 1) for i in range(len(plan.output_types))]
    return buffer_ranges(plan, arguments, outputs, ("arena", 0, plan.arena_bytes))


def unshared_buffer_ranges(plan: Plan) -> list[MemoryRange]:
    """Where each buffer would lie if no two shared a place of the arena."""
    ranges = root_buffer_ranges(plan)
    for number, buffer in enumerate(plan.buffers):
        if buffer.place == "arena":
            owner = number if buffer.within is None else buffer.within
            ranges[number] = (f"b{owner}", *ranges[number][1:])
    return ranges


def buffer_ranges(
    plan: Plan,
    arguments: Sequence[MemoryRange],
    outputs: Sequence[MemoryRange],
    memory: MemoryRange | None,
) -> list[MemoryRange]:
    """Where each buffer of a plan lies, given where its arguments, outputs and arena do."""
    ranges: list[MemoryRange] = []
    for buffer in plan.buffers:
        if buffer.place == "argument":
            ranges.append(arguments[buffer.slot])
        elif buffer.place == "output":
            ranges.append(outputs[buffer.slot])
        elif buffer.place == "constant":
            ranges.append(("constant", buffer.slot, buffer.slot + 1))
        else:
            assert memory is not None
            first = memory[1] + buffer.slot
            # One without elements counts as a byte: where sizes are known only at run time, it may
            # have some at others than these.
            ranges.append((memory[0], first, first + max(buffer.type.nbytes, 1)))
    return ranges


def effects_of(step: Step, at: Sequence[MemoryRange]) -> Effects:
    """What a step reads and writes, where buffers lie `at`."""
    ranges = [at[i] for i in step.buffers]
    if isinstance(step, Launch):
        return Effects(ranges[: len(step.reads)], ranges[len(step.reads) :])
    return Effects(ranges, [] if isinstance(step, Check) else ranges)


class HazardTracker:
    """The effects of the steps since the last barrier, and which thread runs each: None where
    several do."""

    def __init__(self) -> None:
        self._steps: dict[int | None, list[Effects]] = {}
        self._unknown = False

    def with_step(self, thread: int | None, step: Effects) -> bool:
        """Whether a step needs a barrier: it has a read-after-write, write-after-read or
        write-after-write hazard with one of another thread. One thread's own are in order."""
        return self._unknown or any(
            _overlap(step.written, other.read)
            or _overlap(step.written, other.written)
            or _overlap(step.read, other.written)
            for other_thread, others in self._steps.items()
            if thread is None or thread != other_thread
            for other in others
        )

    def after_barrier(self) -> None:
        """All threads have waited for each other."""
        self._steps.clear()
        self._unknown = False

    def add(self, thread: int | None, step: Effects) -> None:
        self._steps.setdefault(thread, []).append(step)

    def after_unknown(self) -> None:
        """After steps that are not known here: whatever comes next has to wait."""
        self._steps.clear()
        self._unknown = True


def _overlap(one: list[MemoryRange], other: list[MemoryRange]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in one for b in other)


def dependences(steps: Sequence[Effects]) -> list[set[int]]:
    """For each step the earlier ones that it must run behind: the last to write what it reads or
    writes, and those that since read what it writes."""
    ends: dict[str, set[int]] = {}
    for step in steps:
        for place, first, end in (*step.read, *step.written):
            ends.setdefault(place, set()).update((first, end))
    borders = {place: sorted(positions) for place, positions in ends.items()}

    def cells(ranges: list[MemoryRange]) -> set[tuple[str, int]]:
        """The pieces between neighbouring borders that make up the ranges."""
        return {
            (place, piece)
            for place, first, end in ranges
            for piece in range(bisect_left(borders[place], first), bisect_left(borders[place], end))
        }

    writer: dict[tuple[str, int], int] = {}
    readers: dict[tuple[str, int], list[int]] = {}
    needed: list[set[int]] = []
    for number, step in enumerate(steps):
        read, written = cells(step.read), cells(step.written)
        behind = {writer[cell] for cell in read | written if cell in writer}
        for cell in written:
            behind.update(readers.pop(cell, ()))
            writer[cell] = number
        for cell in read - written:
            readers.setdefault(cell, []).append(number)
        needed.append(behind)
    return needed
