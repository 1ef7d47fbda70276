"""All pipelines: which passes run at which level, in which order.

in : a graph, with composites, as it was written, traced or derived
out: a graph of ops that the lowering knows, or the two graphs it is split into

| level | promise |
|---|---|
| none | what was written: all composites are expanded, nothing else happens |
| exact | the same bits as `none`, NaN payloads aside |
| relaxed | rounding may differ; each place is listed in the ledger |

Dead code goes first, so that no pass works for nothing, and last, after the passes that leave
nodes without users. Composites are expanded once, but for those with a kernel recipe of their own.
All rewriting is one pass with one fixed point (graphc.passes.canonicalize), so no pass is repeated
in the hope that it finds more. Products are merged behind it, when equal matrices are one value.

`relaxed` has what rounds differently: before composites are expanded, attention recognised in ops
the user wrote; behind it, convolutions that gain by Winograd's sums. Where forward and backward
become two graphs, the first must see both in one, so it runs before the partition.

How kernels like their operands stored, and what Winograd's sums gain, is a matter of the target:
where the caller does not know it, neither is done. Layouts are chosen before `simplify_regions`,
which hoists what they add out of loops; and for frozen inputs at the end, just before what depends
on these alone is split off.

With the setting GRAPHC_VERIFY=1, as in all tests, the graph is verified after each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.autodiff.cut import Cut
from graphc.autodiff.joint import Joint
from graphc.autodiff.partition import Partition, partition
from graphc.config import verify_passes
from graphc.errors import GraphError, VerifyError
from graphc.ir.nodes import Graph
from graphc.ir.verifier import verify
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code
from graphc.passes.decompose import decompose, decompose_to_recipes
from graphc.passes.layouts import Preferred, layouts, packed
from graphc.passes.merge_products import merge_products
from graphc.passes.recognize_attention import recognize_attention
from graphc.passes.recompute import Span, within_budget
from graphc.passes.recorder import Recorder, recorded
from graphc.passes.simplify_regions import simplify_regions
from graphc.passes.sink_reshapes import sink_reshapes
from graphc.passes.split_frozen import FrozenSplit, split_frozen
from graphc.passes.winograd import winograd
from graphc.records import record, replace


@record
class Facts:
    """What passes may ask for besides the graph. `preferred`: what a target prefers (None: layouts
    and convolutions stay as they are). `frozen`: the positions of inputs that never change."""

    preferred: Preferred | None = None
    frozen: tuple[int, ...] = ()


@record
class Pass:
    """A function from graph to graph, with the name that records and errors give it."""

    name: str
    run: Callable[[Graph, Facts], Graph]


def _of_graph(function: Callable[[Graph], Graph]) -> Pass:
    return Pass(function.__name__, lambda graph, _: function(graph))


def _of_target(name: str, function: Callable[[Graph, Facts, Preferred], Graph]) -> Pass:
    def run(graph: Graph, facts: Facts) -> Graph:
        return graph if facts.preferred is None else function(graph, facts, facts.preferred)

    return Pass(name, run)


DEAD_CODE = _of_graph(dead_code)
DECOMPOSE = _of_graph(decompose)
DECOMPOSE_TO_RECIPES = _of_graph(decompose_to_recipes)
RECOGNIZE_ATTENTION = _of_graph(recognize_attention)
PACK_IN_LOOPS = _of_target("layouts", lambda graph, _, preferred: layouts(graph, preferred))
SIMPLIFY_REGIONS = _of_graph(simplify_regions)
WINOGRAD = _of_target(
    "winograd", lambda graph, _, preferred: winograd(graph, preferred.winograd_gain)
)
SINK_RESHAPES = _of_graph(sink_reshapes)
CANONICALIZE = _of_graph(canonicalize)
MERGE_PRODUCTS = _of_graph(merge_products)
PACK_FROZEN = _of_target(
    "pack_frozen", lambda graph, facts, preferred: packed(graph, facts.frozen, preferred)
)

Pipeline = tuple[Pass, ...]

LEVELS: dict[str, Pipeline] = {
    "none": (DECOMPOSE,),
    "exact": (
        DEAD_CODE, DECOMPOSE_TO_RECIPES, PACK_IN_LOOPS, SIMPLIFY_REGIONS, SINK_RESHAPES,
        CANONICALIZE, MERGE_PRODUCTS, DEAD_CODE,
    ),
    "relaxed": (
        DEAD_CODE, RECOGNIZE_ATTENTION, DECOMPOSE_TO_RECIPES, PACK_IN_LOOPS, SIMPLIFY_REGIONS,
        WINOGRAD, SINK_RESHAPES, CANONICALIZE, MERGE_PRODUCTS, DEAD_CODE,
    ),
}  # fmt: skip
"""What every graph goes through before it is scheduled."""

BEFORE_PARTITION: dict[str, Pipeline] = {
    "none": (), "exact": (), "relaxed": (RECOGNIZE_ATTENTION,),
}  # fmt: skip
"""A joint graph, before `partition` makes forward and backward of it; each then goes through its
level by itself."""

BEFORE_FROZEN_SPLIT: dict[str, Pipeline] = {
    "none": LEVELS["none"],
    "exact": (*LEVELS["exact"], PACK_FROZEN),
    "relaxed": (*LEVELS["relaxed"], PACK_FROZEN),
}
"""A graph with frozen inputs, before `split_frozen` takes off what depends on these alone."""


def optimize(
    graph: Graph,
    level: str = "exact",
    recorder: Recorder | None = None,
    preferred: Preferred | None = None,
) -> Graph:
    """`graph` after the passes of `level`. `recorder` notes what each does. `preferred`: what
    a target prefers; None: layouts and convolutions stay as they are. Raises GraphError for an
    unknown level."""
    return _after(LEVELS, level, graph, Facts(preferred), recorder)


def forward_and_backward(
    joint: Joint, level: str, saved_bytes: int | None = None, recorder: Recorder | None = None
) -> Partition:
    """A joint graph as two, which run in two calls; `saved_bytes` as for `partition`."""
    graph = _after(BEFORE_PARTITION, level, joint.graph, Facts(), recorder)
    parts = partition(replace(joint, graph=graph), saved_bytes)
    _split_off("partition: forward", graph, parts.forward, recorder)
    _split_off("partition: backward", graph, parts.backward, recorder)
    return parts


def within_saved_bytes(
    graph: Graph, backwards: Sequence[Span], saved_bytes: int, recorder: Recorder | None = None
) -> tuple[Graph, list[Cut]]:
    """A whole step within a budget, before its level: it rematerialises (`within_budget`)."""
    cuts: list[Cut] = []

    def run(graph: Graph, _: Facts) -> Graph:
        graph, rematerialised = within_budget(graph, backwards, saved_bytes)
        cuts.extend(rematerialised)
        return graph

    return _run(Pass(within_budget.__name__, run), graph, Facts(), recorder), cuts


def without_frozen(
    graph: Graph, level: str, frozen: Sequence[int], position: int,
    preferred: Preferred | None = None, recorder: Recorder | None = None, *, is_open: bool = True,
) -> FrozenSplit | None:  # fmt: skip
    """What the inputs `frozen` alone decide and what is left of a graph, as for `split_frozen`."""
    facts = Facts(preferred, tuple(frozen))
    optimised = _after(BEFORE_FROZEN_SPLIT, level, graph, facts, recorder)
    split = split_frozen(optimised, frozen, position, is_open=is_open)
    if split is not None:
        _split_off("split_frozen: constants", optimised, split.constants, recorder)
        _split_off("split_frozen: graph", optimised, split.graph, recorder)
    return split


def _after(
    pipelines: dict[str, Pipeline], level: str, graph: Graph, facts: Facts,
    recorder: Recorder | None,
) -> Graph:  # fmt: skip
    if level not in pipelines:
        levels = ", ".join(pipelines)
        raise GraphError(f"unknown optimization level {level!r}", hint=f"one of {levels}")
    for step in pipelines[level]:
        graph = _run(step, graph, facts, recorder)
    return graph


def _run(step: Pass, graph: Graph, facts: Facts, recorder: Recorder | None) -> Graph:
    after = recorded(recorder, step.name, graph, lambda: step.run(graph, facts))
    if verify_passes():
        verify_after(step.name, after)
    return after


def _split_off(name: str, before: Graph, after: Graph, recorder: Recorder | None) -> None:
    """One of the graphs that another was split into."""
    recorded(recorder, name, before, lambda: after)
    if verify_passes():
        verify_after(name, after)


def verify_after(name: str, graph: Graph) -> None:
    """Verify the graph that a pass gave. Raises VerifyError, which names the pass."""
    try:
        verify(graph)
    except VerifyError as error:
        raise VerifyError(f"after the pass {name}: {error}") from error
