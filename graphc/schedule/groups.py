"""A group of nodes that become one kernel: what fusion makes and everything behind it reads;
and what a group comes to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphc.ir.nodes import Graph, Value
from graphc.ir.types import Shape
from graphc.records import field, record
from graphc.schedule.access import Read

if TYPE_CHECKING:
    from graphc.schedule.plan import Plan


@record(frozen=False, eq=False)
class FusionGroup:
    """Nodes kept in memory that one kernel computes. `domain` is the shape it iterates over;
    `anchor` the contraction, scatter, scan or sort it is built around. `reads` are the elements
    read at an index of the domain; `sources` the values read at all (also those a zero-size
    operand hides)."""

    nodes: list[int]
    domain: Shape
    anchor: int | None = None
    reads: list[Read] = field(default_factory=list)
    sources: set[Value] = field(default_factory=set)
    size: int = 1  # nodes, those computed again included
    work: int = 0  # operations for an element, in additions
    after: frozenset[int] = frozenset()  # kept nodes of other groups that run first: checks


class GroupLaunch(NamedTuple):
    """A group and what it runs: the body of a kernel that computes `nodes`, or the plans of a loop
    or branch."""

    group: FusionGroup
    runs: Graph | tuple[Plan, ...]
    nodes: list[int]
    reads: list[Value]
    writes: list[Value]
