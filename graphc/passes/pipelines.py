"""All pipelines: which passes run at which level, in which order.

in : a graph, with composites, as it was written, traced or derived
out: a graph of ops that the lowering knows

| level | promise |
|---|---|
| none | what was written: all composites are expanded, nothing else happens |
| exact | the same bits as `none`, NaN payloads aside |
| relaxed | rounding may differ; each place is listed in the ledger |

Dead code goes first, so that no pass works for nothing, and last, after the passes that leave
nodes without users. Composites are expanded once, but for those with a kernel recipe of their own.
All rewriting is one pass with one fixed point (graphc.passes.canonicalize), so no pass is repeated
in the hope that it finds more.

`relaxed` has what rounds differently: before composites are expanded, attention recognised in ops
the user wrote; behind it, convolutions that gain by Winograd's sums. Where forward and backward
become two graphs, `whole` runs the first on both in one.

How kernels like their operands stored is a matter of the target. Where the caller knows it, layouts
are chosen ahead of `simplify_regions`, which moves what they add out of loops.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.errors import GraphError
from graphc.ir.nodes import Graph
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code
from graphc.passes.decompose import decompose, decompose_to_recipes
from graphc.passes.layouts import Preferred, layouts
from graphc.passes.recognize_attention import recognize_attention
from graphc.passes.simplify_regions import simplify_regions
from graphc.passes.sink_reshapes import sink_reshapes
from graphc.passes.winograd import winograd

Pass = Callable[[Graph], Graph]
Observer = Callable[[str, Graph], None]

EXACT: tuple[Pass, ...] = (
    dead_code, decompose_to_recipes, simplify_regions, sink_reshapes, canonicalize, dead_code,
)  # fmt: skip

WHOLE: tuple[Pass, ...] = (recognize_attention,)

LEVELS: dict[str, tuple[Pass, ...]] = {
    "none": (decompose,),
    "exact": EXACT,
    "relaxed": (
        dead_code, *WHOLE, decompose_to_recipes, simplify_regions, winograd, sink_reshapes,
        canonicalize, dead_code,
    ),
}  # fmt: skip


def optimize(
    graph: Graph,
    level: str = "exact",
    observer: Observer | None = None,
    preferred: Preferred | None = None,
) -> Graph:
    """`graph` after the passes of `level`. `observer(pass name, graph)` is called after each: the
    place to verify, print or time. `preferred`: the layouts a target prefers; None: all stay as
    they are. Raises GraphError for an unknown level."""
    if level not in LEVELS:
        levels = ", ".join(LEVELS)
        raise GraphError(f"unknown optimization level {level!r}", hint=f"one of {levels}")
    for run in LEVELS[level]:
        if run is simplify_regions and preferred is not None:
            graph = layouts(graph, preferred)
            if observer is not None:
                observer(layouts.__name__, graph)
        graph = run(graph)
        if observer is not None:
            observer(run.__name__, graph)
    return graph


def whole(graph: Graph, level: str) -> Graph:
    """A joint graph after the passes of `level` that must see forward and backward in one, before
    `graphc.autodiff.partition` makes two graphs of it."""
    for run in WHOLE if level == "relaxed" else ():
        graph = run(graph)
    return graph
