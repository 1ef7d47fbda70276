"""graphc's frontend: PyTorch's names on a static-graph compiler.

    import frontend as torch
    from frontend import nn

Everything runs eagerly; `frontend.compile` makes native code of the same functions.

A file directly in this folder is a module that scripts import by its name, and stays where PyTorch
has it (`torch.linalg`, `torch.random`): most only name what stands in folders. install and run are
how a script gets here. The folders, each built on those behind it: what else PyTorch has by name
(nn, optim, utils, …), compiled, functions, tracing, eager, tensors; namespace puts it all together.
"""

# ruff: noqa: F401, F403 (what is public is said where it stands)

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from frontend import autograd, nn, optim, utils
from frontend.devices.environment import *
from frontend.engine.eager.promotion import can_cast, promote_types, result_type
from frontend.engine.tensors.dtypes import *
from frontend.engine.tensors.generator import Generator, default_generator
from frontend.engine.tensors.limits import *
from frontend.engine.tensors.state import (
    enable_grad,
    get_eager_backend,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_eager_backend,
    set_grad_enabled,
)
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import declarations as _declarations
from frontend.namespace import methods as _methods
from frontend.namespace.lazy_names import LAZY as _LATE
from frontend.version import __version__
from graphc.system import import_module

if TYPE_CHECKING:
    from frontend.engine.compiled.compiler import compile
    from frontend.engine.compiled.freezing import *
    from frontend.engine.compiled.tracers import trace
    from frontend.engine.tracing.tracer import tap
    from frontend.namespace.torch_names import *

globals().update(_declarations.namespace("torch"), **_methods.in_place_functions())

# Imported when first asked for: `import frontend` stays fast.
_LAZY = {
    **dict.fromkeys(
        ("DeviceObjType", "DisableTorchFunction", "DisableTorchFunctionSubclass", "Event",
         "PyTorchFileReader", "PyTorchFileWriter", "Stream", "SymBool", "SymFloat", "SymInt",
         "TensorType"),
        "frontend._C",
    ),
    "Future": "frontend.futures",
    "GradScaler": "frontend.amp.grad_scaler",
    "ScriptModule": "frontend.jit",
    "ScriptFunction": "frontend.jit",
    **dict.fromkeys(
        ("BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "DoubleStorage",
         "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
         "ComplexDoubleStorage", "ComplexFloatStorage", "TypedStorage", "UntypedStorage"),
        "frontend.storage",
    ),
    **dict.fromkeys(
        ("bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "chalf", "complex32",
         "float4_e2m1fn_x2", "qint32", "qint8", "quint2x4", "quint4x2", "quint8"),
        "frontend.engine.tensors.absent_dtypes",
    ),
    **dict.fromkeys(
        ("per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
         "per_tensor_affine", "per_tensor_symmetric", "qscheme"),
        "frontend.engine.tensors.qschemes",
    ),
    **dict.fromkeys(
        ("_assert_async", "_check", "_check_index", "_check_is_size",
         "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value",
         "_check_with"),
        "frontend.functions.assertions",
    ),
    **dict.fromkeys(
        ("autocast", "clear_autocast_cache", "get_autocast_cpu_dtype", "get_autocast_dtype",
         "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
         "is_autocast_enabled"),
        "frontend.amp.autocast_mode",
    ),
    "compile": "frontend.engine.compiled.compiler",
    **dict.fromkeys(("freeze", "is_frozen", "unfreeze"), "frontend.engine.compiled.freezing"),
    "tap": "frontend.engine.tracing.tracer",
    "trace": "frontend.engine.compiled.tracers",
    "_assert": "frontend.overrides.checks",
    "is_anomaly_enabled": "frontend.autograd.anomaly_mode",
    "is_anomaly_check_nan_enabled": "frontend.autograd.anomaly_mode",
    "from_dlpack": "frontend.utils.dlpack",
    "install_as": "frontend.install",
    "load": "frontend.serialization",
    "save": "frontend.serialization",
    "set_printoptions": "frontend.engine.tensors.printing",
    "to_dlpack": "frontend.utils.dlpack",
    "vmap": "frontend.func",
}  # fmt: skip
_DECLARED = {name: module for module, kinds in _LATE.items() for name in kinds["torch"].split()}

_MODULES = (
    "_C", "__config__", "_custom_ops", "_dynamo", "_functorch", "_inductor", "_logging",
    "_subclasses", "_tensor", "_tensor_str", "_utils", "accelerator", "amp", "ao", "backends",
    "compiler", "cpu", "cuda", "distributed", "distributions", "export", "fft", "func",
    "functional", "futures", "fx", "gguf", "hub", "jit", "library", "linalg", "masked", "mps",
    "multiprocessing", "nested", "onnx", "ops", "overrides", "profiler", "quantization",
    "quasirandom", "random", "return_types", "safetensors", "serialization", "signal", "sparse",
    "special", "storage", "testing", "types", "version", "vision", "xpu",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "torch":
        return sys.modules[__spec__.name]
    if name in _MODULES:
        return import_module(f"frontend.{name}")
    if name.startswith("_foreach_"):
        return getattr(import_module("frontend.functions.foreach"), name)
    if name in _DECLARED:
        return _declarations.late_function(_DECLARED[name], name)
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'frontend' has no attribute {name!r}")


def is_tensor(obj: object) -> bool:  # type: ignore[valid-type]
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:  # type: ignore[valid-type]
    """How many elements a tensor has. Raises TypeError for anything else."""
    if not isinstance(input, Tensor):
        name = type(input).__name__
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {name}")
    return input.numel()


def is_floating_point(input: Tensor) -> bool:  # type: ignore[valid-type]
    """Whether a tensor's dtype is a float."""
    return input.is_floating_point()


del TYPE_CHECKING, _methods
