"""graphc's frontend: PyTorch's names on a static-graph compiler.

    import frontend as torch
    from frontend import nn

Everything runs eagerly; `frontend.compile` makes native code of the same functions.

A file directly in this folder is a module that scripts import by its name, and stays where PyTorch
has it (`torch.linalg`, `torch.random`): most only name what stands in folders. install and run are
how a script gets here. The folders, each built on those behind it: what else PyTorch has by name
(nn, optim, utils, …), compiled, functions, tracing, eager, tensors; namespace puts it all together.
"""

# ruff: noqa: F401, F403 (what is public says each module in its __all__)

from __future__ import annotations

from typing import Any

from frontend import autograd, nn, optim, utils
from frontend.namespace import methods as _methods  # before the families: it names their functions
from graphc.system import import_module

# isort: split
from frontend.compiled.compiler import compile
from frontend.compiled.freezing import *
from frontend.compiled.tracers import trace
from frontend.devices.environment import *
from frontend.eager.promotion import can_cast, promote_types, result_type
from frontend.functions.complex_numbers import *
from frontend.functions.control import *
from frontend.functions.creation import *
from frontend.functions.distances import *
from frontend.functions.einsum import *
from frontend.functions.index import *
from frontend.functions.layout import *
from frontend.functions.linalg import *
from frontend.functions.logic import *
from frontend.functions.masks import *
from frontend.functions.matrix import *
from frontend.functions.norms import *
from frontend.functions.order import *
from frontend.functions.order_statistics import *
from frontend.functions.pointwise import *
from frontend.functions.random import *
from frontend.functions.rearrange import *
from frontend.functions.reduce import *
from frontend.functions.repeating import *
from frontend.functions.sampling import *
from frontend.functions.scatter import *
from frontend.functions.select import *
from frontend.functions.shape import *
from frontend.functions.special import *
from frontend.functions.statistics import *
from frontend.functions.tensor_types import *
from frontend.functions.top_level import *
from frontend.functions.unary import *
from frontend.nn.functional.top_level_layers import *
from frontend.nn.functional.top_level_spatial import *
from frontend.tensors.dtypes import *
from frontend.tensors.limits import *
from frontend.tensors.state import (
    enable_grad,
    get_eager_backend,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_eager_backend,
    set_grad_enabled,
)
from frontend.tensors.tensor import Tensor
from frontend.tracing.tracer import tap
from frontend.version import __version__

# Imported when first asked for: `import frontend` stays fast.
_LAZY = {
    "DisableTorchFunction": "frontend._C",
    "DisableTorchFunctionSubclass": "frontend._C",
    "PyTorchFileReader": "frontend._C",
    "ScriptModule": "frontend.jit",
    **dict.fromkeys(
        ("BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "DoubleStorage",
         "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
         "ComplexDoubleStorage", "ComplexFloatStorage", "TypedStorage", "UntypedStorage"),
        "frontend.storage",
    ),
    **dict.fromkeys(
        ("bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "chalf", "complex32",
         "float4_e2m1fn_x2", "qint32", "qint8", "quint2x4", "quint4x2", "quint8"),
        "frontend.tensors.absent_dtypes",
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
    "_assert": "frontend.overrides.checks",
    "_grouped_mm": "frontend.nn.functional.grouped",
    "is_anomaly_enabled": "frontend.autograd.anomaly_mode",
    "is_anomaly_check_nan_enabled": "frontend.autograd.anomaly_mode",
    "from_dlpack": "frontend.utils.dlpack",
    "install_as": "frontend.install",
    "load": "frontend.serialization",
    "save": "frontend.serialization",
    "set_printoptions": "frontend.tensors.printing",
    "to_dlpack": "frontend.utils.dlpack",
    "vmap": "frontend.func",
}  # fmt: skip
# The same, by module.
_LATE = {
    "frontend.functions.copies": (
        "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy "
        "select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy "
        "transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy"
    ),
    "frontend.nn.functional.native_layers": (
        "affine_grid_generator embedding_bag embedding_renorm_ grid_sampler grid_sampler_2d "
        "grid_sampler_3d native_batch_norm native_dropout native_group_norm native_layer_norm "
        "native_norm"
    ),
    "frontend.functions.differences": (
        "corrcoef cov cumulative_trapezoid diff gradient trapezoid trapz"
    ),
    "frontend.functions.drawn_numbers": "binomial poisson",
    "frontend.functions.histograms": "histogram histogramdd",
    "frontend.functions.number_functions": ("frexp gcd hash_tensor lcm nextafter unravel_index"),
    "frontend.functions.questions": (
        "as_strided_scatter constant_pad_nd empty_permuted get_device is_inference "
        "is_inference_mode_enabled is_nonzero is_same_size is_signed nonzero_static renorm"
    ),
    "frontend.functions.memory": "resize_as_",
    "frontend.nn.recurrent_functions": (
        "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell"
    ),
    "frontend.nn.functional.short_time": "istft stft",
    "frontend.functions.special_functions": "i0 igamma igammac mvlgamma",
    "frontend.functions.windows": (
        "bartlett_window blackman_window hamming_window hann_window kaiser_window"
    ),
    "frontend.functions.linear_algebra.solving": "det logdet slogdet",
    "frontend.functions.linear_algebra.factorizations": (
        "cholesky_inverse cholesky_solve geqrf lu_unpack ormqr"
    ),
    "frontend.functions.linear_algebra.functions_of_matrices": (
        "matrix_exp pca_lowrank svd_lowrank vander"
    ),
    "frontend.functions.linear_algebra.former": (
        "cholesky eig frobenius_norm inverse lstsq lu lu_solve matrix_rank nuclear_norm orgqr "
        "pinverse qr solve svd symeig triangular_solve"
    ),
}
_LAZY |= {name: module for module, names in _LATE.items() for name in names.split()}

_MODULES = (
    "_C", "__config__", "_custom_ops", "_dynamo", "_inductor", "_tensor", "_utils",
    "accelerator", "amp", "ao", "backends", "compiler", "cpu", "cuda", "distributed",
    "distributions", "export", "fft", "func", "fx", "hub", "jit", "library", "linalg", "masked",
    "mps", "multiprocessing", "nested", "onnx", "ops", "overrides", "profiler", "quantization",
    "random", "return_types", "safetensors", "serialization", "signal", "sparse", "special",
    "storage", "testing", "types", "version", "vision", "xpu",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"frontend.{name}")
    if name.startswith("_foreach_"):
        return getattr(import_module("frontend.functions.foreach"), name)
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


del _methods
