"""Which outputs are written straight into the inputs that they update, and why the others are not.

in : a graph with aliases, what its groups read and write, in order, and its content checks
out: for each output that updates an input a reason against it, or None

An output is written over the old content of its input where nobody reads that any more, and nothing
can fail any more. Others go to the arena and are copied at the end, so a run that raises leaves
state as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from graphc.ir.nodes import Graph, Value
from graphc.schedule.access import coordinates
from graphc.schedule.bodies import recipe_of
from graphc.schedule.groups import FusionGroup, GroupLaunch
from graphc.schedule.plan import all_checks
from graphc.schedule.prepare import CheckValues

NOT_COMPUTED = "it is an input or a constant"
RETURNED_TOO = "the input, or the new value, is an output as well"
LOOP = "a loop or branch computes it, which copies what it carries"
CHECKED_LATER = "a content check comes later, and may raise"
READ_LATER = "a later kernel reads the old content"
READ_ELSEWHERE = "its kernel reads the old content at other places than it writes"


def in_place_refusals(
    graph: Graph, launches: Sequence[GroupLaunch], checks: Sequence[CheckValues]
) -> dict[int, str | None]:
    """By position of each output that updates an input: why it is not written straight into that;
    None where it is."""
    written_at = {v: i for i, launch in enumerate(launches) for v in launch.writes}
    last_read = {v: i for i, launch in enumerate(launches) for v in launch.reads}
    times = Counter(graph.outputs)
    last_check = _last_check(graph, launches, checks, written_at)
    refusals: dict[int, str | None] = {}
    for position, target in graph.aliases:
        value = graph.outputs[position]
        at = written_at.get(value)
        if at is None:
            refusals[position] = NOT_COMPUTED
        elif Value(target) in times or times[value] > 1:
            refusals[position] = RETURNED_TOO
        elif recipe_of(graph, launches[at].group.anchor) == "region":
            refusals[position] = LOOP
        elif at <= last_check:
            refusals[position] = CHECKED_LATER
        elif last_read.get(Value(target), -1) > at:
            refusals[position] = READ_LATER
        elif _reads_elsewhere(graph, launches[at].group, value, Value(target)):
            refusals[position] = READ_ELSEWHERE
        else:
            refusals[position] = None
    return refusals


def _last_check(
    graph: Graph, launches: Sequence[GroupLaunch], checks: Sequence[CheckValues],
    written_at: Mapping[Value, int],
) -> int:  # fmt: skip
    """Behind which launch the last content check is made, also inside of loops; -1 for none."""
    tested = [written_at.get(graph.outputs[check.greatest], -1) for check in checks]
    holding = [
        at for at, launch in enumerate(launches)
        if not isinstance(launch.runs, Graph) and any(map(all_checks, launch.runs))
    ]  # fmt: skip
    return max([*tested, *holding], default=-1)


def _reads_elsewhere(graph: Graph, group: FusionGroup, value: Value, target: Value) -> bool:
    """Whether a kernel may read elements of `target` that it has overwritten with `value`."""
    by_element = recipe_of(graph, group.anchor) in ("nest", "contract")
    full = by_element and graph.type_of(value).shape == group.domain
    own = [read for read in group.reads if read.value == target]
    same = all(r.index == coordinates(group.domain) and not r.reduced for r in own)
    return bool(own) and not (full and same)
