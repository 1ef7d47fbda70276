"""Models whose layers are observed, and models of quantized layers made of them.

in : a model, `qconfig` on it or on parts of it
out: `prepare` and `prepare_qat`: the model with observers; `convert`: with layers of integers
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection
from typing import Any

from frontend.ao.nn.intrinsic.fused import _FusedModule
from frontend.ao.nn.quantized.functional_modules import FloatFunctional, QFunctional
from frontend.ao.quantization.fake_quantize import FakeQuantizeBase
from frontend.ao.quantization.observer import ObserverBase
from frontend.ao.quantization.quantization_mappings import (
    DEFAULT_MODULE_TO_ACT_POST_PROCESS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    OBSERVED,
    Mapping,
)
from frontend.ao.quantization.stubs import DeQuantStub, QuantWrapper
from frontend.nn.modules.container import Sequential
from frontend.nn.modules.dropout import Dropout

OBSERVER = "activation_post_process"


def propagate_qconfig_(module: Any, qconfig_dict: Any = None) -> None:
    """Give each module a `qconfig`: its own, that of its name or class in `qconfig_dict`, or else
    that of what holds it."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Any, chosen: dict[Any, Any], above: Any, name: str) -> None:
    own = chosen.get(name, chosen.get(type(module), above))
    module.qconfig = getattr(module, "qconfig", own)
    for child_name, child in module.named_children():
        _propagate(child, chosen, module.qconfig, f"{name}.{child_name}" if name else child_name)


def _observer_forward_hook(module: Any, input: Any, output: Any) -> Any:
    return module.activation_post_process(output)


def _is_observed(module: Any) -> bool:
    return getattr(module, "qconfig", None) is not None


def _observe(module: Any) -> None:
    """Have what a module gives pass an observer."""
    if not _is_observed(module) or isinstance(module, DeQuantStub):
        return
    make = module.qconfig.activation
    if module.training:
        make = DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type(module), make)
    module.add_module(OBSERVER, make())
    module.register_forward_hook(_observer_forward_hook, prepend=True)


def _add_observers(
    module: Any, observed: Collection[Any], whole: Collection[Any], custom: Mapping
) -> None:
    for name, child in list(module.named_children()):
        if type(child) is Dropout or isinstance(child, ObserverBase | FakeQuantizeBase):
            continue
        if isinstance(child, FloatFunctional | QFunctional):
            if _is_observed(child):
                child.activation_post_process = child.qconfig.activation()
        elif _is_observed(child) and type(child) in custom:
            new = custom[type(child)].from_float(child)
            module._modules[name] = new
            _observe(new)
            _add_observers(new, observed, whole, custom)
        elif (
            isinstance(child, _FusedModule)
            or type(child) in whole
            or (child.training and type(child) in DEFAULT_MODULE_TO_ACT_POST_PROCESS)
        ):
            _observe(child)
        else:
            _add_observers(child, observed, whole, custom)
    is_leaf = not module._modules and not isinstance(module, Sequential)
    if (is_leaf or hasattr(module, "weight_fake_quant")) and type(module) in observed:
        _observe(module)


def prepare(
    model: Any, inplace: bool = False, allow_list: Collection[Any] | None = None,
    observer_non_leaf_module_list: Collection[Any] | None = None,
    prepare_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """A copy of the model, or with `inplace` itself, whose layers with a `qconfig` are observed.

    `allow_list`: the classes of layers, without it all that there are quantized ones of.
    `observer_non_leaf_module_list`: classes that are observed whole. Under
    "float_to_observed_custom_module_class" `prepare_custom_config_dict` has what stands in for
    modules of which class, made by its `from_float`. Warns where no module has a `qconfig`.
    """
    custom = _custom(prepare_custom_config_dict, "float_to_observed_custom_module_class")
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(map(_is_observed, model.modules())):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct "
            "configuration through `qconfig_dict` or by assigning the `.qconfig` attribute "
            "directly on submodules",
            stacklevel=2,
        )
    observed = OBSERVED if allow_list is None else allow_list
    _add_observers(model, observed, observer_non_leaf_module_list or (), custom)
    return model


def _custom(chosen: Any, name: str) -> Mapping:
    """The classes of custom modules under this name. Raises NotImplementedError for others."""
    chosen = chosen or {}
    if chosen.keys() - {name}:
        unknown = ", ".join(sorted(chosen.keys() - {name}))
        raise NotImplementedError(f"custom modules: {unknown} is not here, only {name}")
    mapping: Mapping = chosen.get(name, {})
    return mapping


def prepare_qat(model: Any, mapping: Mapping | None = None, inplace: bool = False) -> Any:
    """A copy of the model in training mode, or with `inplace` itself, whose layers with a `qconfig`
    train with quantized weights and hand on quantized results. Raises AssertionError in eval
    mode."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = DEFAULT_QAT_MODULE_MAPPINGS if mapping is None else mapping
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def convert(
    module: Any, mapping: Mapping | None = None, inplace: bool = False,
    remove_qconfig: bool = True, is_reference: bool = False,
    convert_custom_config_dict: Any = None, use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """A copy of a model that was observed, or with `inplace` itself, with quantized layers: by
    `mapping`, from classes to classes that have `from_float`. Hooks stay, but for those that
    observe. Of `convert_custom_config_dict` "observed_to_quantized_custom_module_class" has what
    stands in for modules of which class, made by its `from_observed`. Raises NotImplementedError
    for reference modules."""
    if is_reference:
        raise NotImplementedError("convert: there are no reference modules")
    custom = _custom(convert_custom_config_dict, "observed_to_quantized_custom_module_class")
    module = module if inplace else copy.deepcopy(module)
    known = DEFAULT_STATIC_QUANT_MODULE_MAPPINGS if mapping is None else mapping
    _convert(module, known, use_precomputed_fake_quant, custom)
    if remove_qconfig:
        for part in module.modules():
            part.__dict__.pop("qconfig", None)
            _forget_observer(part)
    return module


def _convert(module: Any, mapping: Mapping, precomputed: bool, custom: Mapping) -> None:
    for name, child in list(module.named_children()):
        if not isinstance(child, _FusedModule) and type(child) not in custom:
            _convert(child, mapping, precomputed, custom)
        module._modules[name] = swap_module(child, mapping, custom, precomputed)


def swap_module(
    mod: Any, mapping: Mapping, custom_module_class_mapping: Mapping,
    use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """What one of the mappings has for a module with a `qconfig`, made from it; else the module
    itself."""
    if not _is_observed(mod):
        return mod
    if type(mod) in custom_module_class_mapping:
        new = custom_module_class_mapping[type(mod)].from_observed(mod)
    elif type(mod) in mapping:
        new = mapping[type(mod)].from_float(mod, use_precomputed_fake_quant)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            new.register_forward_hook(hook)
    return new


def _forget_observer(module: Any) -> None:
    observer = module._modules.get(OBSERVER)
    if isinstance(observer, ObserverBase | FakeQuantizeBase):
        del module._modules[OBSERVER]
    for key, hook in list(module._forward_hooks.items()):
        if hook is _observer_forward_hook:
            del module._forward_hooks[key]


def quantize(
    model: Any, run_fn: Callable[..., Any], run_args: Any, mapping: Mapping | None = None,
    inplace: bool = False,
) -> Any:  # fmt: skip
    """Post-training static quantization: the model in eval mode observed, `run_fn(model,
    *run_args)` for calibration, and converted."""
    model = (model if inplace else copy.deepcopy(model)).eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(
    model: Any, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False
) -> Any:
    """Quantization-aware training: the model prepared, trained by `run_fn(model, *run_args)`, and
    converted."""
    model = (model if inplace else copy.deepcopy(model)).train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def add_quant_dequant(module: Any) -> Any:
    """The module, each of its leaves that has a `qconfig` in a QuantWrapper, in place; a leaf
    itself in a new one."""
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module
