"""Pipelines over the samples of every op: each pass keeps the rules of the IR and the bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc.ops
from graphc.autodiff.joint import derive_joint
from graphc.errors import GraphError, VerifyError
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph
from graphc.ir.parser import parse
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType
from graphc.ir.verifier import verify
from graphc.ops.interpreter import run
from graphc.ops.kinds.op import SampleDrawer
from graphc.passes import pipelines
from graphc.passes.canonicalize import canonicalize
from graphc.passes.common_subexpressions import common_subexpressions
from graphc.passes.dead_code import dead_code
from graphc.passes.fold_constants import fold_constants
from graphc.passes.pipelines import LEVELS, Pass, optimize
from graphc.passes.recorder import Recorder
from graphc.passes.simplify import simplify
from graphc.passes.simplify_shapes import simplify_shapes
from graphc.records import replace
from tests.counted_calls import calls

PASSES = (dead_code, common_subexpressions, fold_constants, simplify, simplify_shapes)


def sample_graphs(name: str) -> list[tuple[Graph, tuple[Any, ...]]]:
    """A graph per sample of an op, with its arguments. Floats are f32, or f64 as in the graphs
    that a sample holds."""
    op = lookup(name)
    result = []
    for sample in op.samples(SampleDrawer()):
        held = any(isinstance(value, Graph) for value in sample.attributes.values())
        floats = np.float64 if held else np.float32
        arrays = tuple(
            np.asarray(a, floats) if np.asarray(a).dtype.kind == "f" else np.asarray(a)
            for a in sample.operands
        )
        builder = GraphBuilder(name)
        inputs = [builder.input(f"x{i}", TensorType.of(a)) for i, a in enumerate(arrays)]
        outputs = builder.apply(op, tuple(inputs), sample.attributes)
        result.append((builder.finish(*outputs), arrays))
    return result


def same_bits(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Equal types and bits; one NaN is as good as another."""
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and plain(a).tobytes() == plain(b).tobytes()
        for a, b in zip(left, right, strict=True)
    )


def plain(array: Any) -> Any:
    if array.dtype.kind != "f":
        return array
    return np.where(np.isnan(array), array.dtype.type(np.nan), array)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [op.name for op in graphc.ops.table() if op.samples])
def test_every_pass_keeps_the_rules_and_the_bits_of_every_op(name: str) -> None:
    for graph, arrays in sample_graphs(name):
        expected = run(graph, *arrays)
        for transform in PASSES:
            assert same_bits(run(verify(transform(graph)), *arrays), expected), transform.__name__
        for level in LEVELS:
            recorder = Recorder()
            after = optimize(graph, level, recorder)
            assert same_bits(run(after, *arrays), expected), level
            assert [each.name for each in recorder.passes] == [step.name for step in LEVELS[level]]
            assert all(verify(each.after) is each.after for each in recorder.passes)
            left = [lookup(node.op) for node in after.nodes if node.op not in ("input", "constant")]
            composites = [op for op in left if op.kind == "composite"]
            assert all(op.recipe and level != "none" for op in composites)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [op.name for op in graphc.ops.table() if op.samples])
def test_the_pipeline_has_nothing_left_to_do(name: str) -> None:
    for graph, _ in sample_graphs(name):
        once = optimize(graph)
        assert optimize(once) == once


def test_passes_enable_one_another_in_one_run() -> None:
    before = parse("""
        graph g(%p: bool[2,2], %x: f32[2,2]) {
          %2 = constant f32[] [4.0]
          %3 = constant f32[] [0.25]
          %4 = mul(%2, %3) : f32[]
          %5 = broadcast(%4) shape=[2,2] : f32[2,2]
          %6 = transpose(%5) permutation=[1,0] : f32[2,2]
          %7 = div(%x, %6) : f32[2,2]
          %8 = reshape(%x) shape=[4] : f32[4]
          %9 = reshape(%8) shape=[2,2] : f32[2,2]
          %10 = where(%p, %7, %9) : f32[2,2]
          return %10
        }""")
    expected = parse("graph g(%p: bool[2,2], %x: f32[2,2]) { return %x }")
    assert dead_code(canonicalize(before)) == expected


def test_an_unknown_level_names_the_levels() -> None:
    graph = parse("graph g(%x: f32[2]) { return %x }")
    with pytest.raises(GraphError, match="unknown optimization level 'fast'") as caught:
        optimize(graph, "fast")
    assert all(level in str(caught.value) for level in LEVELS)


def test_a_pass_that_breaks_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In all tests, since the setting GRAPHC_VERIFY is 1 there; and in every pipeline."""

    def narrowed(graph: Graph, _: pipelines.Facts) -> Graph:
        nodes = tuple(
            replace(node, types=(TensorType.parse("f32[1]"),)) if node.op == "neg" else node
            for node in graph.nodes
        )
        return Graph(graph.name, nodes, graph.outputs)

    bad = Pass("narrow", narrowed)
    for name in ("LEVELS", "BEFORE_PARTITION", "BEFORE_FROZEN_SPLIT"):
        monkeypatch.setitem(getattr(pipelines, name), "exact", (bad,))
    builder = GraphBuilder("g")
    graph = builder.finish(lookup("neg")(builder.input("x", "f32[2]")))
    runs = (
        lambda: optimize(graph),
        lambda: pipelines.forward_and_backward(derive_joint(graph), "exact"),
        lambda: pipelines.without_frozen(graph, "exact", [0], 1),
    )
    for run_pipeline in runs:
        with pytest.raises(VerifyError, match="after the pass narrow: "):
            run_pipeline()
    monkeypatch.setenv("GRAPHC_VERIFY", "0")
    assert optimize(graph).output_types == (TensorType.parse("f32[1]"),)
    monkeypatch.setenv("GRAPHC_VERIFY", "yes")
    with pytest.raises(GraphError, match="GRAPHC_VERIFY='yes'"):
        optimize(graph)


def test_what_a_pipeline_splits_off_is_recorded() -> None:
    builder = GraphBuilder("g")
    x, w = builder.input("x", "f32[2,3]"), builder.input("w", "f32[3,2]")
    graph = builder.finish(x @ (w * w))

    recorder = Recorder()
    pipelines.forward_and_backward(derive_joint(graph), "relaxed", recorder=recorder)
    names = [record.name for record in recorder.passes]
    assert names == ["recognize_attention", "partition: forward", "partition: backward"]
    recorder = Recorder()
    pipelines.without_frozen(graph, "exact", [1], 2, recorder=recorder)
    ends = ["pack_frozen", "split_frozen: constants", "split_frozen: graph"]
    passes = [step.name for step in LEVELS["exact"]]
    assert [record.name for record in recorder.passes] == [*passes, *ends]
    recorder = Recorder()
    pipelines.within_saved_bytes(graph, [(2, 4)], 1 << 20, recorder)
    assert [record.name for record in recorder.passes] == ["within_budget"]


def test_a_cast_of_what_is_repeated_is_not_stored_as_often_as_it_is() -> None:
    """A convolution's bias under autocast: its numbers, not a plane of each."""
    graph = parse("""
        graph g(%x: f32[2,5,7], %b: f32[5]) {
          %2 = cast(%b) dtype=bf16 : bf16[5]
          %3 = reshape(%2) shape=[1, 5, 1] : bf16[1,5,1]
          %4 = broadcast(%3) shape=[2, 5, 7] : bf16[2,5,7]
          %5 = cast(%4) dtype=f32 : f32[2,5,7]
          %6 = add(%x, %5) : f32[2,5,7]
          return %6
        }""")
    split = pipelines.without_frozen(graph, "exact", [1], 2)
    assert split is not None
    assert split.constants.output_types == (TensorType.parse("bf16[5]"),)
    x, b = np.ones((2, 5, 7), np.float32), np.arange(5, dtype=np.float32) / 3
    (want,) = run(graph, x, b)
    (got,) = run(split.graph, x, b, *run(split.constants, b))
    np.testing.assert_array_equal(got, want)


def test_level_none_only_expands_composites() -> None:
    graph = parse("""
        graph g(%x: f32[2]) {
          %1 = neg(%x) : f32[2]
          %2 = neg(%1) : f32[2]
          %3 = exp(%x) : f32[2]
          return %2
        }""")
    assert optimize(graph, "none") == graph


def test_work_is_linear_in_the_graph() -> None:
    """A graph eight times as long takes about eight times as long, not sixty-four."""

    def graph(blocks: int) -> Graph:
        builder = GraphBuilder()
        x = y = builder.input("x", "f32[8,16]")
        w = builder.input("w", "f32[16]")
        for _ in range(blocks):
            y = lookup("layer_norm")(y, w, w) * 2.0 + x / 4.0 - y
        return builder.finish(y)

    def work(of: Graph) -> int:
        return sum(calls(lambda: optimize(of)).values())

    short, long = graph(10), graph(80)
    optimize(short)
    assert work(long) < 12 * work(short)
