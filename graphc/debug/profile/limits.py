"""How fast each launch of a plan could be on this machine, and what it is that bounds it.

in : a plan as it runs, and what one core of the machine can do
out: for each launch its work, the bytes served by each level of the memory, and its limit

A launch can be no faster than its products, its other work, and what it reads and writes allow:
all that a level or those behind it serve passes through that level. The greatest of these times is
the limit. On several threads, each core is taken to have all of it for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.debug.profile.machine import Machine
from graphc.debug.profile.residency import CacheModel
from graphc.debug.profile.work import KernelWork, work_of_body
from graphc.ir.dims import fixed
from graphc.records import record
from graphc.schedule.dependences import MemoryRange, buffer_ranges
from graphc.schedule.plan import Branch, KernelSpec, Launch, Loop, Plan

PRODUCTS, VECTOR = "products", "vector work"
TURNS = 2
"""Of a loop that are followed: the second one finds the caches as all later ones do."""


@record
class LaunchLimit:
    """The least time of one run of a launch, in seconds, and which part of the machine sets it;
    `parts` are the times of all. `served`: bytes by level of the memory, nearest first."""

    seconds: float
    bound: str
    parts: dict[str, float]
    work: KernelWork
    served: tuple[int, ...]


def limits(plan: Plan, machine: Machine, threads: dict[int, int]) -> dict[int, LaunchLimit]:
    """The limit of each launch by its number in `all_steps(plan)`; `threads` says on how many it
    runs."""
    walk = _CacheWalk([level.room for level in machine.levels])
    for _ in range(2):  # calls follow each other: the second finds what the first left
        walk.whole(plan)
    return {
        number: _limit(walk.works[number], served, machine, threads.get(number, 1))
        for number, served in walk.served.items()
    }


def _limit(work: KernelWork, served: list[int], machine: Machine, threads: int) -> LaunchLimit:
    products = machine.products / (2 if work.wide else 1)
    parts = {PRODUCTS: work.products / products, VECTOR: work.additions / machine.additions}
    for number, level in enumerate(machine.levels):
        parts[level.name] = sum(served[number:]) / level.rate
    parts = {name: seconds / threads for name, seconds in parts.items()}
    bound = max(parts, key=lambda name: parts[name])
    return LaunchLimit(parts[bound], bound, parts, work, tuple(served))


class _CacheWalk:
    """Goes over a plan's launches in order and asks the cache model for each range."""

    def __init__(self, rooms: Sequence[float]):
        self.model = CacheModel(rooms)
        self.levels = len(rooms)
        self.served: dict[int, list[int]] = {}
        self.works: dict[int, KernelWork] = {}
        self._by_kernel: dict[KernelSpec, KernelWork] = {}

    def whole(self, plan: Plan) -> None:
        arguments = [(f"argument {i}", 0, t.nbytes) for i, t in enumerate(plan.argument_types)]
        outputs = [(f"output {i}", 0, t.nbytes) for i, t in enumerate(plan.output_types)]
        self._plan(plan, arguments, outputs, ("arena", 0, plan.arena_bytes), 0)

    def _plan(
        self, plan: Plan, arguments: Sequence[MemoryRange], outputs: Sequence[MemoryRange],
        memory: MemoryRange | None, number: int,
    ) -> int:  # fmt: skip
        """`number` is that of the plan's first step; the number behind its last."""
        at = buffer_ranges(plan, arguments, outputs, memory)
        for step in plan.steps:
            if isinstance(step, Launch):
                self._launch(step, at, number)
            number += 1
            if isinstance(step, Loop):
                number = self._loop(step, at, number)
            elif isinstance(step, Branch):
                number = self._branch(step, at, number)
        return number

    def _launch(self, step: Launch, at: Sequence[MemoryRange], number: int) -> None:
        if step.kernel not in self._by_kernel:
            self._by_kernel[step.kernel] = work_of_body(step.kernel.body)
        work = self.works[number] = self._by_kernel[step.kernel]
        served = self.served[number] = [0] * self.levels
        for buffer, nbytes in zip(step.buffers, (*work.reads, *work.writes), strict=True):
            place, begin, end = at[buffer]
            if place == "constant":
                place, begin, end = f"constant {begin}", 0, nbytes
            touched = (place, begin, min(end, begin + nbytes))
            if nbytes:
                served[self.model.touch(touched)] += nbytes

    def _loop(self, step: Loop, at: Sequence[MemoryRange], number: int) -> int:
        memory = None if step.memory is None else at[step.memory]
        count = None if step.count is None else fixed(step.count)
        turns = TURNS if count is None else min(count, TURNS)
        behind = number
        for turn in range(max(turns, 1)):
            behind = number
            bound = [
                _slice(at[i], turn, count) if cut else at[i]
                for i, cut in zip((*step.reads, *step.writes), step.sliced)
            ]
            arguments, outputs = bound[: len(step.reads)], bound[len(step.reads) :]
            if step.condition is not None:
                assert step.flag is not None
                reads = [at[i] for i in step.reads]
                behind = self._plan(step.condition, reads, [at[step.flag]], memory, behind)
            behind = self._plan(step.body, arguments, outputs, memory, behind)
        return behind

    def _branch(self, step: Branch, at: Sequence[MemoryRange], number: int) -> int:
        memory = None if step.memory is None else at[step.memory]
        reads, writes = [at[i] for i in step.reads], [at[i] for i in step.writes]
        for plan in step.plans:
            number = self._plan(plan, reads, writes, memory, number)
        return number


def _slice(whole: MemoryRange, turn: int, count: int | None) -> MemoryRange:
    place, begin, end = whole
    size = (end - begin) // max(count or 1, 1)
    return (place, begin + turn * size, begin + (turn + 1) * size)
