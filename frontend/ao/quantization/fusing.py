"""Layers that follow each other made one: convolutions or linear layers with their batch
normalization and ReLU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from frontend.ao.nn.intrinsic import fused
from frontend.nn.modules.activation import ReLU
from frontend.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from frontend.nn.modules.conv import Conv1d, Conv2d, Conv3d
from frontend.nn.modules.linear import Identity, Linear
from frontend.nn.modules.module import Module
from frontend.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

Fuser = Callable[..., Module]
NORMALIZED: dict[Any, Any] = {
    (Conv1d, BatchNorm1d): (fused.ConvBn1d, fused.ConvBnReLU1d),
    (Conv2d, BatchNorm2d): (fused.ConvBn2d, fused.ConvBnReLU2d),
    (Conv3d, BatchNorm3d): (fused.ConvBn3d, fused.ConvBnReLU3d),
}
"""What they are for training: without and with a ReLU behind."""
WITH_RELU: dict[Any, Any] = {
    Conv1d: fused.ConvReLU1d, Conv2d: fused.ConvReLU2d, Conv3d: fused.ConvReLU3d,
    Linear: fused.LinearReLU,
}  # fmt: skip


def fuse_known_modules(
    mod_list: list[Any], is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Any]:
    """The fused module for the first, and Identity for each of the others. Hooks before the first
    and behind the last move to it. Raises NotImplementedError for other sequences, AssertionError
    where the modules are not all in training or all in eval mode."""
    types = tuple(type(module) for module in mod_list)
    fuse = (additional_fuser_method_mapping or {}).get(types)
    whole = fuse(is_qat, *mod_list) if fuse is not None else _whole(mod_list, is_qat)
    for hooks, register in (
        (mod_list[0]._forward_pre_hooks, whole.register_forward_pre_hook),
        (mod_list[-1]._forward_hooks, whole.register_forward_hook),
    ):
        for hook in list(hooks.values()):
            register(hook)
        hooks.clear()
    return [whole, *(Identity().train(mod_list[0].training) for _ in mod_list[1:])]


def _whole(modules: list[Any], is_qat: bool) -> Any:
    types = tuple(type(module) for module in modules)
    if len({module.training for module in modules}) > 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    first, rest = modules[0], modules[1:]
    relu = rest.pop() if types[-1] is ReLU and len(modules) > 1 else None
    if len(rest) == 1 and types[:2] in NORMALIZED:
        if is_qat:
            _check(first, rest[0])
            kind = NORMALIZED[types[:2]][relu is not None]
            return kind(*modules)
        first, rest = fuse_conv_bn_eval(first, rest[0]), []
    elif len(rest) == 1 and types[:2] == (Linear, BatchNorm1d) and not is_qat and relu is None:
        first, rest = fuse_linear_bn_eval(first, rest[0]), []
    elif rest or relu is None or types[0] not in WITH_RELU:
        names = [each.__name__ for each in types]
        raise NotImplementedError(f"Cannot fuse modules: {names}, is_qat={is_qat}")
    return first if relu is None else WITH_RELU[types[0]](first, relu)


def _check(layer: Any, bn: Any) -> None:
    if bn.num_features != layer.out_channels:
        raise AssertionError("Output channel of Conv must match num_features of BatchNorm.")
    if not bn.affine or not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm with affine and track_running_stats")


def _fused_in(
    model: Any, modules_to_fuse: Any, is_qat: bool, inplace: bool, fuser_func: Any, config: Any
) -> Any:
    model = model if inplace else copy.deepcopy(model)
    groups = modules_to_fuse
    if all(isinstance(each, str) for each in groups):
        groups = [groups]
    more = (config or {}).get("additional_fuser_method_mapping", {})
    for names in groups:
        modules = fuser_func([model.get_submodule(name) for name in names], is_qat, more)
        for name, module in zip(names, modules, strict=True):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, module)
    return model


def fuse_modules(
    model: Any, modules_to_fuse: Any, inplace: bool = False,
    fuser_func: Any = fuse_known_modules, fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """A copy of the model, or with `inplace` itself, with named modules fused for eval mode: a
    convolution or linear layer with its batch normalization, which becomes part of the weight, and
    ReLU. `modules_to_fuse`: a list of names, or of such lists. Raises NotImplementedError for
    other sequences."""
    return _fused_in(
        model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict
    )  # fmt: skip


def fuse_modules_qat(
    model: Any, modules_to_fuse: Any, inplace: bool = False,
    fuser_func: Any = fuse_known_modules, fuse_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The same for quantization-aware training: batch normalization stays, inside the fused
    module."""
    return _fused_in(
        model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict
    )  # fmt: skip
