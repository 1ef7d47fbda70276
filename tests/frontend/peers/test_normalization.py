"""Normalisations against PyTorch: train and eval, several steps in a row, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


OTHERS = {
    "layer": (lambda nn: nn.LayerNorm(6), (4, 6)),
    "layer of two axes": (lambda nn: nn.LayerNorm((3, 5), eps=1e-3), (2, 4, 3, 5)),
    "layer without bias": (lambda nn: nn.LayerNorm(6, bias=False), (2, 3, 6)),
    "layer, plain": (lambda nn: nn.LayerNorm(6, elementwise_affine=False), (2, 3, 6)),
    "group": (lambda nn: nn.GroupNorm(2, 6), (3, 6, 4, 5)),
    "group of all": (lambda nn: nn.GroupNorm(1, 6, eps=0.1), (3, 6)),
    "group of one": (lambda nn: nn.GroupNorm(4, 4, bias=False), (2, 4, 9)),
    "group, plain": (lambda nn: nn.GroupNorm(2, 4, affine=False), (2, 4, 9)),
    "rms": (lambda nn: nn.RMSNorm(6), (4, 6)),
    "rms of two axes": (lambda nn: nn.RMSNorm((3, 5), eps=0.1), (2, 4, 3, 5)),
    "rms, plain": (lambda nn: nn.RMSNorm(6, elementwise_affine=False), (2, 3, 6)),
    "local response": (lambda nn: nn.LocalResponseNorm(3, 0.3, 0.6, 2.0), (2, 5, 3, 4)),
    "local response, even": (lambda nn: nn.LocalResponseNorm(4, 0.5), (2, 6, 7)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_norms_without_statistics(peer: Any, name: str) -> None:
    make, shape = OTHERS[name]
    peer.module(make, peer.normal(*shape) * 2 + 1)


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
