"""Dropout: what is dropped, how often, and that eager and compiled draw the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

CHANNELS = [
    (nn.Dropout1d, (20, 30, 4)),
    (nn.Dropout1d, (500, 4)),
    (nn.Dropout2d, (20, 30, 4, 2)),
    (nn.Dropout3d, (20, 30, 2, 2, 2)),
    (nn.Dropout3d, (500, 2, 2, 2)),
]


@pytest.mark.parametrize(("layer", "shape"), CHANNELS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_whole_channels_are_dropped(layer: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    out = layer(0.3)(x)
    lead = len(shape) - (layer.__name__[7] == "1") - 2 * (layer.__name__[7] == "2")
    lead -= 3 * (layer.__name__[7] == "3")
    values = out.detach().numpy().reshape(*shape[:lead], -1)
    assert (values == values[..., :1]).all()
    dropped = values[..., 0] == 0
    assert dropped.mean() == pytest.approx(0.3, abs=0.07)
    np.testing.assert_allclose(values[~dropped], 1 / 0.7, rtol=1e-6)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(layer: Any) -> None:
    torch.manual_seed(0)
    out = layer(0.2)(torch.randn(400, 100, 3)).numpy()
    assert out.mean() == pytest.approx(0, abs=0.02)
    assert out.var() == pytest.approx(1, abs=0.03)
    low = out.min(-1, keepdims=True)
    saturated = np.isclose(out, np.median(low[np.isclose(out, low).all(-1, keepdims=True)]))
    if layer is nn.FeatureAlphaDropout:
        assert saturated.all(-1).mean() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    "layer", [nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout]
)
def test_eager_and_compiled_draw_the_same(layer: Any) -> None:
    x = torch.randn(8, 6, 5)
    module = layer(0.4)
    torch.manual_seed(3)
    eager = [module(x).numpy() for _ in range(3)]
    torch.manual_seed(3)
    compiled = torch.compile(module)
    for want in eager:
        np.testing.assert_allclose(compiled(x).numpy(), want, rtol=1e-6, atol=1e-6)


def test_in_place() -> None:
    for call in (lambda x: F.dropout(x, 0.5, True, True), lambda x: F.dropout1d(x, 0.5, True, True),
                 lambda x: F.alpha_dropout(x, 0.5, True, True)):  # fmt: skip
        x = torch.ones(4, 5)
        assert call(x) is x and (x != 1).any()


def test_warnings_of_odd_ranks() -> None:
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d, which is deprecated"):
        F.dropout2d(torch.ones(2, 3))
    with pytest.warns(UserWarning, match="assuming that channel-wise 1D dropout behavior"):
        F.dropout2d(torch.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="Received a 3-D input to dropout3d"):
        F.dropout3d(torch.ones(2, 3, 4))
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 1D"):
        F.dropout1d(torch.ones(2))
