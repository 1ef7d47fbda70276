"""Static quantization: converted layers against exact integers of NumPy, eager and compiled."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.ao import quantization as ao
from frontend.ao.nn import quantized

Array = np.ndarray[Any, Any]


def windows_of(x: Array, kernel: tuple[int, int], stride: int, dilation: int) -> Array:
    """[N, C, H, W] as [N, C, taps, positions]."""
    spans = [n - dilation * (k - 1) for n, k in zip(x.shape[2:], kernel, strict=True)]
    parts = []
    for i, j in np.ndindex(*kernel):
        moved = x[:, :, i * dilation :, j * dilation :][:, :, : spans[0], : spans[1]]
        parts.append(moved[:, :, ::stride, ::stride])
    return np.stack(parts, 2).reshape(*x.shape[:2], len(parts), -1)


@pytest.mark.parametrize(
    "channels, outputs, groups, stride, padding, dilation",
    [(20, 6, 1, 2, 1, 1), (3, 8, 1, 1, 1, 1), (32, 4, 2, 1, 0, 2), (6, 6, 6, 1, 1, 1)],
)
def test_a_convolution_is_exact_until_it_is_rounded(
    channels: int, outputs: int, groups: int, stride: int, padding: int, dilation: int
) -> None:
    random = np.random.default_rng(0)
    layer = quantized.Conv2d(channels, outputs, (3, 2), stride, padding, dilation, groups)
    whole = random.integers(-127, 128, layer.weight_int.shape).astype(np.int8)
    scales = random.uniform(0.001, 0.01, outputs).astype(np.float32)
    weight = torch.quantize_per_channel(
        torch.from_numpy(whole * scales.reshape(-1, 1, 1, 1)), torch.from_numpy(scales),
        torch.zeros(outputs, dtype=torch.int64), 0, torch.qint8,
    )  # fmt: skip
    bias = random.standard_normal(outputs).astype(np.float32)
    layer.set_weight_bias(weight, torch.from_numpy(bias))
    layer.scale, layer.zero_point = 0.5, 100
    x = random.integers(0, 256, (2, channels, 7, 6)).astype(np.uint8)
    zero, scale = 37, np.float32(0.02)
    moved = np.pad(x.astype(np.int64) - zero, [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    seen = windows_of(moved, (3, 2), stride, dilation)
    seen = seen.reshape(2, groups, -1, seen.shape[-1])
    sums = np.einsum("goc,ngcp->ngop", whole.reshape(groups, outputs // groups, -1), seen)
    sums = sums.reshape(2, outputs, -1)
    floats = sums.astype(np.float32) * (scale * scales[:, None]) + bias[:, None]
    want = np.clip(np.rint(floats * np.float32(2) + np.float32(100)), 0, 255)

    def run(values: Any) -> Any:
        q = torch.quantize_per_tensor(values, 0.02, zero, torch.quint8)
        return layer(q).int_repr()

    values = torch.from_numpy((x.astype(np.float32) - zero) * scale)
    got = run(values)
    np.testing.assert_array_equal(torch.compile(run)(values).numpy(), got.numpy())
    assert np.abs(got.numpy().reshape(want.shape).astype(int) - want).max() <= 1
    assert (got.numpy().reshape(want.shape) == want).mean() > 0.99
    lone = torch.quantize_per_tensor(values[0], 0.02, zero, torch.quint8)
    np.testing.assert_array_equal(layer(lone).int_repr().numpy(), got[0].numpy())


def trained() -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(
        ao.QuantStub(), nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(24, 3), nn.Sigmoid(), ao.DeQuantStub(),
    )  # fmt: skip
    model = ao.fuse_modules_qat(model, [["1", "2", "3"]])
    model.qconfig = ao.get_default_qat_qconfig()
    ao.prepare_qat(model, inplace=True)
    return model


def test_a_step_and_what_it_is_converted_to_are_compiled_with_the_same_bits() -> None:
    x, results = torch.from_numpy(np.random.default_rng(1).standard_normal((5, 2, 8))).float(), []
    for whole in (False, True):
        model = trained()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            loss = (model(x) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step, fullgraph=True) if whole else step
        losses = [run(x).item()]
        model.apply(ao.disable_fake_quant)
        losses.append(run(x).item())
        model.apply(ao.enable_fake_quant)
        model.apply(ao.disable_observer)
        kept = model[0].activation_post_process.activation_post_process.min_val.item()
        losses.append(run(x * 9).item())
        assert model[0].activation_post_process.activation_post_process.min_val.item() == kept
        converted = ao.convert(model.eval())
        with torch.no_grad():
            run = torch.compile(converted, fullgraph=True) if whole else converted
            results.append((losses, run(x).tolist()))
    assert results[0] == results[1]


def test_a_converted_model_has_a_state() -> None:
    x = torch.ones(2, 2, 8)
    model = trained()
    model(x)
    first = ao.convert(model.eval())
    second = ao.convert(trained().eval())
    assert set(second.state_dict()) == set(first.state_dict())
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(second(x).numpy(), first(x).numpy())
    again = copy.deepcopy(first)
    np.testing.assert_array_equal(again(x).numpy(), first(x).numpy())
    assert not any(hasattr(module, "qconfig") for module in first.modules())
    assert "QConfig" not in str(first) and first[1].weight().q_per_channel_axis() == 0


def test_calibration_and_training_by_one_call() -> None:
    x = torch.randn(4, 3)
    model = ao.QuantWrapper(nn.Sequential(nn.Linear(3, 3), nn.Tanh())).eval()
    model.qconfig = ao.default_qconfig
    converted = ao.quantize(model, lambda model, data: model(data), (x,))
    assert (converted(x) - model(x)).abs().max() < 0.05
    assert isinstance(converted.module[0], quantized.Linear)
    model.qconfig = ao.default_qat_qconfig
    converted = ao.quantize_qat(model, lambda model, data: model(data).sum().backward(), (x,))
    assert (converted(x) - model(x)).abs().max() < 0.05
    ao.propagate_qconfig_(model)
    assert isinstance(ao.add_quant_dequant(model).module[0], ao.QuantWrapper)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="please pass observer class instead"):
        ao.QConfig(ao.MinMaxObserver(), ao.default_weight_observer)
    with pytest.raises(ValueError, match="must include 0"):
        ao.MinMaxObserver(quant_min=3, quant_max=9)
    with pytest.raises(ValueError, match="strictly less"):
        ao.MinMaxObserver(quant_min=0, quant_max=0)
    with pytest.raises(NotImplementedError, match="qscheme only support"):
        ao.MinMaxObserver(qscheme=torch.per_channel_affine)
    with pytest.raises(NotImplementedError, match="Cannot reduce range"):
        ao.MinMaxObserver(qscheme=torch.per_tensor_symmetric, reduce_range=True)
    with pytest.raises(AssertionError, match="backend must be one of"):
        ao.get_default_qconfig("mkl")
    with pytest.raises(AssertionError, match="in training mode"):
        ao.prepare_qat(nn.Linear(2, 2).eval())
    with pytest.raises(NotImplementedError, match="Cannot fuse modules"):
        ao.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()), ["0", "1"])
    with pytest.warns(UserWarning, match="None of the submodule got qconfig"):
        ao.prepare(nn.Linear(2, 2))
    x = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 3, torch.quint8)
    with pytest.raises(TypeError, match="a QuantStub ahead"):
        quantized.Linear(2, 2)(torch.ones(2, 2))
    with pytest.raises(TypeError, match="does not take a quantized tensor"):
        torch.exp(x)
    with pytest.raises(TypeError, match="FloatFunctional"):
        torch.add(x, x)
    with pytest.raises(TypeError, match="not both"):
        torch.cat([x, torch.ones(2, 2)])
    with pytest.raises(ValueError, match="symmetric"):
        quantized.Linear(2, 2).set_weight_bias(
            torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 3, torch.qint8), None
        )
    with pytest.raises(RuntimeError, match="the underlying operation"):
        quantized.FloatFunctional()(torch.ones(2))
