"""Induction pointers: addresses carried along with an innermost loop, in LLVM IR.

In: the places such a loop reads and writes, each so many bytes further at each step. Out: lines for
the loop's head and end, and for what lies ahead of it. A place with a stride of its own has a
pointer that is carried; places of one stride share a carried offset.

What is carried is opaque to LLVM, as loops' variables are: its loop strength reduction would come
to the same after a search that took a quarter of its time, and so sees nothing to do.
"""

from __future__ import annotations

from graphc.codegen.llvm.function_text import FunctionText
from graphc.records import field, record


@record(frozen=False)
class InductionPointers:
    """The pointers of one loop. `begin` and `step` are those of its variable, `ahead` the lines
    right ahead of it."""

    function: FunctionText
    begin: str
    step: int
    ahead: list[str]
    starts: dict[int, dict[object, tuple[str, str]]] = field(default_factory=dict)
    """By stride, by place: the name of the address, and what it is where the variable is 0."""

    def address(self, place: object, start: str, stride: int) -> str:
        """The name of `start` plus `stride` bytes times the loop's variable; a place has one."""
        addresses = self.starts.setdefault(stride, {})
        if place not in addresses:
            addresses[place] = self.function.name(), start
        return addresses[place][0]

    def close(self, before: str, end: str) -> tuple[list[str], list[str]]:
        """Writes to the end of the loop what is carried on. Gives the head's phi nodes, where the
        loop is entered from block `before` and goes on in block `end`, and lines that belong ahead
        of the body."""
        phis, inside = [], []
        for stride, addresses in self.starts.items():
            first = self._first(stride)
            if len(addresses) == 1:
                ((name, start),) = addresses.values()
                kind = "ptr"
                first = start if first == "0" else self._moved(start, first, self.ahead)
            else:
                kind, name = "i64", self.function.name()
                inside += [
                    f"  {each} = getelementptr i8, ptr {start}, i64 {name}"
                    for each, start in addresses.values()
                ]
            further = self._further(kind, name, stride * self.step)
            phis.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {further}, %{end} ]")
        return phis, inside

    def _first(self, stride: int) -> str:
        """The offset at the loop's begin."""
        if self.begin.lstrip("-").isdigit():
            return str(int(self.begin) * stride)
        return self.function.temporary(f"mul i64 {self.begin}, {stride}", self.ahead)

    def _moved(self, pointer: str, offset: str, lines: list[str] | None = None) -> str:
        text = f"getelementptr i8, ptr {pointer}, i64 {offset}"
        return self.function.temporary(text, lines)

    def _further(self, kind: str, name: str, offset: int) -> str:
        if kind == "ptr":
            moved = self._moved(name, str(offset))
        else:
            moved = self.function.temporary(f"add i64 {name}, {offset}")
        return self.function.opaque(kind, moved)
