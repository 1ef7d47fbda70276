"""Operations that are counted, beside PyTorch's counter. Not of grouped convolutions: of their
weights' gradients it counts the channels of all groups for each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import frontend

NETS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "convolutions": (
        lambda nn: nn.Sequential(
            nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(8, 4, 3), nn.Conv2d(4, 2, 1),
        ),
        (2, 4, 9, 9),
    ),
    "linear": (lambda nn: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (7, 6)),
    "rows": (lambda nn: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)), (2, 7, 6)),
}  # fmt: skip


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_counts_are_pytorchs(peer: Any, net: str, backward: bool) -> None:
    make, shape = NETS[net]
    counts = []
    for system in (peer.torch, frontend):
        counting = importlib.import_module(f"{system.__name__}.utils.flop_counter")
        model, x = make(system.nn), system.zeros(*shape, requires_grad=True)
        with counting.FlopCounterMode(display=False) as counter:
            out = model(x)
            if backward:
                out.sum().backward()
        by_module = counter.get_flop_counts()
        counts.append({name: sum(each.values()) for name, each in by_module.items()})
    theirs, ours = counts
    assert ours == theirs
