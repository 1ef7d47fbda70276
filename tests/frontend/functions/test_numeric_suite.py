"""`torch.ao.ns`: weights and results beside those of a quantized model; custom modules."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.ao import quantization as ao
from frontend.ao.nn import quantized
from frontend.ao.ns import _numeric_suite as ns


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = ao.QuantStub(), ao.DeQuantStub()
        self.conv, self.relu = nn.Conv1d(2, 4, 3), nn.ReLU()
        self.sum, self.fc = quantized.FloatFunctional(), nn.Linear(24, 3)

    def forward(self, x: Any) -> Any:
        y = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.fc(self.sum.add(y, y).flatten(1)))


@pytest.fixture
def models() -> tuple[Any, Any, Any]:
    """In floats, quantized, and data."""
    torch.manual_seed(0)
    floats = ao.fuse_modules(Model().eval(), [["conv", "relu"]])
    floats.qconfig = ao.get_default_qconfig("x86")
    prepared, x = ao.prepare(floats), torch.randn(5, 2, 8)
    prepared(x)
    del floats.qconfig
    return floats, ao.convert(prepared), x


def near(pair: dict[str, Any]) -> bool:
    one, other = (
        each.dequantize() if getattr(each, "is_quantized", False) else each
        for each in (pair["float"], pair["quantized"])
    )
    return bool((one - other).abs().max() <= 0.05 * one.abs().max())


def test_weights_by_name(models: Any) -> None:
    floats, converted, _ = models
    pairs = ns.compare_weights(floats.state_dict(), converted.state_dict())
    assert sorted(pairs) == ["conv.weight", "fc.weight"] and all(map(near, pairs.values()))
    assert pairs["conv.weight"]["float"] is floats.state_dict()["conv.0.weight"] or np.array_equal(
        pairs["conv.weight"]["float"].numpy(), floats.conv[0].weight.detach().numpy()
    )
    assert pairs["fc.weight"]["quantized"].dtype is torch.qint8
    small = ao.quantize_dynamic(nn.Sequential(nn.Linear(4, 3)))
    (pair,) = ns.compare_weights({"0.weight": small[0].weight().dequantize()},
                                 small.state_dict()).values()  # fmt: skip
    assert near(pair)


def test_results_by_name(models: Any) -> None:
    floats, converted, x = models
    want = converted(x)
    pairs = ns.compare_model_outputs(copy.deepcopy(floats), copy.deepcopy(converted), x)
    assert sorted(pairs) == ["conv.stats", "fc.stats", "quant.stats", "sum.stats"]
    assert all(near({side: kept[0] for side, kept in pair.items()}) for pair in pairs.values())
    np.testing.assert_array_equal(
        pairs["fc.stats"]["quantized"][0].dequantize().numpy(), want.numpy()
    )


def test_modules_in_floats_beside_those_of_integers(models: Any) -> None:
    floats, converted, x = models
    want = converted(x).numpy()
    swapped = {nn.Linear, quantized.FloatFunctional}
    pairs = ns.compare_model_stub(floats, converted, swapped, x)
    assert sorted(pairs) == ["fc.stats", "sum.stats"]
    assert all(near({side: kept[0] for side, kept in pair.items()}) for pair in pairs.values())
    assert isinstance(converted.fc, ns.Shadow)
    np.testing.assert_array_equal(converted(x).numpy(), want)  # it hands on the integers' results


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class ObservedDoubled(Doubled):
    @classmethod
    def from_float(cls, module: Any) -> Any:
        new = cls()
        new.qconfig = module.qconfig
        return new


class QuantizedDoubled(nn.Module):
    def __init__(self, scale: Any, zero: Any) -> None:
        super().__init__()
        self.scale, self.zero = float(scale), int(zero)

    def forward(self, x: Any) -> Any:
        return torch.quantize_per_tensor(x.dequantize() * 2, self.scale, self.zero, torch.quint8)

    @classmethod
    def from_observed(cls, module: Any) -> Any:
        return cls(*module.activation_post_process.calculate_qparams())


def test_custom_modules_have_classes_of_their_own() -> None:
    model = nn.Sequential(ao.QuantStub(), Doubled(), ao.DeQuantStub()).eval()
    model.qconfig = ao.get_default_qconfig("fbgemm")
    classes = {"float_to_observed_custom_module_class": {Doubled: ObservedDoubled}}
    prepared, x = ao.prepare(model, prepare_custom_config_dict=classes), torch.randn(4, 5)
    prepared(x)
    assert type(prepared[1]) is ObservedDoubled and type(model[1]) is Doubled
    classes = {"observed_to_quantized_custom_module_class": {ObservedDoubled: QuantizedDoubled}}
    converted = ao.convert(prepared, convert_custom_config_dict=classes)
    assert type(converted[1]) is QuantizedDoubled
    assert (converted(x) - model(x)).abs().max() < 0.1
    with pytest.raises(NotImplementedError, match="non_traceable is not here"):
        ao.prepare(model, prepare_custom_config_dict={"non_traceable": {}})


def test_dynamic_quantization_by_configurations() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    chosen = {"1": ao.default_dynamic_qconfig, "0": None}
    small = ao.quantize_dynamic(model, chosen)
    assert [type(each) is quantized.dynamic.Linear for each in small] == [False, True]
    with pytest.raises(NotImplementedError, match="only default_dynamic_qconfig"):
        ao.quantize_dynamic(model, {nn.Linear: ao.default_qconfig})


def test_former_names_of_the_layers() -> None:
    assert torch.nn.quantized.FloatFunctional is quantized.FloatFunctional
    assert torch.nn.intrinsic is torch.ao.nn.intrinsic and torch.nn.qat is torch.ao.nn.qat
