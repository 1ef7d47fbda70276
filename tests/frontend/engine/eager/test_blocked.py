"""Functions of many steps run natively on large tensors, with the numbers of small ones."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from frontend.engine.eager.kernels import blocked
from graphc.ir.registry import lookup


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["erfinv", "digamma"])
def test_large_tensors_have_the_numbers_of_small_ones(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    large = torch.rand(3, blocked.LEAST // 3 + 70, dtype=dtype) * 1.9 - 0.95
    function = getattr(torch, name)
    assert blocked.runs_in_blocks(lookup(name), (large.tensor_type,))
    small = torch.cat([function(part) for part in large.split(1000, dim=1)], dim=1)
    got = function(large)
    assert got.shape == large.shape and got.dtype is dtype
    bound = 3e-7 if dtype is torch.float32 else 1e-14  # near a zero of digamma
    np.testing.assert_allclose(got.numpy(), small.numpy(), rtol=bound)
    np.testing.assert_array_equal(function(large.T).numpy(), got.numpy().T)


def test_gradients_pass() -> None:
    x = torch.linspace(-0.9, 0.9, blocked.LEAST + 3).requires_grad_()
    x.erfinv().sum().backward()
    expected = np.sqrt(np.pi) / 2 * np.exp(x.erfinv().detach().double().numpy() ** 2)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=2e-6)
    y = torch.linspace(-0.9, 0.9, blocked.LEAST)
    y.erfinv_()
    assert torch.equal(y, torch.linspace(-0.9, 0.9, blocked.LEAST).erfinv())
