"""Which bytes the steps of a plan touch, and which steps must wait for which.

in : a plan, and where its arguments, outputs and arena lie
out: the regions each step reads and writes; what conflicts since threads met last

Bytes are what counts, not buffers: two buffers that lie in the same place of the arena one after
the other are the same memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.schedule.plan import Check, Launch, Plan, Step

Region = tuple[str, int, int]  # place, first byte or slot, one past the last


@dataclass(frozen=True, slots=True)
class Touched:
    """What a step reads and writes."""

    read: list[Region]
    written: list[Region]


def root_places(plan: Plan) -> list[Region]:
    """Where each buffer of a whole plan lies."""
    arguments = [("argument", i, i + 1) for i in range(len(plan.argument_types))]
    outputs = [("output", i, i + 1) for i in range(len(plan.output_types))]
    return places(plan, arguments, outputs, ("arena", 0, plan.arena_bytes))


def apart(plan: Plan) -> list[Region]:
    """Where each buffer would lie if no two shared a place of the arena."""
    found = root_places(plan)
    for number, buffer in enumerate(plan.buffers):
        if buffer.place == "arena":
            owner = number if buffer.within is None else buffer.within
            found[number] = (f"b{owner}", *found[number][1:])
    return found


def places(
    plan: Plan, arguments: Sequence[Region], outputs: Sequence[Region], memory: Region | None
) -> list[Region]:
    """Where each buffer of a plan lies, given where its arguments, outputs and arena do."""
    found: list[Region] = []
    for buffer in plan.buffers:
        if buffer.place == "argument":
            found.append(arguments[buffer.slot])
        elif buffer.place == "output":
            found.append(outputs[buffer.slot])
        elif buffer.place == "constant":
            found.append(("constant", buffer.slot, buffer.slot + 1))
        else:
            assert memory is not None
            first = memory[1] + buffer.slot
            found.append((memory[0], first, first + buffer.type.nbytes))
    return found


def touched(step: Step, at: Sequence[Region]) -> Touched:
    """What a step reads and writes, where buffers lie `at`."""
    regions = [at[i] for i in step.buffers]
    if isinstance(step, Launch):
        return Touched(regions[: len(step.reads)], regions[len(step.reads) :])
    return Touched(regions, [] if isinstance(step, Check) else regions)


class Pending:
    """What was touched since all threads met last, and by which of them: None where by several."""

    def __init__(self) -> None:
        self._touched: list[tuple[int | None, Touched]] = []
        self._unknown = False

    def conflicts(self, thread: int | None, step: Touched) -> bool:
        """Whether all threads must meet before a step. What one thread does is in order anyhow."""
        return self._unknown or any(
            not (thread is not None and thread == other_thread)
            and (
                _overlap(step.written, other.read)
                or _overlap(step.written, other.written)
                or _overlap(step.read, other.written)
            )
            for other_thread, other in self._touched
        )

    def met(self) -> None:
        """All threads have met."""
        self._touched.clear()
        self._unknown = False

    def note(self, thread: int | None, step: Touched) -> None:
        self._touched.append((thread, step))

    def forget(self) -> None:
        """After steps that are not known here: whatever comes next has to wait."""
        self._touched.clear()
        self._unknown = True


def _overlap(one: list[Region], other: list[Region]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in one for b in other)


def needs(steps: Sequence[Touched]) -> list[set[int]]:
    """For each step the earlier ones that touched what it touches, the last to write it and those
    that read it since: it must run behind them."""
    ends: dict[str, set[int]] = {}
    for step in steps:
        for place, first, end in (*step.read, *step.written):
            ends.setdefault(place, set()).update((first, end))
    borders = {place: sorted(found) for place, found in ends.items()}

    def cells(regions: list[Region]) -> set[tuple[str, int]]:
        """The pieces between neighbouring borders that make up the regions."""
        return {
            (place, piece)
            for place, first, end in regions
            for piece in range(bisect_left(borders[place], first), bisect_left(borders[place], end))
        }

    writer: dict[tuple[str, int], int] = {}
    readers: dict[tuple[str, int], list[int]] = {}
    found: list[set[int]] = []
    for number, step in enumerate(steps):
        read, written = cells(step.read), cells(step.written)
        behind = {writer[cell] for cell in read | written if cell in writer}
        for cell in written:
            behind.update(readers.pop(cell, ()))
            writer[cell] = number
        for cell in read - written:
            readers.setdefault(cell, []).append(number)
        found.append(behind)
    return found
