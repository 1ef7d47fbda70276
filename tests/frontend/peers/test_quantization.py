"""Quantization against PyTorch's: the same integers, and numbers within a unit of the last place of
the scales."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def drawn(*shape: int) -> Any:
    return (np.random.default_rng(5).standard_normal(shape) * 3).astype(np.float32)


@pytest.mark.parametrize("scale, zero", [(0.1, 3), (1 / 3, 10), (0.0123, 100), (0.5, 1)])
def test_integers_of_tensors(torch: Any, scale: float, zero: int) -> None:
    x = np.concatenate([drawn(4000), np.arange(-20, 20, dtype=np.float32) / 4])
    whole, fake = [], []
    for system in (torch, frontend):
        values = system.from_numpy(x.copy()).requires_grad_()
        q = system.quantize_per_tensor(values.detach(), scale, zero, system.quint8)
        whole.append((q.int_repr().numpy(), q.dequantize().numpy()))
        y = system.fake_quantize_per_tensor_affine(values, scale, zero, 0, 100)
        y.sum().backward()
        fake.append((y.detach().numpy(), values.grad.numpy()))
    for each in (whole, fake):
        for got, want in zip(each[1], each[0], strict=True):
            np.testing.assert_array_equal(got, want)


def test_integers_of_channels(torch: Any) -> None:
    x = drawn(6, 500)
    scales, zeros = np.linspace(0.02, 0.3, 6, dtype=np.float32), np.arange(-3, 3)
    results = []
    for system in (torch, frontend):
        values = system.from_numpy(x)
        scale, zero = system.from_numpy(scales.copy()), system.from_numpy(zeros.copy())
        q = system.quantize_per_channel(values, scale, zero, 0, system.qint8)
        fake = system.fake_quantize_per_channel_affine(values, scale, zero.int(), 0, -100, 100)
        results.append((q.int_repr().numpy(), q.dequantize().numpy(), fake.numpy()))
    for got, want in zip(results[1], results[0], strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.skipif(
    "x86" not in str(__import__("platform").machine()), reason="its engine is x86's"
)
def test_dynamic_quantization(torch: Any) -> None:
    """Inputs have the same integers, sums are exact: what differs is the last place of a scale."""
    weights, x = drawn(32, 64), drawn(5, 64)
    results = []
    for system in (torch, frontend):
        model = system.nn.Sequential(system.nn.Linear(64, 32), system.nn.ReLU())
        with system.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model[0].weight.copy_(system.from_numpy(weights))
            model[0].bias.copy_(system.from_numpy(weights[:, 0].copy()))
            quantized = system.ao.quantization.quantize_dynamic(model, {system.nn.Linear})
            layer = quantized[0]
            results.append(
                (layer.weight().int_repr().numpy(), quantized(system.from_numpy(x)).numpy())
            )
    np.testing.assert_array_equal(results[1][0], results[0][0])
    assert np.abs(results[1][1] - results[0][1]).max() <= 2**-22 * np.abs(results[0][1]).max()
