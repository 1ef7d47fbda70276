"""`torch.ao.ns._numeric_suite`: weights and results of a model of floats beside those of the model
it was quantized to.

in : both models, of the same names, and data
out: by name {"float": …, "quantized": …}, of weights a tensor, of results one for each call
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from frontend.ao.nn.quantized.layers import DeQuantize
from frontend.ao.quantization.linear import DynamicQuantizedLinear
from frontend.ao.quantization.preparing import prepare
from frontend.ao.quantization.qconfig import QConfig
from frontend.ao.quantization.quantization_mappings import (
    get_default_compare_output_module_list,
)
from frontend.engine.tensors.absent_dtypes import qint8
from frontend.functions.quantized_tensor import QuantizedTensor
from frontend.nn.modules.module import Module
from graphc.ir.types import DType

Compared = dict[str, dict[str, Any]]
STATS, WEIGHT, INTEGERS = "stats", "weight", "weight_int"
NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {DynamicQuantizedLinear}


class Logger(Module):
    """Keeps what passes it in `stats`."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        return x


class OutputLogger(Logger):
    """Keeps each tensor that passes it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Any) -> Any:
        self.stats["tensor_val"].append(x)
        return x


class ShadowLogger(Logger):
    """Keeps the results of a quantized module and of the one in floats beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.stats |= {"float": [], "quantized": []}

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        first, second = (each[0] if isinstance(each, tuple) else each for each in (x, y))
        self.stats["quantized"].append(first.detach())
        self.stats["float"].append(second.detach())


class Shadow(Module):
    """A quantized module that hands on its own results, and computes in floats besides: a logger
    gets both."""

    def __init__(self, q_module: Any, float_module: Any, logger_cls: Callable[[], Any]) -> None:
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.dequant, self.logger = DeQuantize(), logger_cls()

    def _both(self, name: str, *operands: Any) -> Any:
        result = getattr(self.orig_module, name)(*operands)
        floats = [self._floats(each) for each in operands]
        self.logger(result, getattr(self.shadow_module, name)(*floats))
        return result

    def _floats(self, x: Any) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(map(self._floats, x))
        return self.dequant(x) if getattr(x, "is_quantized", False) else x

    def forward(self, *x: Any) -> Any:
        return self._both("forward", *x)

    def add(self, x: Any, y: Any) -> Any:
        """Of a functional module, as the others: x + y."""
        return self._both("add", x, y)

    def add_scalar(self, x: Any, y: float) -> Any:
        """x + y."""
        return self._both("add_scalar", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """x y."""
        return self._both("mul", x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """x y."""
        return self._both("mul_scalar", x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        """Tensors one behind the other."""
        return self._both("cat", x, dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        """relu(x + y)."""
        return self._both("add_relu", x, y)


# -- weights ---------------------------------------------------------------------------------------


def compare_weights(float_dict: Mapping[str, Any], quantized_dict: Mapping[str, Any]) -> Compared:
    """The weights of two state dicts by the names of the quantized ones, {"float": a tensor,
    "quantized": a quantized tensor}. A layer `conv` is found as `conv` or `conv.0`, which is what
    fused layers have it as."""
    result: Compared = {}
    for key, whole in quantized_dict.items():
        if key.rpartition(".")[2] != INTEGERS:
            continue
        layer = key.removesuffix(INTEGERS)
        match = _match(float_dict, layer + WEIGHT, WEIGHT)
        if match is not None:
            scale = quantized_dict[f"{layer}weight_scale"].to(DType.f64)
            zero = scale.new_zeros(scale.shape, dtype=DType.i64)
            weight = QuantizedTensor(whole, scale, zero, 0 if scale.ndim else None, qint8)
            result[layer + WEIGHT] = {"float": float_dict[match], "quantized": weight}
    return result


def _match(names: Collection[str], name: str, last: str) -> str | None:
    """The name itself, or that of what is fused into it: `conv.0.weight` for `conv.weight`."""
    layer = name.removesuffix(last)
    inner = [each for each in names if each.startswith(layer) and each.endswith(f".{last}")]
    inner = [each for each in inner if each.count(".") == name.count(".") + 1]
    return name if name in names else max(inner, default=None)


# -- results ---------------------------------------------------------------------------------------


def get_logger_dict(mod: Any, prefix: str = "") -> Compared:
    """The `stats` of all loggers, by the names of what they are in and ".stats"."""
    return {f"{name}.{STATS}" if name else STATS: stats for name, stats in _logged(mod, prefix)}


def _logged(module: Any, name: str) -> Iterator[tuple[str, Any]]:
    for child_name, child in module.named_children():
        if isinstance(child, Logger):
            yield name, child.stats
        else:
            yield from _logged(child, f"{name}.{child_name}" if name else child_name)


def prepare_model_outputs(
    float_module: Any, q_module: Any, logger_cls: Callable[[], Any] = OutputLogger,
    allow_list: Collection[Any] | None = None,
) -> None:  # fmt: skip
    """Have a logger behind each layer of both models, in place: `allow_list` has their classes."""
    chosen = get_default_compare_output_module_list() if allow_list is None else allow_list
    for model in (float_module, q_module):
        model.qconfig = QConfig(activation=logger_cls, weight=None)
        whole = NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST if model is q_module else None
        prepare(model, True, chosen, whole)


def get_matching_activations(float_module: Any, q_module: Any) -> Compared:
    """What the loggers of both models kept, by the names of the quantized one."""
    floats, result = get_logger_dict(float_module), {}
    for name, stats in get_logger_dict(q_module).items():
        match = _match(floats, name, STATS)
        if stats["tensor_val"] and match is not None:
            result[name] = {
                "float": floats[match]["tensor_val"], "quantized": stats["tensor_val"]
            }  # fmt: skip
    return result


def compare_model_outputs(
    float_model: Any, q_model: Any, *data: Any, logger_cls: Callable[[], Any] = OutputLogger,
    allow_list: Collection[Any] | None = None,
) -> Compared:  # fmt: skip
    """Run both models, which get loggers, on the data: the results of their layers by name."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)


def prepare_model_with_stubs(
    float_module: Any, q_module: Any, module_swap_list: Collection[Any],
    logger_cls: Callable[[], Any],
) -> None:  # fmt: skip
    """Put a Shadow in the place of each quantized module whose own class in floats is among those
    of `module_swap_list`, in place."""
    floats = dict(float_module.named_children())
    for name, module in list(q_module.named_children()):
        own = floats.get(name)
        if own is None:
            continue
        if type(own) not in module_swap_list:
            prepare_model_with_stubs(own, module, module_swap_list, logger_cls)
        elif not _same_kind(own, module):
            q_module._modules[name] = Shadow(module, own, logger_cls)


def _same_kind(one: Any, other: Any) -> bool:
    """Whether nothing was quantized: the same classes inside."""
    kinds = [[type(each) for each in module.modules()] for module in (one, other)]
    return kinds[0] == kinds[1]


def compare_model_stub(
    float_model: Any, q_model: Any, module_swap_list: Collection[Any], *data: Any,
    logger_cls: Callable[[], Any] = ShadowLogger,
) -> Compared:  # fmt: skip
    """Run the quantized model, whose modules compute in floats besides, on the data: the results of
    both by name."""
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


__all__ = [
    "NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST", "Logger", "OutputLogger",
    "Shadow", "ShadowLogger", "compare_model_outputs", "compare_model_stub",
    "compare_weights", "get_logger_dict", "get_matching_activations", "prepare_model_outputs",
    "prepare_model_with_stubs",
]  # fmt: skip
