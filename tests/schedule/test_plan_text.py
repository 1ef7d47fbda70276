"""The text of plans is what the grammar of docs/ir.md says."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.ir.dims import dim
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import DType, TensorType
from graphc.ops import indexing
from graphc.ops.composite import softmax
from graphc.ops.control import scan
from graphc.ops.elementwise import exp, tanh
from graphc.ops.linear_algebra.lapack import solve
from graphc.ops.movement import concat
from graphc.ops.nn import losses
from graphc.records import replace
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Plan
from tests.ebnf import Recognizer
from tests.schedule.test_regions import V, choosing, doubling, looking_up, nested, region, running

N = dim("n", 2)


def checked() -> graphc.Graph:
    g = graphc.GraphBuilder("checked")
    logits, target = g.input("logits", "f32[6,4]"), g.input("target", "i64[6]")
    valid = indexing.check_all(logits > 0.0, message="all must be positive")
    return g.finish(losses.cross_entropy(logits, target), valid)


def opened() -> graphc.Graph:
    g = graphc.GraphBuilder("opened")
    x = g.input("x", TensorType(DType.f32, (N, 5)))  # type: ignore[arg-type]
    table = g.constant(np.arange(5000, dtype=np.float32).reshape(1000, 5))
    return g.finish(softmax(exp(x), axis=1), concat(x, table, axis=0))


def stacked() -> graphc.Graph:
    """All carries of a loop lie in one buffer, which backward reads shifted by one."""
    body = region(lambda c, x: (tanh(c + x), c, tanh(c + x)), V, V)
    g = graphc.GraphBuilder("stacked")
    with g.at(None):
        c, xs = g.input("c", V), g.input("xs", "f32[4,3]")
        last, before, after = scan(c, xs, carry=1, sequences=1, length=4, body=body)
        return g.finish(last, before * after * xs)


def solved() -> graphc.Graph:
    """Python computes it."""
    g = graphc.GraphBuilder("solved")
    a, b = g.input("a", "f32[3,3]"), g.input("b", "f32[3,2]")
    return g.finish(*solve(a, b))


GRAPHS = {
    "a loop": running(), "while": doubling(), "a branch": choosing(), "a look-up": looking_up(),
    "nested": nested(), "stacked": stacked(), "checks": checked(),
    "an open size": opened(), "on the host": solved(),
}  # fmt: skip


def plan_of(name: str) -> Plan:
    if name != "an open size":
        return plan_graph(GRAPHS[name])[1]
    _, plan = plan_graph(GRAPHS[name], example={"n": 8})
    signs = ("<", "<=", ">", ">=", "==", "!=", "is", "not <")
    return replace(plan, guards=tuple(SizeGuard(2 * N - 4, sign, N // 2) for sign in signs))


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_printed_is_what_the_grammar_says(name: str) -> None:
    recognizer, text = Recognizer.of("Plan"), str(plan_of(name))
    assert recognizer.reads(text, "plan"), text
    for broken in ("{", "arena", "return"):
        assert not recognizer.reads(text.replace(broken, "", 1), "plan"), broken


def test_the_graphs_have_what_the_grammar_has() -> None:
    """So that no alternative of it is one that nothing prints."""
    texts = "\n".join(str(plan_of(name)) for name in GRAPHS)
    for part in (
        "example n = 8", "  where ", ", part of b", "(host)", "s0 = ", " nonzero", " in [0, ",
        "for t = 0 to ", "- 1 down to 0", "while b", "if b", "else {", "[t]", "constant 0",
    ):  # fmt: skip
        assert part in texts, part
