"""Normalisations against PyTorch: train and eval, several steps in a row, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.layer_cases.normalizations import NORMALIZATIONS, Normalization

BATCH = {
    "batch1d [N,C]": (lambda nn, **o: nn.BatchNorm1d(3, **o), (5, 3)),
    "batch1d [N,C,L]": (lambda nn, **o: nn.BatchNorm1d(3, **o), (4, 3, 7)),
    "batch2d": (lambda nn, **o: nn.BatchNorm2d(3, **o), (2, 3, 4, 5)),
    "batch3d": (lambda nn, **o: nn.BatchNorm3d(2, **o), (2, 2, 3, 4, 2)),
    "instance1d": (lambda nn, **o: nn.InstanceNorm1d(3, **o), (2, 3, 7)),
    "instance1d [C,L]": (lambda nn, **o: nn.InstanceNorm1d(3, **o), (3, 7)),
    "instance2d": (lambda nn, **o: nn.InstanceNorm2d(3, **o), (2, 3, 4, 5)),
    "instance3d": (lambda nn, **o: nn.InstanceNorm3d(2, **o), (2, 2, 3, 4, 2)),
}  # fmt: skip
OPTIONS = [
    {},
    {"affine": True, "track_running_stats": True},
    {"affine": False, "track_running_stats": True, "momentum": 0.3},
    {"affine": True, "track_running_stats": False, "eps": 0.1},
    {"affine": True, "bias": False, "eps": 1e-3},
    {"momentum": None, "track_running_stats": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", BATCH)
def test_norms_with_running_statistics(peer: Any, name: str, options: dict[str, Any]) -> None:
    make, shape = BATCH[name]
    if name.startswith("instance") and options.get("momentum", 0.1) is None:
        options = {**options, "momentum": 0.1}
    x = peer.normal(*shape) * 3 + 2
    peer.module(lambda nn: make(nn, **options), x, repeat=3)


@pytest.mark.parametrize("case", NORMALIZATIONS, ids=str)
def test_norms_without_statistics(peer: Any, case: Normalization) -> None:
    peer.module(case.make, peer.normal(*case.shape) * 2 + 1)


@pytest.mark.parametrize("p", [1, 2, 3.5, float("inf")])
def test_normalize(peer: Any, p: float) -> None:
    x = peer.normal(3, 4, 5)
    x[1, :, 2] = 0
    peer.function(lambda t, x: t.nn.functional.normalize(x, p=p, dim=1), x)
    peer.function(lambda t, x: t.nn.functional.normalize(x, p=p, dim=-1, eps=2.0), x)


def test_functional_forms(peer: Any) -> None:
    x, w, b = peer.normal(4, 3, 5), peer.normal(3), peer.normal(3)
    mean, var = peer.normal(3), np.abs(peer.normal(3)) + 0.5
    peer.function(lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True), x)
    peer.function(lambda t, x: t.nn.functional.instance_norm(x), x)
    peer.function(
        lambda t, x, w, b: t.nn.functional.batch_norm(
            x, t.tensor(mean), t.tensor(var), w, b, eps=0.01
        ),
        x, w, b,
    )  # fmt: skip
    peer.function(
        lambda t, x, w, b: t.nn.functional.instance_norm(
            x, t.tensor(mean), t.tensor(var), w, b, use_input_stats=False
        ),
        x, w, b,
    )  # fmt: skip


SECOND = {
    "batch": lambda F, x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "batch eval": lambda F, x, w, b: F.batch_norm(x, w.detach(), w.detach() ** 2 + 1, w, b),
    "instance": lambda F, x, w, b: F.instance_norm(x, weight=w, bias=b),
    "group": lambda F, x, w, b: F.group_norm(x, 2, w, b),
    "layer": lambda F, x, w, b: F.layer_norm(x, (5,), x[0, 0], x[1, 1]),
    "rms": lambda F, x, w, b: F.rms_norm(x, (5,), x[0, 0]),
    "normalize": lambda F, x, w, b: F.normalize(x) * w[0],
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(peer: Any, name: str) -> None:
    def twice(system: Any, x: Any, w: Any, b: Any) -> Any:
        out = SECOND[name](system.nn.functional, x, w, b)
        (first,) = system.autograd.grad((out**3).sum(), [x], create_graph=True)
        return first

    # In float64: some of these cancel down to what eps leaves.
    peer.function(twice, *[peer.normal(*s).astype(np.float64) for s in ((3, 4, 5), (4,), (4,))])


@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d"])
def test_errors_are_of_the_same_type(peer: Any, name: str) -> None:
    for shape in ((2, 4), (1, 3), (2, 3, 1), (2, 4, 3), (2, 3, 4, 5), (1, 3, 1, 1), (3,)):
        for options in ({}, {"affine": True}):
            peer.refusal(lambda t, s=shape, o=options: getattr(t.nn, name)(3, **o)(t.zeros(s)))
