"""graphc's frontend: PyTorch's names on a static-graph compiler.

    import frontend as torch
    from frontend import nn

Everything runs eagerly; `frontend.compile` makes native code of the same functions.
"""

# ruff: noqa: F401, F403, F405 (what is public says each module in its __all__)

from __future__ import annotations

from importlib import import_module
from typing import Any

from frontend import autograd, nn, optim, utils
from frontend import methods as _methods  # first: attaches the methods to Tensor
from frontend.compiler import compile
from frontend.creation import *
from frontend.dtypes import (
    Size,
    bool,
    device,
    double,
    float,
    float32,
    float64,
    int,
    int32,
    int64,
    long,
)
from frontend.functions.index import *
from frontend.functions.logic import *
from frontend.functions.matrix import *
from frontend.functions.pointwise import *
from frontend.functions.reduce import *
from frontend.functions.shape import *
from frontend.promotion import can_cast, promote_types, result_type
from frontend.random import *
from frontend.serialization import load, save
from frontend.state import (
    enable_grad,
    get_default_dtype,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_default_dtype,
    set_grad_enabled,
)
from frontend.tensor import Tensor
from frontend.tracer import tap, trace
from graphc.ir.types import DType as dtype

clip, subtract, multiply, divide, true_divide = clamp, sub, mul, div, div
negative, absolute, swapaxes = neg, abs, transpose


# Imported when first asked for: `import frontend` stays fast.
_LAZY = {
    "is_anomaly_enabled": "frontend.autograd.anomaly_mode",
    "is_anomaly_check_nan_enabled": "frontend.autograd.anomaly_mode",
    "install_as": "frontend.install",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'frontend' has no attribute {name!r}")


def is_tensor(obj: object) -> bool:  # type: ignore[valid-type]
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:  # type: ignore[valid-type]
    """How many elements a tensor has."""
    return input.numel()


def is_floating_point(input: Tensor) -> bool:  # type: ignore[valid-type]
    """Whether a tensor's dtype is a float."""
    return input.is_floating_point()


del _methods
