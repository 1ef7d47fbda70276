"""The comparison itself: it sees what differs."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_layer_agrees_and_a_changed_one_does_not(peer: Any) -> None:
    peer.module(lambda nn: nn.Linear(4, 3), peer.normal(5, 4))
    with pytest.raises(AssertionError, match="state dict"):
        peer.module(lambda nn: nn.Linear(4, 2 + nn.__name__.startswith("torch")), peer.normal(5, 4))


def test_a_function_agrees_and_a_wrong_one_does_not(peer: Any) -> None:
    peer.function(lambda t, x, y: t.tanh(x) @ y, peer.normal(3, 4), peer.normal(4, 2))
    with pytest.raises(AssertionError, match="eager"):
        peer.function(lambda t, x: x * (1 if t.__name__ == "torch" else 1.001), peer.normal(3))
