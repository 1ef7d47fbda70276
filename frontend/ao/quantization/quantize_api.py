"""Models with quantized layers: `quantize_` as torchao has it, and `quantize_dynamic`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from frontend.ao.quantization.linear import (
    DynamicQuantizedLinear,
    Int4WeightLinear,
    Int8ActivationLinear,
    Int8WeightLinear,
)
from frontend.ao.quantization.qconfig import default_dynamic_qconfig
from frontend.engine.tensors.absent_dtypes import qint8
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module
from frontend.nn.modules.rnn import RNNBase
from frontend.nn.modules.rnn_cells import RNNCellBase

Filter = Callable[[Any, str], bool]


@dataclass(frozen=True)
class Int8WeightOnlyConfig:
    """Weights of int8, symmetric, with a scale for each output; products in floats."""


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig:
    """The same weights, and inputs of int8, symmetric, with a scale for each row; products of
    integers."""


@dataclass(frozen=True)
class Int4WeightOnlyConfig:
    """Weights of 4 bits, two in a byte, with a scale and a zero point for each `group_size` along a
    row, which divides the inputs of each layer; products in floats."""

    group_size: int = 128

    def __post_init__(self) -> None:
        if type(self.group_size) is not int or self.group_size < 1:
            raise ValueError(f"group_size is to be an int of at least 1, got {self.group_size!r}")


Config = Int8WeightOnlyConfig | Int8DynamicActivationInt8WeightConfig | Int4WeightOnlyConfig


def quantize_(model: Any, config: Any, filter_fn: Filter | None = None, device: Any = None) -> None:
    """Quantize the Linear layers of a model in place, as `config` says.

    `filter_fn(module, name)`: which ones; all without it. Raises NotImplementedError for other
    configurations, ValueError for groups that do not divide a layer's inputs.
    """
    if not isinstance(config, Config):
        known = ", ".join(each.__name__ for each in get_args(Config))
        raise NotImplementedError(f"quantize_ by {type(config).__name__}: there are {known}")
    chosen = filter_fn or (lambda module, name: type(module) is Linear)
    layers = [module for name, module in model.named_modules() if chosen(module, name)]
    for layer in layers:
        if type(layer) is not Linear:
            raise NotImplementedError(f"quantize_ of {type(layer).__name__}: only of Linear")
        if isinstance(config, Int4WeightOnlyConfig):
            _check_groups(layer, config.group_size)
    if device is not None:
        model.to(device)
    for layer in layers:
        _convert(layer, config)


def _convert(layer: Linear, config: Config) -> None:
    match config:
        case Int4WeightOnlyConfig(group):
            Int4WeightLinear.convert(layer, group)
        case Int8WeightOnlyConfig():
            Int8WeightLinear.convert(layer, Int8WeightLinear)
        case Int8DynamicActivationInt8WeightConfig():
            Int8WeightLinear.convert(layer, Int8ActivationLinear)


def _check_groups(layer: Linear, group: int) -> None:
    if layer.in_features % group:
        raise ValueError(
            f"quantize_ of {layer}: groups of {group} do not divide {layer.in_features} inputs; "
            "give another group_size, or leave the layer out by filter_fn"
        )
    if layer.in_features % 2:
        raise ValueError(f"quantize_ of {layer}: two weights of 4 bits make a byte; inputs are odd")


def quantize_dynamic(
    model: Any, qconfig_spec: Collection[Any] | Mapping[Any, Any] | None = None, dtype: Any = qint8,
    mapping: Any = None, inplace: bool = False,
) -> Any:  # fmt: skip
    """The model with its Linear layers as layers of int8 weights, whose inputs are quantized as
    they come. As in PyTorch a Linear that is the model itself stays as it is.

    `qconfig_spec`: the classes, or names, of the layers, which as keys of a dict may have
    `default_dynamic_qconfig`, or None to be left out; without it Linear and recurrent layers.
    Raises NotImplementedError where recurrent layers, another `dtype`, configuration or a `mapping`
    would take part.
    """
    if dtype is not qint8 or mapping is not None:
        raise NotImplementedError("quantize_dynamic: there is only the dtype torch.qint8")
    wanted = {Linear, RNNBase, RNNCellBase} if qconfig_spec is None else set(qconfig_spec)
    if isinstance(qconfig_spec, Mapping):
        wanted = {each for each, config in qconfig_spec.items() if config is not None}
        if any(qconfig_spec[each] != default_dynamic_qconfig for each in wanted):
            raise NotImplementedError("quantize_dynamic by a dict: only default_dynamic_qconfig")
    classes = tuple(each for each in wanted if isinstance(each, type))
    chosen = [
        (name, module) for name, module in model.named_modules()
        if name and (name in wanted or isinstance(module, classes))
    ]  # fmt: skip
    for name, module in chosen:
        if type(module) is not Linear:
            raise NotImplementedError(
                f"quantize_dynamic of {name}, a {type(module).__name__}: there is only Linear; "
                "give {nn.Linear} as qconfig_spec"
            )
    model = model if inplace else copy.deepcopy(model)
    for name, _ in chosen:
        parent, _, own = name.rpartition(".")
        holder: Module = model.get_submodule(parent)
        setattr(holder, own, DynamicQuantizedLinear(getattr(holder, own)))
    return model
