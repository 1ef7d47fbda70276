"""autocast by PyTorch's lists for the CPU, GradScaler, and compiled functions under it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import amp


def test_products_are_short_losses_long_and_the_rest_as_it_comes() -> None:
    x, w = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
    with amp.autocast("cpu"):
        y = x @ w
        assert y.dtype is torch.bfloat16 and F.linear(y, w).dtype is torch.bfloat16
        assert torch.relu(y).dtype is torch.bfloat16 and (x + 1).dtype is torch.float32
        assert torch.cat([y, x]).dtype is torch.float32
        assert (x.double() @ x.double().T).dtype is torch.float64
        loss = F.mse_loss(y, x)
        assert loss.dtype is torch.float32
        with amp.autocast("cpu", enabled=False):
            assert (x @ w).dtype is torch.float32
    expected = x.bfloat16() @ w.bfloat16()
    np.testing.assert_array_equal(y.detach().float().numpy(), expected.detach().float().numpy())
    loss.backward()
    assert w.grad.dtype is torch.float32 and not torch.is_autocast_enabled("cpu")


def test_a_compiled_function_follows_the_mode() -> None:
    product = torch.compile(lambda x: x @ x)
    x = torch.randn(4, 4)
    assert product(x).dtype is torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product(x).dtype is torch.bfloat16
    assert product(x).dtype is torch.float32


def test_what_is_not_there_is_disabled_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = amp.autocast("cuda")
    with region:
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        amp.autocast("toaster")
    with pytest.warns(UserWarning, match="GradScaler is enabled"):
        assert not amp.GradScaler("cuda").is_enabled()


def test_a_scaler_skips_steps_with_infinities() -> None:
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0, 0.0] and scaler.get_scale() == 8.0
    w.grad = torch.tensor([float("inf"), 1.0])
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0, 0.0] and scaler.get_scale() == 4.0
