"""Embeddings, bags, linear maps and distances: options, inputs and definitions. `tests/frontend/nn`
holds each to its definition in float64, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Options = dict[str, Any]
ROWS, SIZE = 6, 3

# -- embeddings -----------------------------------------------------------------------------------

TOKENS = np.array([[0, 5, 2, 1], [2, 2, 3, 5]])
TOKEN_ARRAYS = [TOKENS, TOKENS[0], np.array(3), TOKENS[:0]]
EMBEDDINGS: list[Options] = [
    {},
    {"padding_idx": 2},
    {"padding_idx": -1},
    {"scale_grad_by_freq": True},
    {"scale_grad_by_freq": True, "padding_idx": 5},
    {"max_norm": 1.0},
    {"max_norm": 1.5, "norm_type": 1.0, "padding_idx": 2},
]
"""Options of `Embedding(6, 3, …)`."""


def bounded(table: Array, tokens: Array, options: Options) -> Array:
    """The table after a call: rows that were read are scaled to `max_norm` where longer."""
    if "max_norm" not in options:
        return table
    power = options.get("norm_type", 2.0)
    length = (abs(table) ** power).sum(1) ** (1 / power)
    limit = options["max_norm"]
    scale = np.where(length > limit, limit / (length + 1e-7), 1)
    scale[np.setdiff1d(np.arange(len(table)), tokens)] = 1
    return table * scale[:, None]


def embedding_gradient(tokens: Array, weights: Array, options: Options) -> Array:
    """The table's gradient of `(rows · weights).sum()`."""
    gradient = np.zeros((ROWS, SIZE))
    np.add.at(gradient, tokens, weights)
    if options.get("scale_grad_by_freq"):
        gradient /= np.maximum(np.bincount(tokens.ravel(), minlength=ROWS), 1)[:, None]
    if "padding_idx" in options:
        gradient[options["padding_idx"]] = 0
    return gradient


# -- bags -----------------------------------------------------------------------------------------

FLAT = np.array([0, 5, 2, 1, 2, 2, 3, 5, 4])
STARTS = np.array([0, 2, 2, 5])  # the second bag is empty
BAGS: list[Options] = [
    {"mode": mode, **options}
    for mode in ("sum", "mean", "max")
    for options in ({}, {"padding_idx": 2}, {"max_norm": 1.0})
]
"""Options of `EmbeddingBag(6, 3, …)`."""


@dataclass(frozen=True, slots=True)
class BagInput:
    """Tokens, with offsets where they are flat, and the options that go with them."""

    name: str
    arrays: tuple[Array, ...]
    bags: list[Array]
    options: Options

    def __str__(self) -> str:
        return self.name


_FLAT_BAGS = [FLAT[a:b] for a, b in zip(STARTS, [*STARTS[1:], len(FLAT)])]
BAG_INPUTS = [
    BagInput("rows", (TOKENS,), list(TOKENS), {}),
    BagInput("offsets", (FLAT, STARTS), _FLAT_BAGS, {}),
    BagInput(
        "last offset", (FLAT, np.array([*STARTS, len(FLAT)])), _FLAT_BAGS,
        {"include_last_offset": True},
    ),
    BagInput("no tokens", (FLAT[:0], np.array([0, 0])), [FLAT[:0], FLAT[:0]], {}),
]  # fmt: skip


def bags_of(table: Array, bags: list[Array], options: Options) -> Array:
    """What the bags of a table's rows come to; an empty one, or one of padding alone, to zeros."""
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[options["mode"]]
    kept = [bag[bag != options.get("padding_idx", -1)] for bag in bags]
    return np.array([reduce(table[bag], 0) if len(bag) else np.zeros(SIZE) for bag in kept])


# -- linear maps ----------------------------------------------------------------------------------

LINEAR_SHAPES = [(4,), (3, 4), (2, 3, 4), (0, 4), (2, 0, 3, 4)]
"""Of the inputs of `Linear(4, 3)` and, with a second of last size 5, `Bilinear(4, 5, 3)`."""


def linear(x: Array, w: Array, b: Array | None = None) -> Array:
    return x @ w.T + (0 if b is None else b)


def bilinear(x: Array, y: Array, w: Array, b: Array | None = None) -> Array:
    out: Array = np.einsum("...i,kij,...j->...k", x, w, y) + (0 if b is None else b)
    return out


# -- distances ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance of `torch.nn` by its name, with options and definition."""

    layer: str
    options: Options
    definition: Callable[..., Array]

    def __str__(self) -> str:
        return f"{self.layer}-{self.options}"

    def make(self, nn: Any) -> Any:
        return getattr(nn, self.layer)(**self.options)

    def expected(self, x: Array, y: Array) -> Array:
        return self.definition(x, y, **self.options)


def norm(x: Array, p: float, axis: int, keepdims: bool = False) -> Array:
    size = abs(x)
    if p == 0:
        return (size != 0).sum(axis, keepdims=keepdims).astype(x.dtype)
    if math.isinf(p):
        return size.max(axis, keepdims=keepdims)
    out: Array = (size**p).sum(axis, keepdims=keepdims) ** (1 / p)
    return out


def cosine(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    x, y = np.broadcast_arrays(x, y)
    lengths = [np.maximum(norm(a, 2, dim), eps) for a in (x, y)]
    out: Array = (x * y).sum(dim) / lengths[0] / lengths[1]
    return out


def pairwise(x: Array, y: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    return norm(x - y + eps, p, -1, keepdim)


def distances(*dims: int) -> list[Distance]:
    """All of them; cosines along `dims`."""
    cosines = [{"dim": dim, **more} for dim in dims for more in ({}, {"eps": 2.0})]
    powers = [{"p": p} for p in (2.0, 1.0, 3.0, float("inf"), 0.5)]
    return [
        *(Distance("CosineSimilarity", options, cosine) for options in cosines),
        *(Distance("PairwiseDistance", options, pairwise) for options in powers),
        Distance("PairwiseDistance", {"eps": 0.1, "keepdim": True}, pairwise),
    ]


DISTANCE_SHAPES = [((3, 4), (3, 4)), ((2, 3, 4), (3, 4)), ((5,), (5,))]


def cases_of(shapes: tuple[tuple[int, ...], ...]) -> list[Distance]:
    """Not along a broadcast axis: those gradients are 0 but for rounding."""
    axes = len(shapes[0])
    return distances(*sorted({0, -1, axes - 1}) if shapes[0] == shapes[1] else (-1,))


PAIR_POWERS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")]
"""Those of `pdist`."""


def pairs_of_rows(x: Array, p: float) -> Array:
    first, second = np.triu_indices(len(x), 1)
    return norm(x[first] - x[second], p, -1)
