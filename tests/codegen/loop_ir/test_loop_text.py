"""The text of loops is what the grammar of docs/ir.md says."""

from __future__ import annotations

import pytest

import graphc
from graphc.codegen.program.link import plan_kernels
from graphc.codegen.target import named
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType
from graphc.ops.composite import softmax
from graphc.ops.elementwise import exp
from graphc.ops.order import cumsum
from graphc.schedule.build import plan_graph
from tests.codegen.kernels.contraction.problems import convolution, product
from tests.ebnf import Recognizer

Graph = graphc.Graph
N = dim("n", 2)


def of_rows() -> Graph:
    g = graphc.GraphBuilder("rows")
    x = g.input("x", "f32[6,11]")
    return g.finish(softmax(exp(x), axis=1), cumsum(x, axis=1))


def opened() -> Graph:
    g = graphc.GraphBuilder("opened")
    x = g.input("x", TensorType(DType.f32, (N, 5)))  # type: ignore[arg-type]
    return g.finish(exp(x))


GRAPHS = {
    "rows": of_rows(), "an open size": opened(), "product": product(5, 19, 7),
    "open product": product(N, 9, 4), "one row": product(1, 16, 300),
    "convolution": convolution("forward", (2, 3, 5, 6), (4, 3, 3, 3), stride=2),
}  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4"])
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_printed_is_what_the_grammar_says(name: str, target: str) -> None:
    recognizer = Recognizer.of("Loops")
    for kernel in plan_kernels(plan_graph(GRAPHS[name])[1], named(target)):
        text = str(kernel)
        assert recognizer.reads(text, "kernel"), text
        assert not recognizer.reads(text.replace("{", "", 1), "kernel")
