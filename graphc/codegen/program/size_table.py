"""What a driver reads of the sizes of a call: one table of integers.

In: a plan of sizes known only at run time, and the numbers its driver asks for while it is written:
extents, starts of buffers in the arena, sizes of kernels.
Out: the text of a function from the sizes to the table, which is compiled once and run when a size
is first seen, and the expressions it is made of, which an object has as LLVM IR. Numbers that
depend on no size are written into the driver.

The table begins with the bytes of the arena, and of the scratch of each thread. At its end stand
the decisions of a schedule over threads, which the function does not give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.size_expressions import (
    GreatestSize,
    NamedSize,
    SizeExpression,
    SizeSum,
    WholeUnits,
    greatest,
    literal,
    python_text,
)
from graphc.ir.dims import Extent
from graphc.ir.extent_text import as_python
from graphc.records import record
from graphc.schedule.arena import ALIGNMENT
from graphc.schedule.instances import slots_of
from graphc.schedule.plan import Branch, Loop, Plan, PlanBuffer

ARENA, SCRATCH = 0, 1
"""Where in the table these bytes stand."""


@record
class SizeProgram:
    """The function from sizes to the table, as text. `names` are those of the sizes."""

    names: tuple[str, ...]
    text: str

    def table(self, sizes: Mapping[str, int]) -> list[int]:
        """The table at these sizes."""
        return _compiled(self.text)(*(sizes[name] for name in self.names))


@lru_cache(maxsize=256)
def _compiled(text: str) -> Callable[..., list[int]]:
    namespace: dict[str, Callable[..., list[int]]] = {}
    exec(compile(text, "<size table>", "exec"), namespace)
    return namespace["table"]


def function_of_sizes(
    names: tuple[str, ...], entries: Sequence[str], lines: Sequence[str] = ()
) -> SizeProgram:
    """What makes a table of these entries, where `lines` stand ahead of it."""
    written = [*lines, f"return [{', '.join(entries)}]"]
    body = as_python("\n".join(f"    {line}" for line in written))
    return SizeProgram(names, f"def table({', '.join(names)}):\n{body}\n")


class SizeTable:
    """Collects what a driver asks for. `operand` and `start_of` give the text that stands for a
    number in the driver: itself, or the value loaded from the table."""

    def __init__(self, plan: Plan, scratch: Sequence[Extent]):
        self._names = tuple(name for name, _ in plan.example)
        self.lines: list[tuple[str, SizeExpression]] = []  # names, and what they stand for
        self.entries: list[SizeExpression] = []
        self._runs: dict[tuple[str, ...], int] = {}  # where entries that are read together begin
        self._starts: dict[int, dict[int, SizeExpression]] = {}  # by plan, by slot
        self._arenas: dict[int, SizeExpression] = {}  # by plan
        self._decisions = 0
        if self._names:
            needs = GreatestSize((0, *scratch))
            self._entry(self._place(plan), WholeUnits(needs, PADDING))

    @property
    def is_used(self) -> bool:
        return bool(self._names)

    def program(self) -> SizeProgram | None:
        """The function for all that was asked for; None where there are no sizes."""
        if not self._names:
            return None
        lines = [f"{name} = {python_text(value)}" for name, value in self.lines]
        return function_of_sizes(self._names, [*map(python_text, self.entries)], lines)

    def loads(self) -> list[str]:
        """The driver's lines that load all entries from `%sizes`."""
        lines = []
        for i in range(len(self.entries)):
            lines.append(f"  %size{i}.at = getelementptr i64, ptr %sizes, i64 {i}")
            lines.append(f"  %size{i} = load i64, ptr %size{i}.at")
        for i in range(self._decisions):
            place = len(self.entries) + i
            lines.append(f"  %decision{i}.at = getelementptr i64, ptr %sizes, i64 {place}")
            lines.append(f"  %decision{i} = load i64, ptr %decision{i}.at")
        return lines

    def decision(self, number: int) -> str:
        """What stands for a decision of the call (schedule/open_schedule.py): they stand behind all
        entries."""
        self._decisions = max(self._decisions, number + 1)
        return f"%decision{number}"

    def operand(self, extent: Extent) -> str:
        """What stands for an extent in the driver."""
        number = literal(extent)
        return f"%size{self._entry(extent)}" if number is None else str(number)

    def start_of(self, plan: Plan, buffer: PlanBuffer) -> str:
        """What stands for the offset of a buffer in its plan's arena."""
        if not self.is_used or buffer.slot < 0:
            return str(buffer.slot)
        owner = buffer if buffer.within is None else plan.buffers[buffer.within]
        start = self._starts[id(plan)][owner.slot]
        if buffer.within is not None:
            start = SizeSum((start, buffer.offset))
        return f"%size{self._entry(start)}"

    def arena_bytes(self) -> str:
        """What stands for the bytes of the whole arena."""
        return f"%size{ARENA}"

    def scratch_bytes(self) -> str:
        """What stands for the bytes of scratch of each thread."""
        return f"%size{SCRATCH}"

    def consecutive(self, extents: Sequence[Extent]) -> int:
        """The first of entries that hold these one after the other."""
        return self._entry(*extents)

    def _entry(self, *expressions: SizeExpression) -> int:
        texts = tuple(map(python_text, expressions))  # extents are told apart by no example
        if texts not in self._runs:
            self._runs[texts] = len(self.entries)
            self.entries += expressions
        return self._runs[texts]

    def _place(self, plan: Plan) -> SizeExpression:
        """Lines that lay out the arena of a plan and of those inside; its size."""
        memory: dict[int, list[SizeExpression]] = {}
        for step in plan.steps:
            if isinstance(step, Loop | Branch):
                sizes = [self._place(inner) for inner in step.plans]
                if step.memory is not None:
                    memory[step.memory] = sizes
        number = len(self._arenas)
        starts = self._starts[id(plan)] = {}
        reached: SizeExpression = 0
        for slot, members in slots_of(plan).items():
            if slot < 0:
                continue
            starts[slot] = reached
            sizes = [s for i in members for s in memory.get(i, [plan.buffers[i].type.nbytes])]
            longest = greatest([ALIGNMENT, *sizes])
            name = f"__arena{number}_{len(starts)}"
            self.lines.append((name, SizeSum((reached, WholeUnits(longest, ALIGNMENT)))))
            reached = NamedSize(name)
        self._arenas[id(plan)] = reached
        return reached
