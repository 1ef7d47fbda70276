"""Initialisation against PyTorch: fills that draw nothing, fans, gains, refusals, distributions."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import frontend
from frontend.nn import init

SHAPES = [(3, 5), (5, 3), (4, 3, 5), (4, 6, 3, 2), (6, 2, 3, 4, 2)]


def quiet(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fans_are_equal(peer: Any, shape: tuple[int, ...]) -> None:
    fans = peer.torch.nn.init._calculate_fan_in_and_fan_out(peer.torch.zeros(shape))
    assert init._calculate_fan_in_and_fan_out(frontend.zeros(shape)) == fans


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fills_without_chance(peer: Any, shape: tuple[int, ...]) -> None:
    calls = [
        lambda t: t.nn.init.constant_(t.zeros(shape), 0.3),
        lambda t: t.nn.init.ones_(t.zeros(shape)),
        lambda t: t.nn.init.zeros_(t.ones(shape)),
    ]
    if len(shape) == 2:
        calls.append(lambda t: t.nn.init.eye_(t.ones(shape)))
    if len(shape) > 2:
        calls.append(lambda t: t.nn.init.dirac_(t.ones(shape)))
        calls.append(lambda t: t.nn.init.dirac_(t.ones(shape), groups=2))
    for call in calls:
        peer.function(call, modes=("eager",))


def test_gains_are_equal(peer: Any) -> None:
    for name in ("linear", "conv1d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu",
                 "selu"):  # fmt: skip
        for param in (None, 0.3):
            theirs = peer.torch.nn.init.calculate_gain(name, param)
            assert init.calculate_gain(name, param) == pytest.approx(theirs, rel=1e-12)


REFUSED = [
    lambda i, t: i.eye_(t.zeros(2)),
    lambda i, t: i.dirac_(t.zeros(2, 3)),
    lambda i, t: i.dirac_(t.zeros(4, 2, 3), groups=3),
    lambda i, t: i.orthogonal_(t.zeros(2)),
    lambda i, t: i.orthogonal_(t.zeros(0, 3)),
    lambda i, t: i.sparse_(t.zeros(2), 0.5),
    lambda i, t: i.sparse_(t.zeros(2, 3, 4), 0.5),
    lambda i, t: i.xavier_uniform_(t.zeros(2)),
    lambda i, t: i.xavier_normal_(t.zeros(0, 2)),
    lambda i, t: i.kaiming_uniform_(t.zeros(0, 2)),
    lambda i, t: i.kaiming_normal_(t.zeros(2, 3), mode="x"),
    lambda i, t: i.calculate_gain("x"),
    lambda i, t: i.calculate_gain("leaky_relu", "a"),
    lambda i, t: i.calculate_gain("leaky_relu", True),
    lambda i, t: i.normal_(t.zeros(2).long()),
    lambda i, t: i.uniform_(t.zeros(2).long()),
    lambda i, t: i.constant_(t.zeros(2).long(), 3),
    lambda i, t: i.uniform_(t.zeros(2), 2, 1),
    lambda i, t: i.normal_(t.zeros(2), 0, -1),
    lambda i, t: i.trunc_normal_(t.zeros(3), std=0.0),
    lambda i, t: i.trunc_normal_(t.zeros(3), a=1, b=-1),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(peer: Any, number: int) -> None:
    peer.refusal(lambda t: REFUSED[number](t.nn.init, t))


def test_every_name_and_signature(peer: Any) -> None:
    theirs = peer.torch.nn.init
    names = [n for n in dir(theirs) if inspect.isfunction(getattr(theirs, n)) and n[0] != "_"]
    assert len(names) > 20
    for name in names:
        mine = inspect.signature(getattr(init, name))
        if not name.endswith("_") and name != "calculate_gain":
            continue  # the older names take anything
        other = inspect.signature(getattr(theirs, name))
        shown = [(p.name, p.default, p.kind) for p in mine.parameters.values()]
        assert shown == [(p.name, p.default, p.kind) for p in other.parameters.values()], name


def test_older_names_warn(peer: Any) -> None:
    for name in ("uniform", "normal", "xavier_uniform", "xavier_normal", "kaiming_uniform",
                 "kaiming_normal", "orthogonal", "eye"):  # fmt: skip
        with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated"):
            getattr(init, name)(frontend.zeros(2, 3))
        with pytest.warns(FutureWarning, match=f"`nn.init.{name}` is now deprecated"):
            getattr(peer.torch.nn.init, name)(peer.torch.zeros(2, 3))


DRAWN = {
    "uniform_": lambda i, w: i.uniform_(w, -1, 3),
    "normal_": lambda i, w: i.normal_(w, 2, 0.5),
    "trunc_normal_": lambda i, w: i.trunc_normal_(w, 0.5, 2.0, -1.0, 1.5),
    "xavier_uniform_": lambda i, w: i.xavier_uniform_(w, 2.0),
    "xavier_normal_": lambda i, w: i.xavier_normal_(w),
    "kaiming_uniform_": lambda i, w: i.kaiming_uniform_(w, 0.3, "fan_out"),
    "kaiming_normal_": lambda i, w: i.kaiming_normal_(w, nonlinearity="relu"),
    "orthogonal_": lambda i, w: i.orthogonal_(w, 1.5),
    "sparse_": lambda i, w: i.sparse_(w, 0.3, 0.5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_distributions_are_the_same(peer: Any, name: str) -> None:
    """Quantiles of 40,000 numbers, against the spread of two draws of PyTorch's."""
    peer.torch.manual_seed(0)
    frontend.manual_seed(0)
    levels = np.linspace(0.005, 0.995, 41)
    theirs = DRAWN[name](peer.torch.nn.init, peer.torch.zeros(200, 200)).numpy()
    mine = DRAWN[name](init, frontend.zeros(200, 200)).numpy()
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(
        np.quantile(mine, levels), np.quantile(theirs, levels), atol=0.03 * scale
    )


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"), [(9.0, 1.0, -2.0, 2.0), (-7.0, 1.5, 1.0, 6.0), (0.5, 0.1, 0.9, 2.0)]
)
def test_a_truncated_tail_is_distributed_as_there(
    peer: Any, mean: float, std: float, a: float, b: float
) -> None:
    shown = []
    for system in (peer.torch, frontend):
        system.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            drawn = system.nn.init.trunc_normal_(system.zeros(20_000), mean, std, a, b)
        assert float(drawn.min()) >= a and float(drawn.max()) <= b
        shown.append([float(drawn.quantile(q)) for q in (0.1, 0.5, 0.9)])
    spread = abs(shown[0][2] - shown[0][0])
    assert np.allclose(shown[0], shown[1], rtol=0, atol=0.05 * spread)
