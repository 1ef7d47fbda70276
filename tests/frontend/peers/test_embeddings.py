"""Embeddings, linear maps and distances against PyTorch over their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

TOKENS = np.array([[0, 5, 2, 1], [2, 2, 3, 5]])
FLAT = np.array([0, 5, 2, 1, 2, 2, 3, 5, 4])
STARTS = np.array([0, 2, 2, 5])  # the second bag is empty


# -- embedding -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 2},
        {"padding_idx": -1},
        {"scale_grad_by_freq": True},
        {"scale_grad_by_freq": True, "padding_idx": 5},
        {"max_norm": 1.0},
        {"max_norm": 1.5, "norm_type": 1.0, "padding_idx": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("tokens", [TOKENS, TOKENS[0], np.array(3), TOKENS[:0]], ids=np.shape)
def test_embedding(peer: Any, tokens: np.ndarray, options: dict[str, Any]) -> None:
    peer.module(lambda nn: nn.Embedding(6, 3, **options), tokens, training=(True,), repeat=2)


def test_rows_longer_than_the_bound_are_scaled_in_place(peer: Any) -> None:
    def weight_after(system: Any, weight: Any) -> Any:
        table = weight.detach().clone()
        out = system.nn.functional.embedding(system.tensor(TOKENS), table, max_norm=1.2)
        return out, table

    peer.function(weight_after, peer.normal(6, 3) * 2)


def test_second_derivative_of_embedding(peer: Any) -> None:
    def twice(system: Any, weight: Any) -> Any:
        rows = system.nn.functional.embedding(system.tensor(TOKENS), weight, padding_idx=1)
        return system.autograd.grad((rows**3).sum(), [weight], create_graph=True)[0]

    peer.function(twice, peer.normal(6, 3))


def test_pretrained_rows(peer: Any) -> None:
    rows = peer.normal(6, 3)

    def make(nn: Any, kind: str, **options: Any) -> Any:
        system = __import__(nn.__name__.partition(".")[0])
        return getattr(nn, kind).from_pretrained(system.tensor(rows), **options)

    for kind in ("Embedding", "EmbeddingBag"):
        for options in ({}, {"freeze": False}, {"padding_idx": 2, "max_norm": 1.0}):
            peer.module(lambda nn, k=kind, o=options: make(nn, k, **o), TOKENS, training=(True,))
        peer.refusal(lambda t, k=kind: getattr(t.nn, k).from_pretrained(t.zeros(3)))


# -- bags ----------------------------------------------------------------------------------------

BAGS = [
    {"mode": mode, **options}
    for mode in ("sum", "mean", "max")
    for options in ({}, {"padding_idx": 2}, {"max_norm": 1.0})
]


@pytest.mark.parametrize("options", BAGS, ids=str)
def test_bags(peer: Any, options: dict[str, Any]) -> None:
    peer.module(lambda nn: nn.EmbeddingBag(6, 3, **options), TOKENS, training=(True,))
    peer.module(lambda nn: nn.EmbeddingBag(6, 3, **options), FLAT, STARTS, training=(True,))
    ends = np.array([0, 2, 2, 5, len(FLAT)])
    peer.module(
        lambda nn: nn.EmbeddingBag(6, 3, include_last_offset=True, **options), FLAT, ends,
        training=(True,),
    )  # fmt: skip
    peer.module(
        lambda nn: nn.EmbeddingBag(6, 3, **options), FLAT[:0], np.array([0, 0]), training=(True,)
    )


def test_weighted_sums_of_bags(peer: Any) -> None:
    make = lambda nn: nn.EmbeddingBag(6, 3, mode="sum", padding_idx=5)  # noqa: E731
    peer.module(make, TOKENS, None, peer.normal(*TOKENS.shape), training=(True,))
    peer.module(make, FLAT, STARTS, peer.normal(*FLAT.shape), training=(True,))


REFUSED = [
    lambda t, F: t.nn.Embedding(3, 2, padding_idx=5),
    lambda t, F: t.nn.Embedding(3, 2, _weight=t.zeros(2, 2)),
    lambda t, F: F.embedding(t.zeros(2), t.zeros(3, 2)),
    lambda t, F: F.embedding(t.zeros(2).long(), t.zeros(3, 2, 2)),
    lambda t, F: F.embedding(t.tensor([3]), t.zeros(3, 2)),
    lambda t, F: F.embedding(t.tensor([-1]), t.zeros(3, 2)),
    lambda t, F: F.embedding(t.tensor([3]), t.zeros(3, 2), max_norm=1.0),
    lambda t, F: F.embedding(t.zeros(2).long(), t.zeros(3, 2), padding_idx=4),
    lambda t, F: F.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), t.tensor([0])),
    lambda t, F: F.embedding_bag(t.zeros(2).long(), t.zeros(3, 2)),
    lambda t, F: F.embedding_bag(t.zeros(2, 2, 2).long(), t.zeros(3, 2)),
    lambda t, F: F.embedding_bag(t.zeros(2).long(), t.zeros(3, 2), t.zeros(1, 1).long()),
    lambda t, F: F.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), mode="x"),
    lambda t, F: F.embedding_bag(
        t.zeros(2, 2).long(), t.zeros(3, 2), mode="mean", per_sample_weights=t.zeros(2, 2)
    ),
    lambda t, F: F.embedding_bag(
        t.zeros(2, 2).long(), t.zeros(3, 2), mode="sum", per_sample_weights=t.zeros(2)
    ),
    lambda t, F: F.embedding_bag(
        t.zeros(2, 2).long(), t.zeros(3, 2), mode="sum", per_sample_weights=t.zeros(2, 2).double()
    ),
    lambda t, F: F.embedding_bag(
        t.zeros(2, 2).long(), t.zeros(3, 2), mode="max", scale_grad_by_freq=True
    ),
    lambda t, F: F.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), mode="max", sparse=True),
    lambda t, F: F.embedding_bag(t.zeros(3, 2), t.zeros(2, 2).long()),
    lambda t, F: F.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), padding_idx=7),
    lambda t, F: F.embedding_bag(t.tensor([5]), t.zeros(3, 2), t.tensor([0])),
    lambda t, F: F.embedding_bag(t.tensor([1]), t.zeros(3, 2), t.tensor([1])),
    lambda t, F: F.embedding_bag(t.tensor([1]), t.zeros(3, 2), t.tensor([0, 4])),
    lambda t, F: F.linear(t.zeros(2, 3), t.zeros(4, 3), t.zeros(5)),
    lambda t, F: F.linear(t.zeros(2, 3), t.zeros(2, 4, 3)),
    lambda t, F: F.linear(t.zeros(2, 3), t.zeros(4, 3).double()),
    lambda t, F: F.linear(t.zeros(2, 3), t.zeros(4, 2)),
    lambda t, F: F.linear(t.tensor(1.0), t.zeros(4, 3)),
    lambda t, F: F.bilinear(t.zeros(2, 3), t.zeros(3, 4), t.zeros(5, 3, 4)),
    lambda t, F: F.bilinear(t.zeros(2, 3), t.zeros(2, 4), t.zeros(5, 3, 3)),
    lambda t, F: F.bilinear(t.zeros(2, 3), t.zeros(2, 4), t.zeros(5, 3, 4), t.zeros(4)),
    lambda t, F: F.bilinear(t.zeros(2, 1, 3), t.zeros(2, 4), t.zeros(5, 3, 4)),
    lambda t, F: F.bilinear(t.zeros(2, 3), t.zeros(2, 4), t.zeros(5, 3, 4).double()),
    lambda t, F: t.nn.Bilinear(0, 1, 2),
    lambda t, F: F.pdist(t.zeros(2)),
    lambda t, F: F.pdist(t.zeros(2, 2), p=-1),
    lambda t, F: F.pdist(t.zeros(1, 3)),
    lambda t, F: F.cosine_similarity(t.zeros(2, 3).long(), t.zeros(2, 3).long()),
    lambda t, F: F.cosine_similarity(t.zeros(2, 3), t.zeros(3), dim=2),
    lambda t, F: F.cosine_similarity(t.zeros(2, 3), t.zeros(2, 4)),
    lambda t, F: F.pairwise_distance(t.zeros(2, 3), t.zeros(2, 4)),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(peer: Any, number: int) -> None:
    peer.refusal(lambda t: REFUSED[number](t, t.nn.functional))


# -- linear --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4), (2, 0, 3, 4)], ids=str)
def test_linear(peer: Any, shape: tuple[int, ...]) -> None:
    x, other = peer.normal(*shape), peer.normal(*shape[:-1], 5)
    peer.module(lambda nn: nn.Linear(4, 3), x, training=(True,))
    peer.module(lambda nn: nn.Linear(4, 3, bias=False), x, training=(True,))
    peer.module(lambda nn: nn.Bilinear(4, 5, 3), x, other, training=(True,))
    peer.module(lambda nn: nn.Bilinear(4, 5, 3, bias=False), x, other, training=(True,))
    peer.function(lambda t, x, w: t.nn.functional.linear(x, w), x, peer.normal(4))
    if len(shape) != 2:  # PyTorch has a vector with a bias for other ranks only
        peer.function(lambda t, *a: t.nn.functional.linear(*a), x, peer.normal(4), peer.normal())
    peer.module(lambda nn: nn.Identity(3, a=2), x)


def test_second_derivative_of_bilinear(peer: Any) -> None:
    def twice(system: Any, x: Any, y: Any, w: Any) -> Any:
        out = system.nn.functional.bilinear(x, y, w)
        return system.autograd.grad((out**2).sum(), [x, w], create_graph=True)

    peer.function(twice, peer.normal(2, 3), peer.normal(2, 4), peer.normal(5, 3, 4))


# -- distances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((2, 3, 4), (3, 4)), ((5,), (5,))], ids=str)
def test_distances(peer: Any, shapes: Any) -> None:
    x, y = (peer.normal(*shape) for shape in shapes)
    x.flat[0] = y.flat[0]
    # Not along a broadcast axis: those gradients are 0 but for rounding.
    for dim in {0, -1, x.ndim - 1} if x.shape == y.shape else {-1}:
        peer.module(lambda nn, d=dim: nn.CosineSimilarity(d), x, y, training=(True,))
        peer.module(lambda nn, d=dim: nn.CosineSimilarity(d, eps=2.0), x, y, training=(True,))
    for p in (2.0, 1.0, 3.0, float("inf"), 0.5):
        peer.module(lambda nn, p=p: nn.PairwiseDistance(p), x, y, training=(True,))
    peer.module(lambda nn: nn.PairwiseDistance(eps=0.1, keepdim=True), x, y, training=(True,))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_pairs_of_rows(peer: Any, p: float) -> None:
    x = peer.normal(5, 3)
    x[3] = x[1]
    peer.function(lambda t, x: t.nn.functional.pdist(x, p), x)


def test_norms_have_no_gradient_at_zero(peer: Any) -> None:
    x = np.array([[0, 0, 0], [3, 0, -4]], np.float32)
    for p in (0.5, 1, 1.5, 2, 3, float("inf")):
        peer.function(lambda t, x, p=p: t.norm(x, p, dim=1), x)
    peer.function(lambda t, x: t.nn.functional.cosine_similarity(x, x + 1), x)
    peer.function(lambda t, x: t.nn.functional.pairwise_distance(x, x, eps=0.0), x)


def test_second_derivatives_of_distances(peer: Any) -> None:
    def twice(system: Any, x: Any, y: Any) -> Any:
        F = system.nn.functional
        total = F.cosine_similarity(x, y).sum() + (F.pairwise_distance(x, y, 3.0) ** 2).sum()
        return system.autograd.grad(total, [x, y], create_graph=True)

    peer.function(twice, peer.normal(3, 4), peer.normal(3, 4))
