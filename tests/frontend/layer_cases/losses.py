"""Losses of pairs and with margins: their arguments, options and definitions. `tests/frontend/nn`
holds each to its definition in float64 and to numeric gradients, `tests/frontend/peers` to PyTorch
in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of `torch.nn` by its name, with options and arguments in float64, the first of which
    it is differentiated by; `definition` is what it gives with `reduction="none"`."""

    layer: str
    options: dict[str, Any]
    arguments: tuple[Array, ...]
    definition: Array

    def __str__(self) -> str:
        return f"{self.layer}-{self.options}"

    def make(self, nn: Any, reduction: str) -> Any:
        """The loss, of either system's `nn`."""
        return getattr(nn, self.layer)(reduction=reduction, **self.options)

    def single(self) -> list[Array]:
        """The arguments, floats in float32."""
        return [x.astype(np.float32) if x.dtype == np.float64 else x for x in self.arguments]


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape)


def log_sigmoid(x: Array) -> Array:
    return np.minimum(x, 0) - np.log1p(np.exp(-abs(x)))


def distance(x: Array, y: Array, p: float = 2, eps: float = 1e-6) -> Array:
    return (abs(x - y + eps) ** p).sum(-1) ** (1 / p)


def huber(x: Array, y: Array, delta: float = 1.0) -> Array:
    d = abs(x - y)
    return np.where(d < delta, d**2 / 2, delta * (d - delta / 2))


def smooth_l1(x: Array, y: Array, beta: float = 1.0) -> Array:
    return huber(x, y, beta) / beta if beta else abs(x - y)


def cross_entropy_of_pairs(x: Array, y: Array) -> Array:
    return -y * np.log(x) - (1 - y) * np.log(1 - x)


def cosine_embedding(x: Array, y: Array, sign: Array, margin: float = 0.0) -> Array:
    cosine = (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))
    return np.where(sign > 0, 1 - cosine, np.maximum(0, cosine - margin))


def multi_margin(x: Array, y: Array, p: int = 1, margin: float = 1.0) -> Array:
    lost = np.maximum(0, margin - x[np.arange(len(y)), y][:, None] + x) ** p
    lost[np.arange(len(y)), y] = 0
    return lost.sum(1) / x.shape[1]


def multilabel_margin(x: Array, y: Array) -> Array:
    lost = np.zeros(len(x))
    for row, (scores, listed) in enumerate(zip(x, y, strict=True)):
        labels = listed[: list(listed).index(-1)] if -1 in listed else listed
        others = [c for c in range(len(scores)) if c not in labels]
        pairs = [max(0, 1 - (scores[y] - scores[c])) for y in labels for c in others]
        lost[row] = sum(pairs) / len(scores)
    return lost


def triplet(
    x: Array, y: Array, z: Array, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False,
) -> Array:  # fmt: skip
    far = distance(x, z, p, eps)
    far = np.minimum(far, distance(y, z, p, eps)) if swap else far
    return np.maximum(0, margin + distance(x, y, p, eps) - far)


def poisson(
    x: Array, y: Array, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Array:
    lost = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    stirling = y * np.log(np.maximum(y, 1)) - y + 0.5 * np.log(2 * math.pi * np.maximum(y, 1))
    return lost + np.where(y > 1, stirling, 0) * full


def gaussian(x: Array, y: Array, var: Array, full: bool = False, eps: float = 1e-6) -> Array:
    var = np.maximum(var, eps)
    return (np.log(var) + (x - y) ** 2 / var + full * math.log(2 * math.pi)) / 2


X, Y, Z = normal(4, 5), normal(4, 5), normal(4, 5)
UNIT, OTHER = RANDOM.uniform(0.05, 0.95, (4, 5)), RANDOM.uniform(0.05, 0.95, (4, 5))
SIGNS = np.where(normal(4, 5) > 0, 1.0, -1.0)
CLASSES = np.array([0, 4, 2, 2])
LISTED = np.array([[0, 2, -1, 4, 1], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0], [1, -1, -1, 0, 0]])
COUNTS = np.array([4.0, 1, 2, 5, 3] * 4).reshape(4, 5)
Row = tuple[Callable[..., Array], tuple[Array, ...], list[dict[str, Any]]]
DEFINITIONS: dict[str, Row] = {
    "MSELoss": (lambda x, y: (x - y) ** 2, (X, Y), [{}]),
    "L1Loss": (lambda x, y: abs(x - y), (X, Y), [{}]),
    "SmoothL1Loss": (smooth_l1, (X * 2, Y), [{}, {"beta": 0.3}, {"beta": 0.0}, {"beta": 5.0}]),
    "HuberLoss": (huber, (X * 2, Y), [{}, {"delta": 0.3}, {"delta": 5.0}]),
    "BCELoss": (cross_entropy_of_pairs, (UNIT, OTHER), [{}]),
    "BCEWithLogitsLoss": (
        lambda x, y: -y * log_sigmoid(x) - (1 - y) * log_sigmoid(-x), (X * 20, OTHER), [{}]
    ),
    "KLDivLoss": (
        lambda x, y, log_target=False: (
            np.exp(y) * (y - x) if log_target else y * (np.log(y) - x)
        ),
        (np.log(UNIT), OTHER), [{}, {"log_target": True}],
    ),
    "HingeEmbeddingLoss": (
        lambda x, y, margin=1.0: np.where(y > 0, x, np.maximum(0, margin - x)), (X, SIGNS),
        [{}, {"margin": 0.3}],
    ),
    "MarginRankingLoss": (
        lambda x, y, sign, margin=0.0: np.maximum(0, -sign * (x - y) + margin), (X, Y, SIGNS),
        [{}, {"margin": 0.5}],
    ),
    "SoftMarginLoss": (lambda x, y: -log_sigmoid(x * y), (X * 3, SIGNS), [{}]),
    "CosineEmbeddingLoss": (cosine_embedding, (X, Y, SIGNS[:, 0]), [{}, {"margin": 0.2}]),
    "MultiMarginLoss": (multi_margin, (X, CLASSES), [{}, {"p": 2, "margin": 0.4}]),
    "MultiLabelMarginLoss": (multilabel_margin, (X, LISTED), [{}]),
    "MultiLabelSoftMarginLoss": (
        lambda x, y: -(y * log_sigmoid(x) + (1 - y) * log_sigmoid(-x)).mean(1), (X * 3, OTHER), [{}]
    ),
    "TripletMarginLoss": (
        triplet, (X, Y, Z),
        [{}, {"p": 1, "swap": True}, {"margin": 3.0, "p": 3, "eps": 1e-3}, {"swap": True}],
    ),
    "TripletMarginWithDistanceLoss": (triplet, (X, Y, Z), [{}, {"swap": True, "margin": 2.0}]),
    "PoissonNLLLoss": (
        poisson, (abs(X), COUNTS), [{}, {"full": True}, {"log_input": False, "eps": 1e-3}]
    ),
    "GaussianNLLLoss": (gaussian, (X, Y, UNIT), [{}, {"full": True, "eps": 0.3}]),
}  # fmt: skip
LOSSES = [
    Loss(layer, options, arguments, np.asarray(formula(*arguments, **options)))
    for layer, (formula, arguments, choices) in DEFINITIONS.items()
    for options in choices
]
