"""Embeddings, bags, bilinear maps and distances against NumPy; bounded rows; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

Array = np.ndarray
RANDOM = np.random.default_rng(0)
TABLE = RANDOM.standard_normal((6, 3))
TOKENS = np.array([[0, 5, 2, 1], [2, 2, 3, 5]])
FLAT = np.array([0, 5, 2, 1, 2, 2, 3, 5, 4])
STARTS = [0, 2, 2, 5]


def leaf(array: Array) -> Any:
    return torch.tensor(array, requires_grad=True)


def bags() -> list[Array]:
    return [FLAT[a:b] for a, b in zip(STARTS, [*STARTS[1:], len(FLAT)], strict=True)]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_gradients_of_rows(mode: str, check: Any) -> None:
    def gradient(**options: Any) -> Array:
        weight = leaf(TABLE)
        run = lambda t, w: F.embedding(t, w, **options).sum()  # noqa: E731
        run = run if mode == "eager" else torch.compile(run)
        run(torch.tensor(TOKENS), weight).backward()
        return weight.grad.numpy()

    counts = np.bincount(TOKENS.ravel(), minlength=6)[:, None] * np.ones(3)
    np.testing.assert_allclose(gradient(), counts)
    padded = counts.copy()
    padded[2] = 0
    np.testing.assert_allclose(gradient(padding_idx=-4), padded)
    np.testing.assert_allclose(gradient(scale_grad_by_freq=True), np.minimum(counts, 1))
    np.testing.assert_allclose(gradient(sparse=True), counts)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_long_rows_that_are_read_are_scaled_down(p: float, mode: str) -> None:
    layer = nn.Embedding(6, 3, max_norm=1.1, norm_type=p).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(TABLE * 2))
    run = layer if mode == "eager" else torch.compile(layer)
    out = run(torch.tensor([[0, 2], [2, 5]]))
    length = (abs(TABLE * 2) ** p).sum(1) ** (1 / p)
    scale = np.where(length > 1.1, 1.1 / (length + 1e-7), 1)
    scale[[1, 3, 4]] = 1
    want = TABLE * 2 * scale[:, None]
    np.testing.assert_allclose(layer.weight.detach().numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(out.detach().numpy(), want[[[0, 2], [2, 5]]], rtol=1e-12)
    out.sum().backward()
    assert layer.weight.grad[2].tolist() == [2, 2, 2]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_an_index_out_of_range_changes_nothing(mode: str) -> None:
    layer = nn.Embedding(6, 3, max_norm=0.1)
    before = layer.weight.detach().numpy().copy()
    run = layer if mode == "eager" else torch.compile(layer)
    for bad in (6, -1):
        with pytest.raises(IndexError, match=rf"index out of range in self: {bad} is not in \[0"):
            run(torch.tensor([0, bad]))
        np.testing.assert_array_equal(layer.weight.detach().numpy(), before)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str, check: Any, check_gradient: Any) -> None:
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    want = np.array([reduce(TABLE[bag], 0) if len(bag) else np.zeros(3) for bag in bags()])
    tokens, starts = torch.tensor(FLAT), torch.tensor(STARTS)
    call = lambda w, t=tokens, s=starts: F.embedding_bag(t, w, s, mode=mode)  # noqa: E731
    check(call(torch.tensor(TABLE)), want)
    check(torch.compile(call)(torch.tensor(TABLE)), want)
    check_gradient(call, TABLE)
    ends = torch.tensor([*STARTS, len(FLAT)])
    made = F.embedding_bag(tokens, torch.tensor(TABLE), ends, mode=mode, include_last_offset=True)
    check(made, want)
    rows = np.array([reduce(TABLE[row], 0) for row in TOKENS])
    check(F.embedding_bag(torch.tensor(TOKENS), torch.tensor(TABLE), mode=mode), rows)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_padding_does_not_count_in_bags(mode: str, check: Any) -> None:
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    kept = [bag[bag != 2] for bag in bags()]
    want = np.array([reduce(TABLE[bag], 0) if len(bag) else np.zeros(3) for bag in kept])
    table = torch.tensor(TABLE)
    made = F.embedding_bag(
        torch.tensor(FLAT), table, torch.tensor(STARTS), mode=mode, padding_idx=2
    )
    check(made, want)
    only = torch.tensor([[2, 2]])
    assert (F.embedding_bag(only, table, mode=mode, padding_idx=2) == 0).all()


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


def test_bilinear(check: Any, check_gradient: Any) -> None:
    x, y = RANDOM.standard_normal((2, 4, 3)), RANDOM.standard_normal((2, 4, 5))
    w, b = RANDOM.standard_normal((6, 3, 5)), RANDOM.standard_normal(6)
    want = np.einsum("abi,kij,abj->abk", x, w, y) + b
    check(F.bilinear(*[torch.tensor(a) for a in (x, y, w, b)]), want)
    check_gradient(F.bilinear, x, y, w, b)
    layer = nn.Bilinear(16, 2, 3)
    assert np.abs(layer.weight.detach().numpy()).max() <= 0.25
    assert layer.bias.shape == (3,)


def test_distances(check: Any, check_gradient: Any) -> None:
    x, y = RANDOM.standard_normal((4, 3)), RANDOM.standard_normal((4, 3))
    length = lambda a: np.sqrt((a**2).sum(1))  # noqa: E731
    cosine = (x * y).sum(1) / length(x) / length(y)
    check(F.cosine_similarity(torch.tensor(x), torch.tensor(y)), cosine)
    check_gradient(F.cosine_similarity, x, y)
    check(F.pairwise_distance(torch.tensor(x), torch.tensor(y)), length(x - y + 1e-6))
    check_gradient(lambda x, y: F.pairwise_distance(x, y, 3), x, y)
    first, second = np.triu_indices(4, 1)
    check(F.pdist(torch.tensor(x)), length(x[first] - x[second]))
    check_gradient(lambda x: F.pdist(x, 1.5), x)
    assert F.pdist(torch.zeros(1, 3)).shape == (0,)


def test_equal_points_have_no_gradient() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    (F.pdist(x).sum() + x.norm() + F.cosine_similarity(x, x).sum()).backward()
    assert (x.grad == 0).all()
