"""The verifier of plans: numbered rules, each with one check.

In: a Plan. Out: the same plan, or a VerifyError that names the rule and the step or buffer.

| rule | meaning |
|---|---|
| P1 | a step's buffers fit the types of its kernel's body, and no constant is written |
| P2 | a buffer is written before it is read; arguments and constants are from the start |
| P3 | arena buffers lie inside the arena, and those alive together do not overlap |
| P4 | no argument is written before the last check |
| P5 | every output is written |
| P6 | the buffers that stand for arguments and outputs of the plans inside a loop or branch fit |
|    | them, also where an output updates an argument; there is memory for their arenas |
| P7 | the results of a nest lie along one domain, so that one loop over it writes all of them |
| P8 | a kernel that changes a box writes it where the rest lies |

P2 goes byte by byte for a part of a buffer (a loop may have written it: its first run reads what
was there, a later one what the run before wrote).
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush

from graphc.errors import VerifyError
from graphc.ir.dims import fixed
from graphc.ir.nodes import Graph
from graphc.ir.types import DType
from graphc.schedule.access import parts_of
from graphc.schedule.box_updates import box_update
from graphc.schedule.instances import plan_at
from graphc.schedule.plan import (
    Branch,
    Check,
    Launch,
    Loop,
    Plan,
    PlanBuffer,
    Step,
    all_checks,
    live_ranges,
)


def verify_plan(plan: Plan) -> Plan:
    """`plan`, where all rules hold; of one of sizes known only at run time, its example's."""
    if plan.example:
        verify_plan(plan_at(plan, dict(plan.example)))
        return plan
    written = _Written(plan.buffers)
    holding = [i for i, step in enumerate(plan.steps) if _holds_checks(step)]
    last_check = max(holding, default=-1)
    for position, step in enumerate(plan.steps):
        if isinstance(step, Check):
            _hold(all(map(written.holds, step.buffers)), "P2", position)
            continue
        if isinstance(step, Launch):
            body = step.kernel.body
            types = [plan.buffers[i].type for i in step.reads]
            _hold(types == list(body.input_types), "P1", position)
            _hold(
                [plan.buffers[i].type for i in step.writes] == list(body.output_types), "P1",
                position,
            )  # fmt: skip
            _hold(step.kernel.recipe != "nest" or _has_one_domain(body), "P7", position)
            _hold(step.kernel.recipe != "update" or _updates(step), "P8", position)
        else:
            _verify_region(plan, step, position)
            _hold(not isinstance(step, Branch) or written.holds(step.predicate), "P2", position)
            _hold(not isinstance(step, Loop) or written.starts(step), "P2", position)
        if not isinstance(step, Loop):
            _hold(all(map(written.holds, step.reads)), "P2", position)
        for i in step.writes:
            _hold(plan.buffers[i].place != "constant", "P1", position)
            _hold(plan.buffers[i].place != "argument" or position > last_check, "P4", position)
            written.add(i)
        _hold(all(map(written.holds, step.reads)), "P2", position)
    _hold(all(map(written.holds, plan.outputs)), "P5", len(plan.steps))
    _verify_arena(plan)
    return plan


def _has_one_domain(body: Graph) -> bool:
    """Whether each result of a nest, or each part of one that is joined, has the shape of the
    longest or of its leading axes: a nest goes over that shape once, and what it would not reach
    would never be written."""
    shapes = [
        body.type_of(part).shape
        for value in body.outputs
        for part in parts_of(body, value) or [value]
    ]
    longest = max(shapes, key=len)
    return all(shape == longest[: len(shape)] for shape in shapes)


def _updates(step: Launch) -> bool:
    """Whether what a kernel changes a box of is what it writes to."""
    update = box_update(step.kernel.body)
    return update is not None and step.reads[update.kept] == step.writes[0]


class _Written:
    """What was written so far: whole buffers, and bytes of those that have parts."""

    def __init__(self, buffers: tuple[PlanBuffer, ...]) -> None:
        self.buffers = buffers
        self.whole = {i for i, b in enumerate(buffers) if b.place in ("argument", "constant")}
        self.bytes: dict[int, list[tuple[int, int]]] = {}

    def _span(self, buffer: int) -> tuple[int, int, int]:
        """The buffer a part belongs to, or it itself, and its first and last byte."""
        part = self.buffers[buffer]
        owner = buffer if part.within is None else part.within
        return owner, part.slot, part.slot + part.type.nbytes

    def add(self, buffer: int) -> None:
        owner, first, end = self._span(buffer)
        self.whole.add(buffer)
        self.bytes.setdefault(owner, []).append((first, end))

    def holds(self, buffer: int) -> bool:
        """Whether all of a buffer was written."""
        return buffer in self.whole or self._covers(*self._span(buffer))

    def starts(self, loop: Loop) -> bool:
        """Whether what the first run of a loop reads was written."""
        for buffer, sliced in zip(loop.reads, loop.sliced):
            owner, first, end = self._span(buffer)
            size = (end - first) // max(fixed(loop.count or 1), 1)
            if sliced:
                first, end = (end - size, end) if loop.reverse else (first, first + size)
            if buffer not in self.whole and not self._covers(owner, first, end):
                return False
        return True

    def _covers(self, owner: int, first: int, end: int) -> bool:
        spans = sorted(self.bytes.get(owner, []))
        for start, stop in spans:
            if start > first:
                break
            first = max(first, stop)
        return bool(spans) and first >= end


def _holds_checks(step: Step) -> bool:
    """Whether a step is a check or holds one."""
    if isinstance(step, Loop | Branch):
        return any(all_checks(inner) for inner in step.plans)
    return isinstance(step, Check)


def _verify_region(plan: Plan, step: Loop | Branch, position: int) -> None:
    sliced = step.sliced if isinstance(step, Loop) else (False,) * len(step.buffers)
    count = fixed(step.count or 1) if isinstance(step, Loop) else 1
    # A buffer of another shape will do, if the elements are as many.
    bound = [
        (plan.buffers[i].type.dtype, plan.buffers[i].type.numel / (count if cut else 1))
        for i, cut in zip((*step.reads, *step.writes), sliced)
    ]
    empty = isinstance(step, Loop) and step.count == 0
    need = 0
    for inner in step.plans:
        verify_plan(inner)
        condition = isinstance(step, Loop) and inner is step.condition
        types = [*inner.argument_types, *inner.output_types]
        expected = [*bound[: len(step.reads)], (DType.bool, 1)] if condition else bound
        _hold(empty or [(type.dtype, type.numel) for type in types] == expected, "P6", position)
        _hold(not inner.constants, "P6", position)
        need = max(need, inner.arena_bytes)
        for output, argument in () if condition else inner.aliases:
            _hold(step.writes[output] == step.reads[argument], "P6", position)
    have = 0 if step.memory is None else plan.buffers[step.memory].type.nbytes
    _hold(have >= need, "P6", position)


def _verify_arena(plan: Plan) -> None:
    ranges = live_ranges(plan.steps, plan.buffers)
    placed = [
        (*lives, buffer.slot, buffer.slot + buffer.type.nbytes, i)
        for i, (buffer, lives) in enumerate(zip(plan.buffers, ranges, strict=True))
        if buffer.place == "arena" and lives is not None
    ]
    for part in plan.buffers:
        if part.within is not None:
            whole = plan.buffers[part.within]
            last = whole.slot + whole.type.nbytes
            inside = whole.slot <= part.slot and part.slot + part.type.nbytes <= last
            _hold(inside and whole.place == part.place == "arena", "P3", part.within)
    # In the order in which they come alive. Those alive lie apart, so that of each new one only the
    # neighbours can overlap it.
    alive: list[tuple[int, int]] = []
    ends: list[tuple[int, int, int]] = []  # the last step of each, and where it lies
    for first, last, start, end, i in sorted(placed):
        _hold(start >= 0 and end <= plan.arena_bytes, "P3", i)
        while ends and ends[0][0] < first:
            _, begin, stop = heappop(ends)
            del alive[bisect_left(alive, (begin, stop))]
        at = bisect_left(alive, (start, end))
        _hold(at == 0 or alive[at - 1][1] <= start, "P3", i)
        _hold(at == len(alive) or end <= alive[at][0], "P3", i)
        alive.insert(at, (start, end))
        heappush(ends, (last, start, end))


def _hold(holds: bool, rule: str, position: int) -> None:
    if not holds:
        raise VerifyError(f"plan rule {rule} broken at step or buffer {position}")
