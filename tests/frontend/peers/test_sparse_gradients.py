"""Sparse gradients of embeddings beside PyTorch's: their layout, elements and order; weights after
steps of each optimizer, or the error in PyTorch's words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend

INDICES = ([[0, 1], [1, 3]], [[1, 1]], [[4, 0], [0, 2]])
LAYERS = (
    ("Embedding", {}),
    ("Embedding", {"padding_idx": 1}),
    ("Embedding", {"max_norm": 1.0}),
    ("EmbeddingBag", {"mode": "sum"}),
    ("EmbeddingBag", {"mode": "mean", "padding_idx": 0}),
)
STEPS = (
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("Adagrad", {"initial_accumulator_value": 0.2}), ("Adagrad", {"weight_decay": 0.1}),
    ("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"maximize": True, "betas": (0.5, 0.7)}),
    *[(name, {}) for name in ("Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam",
                              "ASGD", "Rprop", "Adafactor", "Muon")],
)  # fmt: skip


def layer_of(torch: Any, kind: str, options: dict[str, Any]) -> Any:
    weight = torch.tensor(np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32))
    return getattr(torch.nn, kind)(5, 3, sparse=True, _weight=weight, **options)


def backward(torch: Any, layer: Any, indices: Any) -> None:
    result = layer(torch.tensor(indices))
    (result * result * torch.arange(float(result.numel())).reshape(result.shape)).sum().backward()


@pytest.mark.parametrize(("kind", "options"), LAYERS, ids=str)
def test_gradients(peer: Any, kind: str, options: dict[str, Any]) -> None:
    """One as it is; several, of which PyTorch puts some together as it adds them up, coalesced."""
    shown: list[Any] = [[], []]
    for torch, seen in zip((frontend, peer.torch), shown):
        layer = layer_of(torch, kind, options)
        for indices in INDICES:
            backward(torch, layer, indices)
            gradient = layer.weight.grad
            seen.append(gradient.layout is torch.sparse_coo)
            for each in (gradient,) * (len(seen) == 1) + (gradient.coalesce(),):
                seen.append((each._indices().tolist(), each.is_coalesced()))
                seen.append(np.round(each._values().numpy(), 4).tolist())
    assert shown[0] == shown[1]


@pytest.mark.parametrize(("name", "options"), STEPS, ids=str)
def test_steps(peer: Any, name: str, options: dict[str, Any]) -> None:
    ours, theirs = (outcome(torch, name, options) for torch in (frontend, peer.torch))
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def outcome(torch: Any, name: str, options: dict[str, Any]) -> Any:
    layer = layer_of(torch, "Embedding", {})
    optimizer = getattr(torch.optim, name)(layer.parameters(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for indices in INDICES:
            optimizer.zero_grad()
            backward(torch, layer, indices)
            try:
                optimizer.step()
            except RuntimeError as error:
                return str(error)
    return layer.weight.detach().numpy()
