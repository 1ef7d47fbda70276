"""Tensors print as PyTorch's do, character for character."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import frontend

FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8")
SHAPES = [
    (), (1,), (3,), (0,), (0, 3), (2, 0, 3), (2, 3), (2, 2, 2), (1, 1, 1, 1), (7,), (40,), (3, 30),
    (1001,), (40, 40), (2, 600), (5, 3, 100), (1, 1001), (1100, 1), (7, 7, 7, 7),
]  # fmt: skip
ODD = (np.nan, np.inf, -np.inf, 0.0, -0.0)
OPTIONS: list[dict[str, Any]] = [
    {}, {"precision": 0}, {"precision": 8, "linewidth": 120}, {"edgeitems": 1, "threshold": 5},
    {"linewidth": 25}, {"sci_mode": True}, {"sci_mode": False}, {"sci_mode": True, "threshold": 1},
    {"profile": "short"}, {"profile": "full"},
]  # fmt: skip


@pytest.fixture(autouse=True)
def defaults(peer: Any) -> Iterator[None]:
    yield
    for system in (peer.torch, frontend):
        system.set_printoptions(profile="default")


def floats(random: np.random.Generator, shape: tuple[int, ...], kind: int) -> np.ndarray:
    """Of moderate size, whole, of one far magnitude or of many, with zeros, NaN and infinities."""
    x = random.standard_normal(shape)
    odd = random.choice(ODD, shape)
    numbers = [
        lambda: x, lambda: np.round(x * 10), lambda: x * 10.0 ** random.integers(-8, 9),
        lambda: x * 10.0 ** random.integers(-6, 6, shape), lambda: np.zeros(shape),
        lambda: np.round(x * 10.0 ** random.integers(0, 9, shape)),
        lambda: np.where(random.random(shape) < 0.3, odd, x),
        lambda: np.where(random.random(shape) < 0.6, odd, np.round(x * 3)),
        lambda: np.where(random.random(shape) < 0.5, 0, x * 1e-5), lambda: odd,
    ]  # fmt: skip
    return np.asarray(numbers[kind % len(numbers)](), np.float32)


def same(peer: Any, array: np.ndarray, dtype: str, **options: Any) -> None:
    texts = []
    for system in (peer.torch, frontend):
        system.set_printoptions(profile="default")
        system.set_printoptions(**options)
        texts.append(repr(system.from_numpy(array.copy()).to(getattr(system, dtype))))
    assert texts[1] == texts[0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_floats(peer: Any, shape: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(len(shape) + sum(shape))
    for kind in range(10 if np.prod(shape) < 200 else 3):
        same(peer, floats(random, shape, kind), dtype)


@pytest.mark.parametrize("dtype", [*WHOLE, "bool"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integers_and_bools(peer: Any, shape: tuple[int, ...], dtype: str) -> None:
    random = np.random.default_rng(sum(shape))
    for digits in (1, 3, 17):
        same(peer, random.integers(-(10**digits), 10**digits, shape), dtype)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_options(peer: Any, options: dict[str, Any], dtype: str) -> None:
    random = np.random.default_rng(3)
    for shape in ((), (0, 2), (5,), (3, 12), (30, 2), (4, 4, 11)):
        for kind in range(10):
            same(peer, floats(random, shape, kind), dtype, **options)
        same(peer, random.integers(-999, 999, shape), "int32", **options)


def described(system: Any) -> list[str]:
    """Texts of tensors with a place on the tape, of parameters, of other default dtypes."""
    x = system.ones(2, 3, requires_grad=True)
    long = system.ones(1, 12, requires_grad=True)
    lines = [
        x, x + 1, x.sum(), x * 2 > 1, x.detach(), x.half(), long, long.double(), long.exp(),
        system.nn.Parameter(system.ones(2)), system.nn.Parameter(system.ones(0, 2)),
        system.nn.Parameter(system.ones(2), requires_grad=False), system.ones(0).to(system.int64),
        system.nn.ParameterList([system.ones(1)])[0], system.ones(2).to(system.bfloat16),
    ]  # fmt: skip
    texts = [repr(each) for each in lines] + [str(x), f"{x}", f"{x.sum():.3f}", f"{x.shape}"]
    system.set_default_dtype(system.float64)
    try:
        texts += [repr(system.ones(2)), repr(x.detach()), repr(system.ones(0))]
    finally:
        system.set_default_dtype(system.float32)
    return texts


def test_what_stands_after_the_elements(peer: Any) -> None:
    assert described(frontend) == described(peer.torch)


def test_wrong_profiles_are_refused() -> None:
    with pytest.raises(ValueError, match="profile is one of default, short, full"):
        frontend.set_printoptions(profile="long")
