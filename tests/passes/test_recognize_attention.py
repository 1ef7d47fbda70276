"""Attention recognised in graphs: which spellings, what stays as it is, and that values, NaN and
gradients are those of what was written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import GraphBuilder, ops
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.parser import parse
from graphc.ir.types import DType
from graphc.ir.verifier import verify
from graphc.ops.generate import iota_like
from graphc.passes.dead_code import dead_code
from graphc.passes.pipelines import optimize
from graphc.passes.recognize_attention import recognize_attention
from graphc.passes.recorder import Recorder

LEAD, L, S, E = (2, 3), 5, 7, 4


def swapped(x: Any) -> Any:
    rank = len(x.shape)
    return ops.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def full(number: Any, like: Any) -> Any:
    return broadcast_to(lift(number, like), like.shape)


def masked(scores: Any, condition: Any, fill: float) -> Any:
    return ops.where(broadcast_to(condition, scores.shape), full(fill, scores), scores)


def later(scores: Any) -> Any:
    """[L, S], true where a column comes after the row."""
    square = scores.shape[-2:]
    return ops.gt(iota_like(scores, square, 1), iota_like(scores, square, 0))


def softmax(x: Any) -> Any:
    return ops.softmax(x, axis=len(x.shape) - 1)


def grouped(x: Any) -> Any:
    return ops.reshape(x, shape=(math.prod(LEAD), *x.shape[-2:]))


def ungrouped(x: Any) -> Any:
    return ops.reshape(x, shape=(*LEAD, *x.shape[-2:]))


def added_triangle(q: Any, k: Any, v: Any) -> Any:
    scores = q @ swapped(k)
    hidden = later(scores)
    like = broadcast_to(lift(0.0, q), hidden.shape)
    mask = ops.where(hidden, full(-math.inf, like), like)
    return softmax(scores + broadcast_to(mask, scores.shape)) @ v


def constant_triangle(q: Any, k: Any, v: Any) -> Any:
    scores = q @ swapped(k)
    seen = q.context.constant(np.tri(L, S, dtype=bool))
    seen = broadcast_to(seen, scores.shape)
    return softmax(ops.where(seen, scores, full(-1e9, scores))) @ v


def distances_and_triangle(q: Any, k: Any, v: Any) -> Any:
    """A constant that is added for each head, and a finite number beside the diagonal."""
    scores = q @ swapped(k) * 0.5
    steps = -np.abs(np.arange(L)[:, None] - np.arange(S)).astype(np.float32)
    slopes = np.array([0.5, 0.25, 0.125], np.float32)[None, :, None, None]
    scores = scores + broadcast_to(q.context.constant(steps * slopes), scores.shape)
    return softmax(masked(scores, later(scores), -1e9)) @ v


# (q, k, v) → result; the attributes of what is found.
SPELLINGS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "plain": (lambda q, k, v: softmax(q @ swapped(k)) @ v, {"scale": 1.0, "causal": False}),
    "times": (lambda q, k, v: softmax(q @ swapped(k) * 0.5) @ v, {"scale": 0.5}),
    "times from the left": (lambda q, k, v: softmax(0.5 * (q @ swapped(k))) @ v, {"scale": 0.5}),
    "by": (lambda q, k, v: softmax((q @ swapped(k)) / 4.0) @ v, {"scale": 0.25}),
    "twice": (lambda q, k, v: softmax((q @ swapped(k)) / 4.0 * -2.0) @ v, {"scale": -0.5}),
    "query scaled": (lambda q, k, v: softmax((q * 0.5) @ swapped(k)) @ v, {"scale": 1.0}),
    "hidden": (
        lambda q, k, v: softmax(masked(q @ swapped(k) * 0.5, later(q @ swapped(k)), -math.inf)) @ v,
        {"scale": 0.5, "causal": True},
    ),
    "hidden by a number": (
        lambda q, k, v: softmax(masked(q @ swapped(k), later(q @ swapped(k)), -1e5)) @ v,
        {"causal": True},
    ),
    "added triangle": (added_triangle, {"causal": True}),
    "distances": (distances_and_triangle, {"scale": 0.5, "causal": True}),
    "constant triangle": (constant_triangle, {"causal": True}),
    "grouped": (
        lambda q, k, v: ungrouped(
            grouped(softmax(ungrouped(grouped(q) @ grouped(swapped(k))) * 0.5)) @ grouped(v)
        ),
        {"scale": 0.5},
    ),
}  # fmt: skip
# (q, k, v, mask) → result, and the mask's type.
MASKED: dict[str, tuple[Callable[..., Any], str]] = {
    "hidden": (lambda q, k, v, m: softmax(masked(q @ swapped(k) * 0.5, m, -math.inf)) @ v,
               f"bool[{L},{S}]"),
    "hidden per key": (lambda q, k, v, m: softmax(masked(q @ swapped(k), m, -math.inf)) @ v,
                       f"bool[{LEAD[0]},1,1,{S}]"),
    "seen": (lambda q, k, v, m: softmax(
        ops.where(broadcast_to(m, (*LEAD, L, S)), q @ swapped(k), full(-math.inf, q @ swapped(k)))
    ) @ v, f"bool[1,1,{L},{S}]"),
    "number": (lambda q, k, v, m: softmax(masked(q @ swapped(k), m, -1e9)) @ v, f"bool[{L},{S}]"),
    "added": (lambda q, k, v, m: softmax(q @ swapped(k) * 0.5 + broadcast_to(m, (*LEAD, L, S))) @ v,
              f"f32[{L},{S}]"),
    "added per head": (lambda q, k, v, m: softmax(m + q @ swapped(k)) @ v,
                       f"f32[{LEAD[0]},{LEAD[1]},{L},{S}]"),
    "and causal": (
        lambda q, k, v, m: softmax(
            masked(masked(q @ swapped(k), later(q @ swapped(k)), -math.inf), m, -math.inf)
        ) @ v, f"bool[{LEAD[0]},1,1,{S}]",
    ),
}  # fmt: skip


def built(make: Callable[..., Any], *mask: str) -> graphc.Graph:
    g = GraphBuilder("g")
    shapes = {"q": (*LEAD, L, E), "k": (*LEAD, S, E), "v": (*LEAD, S, E)}
    inputs = [g.input(name, f"f32{list(shape)}".replace(" ", "")) for name, shape in shapes.items()]
    return g.finish(make(*inputs, *(g.input("m", type) for type in mask)))


def drawn(graph: graphc.Graph, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [
        random.random(t.shape) < 0.3 if t.dtype is DType.bool
        else random.standard_normal(t.shape).astype(t.dtype.numpy)
        for t in graph.input_types
    ]  # fmt: skip


def count(graph: graphc.Graph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def found_in(graph: graphc.Graph) -> graphc.Graph:
    return verify(recognize_attention(verify(dead_code(graph))))


def agree(before: graphc.Graph, after: graphc.Graph, *arrays: Any) -> None:
    """The same numbers, and NaN in the same places."""
    for got, want in zip(graphc.run(after, *arrays), graphc.run(before, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_before_and_after() -> None:
    before = parse("""
        graph g(%q: f32[8,32,64], %k: f32[8,32,64], %v: f32[8,32,64]) {
          %3 = transpose(%k) permutation=[0, 2, 1] : f32[8,64,32]
          %4 = matmul(%q, %3) : f32[8,32,32]
          %5 = constant f32[] [0.125]
          %6 = broadcast(%5) shape=[8, 32, 32] : f32[8,32,32]
          %7 = mul(%4, %6) : f32[8,32,32]
          %8 = softmax(%7) axis=2 : f32[8,32,32]
          %9 = matmul(%8, %v) : f32[8,32,64]
          return %9
        }""")
    expected = parse("""
        graph g(%q: f32[8,32,64], %k: f32[8,32,64], %v: f32[8,32,64]) {
          %3 = transpose(%k) permutation=[0, 2, 1] : f32[8,64,32]
          %4 = transpose(%3) permutation=[0, 2, 1] : f32[8,32,64]
          %5 = attention(%q, %4, %v) causal=false scale=0.125 : f32[8,32,64], f32[8,32]
          return %5
        }""")
    assert found_in(before) == expected


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str) -> None:
    make, attributes = SPELLINGS[name]
    graph = built(make)
    after = found_in(graph)
    (node,) = (node for node in after.nodes if node.op == "attention")
    assert {key: node.attribute(key) for key in attributes} == attributes
    assert not count(after, "softmax")
    agree(graph, after, *drawn(graph))


@pytest.mark.parametrize("name", SPELLINGS)
def test_backward_of_spellings(name: str) -> None:
    graph = graphc.joint(built(SPELLINGS[name][0]))
    after = found_in(graph)
    assert (count(after, "attention"), count(after, "attention_grad")) == (1, 1)
    assert not count(after, "softmax")
    agree(graph, after, *drawn(graph))


@pytest.mark.parametrize("name", MASKED)
def test_masks(name: str) -> None:
    graph = built(*MASKED[name])
    for before in (graph, graphc.joint(graph, ["q", "k", "v"])):
        after = found_in(before)
        assert count(after, "attention") == 1
        assert not count(after, "softmax")
        arrays = drawn(graph)
        arrays[3][..., 0] = arrays[3][..., 0] if arrays[3].dtype == np.float32 else name == "seen"
        agree(before, after, *arrays, *drawn(before)[4:])


def test_a_mask_for_all_heads_is_not_repeated() -> None:
    for name in ("hidden", "seen", "added"):
        after = found_in(built(*MASKED[name]))
        (node,) = (node for node in after.nodes if node.op == "attention")
        assert after.type_of(node.operands[3]).shape == (L, S)


@pytest.mark.parametrize("name", ["hidden", "hidden per key", "number", "added"])
def test_a_row_that_sees_nothing_stays_what_it_was(name: str) -> None:
    """NaN beside -∞, the mean of v beside a number."""
    graph = built(*MASKED[name])
    arrays = drawn(graph)
    mask = arrays[3]
    mask[0] = True if mask.dtype == bool else -np.inf
    assert np.isnan(graphc.run(graph, *arrays)[0]).any() == (name != "number")
    agree(graph, found_in(graph), *arrays)


@pytest.mark.parametrize("wrt", [["q"], ["k"], ["v"], ["q", "v"]], ids=str)
def test_backward_by_some(wrt: list[str]) -> None:
    graph = graphc.joint(built(SPELLINGS["hidden"][0]), wrt)
    after = found_in(graph)
    assert count(after, "attention_grad") == 1
    assert not count(after, "softmax")
    agree(graph, after, *drawn(graph))


def test_one_value_as_query_key_and_value() -> None:
    g = GraphBuilder("g")
    x = g.input("x", "f32[2,5,4]")
    graph = graphc.joint(g.finish(softmax(x @ swapped(x)) @ x))
    after = found_in(graph)
    assert (count(after, "attention_grad"), count(after, "softmax")) == (1, 0)
    agree(graph, after, *drawn(graph))


def test_two_layers() -> None:
    def twice(q: Any, k: Any, v: Any) -> Any:
        first = softmax(q @ swapped(k) * 0.5) @ v
        return softmax(first @ swapped(k) * 0.5) @ v

    graph = graphc.joint(built(twice))
    after = found_in(graph)
    assert (count(after, "attention"), count(after, "attention_grad")) == (2, 2)
    agree(graph, after, *drawn(graph))


# -- what stays -----------------------------------------------------------------------------------


def weights_are_read(q: Any, k: Any, v: Any) -> Any:
    weights = softmax(q @ swapped(k))
    return ops.concat(weights @ v, weights, axis=3)


def scores_are_read(q: Any, k: Any, v: Any) -> Any:
    scores = q @ swapped(k)
    return ops.concat(softmax(scores) @ v, scores, axis=3)


def other_axis(q: Any, k: Any, v: Any) -> Any:
    return ops.softmax(q @ swapped(k), axis=2) @ v


def weights_from_the_right(q: Any, k: Any, v: Any) -> Any:
    return swapped(v) @ swapped(softmax(q @ swapped(k)))


def changed_weights(q: Any, k: Any, v: Any) -> Any:
    return (softmax(q @ swapped(k)) * 0.9) @ v


def small_number(q: Any, k: Any, v: Any, m: Any) -> Any:
    return softmax(masked(q @ swapped(k), m, -100.0)) @ v


def scaled_after_the_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
    return softmax(masked(q @ swapped(k), m, -1e9) * 0.5) @ v


def two_masks(q: Any, k: Any, v: Any, m: Any) -> Any:
    return softmax(masked(masked(q @ swapped(k), m, -math.inf), m, -1e9)) @ v


def numbers_beside_a_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
    """A row hidden by both takes the mean of all of v, which no mask of the op says."""
    scores = q @ swapped(k)
    return softmax(masked(masked(scores, later(scores), -1e9), m, -1e9)) @ v


STAY: dict[str, tuple[Any, ...]] = {
    "weights are read": (weights_are_read,),
    "scores are read": (scores_are_read,),
    "other axis": (other_axis,),
    "weights from the right": (weights_from_the_right,),
    "changed weights": (changed_weights,),
    "small number": (small_number, f"bool[{L},{S}]"),
    "scaled after the mask": (scaled_after_the_mask, f"bool[{L},{S}]"),
    "two masks": (two_masks, f"bool[{L},{S}]"),
    "numbers beside a mask": (numbers_beside_a_mask, f"bool[{L},{S}]"),
}


def constant_blind(q: Any, k: Any, v: Any) -> Any:
    """A row that a constant hides by numbers of middling size takes the mean of v."""
    scores = q @ swapped(k)
    hidden = np.arange(L)[:, None] + np.zeros(S) == 2
    hidden = broadcast_to(q.context.constant(hidden), scores.shape)
    return softmax(ops.where(hidden, full(-1e5, scores), scores)) @ v


STAY["constant, a row that sees nothing"] = (constant_blind,)


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    graph = built(*STAY[name])
    assert not count(found_in(graph), "attention")


def test_a_bias_that_is_learned_keeps_its_weights() -> None:
    graph = built(*MASKED["added"])
    assert not count(found_in(graphc.joint(graph, ["q", "k", "v", "m"])), "attention")


# -- levels ---------------------------------------------------------------------------------------


def test_only_relaxed_recognises() -> None:
    graph = built(SPELLINGS["hidden"][0])
    seen: dict[str, bool] = {}
    for level in ("none", "exact", "relaxed"):
        recorder = Recorder()
        optimize(graph, level, recorder)
        seen[level] = any(count(each.after, "attention") for each in recorder.passes)
    assert seen == {"none": False, "exact": False, "relaxed": True}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["plain", "hidden", "grouped"])
def test_relaxed_computes_the_same(name: str) -> None:
    graph = graphc.joint(built(SPELLINGS[name][0]))
    arrays = drawn(graph)
    exact, relaxed = (graphc.compile(graph, level)(*arrays) for level in ("exact", "relaxed"))
    for got, want in zip(relaxed, exact, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
