"""Attention and its gradient against NumPy in float64: masks, rows that see nothing, second
derivatives, and the errors for operands that do not fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc import DTypeError, GraphBuilder, ShapeError
from graphc.autodiff.numeric import numeric_gradients
from graphc.ir.types import TensorType
from graphc.ops.nn.attention import attention, attention_grad

Arrays = list[np.ndarray]


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> Arrays:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for shape in shapes]


def built(op: Any, arrays: Arrays, **options: Any) -> graphc.Graph:
    g = GraphBuilder("g")
    inputs = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate(arrays)]
    return g.finish(*g.apply(op, tuple(inputs), options))


def expected(q: Any, k: Any, v: Any, mask: Any = None, scale: float = 1.0, causal: bool = False
             ) -> tuple[Any, Any]:  # fmt: skip
    """Values and logsumexp, row by row in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * np.einsum("...le,...se->...ls", q, k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    values = np.zeros((*q.shape[:-1], v.shape[-1]))
    total = np.full(q.shape[:-1], -np.inf)
    for at in np.ndindex(*q.shape[:-1]):
        row = scores[at]
        if not row.size or row.max() == -np.inf:
            continue
        weights = np.exp(row - row.max())
        values[at] = weights @ v[at[:-1]] / weights.sum()
        total[at] = row.max() + math.log(weights.sum())
    return values, total


MASKS: dict[str, Any] = {
    "none": None,
    "bool": np.random.default_rng(1).random((9, 7)) < 0.6,
    "bool per head": np.random.default_rng(1).random((2, 3, 9, 7)) < 0.6,
    "nothing": np.zeros((9, 7), bool),
    "float": np.random.default_rng(2).standard_normal((9, 7)),
    "float per head": np.random.default_rng(2).standard_normal((2, 3, 9, 7)),
    "infinite": np.where(np.random.default_rng(3).random((9, 7)) < 0.5, 0.5, -np.inf),
}
LEVELS = ("none", "exact", "relaxed")


@pytest.mark.sampled(32)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_values(mask: Any, causal: bool, dtype: Any) -> None:
    arrays = [x.astype(dtype) for x in drawn((2, 3, 9, 5), (2, 3, 7, 5), (2, 3, 7, 4))]
    if mask is not None:
        arrays.append(mask if mask.dtype == bool else mask.astype(dtype))
    want = expected(*arrays, scale=0.4, causal=causal)
    graph = built(attention, arrays, scale=0.4, causal=causal)
    bound = 16 * float(np.finfo(dtype).eps)
    for run in (graphc.run, *(run_at(level) for level in LEVELS)):
        for got, exact in zip(run(graph, *arrays), want, strict=True):
            assert got.dtype == dtype
            np.testing.assert_allclose(got, exact, rtol=bound, atol=bound)


@settings(max_examples=12, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(0, 20)] * 4),
    lead=st.sampled_from([(), (1,), (2, 3), (0, 2)]),
    kind=st.sampled_from(["none", "bool", "bool whole", "float", "float whole"]),
    causal=st.booleans(),
    seed=st.integers(0, 99),
)
def test_drawn_sizes(
    sizes: tuple[int, ...], lead: tuple[int, ...], kind: str, causal: bool, seed: int
) -> None:
    length, source, size, out = sizes
    arrays = drawn((*lead, length, size), (*lead, source, size), (*lead, source, out), seed=seed)
    shape = (*(lead if "whole" in kind else ()), length, source)
    random = np.random.default_rng(seed)
    if "bool" in kind:
        arrays.append(random.random(shape) < 0.3)
    if "float" in kind:
        arrays.append(np.where(random.random(shape) < 0.7, -np.inf, random.random(shape)))
    graph = built(attention, arrays, scale=0.3, causal=causal)
    results = graphc.compile(graph)(*arrays)
    for got, want in zip(results, expected(*arrays, scale=0.3, causal=causal), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)


def run_at(level: str) -> Any:
    return lambda graph, *arrays: graphc.compile(graph, level)(*arrays)


def test_scores_far_from_zero_do_not_overflow() -> None:
    q, k, v = drawn((1, 4, 3), (1, 4, 3), (1, 4, 3))
    arrays = [(q * 300).astype(np.float32), (k * 300).astype(np.float32), v.astype(np.float32)]
    got = graphc.compile(built(attention, arrays))(*arrays)
    for actual, want in zip(got, expected(*arrays), strict=True):
        np.testing.assert_allclose(actual, want, rtol=1e-4, atol=1e-4)


def test_nan_goes_through_its_row_only() -> None:
    q, k, v = drawn((1, 4, 3), (1, 5, 3), (1, 5, 3))
    q[0, 2, 1] = np.nan
    graph = built(attention, [q, k, v])
    for values, logsumexp in (graphc.run(graph, q, k, v), graphc.compile(graph)(q, k, v)):
        assert np.isnan(values).all(-1).tolist() == [[False, False, True, False]]
        assert np.isnan(logsumexp).tolist() == [[False, False, True, False]]


def test_what_a_bool_mask_hides_does_not_count_even_if_it_is_nan() -> None:
    q, k, v = drawn((1, 2, 3), (1, 3, 3), (1, 3, 3))
    k[0, 1] = np.nan
    mask = np.array([[True, False, True]] * 2)
    graph = built(attention, [q, k, v, mask])
    for values, _ in (graphc.run(graph, q, k, v, mask), graphc.compile(graph)(q, k, v, mask)):
        np.testing.assert_allclose(values, expected(q, np.nan_to_num(k), v, mask)[0])


# -- gradients ------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mask", ["bool", "infinite", "nothing"])
def test_a_row_that_sees_nothing_passes_no_gradient_on(mask: str) -> None:
    hidden = MASKS[mask].copy()
    hidden[4] = False if hidden.dtype == bool else -np.inf
    arrays = [*drawn((2, 9, 5), (2, 7, 5), (2, 7, 4)), hidden]
    joint = graphc.joint(built(attention, arrays), [0, 1, 2])
    cotangents = drawn((2, 9, 4), (2, 9), seed=5)
    for run in (graphc.run, *(run_at(level) for level in LEVELS)):
        _, _, dq, dk, dv = run(joint, *arrays, *cotangents)
        assert all(np.isfinite(x).all() for x in (dq, dk, dv))
        assert not dq[:, 4].any()
    by_others = [x.copy() for x in cotangents]
    by_others[0][:, 4], by_others[1][:, 4] = 9.0, -7.0
    for got, want in zip(
        graphc.run(joint, *arrays, *by_others)[3:], graphc.run(joint, *arrays, *cotangents)[3:],
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(got, want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("masked", [False, True], ids=["", "float mask"])
@pytest.mark.parametrize("causal", [False, True], ids=["", "causal"])
def test_second_derivatives(causal: bool, masked: bool) -> None:
    arrays = drawn((2, 3, 4), (2, 5, 4), (2, 5, 2), *([(3, 5)] if masked else []))
    first = graphc.joint(built(attention, arrays, scale=0.5, causal=causal))
    arguments = [*arrays, *drawn((2, 3, 2), (2, 3), seed=7)]
    second = graphc.joint(first, list(range(len(arrays))))
    weights = drawn(*(type.shape for type in first.output_types), seed=8)
    derived = graphc.run(second, *arguments, *weights)[len(first.outputs) :]
    numeric = numeric_gradients(
        lambda *values: graphc.run(first, *values), arguments, weights, range(len(arrays))
    )
    compiled = graphc.compile(second)(*arguments, *weights)[len(first.outputs) :]
    for got, native, want in zip(derived, compiled, numeric, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(native, got, rtol=1e-12, atol=1e-12)


def test_the_gradient_keeps_no_weights() -> None:
    """Saved between forward and backward: operands, values and a number a row."""
    from graphc.autodiff.joint import derive_joint
    from graphc.autodiff.partition import partition

    arrays = drawn((2, 64, 8), (2, 64, 8), (2, 64, 8))
    graph = built(attention, arrays)
    values = graphc.Graph(graph.name, graph.nodes, graph.outputs[:1])
    split = partition(derive_joint(values))
    saved = [type.shape for type in split.backward.input_types]
    assert (2, 64, 64) not in saved
    assert (2, 64) in saved


# -- operands that do not fit ---------------------------------------------------------------------

F64, F32, BOOL = np.float64, np.float32, np.bool_
WRONG: dict[str, tuple[Any, type, str]] = {
    "rank": ([((3,), F32)] * 3, ShapeError, "ranks"),
    "ranks": ([((2, 3), F32), ((1, 2, 3), F32), ((2, 3), F32)], ShapeError, "ranks"),
    "leading": ([((2, 3, 4), F32), ((1, 3, 4), F32), ((2, 3, 4), F32)], ShapeError, "leading"),
    "sizes": ([((3, 4), F32), ((3, 5), F32), ((3, 4), F32)], ShapeError, "last size"),
    "lengths": ([((3, 4), F32), ((3, 4), F32), ((2, 4), F32)], ShapeError, "second-last"),
    "dtypes": ([((3, 4), F32), ((3, 4), F64), ((3, 4), F32)], DTypeError, "dtypes differ"),
    "integers": ([((3, 4), np.int64)] * 3, DTypeError, "float tensor"),
    "mask": ([((2, 3, 4), F32)] * 3 + [((1, 3, 3), BOOL)], ShapeError, r"neither \[3, 3\]"),
    "mask dtype": ([((3, 4), F32)] * 3 + [((3, 3), F64)], DTypeError, "the mask is bool or "),
    "masks": ([((3, 4), F32)] * 3 + [((3, 3), BOOL)] * 2, ShapeError, "one mask"),
}


@pytest.mark.parametrize("name", WRONG)
def test_operands_that_do_not_fit(name: str) -> None:
    operands, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        built(attention, [np.zeros(shape, dtype) for shape, dtype in operands])


def test_a_gradient_of_another_shape_does_not_fit() -> None:
    q = np.zeros((2, 3, 4))
    with pytest.raises(ShapeError, match="attention_grad of q"):
        built(attention_grad, [q, q, q, q, np.zeros((2, 4)), np.zeros((2, 3))])
