"""`frontend.autograd`: gradients of tensors.

function has rules of one's own, functional derivatives as functions, grad_mode what is recorded,
graph the nodes of the tape, anomaly_mode finds where NaN began, gradient_check holds gradients
against differences. forward_ad, profiler and variable are PyTorch's names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from frontend.engine.eager.gradients.grad import backward, grad
from frontend.engine.tensors.state import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from frontend.engine.tensors.tensor import Tensor

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "gradcheck",
    "gradgradcheck", "inference_mode", "is_grad_enabled", "no_grad", "set_detect_anomaly",
    "set_grad_enabled",
]  # fmt: skip

# Imported when first asked for: `import frontend` stays fast.
_LAZY = {
    "Function": "function", "once_differentiable": "function", "gradcheck": "gradient_check",
    "gradgradcheck": "gradient_check", "detect_anomaly": "anomaly_mode",
    "set_detect_anomaly": "anomaly_mode", "FunctionCtx": "function",
    "set_multithreading_enabled": "grad_mode",
}  # fmt: skip
_MODULES = (
    "anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "gradient_check", "graph",
    "profiler", "variable",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"frontend.autograd.{_LAZY[name]}"), name)
    if name in _MODULES:
        return import_module(f"frontend.autograd.{name}")
    raise AttributeError(f"module 'frontend.autograd' has no attribute {name!r}")


Variable = Tensor
