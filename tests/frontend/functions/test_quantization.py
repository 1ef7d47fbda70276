"""Quantization by PyTorch's names against exact integers of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.ao import quantization as ao

Array = np.ndarray[Any, Any]


def bytes_of(dtype: Any, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(4).integers(limits.min, limits.max + 1, shape)
    return drawn.astype(dtype)


def linear(rows: int = 20, columns: int = 33) -> Any:
    torch.manual_seed(3)
    return nn.Linear(columns, rows)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_int_mm_is_exact(dtype: Any) -> None:
    x, y = bytes_of(dtype, 5, 33), bytes_of(np.int8, 33, 20)
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    want = x.astype(np.int64) @ y.astype(np.int64)
    for function in (torch._int_mm, torch.compile(torch._int_mm)):
        got = function(a, b)
        assert got.dtype is torch.int32
        np.testing.assert_array_equal(got.numpy(), want)


def test_int_mm_refuses_what_does_not_fit() -> None:
    x = torch.zeros(3, 4, dtype=torch.int8)
    with pytest.raises(RuntimeError, match=r"self.size\(1\) needs to match mat2.size\(0\)"):
        torch._int_mm(x, x)
    with pytest.raises(RuntimeError, match="Expected self dtype to be"):
        torch._int_mm(x.int(), x.t())
    with pytest.raises(RuntimeError, match="Expected self to be of dimension 2"):
        torch._int_mm(x[0], x)


def test_a_quantized_tensor_has_its_integers() -> None:
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    q = torch.quantize_per_tensor(torch.from_numpy(x), 0.1, 3, torch.quint8)
    inverse = np.float32(1) / np.float32(0.1)
    whole = np.clip(np.rint(x * inverse + 3), 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(q.int_repr().numpy(), whole)
    assert (q.q_scale(), q.q_zero_point(), q.dtype) == (0.1, 3, torch.quint8)
    want = (whole.astype(np.float32) - 3) * np.float32(0.1)
    np.testing.assert_array_equal(q.dequantize().numpy(), want)
    np.testing.assert_array_equal(torch.dequantize(q).numpy(), want)
    with pytest.raises(RuntimeError, match="kPerChannelAffine"):
        q.q_per_channel_scales()
    scales, zeros = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0, 1, -1, 2])
    q = torch.quantize_per_channel(torch.from_numpy(x), scales, zeros, 0, torch.qint8)
    assert q.q_per_channel_axis() == 0
    assert np.abs(q.dequantize().numpy() - x).max() <= 0.2 + 1e-6
    with pytest.raises(RuntimeError, match="kPerTensorAffine"):
        q.q_scale()
    with pytest.raises(TypeError, match=r"quantized to torch\.qint8"):
        torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.int8)


def test_fake_quantization_has_a_straight_gradient() -> None:
    x = torch.tensor([-1.0, -0.31, 0.04, 1.6, 1.8], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 20)
    y.sum().backward()
    np.testing.assert_allclose(y.tolist(), [-0.3, -0.3, 0.0, 1.6, 1.7], atol=1e-6)
    assert x.grad.tolist() == [0, 1, 1, 1, 0]
    with pytest.raises(RuntimeError, match="must be between"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 30, 0, 20)


def symmetric(x: Array, axis: int | None = None) -> tuple[Array, Array]:
    scale = np.abs(x).max(axis, keepdims=axis is not None) / np.float32(127.5)
    return np.clip(np.rint(x * (np.float32(1) / scale)), -128, 127), scale


def test_weights_alone() -> None:
    model = nn.Sequential(linear(), nn.ReLU())
    weight, bias = (each.detach().numpy().copy() for each in (model[0].weight, model[0].bias))
    ao.quantize_(model, ao.Int8WeightOnlyConfig())
    whole, scale = symmetric(weight, 1)
    state = model.state_dict()
    assert set(state) == {"0.bias", "0.weight_int", "0.weight_scale"}
    assert state["0.weight_int"].dtype is torch.int8
    np.testing.assert_array_equal(state["0.weight_int"].numpy(), whole)
    np.testing.assert_array_equal(model[0].weight.numpy(), whole.astype(np.float32) * scale)
    assert isinstance(model[0], nn.Linear)
    x = torch.randn(7, 33, requires_grad=True)
    want = x.detach().numpy().astype(np.float64) @ (whole * scale.astype(np.float64)).T + bias
    for call in (model, torch.compile(model)):
        got = call(x)
        assert np.abs(got.detach().numpy() - np.maximum(want, 0)).max() < 1e-5
    got.sum().backward()
    assert x.grad.shape == x.shape


def test_activations_too() -> None:
    model = linear()
    weight, bias = (each.detach().numpy().copy() for each in (model.weight, model.bias))
    ao.quantize_(model, ao.Int8DynamicActivationInt8WeightConfig())
    whole, scale = symmetric(weight, 1)
    x = np.random.default_rng(0).standard_normal((2, 3, 33)).astype(np.float32)
    rows, steps = symmetric(x.reshape(6, 33), 1)
    want = (rows @ whole.T) * steps * scale.T + bias
    for call in (model, torch.compile(model)):
        got = call(torch.from_numpy(x)).detach().numpy()
        assert np.abs(got.reshape(6, 20) - want).max() < 1e-5


def test_dynamic_quantization_changes_a_copy() -> None:
    model = nn.Sequential(linear(), nn.ReLU())
    quantized = ao.quantize_dynamic(model, {nn.Linear})
    assert type(model[0]) is nn.Linear
    assert type(ao.quantize_dynamic(model[0])) is nn.Linear
    layer = quantized[0]
    whole, scale = symmetric(model[0].weight.detach().numpy())
    np.testing.assert_array_equal(layer.weight().int_repr().numpy(), whole)
    x = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    low, high = min(x.min(), 0), max(x.max(), 0)
    step = (high - low) / 127
    zero = np.rint(-low / step)
    rows = np.clip(np.rint(x * (np.float32(1) / step) + zero), 0, 127)
    want = (rows - zero) @ whole.T * step * scale + model[0].bias.detach().numpy()
    for call in (quantized, torch.compile(quantized)):
        got = call(torch.from_numpy(x)).numpy()
        assert np.abs(got - np.maximum(want, 0)).max() < 1e-5
    assert np.abs(quantized(torch.zeros(2, 33)).numpy()[0] - np.maximum(
        model[0].bias.detach().numpy(), 0)).max() < 1e-6  # fmt: skip


def test_what_is_not_there_is_told_and_nothing_changes() -> None:
    model = nn.Sequential(linear(), nn.LSTM(20, 4))
    with pytest.raises(NotImplementedError, match="there is only Linear"):
        ao.quantize_dynamic(model, inplace=True)
    with pytest.raises(NotImplementedError, match="only of Linear"):
        ao.quantize_(model, ao.Int8WeightOnlyConfig(), lambda module, name: True)
    with pytest.raises(NotImplementedError, match="Int8WeightOnlyConfig"):
        ao.quantize_(model, object())
    assert type(model[0]) is nn.Linear


def grouped(x: Array, group: int) -> tuple[Array, Array, Array]:
    """Integers [n, k], scales and zero points of groups."""
    parts = x.reshape(x.shape[0], -1, group)
    least, most = np.minimum(parts.min(2), 0), np.maximum(parts.max(2), 0)
    scale = (most - least) / np.float32(15)
    zero = np.clip(np.rint(-least / scale), 0, 15)
    inverse, moved = (np.repeat(each, group, 1) for each in (np.float32(1) / scale, zero))
    return np.clip(np.rint(x * inverse + moved), 0, 15).astype(np.uint8), scale, zero


def test_weights_of_4_bits() -> None:
    model = nn.Sequential(linear(20, 64), nn.ReLU())
    weight, bias = (each.detach().numpy().copy() for each in (model[0].weight, model[0].bias))
    ao.quantize_(model, ao.Int4WeightOnlyConfig(group_size=32))
    whole, scale, zero = grouped(weight, 32)
    state = model.state_dict()
    assert state["0.weight_int"].dtype is torch.uint8
    np.testing.assert_array_equal(
        state["0.weight_int"].numpy(), whole[:, ::2] + 16 * whole[:, 1::2]
    )
    np.testing.assert_array_equal(state["0.weight_scale"].numpy(), scale)
    np.testing.assert_array_equal(state["0.weight_zero"].numpy(), zero)
    spread = [np.repeat(each, 32, 1).astype(np.float32) for each in (zero, scale)]
    floats = (whole - spread[0]) * spread[1]
    np.testing.assert_array_equal(model[0].weight.numpy(), floats)
    assert np.abs(floats - weight).max() <= scale.max() * 0.51
    assert "group_size=32" in repr(model)
    for rows in (1, 7):
        x = torch.randn(rows, 64, requires_grad=True)
        want = np.maximum(x.detach().numpy().astype(np.float64) @ floats.T + bias, 0)
        eager, compiled = model(x), torch.compile(model)(x)
        np.testing.assert_array_equal(eager.detach().numpy(), compiled.detach().numpy())
        assert np.abs(eager.detach().numpy() - want).max() < 1e-5
        eager.sum().backward()
        passed = (want > 0) @ floats.astype(np.float64)
        assert np.abs(x.grad.numpy() - passed).max() < 1e-5


def test_weights_of_4_bits_are_saved_and_loaded_as_they_are(tmp_path: Any) -> None:
    model = nn.Sequential(linear(8, 64))
    ao.quantize_(model, ao.Int4WeightOnlyConfig(group_size=64))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = nn.Sequential(nn.Linear(64, 8))
    ao.quantize_(other, ao.Int4WeightOnlyConfig(group_size=64))
    other.load_state_dict(torch.load(tmp_path / "model.pt"))
    x = torch.randn(3, 64)
    np.testing.assert_array_equal(other(x).detach().numpy(), model(x).detach().numpy())
    assert other[0].weight_int.shape == (8, 32)


def test_frozen_weights_of_4_bits_have_the_same_bits() -> None:
    model = nn.Sequential(linear(130, 256), nn.ReLU(), linear(40, 130)).eval()
    ao.quantize_(model, ao.Int4WeightOnlyConfig(group_size=2))
    x = torch.randn(1, 256)
    with torch.no_grad():
        want = model(x).numpy()
        frozen = torch.compile(torch.freeze(model))
        np.testing.assert_array_equal(frozen(x).numpy(), want)
    assert "packed as" in str(frozen.explain())


def test_groups_that_do_not_fit_are_refused_and_nothing_changes() -> None:
    model = nn.Sequential(linear(8, 64), linear(4, 33))
    for group, match in ((24, "groups of 24 do not divide 64"), (1, "inputs are odd")):
        with pytest.raises(ValueError, match=match):
            ao.quantize_(model, ao.Int4WeightOnlyConfig(group_size=group))
        assert type(model[0]) is nn.Linear
    for bad in (0, -32, 1.5, True):
        with pytest.raises(ValueError, match="at least 1"):
            ao.Int4WeightOnlyConfig(group_size=bad)
