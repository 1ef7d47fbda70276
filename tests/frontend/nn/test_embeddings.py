"""Embeddings, bags, linear maps and distances against NumPy; bounded rows; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from tests.frontend.layer_cases.embeddings import (
    BAG_INPUTS,
    BAGS,
    DISTANCE_SHAPES,
    EMBEDDINGS,
    FLAT,
    LINEAR_SHAPES,
    PAIR_POWERS,
    ROWS,
    SIZE,
    STARTS,
    TOKEN_ARRAYS,
    TOKENS,
    BagInput,
    bags_of,
    bilinear,
    bounded,
    cases_of,
    embedding_gradient,
    linear,
    pairs_of_rows,
)
from tests.frontend.layer_cases.refusals.embeddings import REFUSALS
from tests.frontend.layer_cases.refusals.refusal import Refusal

Array = np.ndarray
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((ROWS, SIZE))


def leaf(array: Array) -> Any:
    return torch.tensor(array, requires_grad=True)


def of_table(layer: Any) -> Any:
    """The layer in float64, with the rows of TABLE."""
    layer = layer.double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(TABLE))
    return layer


@pytest.mark.sampled(20)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("options", EMBEDDINGS, ids=str)
@pytest.mark.parametrize("tokens", TOKEN_ARRAYS, ids=np.shape)
def test_rows_and_their_gradient(
    tokens: Array, options: dict[str, Any], mode: str, check: Any
) -> None:
    layer = of_table(nn.Embedding(ROWS, SIZE, **options))
    run = layer if mode == "eager" else torch.compile(layer)
    rows = run(torch.tensor(tokens))
    table = bounded(TABLE, tokens, options)
    check(rows, table[tokens])
    check(layer.weight, table)
    weights = RANDOM.standard_normal(rows.shape)
    (rows * torch.tensor(weights)).sum().backward()
    check(layer.weight.grad, embedding_gradient(tokens, weights, options))


@pytest.mark.parametrize("options", [{"sparse": True}, {"padding_idx": -4}], ids=str)
def test_gradients_of_the_function(options: dict[str, Any]) -> None:
    """Sparse ones are those of the rows; a negative padding counts from the end, which the layer
    resolves itself."""
    weight = leaf(TABLE)
    F.embedding(torch.tensor(TOKENS), weight, **options).sum().backward()
    expected = embedding_gradient(TOKENS, np.ones((*TOKENS.shape, SIZE)), options)
    np.testing.assert_allclose(weight.grad.to_dense().numpy(), expected)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_an_index_out_of_range_changes_nothing(mode: str) -> None:
    layer = nn.Embedding(6, 3, max_norm=0.1)
    before = layer.weight.detach().numpy().copy()
    run = layer if mode == "eager" else torch.compile(layer)
    for bad in (6, -1):
        with pytest.raises(IndexError, match=rf"index out of range in self: {bad} is not in \[0"):
            run(torch.tensor([0, bad]))
        np.testing.assert_array_equal(layer.weight.detach().numpy(), before)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", BAG_INPUTS, ids=str)
@pytest.mark.parametrize("options", BAGS, ids=str)
def test_bags(options: dict[str, Any], case: BagInput, check: Any, check_gradient: Any) -> None:
    tokens = np.concatenate(case.bags)
    layer = of_table(nn.EmbeddingBag(ROWS, SIZE, **options, **case.options))
    expected = bags_of(bounded(TABLE, tokens, options), case.bags, options)
    for run in (layer, torch.compile(layer)):
        check(run(*map(torch.tensor, case.arrays)), expected)
    if "max_norm" not in options:  # a scaled row has the gradient of the row as it is then
        tensors = tuple(map(torch.tensor, case.arrays))
        check_gradient(lambda w: torch.func.functional_call(layer, {"weight": w}, tensors), TABLE)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_of_padding_is_zero(mode: str) -> None:
    only = torch.tensor([[2, 2]])
    assert (F.embedding_bag(only, torch.tensor(TABLE), mode=mode, padding_idx=2) == 0).all()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags_divided_by_frequency(mode: str) -> None:
    """Not against PyTorch: on the CPU it takes the frequencies of other rows."""
    weight = leaf(TABLE)
    F.embedding_bag(
        torch.tensor(FLAT), weight, torch.tensor([0]), mode=mode, scale_grad_by_freq=True
    ).sum().backward()
    share = 1 if mode == "sum" else 1 / len(FLAT)
    np.testing.assert_allclose(weight.grad.numpy(), share)


def test_weighted_bags(check: Any, check_gradient: Any) -> None:
    w = RANDOM.standard_normal(9)
    ends = [*STARTS[1:], 9]
    want = np.array(
        [(TABLE[FLAT[a:b]] * w[a:b, None]).sum(0) for a, b in zip(STARTS, ends, strict=True)]
    )
    call = lambda table, w: F.embedding_bag(  # noqa: E731
        torch.tensor(FLAT), table, torch.tensor(STARTS), mode="sum", per_sample_weights=w
    )
    check(call(torch.tensor(TABLE), torch.tensor(w)), want)
    check_gradient(call, TABLE, w)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_offsets_are_checked(mode: str) -> None:
    call = lambda t, s: F.embedding_bag(t, torch.zeros(3, 2), s)  # noqa: E731
    run = call if mode == "eager" else torch.compile(call)
    tokens = torch.tensor([1, 2])
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0.* However, got 1"):
        run(tokens, torch.tensor([1, 2]))
    with pytest.raises(RuntimeError, match=r"input's length 2 but got offsets\[-1\] of 5"):
        run(tokens, torch.tensor([0, 5]))
    with pytest.raises(IndexError, match="index out of range in self"):
        run(tokens + 2, torch.tensor([0, 1]))


def test_pretrained_rows_are_shared() -> None:
    rows = torch.tensor(TABLE)
    layer = nn.Embedding.from_pretrained(rows, padding_idx=1)
    assert not layer.weight.requires_grad
    layer.weight.data[0, 0] = 7
    assert rows[0, 0] == 7
    assert nn.EmbeddingBag.from_pretrained(rows, freeze=False).weight.requires_grad


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", LINEAR_SHAPES, ids=str)
def test_linear_maps(shape: tuple[int, ...], check: Any, check_gradient: Any) -> None:
    x, y = RANDOM.standard_normal(shape), RANDOM.standard_normal((*shape[:-1], 5))
    w, b = RANDOM.standard_normal((3, 4)), RANDOM.standard_normal(3)
    v = RANDOM.standard_normal((3, 4, 5))
    for function, definition, arrays in (
        (F.linear, linear, (x, w, b)), (F.linear, linear, (x, w)),
        (F.bilinear, bilinear, (x, y, v, b)), (F.bilinear, bilinear, (x, y, v)),
    ):  # fmt: skip
        check(function(*map(torch.tensor, arrays)), definition(*arrays))
        check_gradient(function, *arrays)


def test_bilinear_starts_within_its_bound() -> None:
    layer = nn.Bilinear(16, 2, 3)
    assert np.abs(layer.weight.detach().numpy()).max() <= 0.25
    assert layer.bias.shape == (3,)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shapes", DISTANCE_SHAPES, ids=str)
def test_distances(shapes: Any, check: Any, check_gradient: Any) -> None:
    x, y = (RANDOM.standard_normal(shape) for shape in shapes)
    for case in cases_of(shapes):
        layer = case.make(nn)
        check(layer(torch.tensor(x), torch.tensor(y)), case.expected(x, y))
        if case.options.get("eps") != 2.0:  # PyTorch's, of lengths that eps hides, is no derivative
            check_gradient(layer, x, y)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("p", PAIR_POWERS)
def test_pairs_of_rows(p: float, check: Any, check_gradient: Any) -> None:
    x = RANDOM.standard_normal((5, 3))
    check(F.pdist(torch.tensor(x), p), pairs_of_rows(x, p))
    check_gradient(lambda x: F.pdist(x, p), x)
    assert F.pdist(torch.zeros(1, 3), p).shape == (0,)


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(case: Refusal) -> None:
    case.check(torch)


def test_equal_points_have_no_gradient() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    (F.pdist(x).sum() + x.norm() + F.cosine_similarity(x, x).sum()).backward()
    assert (x.grad == 0).all()
