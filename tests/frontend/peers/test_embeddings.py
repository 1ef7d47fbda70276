"""Embeddings, linear maps and distances against PyTorch over their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.layer_cases.embeddings import (
    BAG_INPUTS,
    BAGS,
    DISTANCE_SHAPES,
    EMBEDDINGS,
    FLAT,
    LINEAR_SHAPES,
    PAIR_POWERS,
    STARTS,
    TOKEN_ARRAYS,
    TOKENS,
    cases_of,
)
from tests.frontend.layer_cases.refusals.embeddings import REFUSALS
from tests.frontend.layer_cases.refusals.refusal import Refusal

# -- embedding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", EMBEDDINGS, ids=str)
@pytest.mark.parametrize("tokens", TOKEN_ARRAYS, ids=np.shape)
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


@pytest.mark.parametrize("options", BAGS, ids=str)
def test_bags(peer: Any, options: dict[str, Any]) -> None:
    for case in BAG_INPUTS:
        own = {**options, **case.options}
        make = lambda nn, own=own: nn.EmbeddingBag(6, 3, **own)  # noqa: E731
        peer.module(make, *case.arrays, training=(True,))


def test_weighted_sums_of_bags(peer: Any) -> None:
    make = lambda nn: nn.EmbeddingBag(6, 3, mode="sum", padding_idx=5)  # noqa: E731
    peer.module(make, TOKENS, None, peer.normal(*TOKENS.shape), training=(True,))
    peer.module(make, FLAT, STARTS, peer.normal(*FLAT.shape), training=(True,))


@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusals(peer: Any, case: Refusal) -> None:
    with pytest.raises(case.error):
        case.call(peer.torch)
    case.check(frontend)


def test_what_is_not_refused(peer: Any) -> None:
    peer.refusal(
        lambda t: t.nn.functional.embedding_bag(t.zeros(3, 2), t.zeros(2, 2).long())
    )  # the two in the other order
    peer.refusal(lambda t: t.nn.functional.pdist(t.zeros(1, 3)))


# -- linear --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", LINEAR_SHAPES, ids=str)
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


@pytest.mark.parametrize("shapes", DISTANCE_SHAPES, ids=str)
def test_distances(peer: Any, shapes: Any) -> None:
    x, y = (peer.normal(*shape) for shape in shapes)
    x.flat[0] = y.flat[0]
    for case in cases_of(shapes):
        peer.module(case.make, x, y, training=(True,))


@pytest.mark.parametrize("p", PAIR_POWERS)
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
