"""Reshapes behind products: what moves ahead of them, and what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ir.handle import broadcast_to
from graphc.ir.nodes import Graph
from graphc.ir.verifier import verify
from graphc.ops import composite, reduce
from graphc.ops import elementwise as e
from graphc.ops.interpreter import evaluate
from graphc.ops.movement import reshape
from graphc.ops.nn import normalization
from graphc.ops.nn.int_convolution import int_conv
from graphc.passes.pipelines import optimize
from graphc.passes.sink_reshapes import sink_reshapes
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch

BATCHED = (2, 3, 8)


def layer(behind: Callable[..., Any]) -> Graph:
    """`behind(x w, r)` with the product's rows as [batch, time]."""
    g = graphc.GraphBuilder("layer")
    x, w = g.input("x", "f32[6,5]"), g.input("w", "f32[5,8]")
    r, b = g.input("r", "f32[2,3,8]"), g.input("b", "f32[8]")
    results = behind(reshape(x @ w, shape=BATCHED), r, b)
    return g.finish(*(results if isinstance(results, tuple) else (results,)))


def shapes(graph: Graph, op: str) -> list[tuple[int, ...]]:
    return [node.types[0].shape for node in graph.nodes if node.op == op]


def launches(graph: Graph) -> list[list[str]]:
    plan = plan_graph(graph)[1]
    return [
        [node.op for node in step.kernel.body.nodes if node.op != "input"]
        for step in plan.steps if isinstance(step, Launch)
    ]  # fmt: skip


def biased(y: Any, r: Any, b: Any) -> Any:
    return y + broadcast_to(b, y.shape)


CASES: dict[str, Callable[..., Any]] = {
    "bias": biased,
    "residual": lambda y, r, b: e.relu(y + r) * 2,
    "gelu": lambda y, r, b: composite.gelu(biased(y, r, b)),
    "comparison": lambda y, r, b: e.where(y > r, y, r),
    "cast": lambda y, r, b: e.cast(y, dtype=graphc.DType.f64),
    "two readers": lambda y, r, b: (e.exp(y), e.tanh(y)),
}


@pytest.mark.parametrize("name", CASES)
def test_elementwise_work_takes_the_products_shape(name: str) -> None:
    graph = verify(optimize(layer(CASES[name])))
    for node in graph.nodes:
        if node.op not in ("input", "reshape", "constant"):
            assert node.types[0].shape in ((6, 8), ()), node.op
    assert len(launches(layer(CASES[name]))) == 1


@pytest.mark.parametrize("name", CASES)
def test_results_keep_their_bits(name: str) -> None:
    graph = layer(CASES[name])
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    arrays[2][0, 0, :4] = np.nan, np.inf, -np.inf, -0.0
    plain = graphc.compile(graph, "none")(*arrays)
    sunk = evaluate(sink_reshapes(optimize(graph, "none")), tuple(arrays), reference=False)
    before = evaluate(graph, tuple(arrays), reference=False)
    for one, other in zip(sunk, before, strict=True):
        assert one.tobytes() == other.tobytes()
    for one, other in zip(graphc.compile(graph)(*arrays), plain, strict=True):
        assert one.tobytes() == other.tobytes()


def test_what_a_sum_reads_too_stays() -> None:
    def normalised(y: Any, r: Any, b: Any) -> Any:
        return normalization.layer_norm(y + r, b, b)

    graph = optimize(layer(normalised))
    (total, *_) = shapes(graph, "sum")
    assert total == (2, 3) and (2, 3, 8) in shapes(graph, "sub")
    assert (6, 8) in shapes(graph, "add"), "the residual is added where the product is computed"
    assert len(launches(layer(normalised))) == 2


def test_outputs_and_reshapes_of_other_values_stay() -> None:
    g = graphc.GraphBuilder("others")
    x, r = g.input("x", "f32[6,8]"), g.input("r", "f32[2,3,8]")
    y = reshape(x, shape=BATCHED)
    graph = sink_reshapes(g.finish(y + r))
    assert shapes(graph, "add") == [BATCHED]
    kept = sink_reshapes(layer(lambda y, r, b: (y, y + r)))
    assert shapes(kept, "add") == [BATCHED]


def test_a_row_is_repeated_in_the_products_shape() -> None:
    assert shapes(optimize(layer(biased)), "broadcast") == [(6, 8)]


def test_reductions_behind_the_moved_work_read_its_shape() -> None:
    graph = layer(lambda y, r, b: reduce.sum(e.exp(y) + r, axes=(2,)))
    optimised = verify(optimize(graph))
    assert shapes(optimised, "sum") == [(2, 3)] and shapes(optimised, "exp") == [(6, 8)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("columns", [1, 7, 13, 30])
@pytest.mark.parametrize("shape", [(2, 3), (6, 1), (3, 1, 2), ()])
def test_rows_that_end_inside_a_vector(columns: int, shape: tuple[int, ...]) -> None:
    """Also a shape that parts the columns."""
    g = graphc.GraphBuilder("layer")
    x, w = g.input("x", "f32[6,5]"), g.input("w", f"f32[5,{columns}]")
    whole = (*shape, columns) if shape else (columns, 6)
    r = g.input("r", f"f32{list(whole)}")
    y = reshape(x @ w, shape=whole)
    graph = g.finish(e.relu(y + r), e.exp(y))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    plain = graphc.compile(graph, "none")(*arrays)
    for one, other in zip(graphc.compile(graph)(*arrays), plain, strict=True):
        assert one.tobytes() == other.tobytes()
    assert len(launches(graph)) == 1


def convolutions(behind: Callable[..., Any]) -> Graph:
    """`behind(y, r)` of a convolution of bytes, and one of what it gives, rounded to bytes."""
    g = graphc.GraphBuilder("convolutions")
    x, r = g.input("x", "u8[1,16,5,6]"), g.input("r", "f32[1,32,5,6]")
    v, w = g.input("v", "i8[32,16,3,3]"), g.input("w", "i8[20,32,3,3]")
    zero, bias = g.input("z", "u8[]"), g.input("b", "f32[32,1,1]")
    options: dict[str, Any] = {
        "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1
    }  # fmt: skip
    y = e.cast(int_conv(x, v, zero, **options), dtype=graphc.DType.f32) * 0.01
    y = behind(y + broadcast_to(bias, y.shape), r)
    narrow = e.cast(e.minimum(e.maximum(y, y * 0), y * 0 + 255), dtype=graphc.DType.u8)
    return g.finish(int_conv(narrow, w, zero, **options))


def narrowed(graph: Graph) -> list[Any]:
    """Inputs, and the results without optimization and with it."""
    random = np.random.default_rng(0)
    arrays = [
        random.integers(0, 128, t.shape).astype(t.dtype.numpy) if t.dtype.is_integer
        else random.standard_normal(t.shape).astype(np.float32)
        for t in graph.input_types
    ]  # fmt: skip
    plain = graphc.compile(graph, "none")(*arrays)
    return list(zip(plain, graphc.compile(graph)(*arrays), strict=True))


def test_positions_stay_rows_between_convolutions_of_bytes() -> None:
    """What is computed of the sums is so in the kernel of the product, and its rows are copied by
    the next one."""
    graph = convolutions(lambda y, r: e.relu(y + r))
    optimised = verify(optimize(graph))
    assert (1, 30, 32) in shapes(optimised, "relu") and (1, 30, 32) in shapes(optimised, "add")
    (kernel,) = [ops for ops in launches(graph) if "relu" in ops]
    assert "int_matmul" in kernel
    for one, other in narrowed(graph):
        assert one.tobytes() == other.tobytes()


def test_channels_stay_first_for_what_is_no_product() -> None:
    def normalised(y: Any, r: Any) -> Any:
        total = reshape(reduce.sum(y, axes=(2, 3)), shape=(1, 32, 1, 1))
        return y * broadcast_to(total, y.shape) + r

    graph = convolutions(normalised)
    assert (1, 32, 5, 6) in shapes(optimize(graph), "mul")
    for one, other in narrowed(graph):
        assert one.tobytes() == other.tobytes()
