"""Gradients kept small: by their norm, or each element for itself.

All of it is tensor arithmetic without a decision on values, so it traces into a compiled step.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from frontend.engine.eager.fused import Fused
from frontend.engine.eager.gradients.grad import listed
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.symbolic_numbers import as_float
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor
from frontend.functions.logic import isfinite
from frontend.functions.norms import norm
from frontend.functions.pointwise import clamp
from frontend.functions.reduce import vector_norm
from frontend.functions.shape import stack
from frontend.nn.checks import fail, scalar_name
from graphc.errors import DTypeError, GraphError

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip


def _gradients(parameters: Iterable[Any]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The `norm_type`-norm (0-d) of the tensors' own norms; for p of 1 and more that of all
    elements taken as one vector. `foreach` is accepted: there is one implementation.

    With `error_if_nonfinite` raises RuntimeError where it is infinite or NaN, and TraceError in a
    trace, where that is not known.
    """
    p, items = float(norm_type), listed(tensors)
    if not items:
        return tensor(0.0)
    for item in items:
        if not item.is_floating_point():
            raise fail(
                DTypeError,
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                f"{scalar_name(item)}",
            )
    norms = [
        norm(item, p) if item.is_sparse else vector_norm("norm", item, p, None, False)
        for item in items
    ]
    total = norm(stack(norms), p)
    if error_if_nonfinite:
        total._array("a norm with error_if_nonfinite=True")
        _check_finite(total, p)
    return total


def _check_finite(total: Tensor, p: float) -> None:
    if not bool(isfinite(total)):
        raise fail(
            GraphError,
            f"The total norm of order {p} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`",
        )


@no_grad()
def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None
) -> None:
    """Scale the gradients in place by max_norm / (total_norm + 1e-6) where that is below 1."""
    limit, grads = as_float(max_norm), _gradients(listed(parameters))
    if not grads:
        return
    if not isinstance(total_norm, Tensor):
        raise TypeError(f"total_norm should be a Tensor, not {type(total_norm).__name__}")
    scale = clamp(limit / (total_norm + 1e-6), max=1.0)
    for grad in grads:
        if grad.is_sparse:
            grad.mul_(scale)
        else:
            _scaled((grad,), (scale,))


@Fused
def _scaled(gradient: Any, scale: Any) -> tuple[Any]:
    return (gradient * scale,)


@no_grad()
def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale the gradients of `parameters` in place so that their total norm is at most `max_norm`;
    the norm (0-d) they had. See `get_total_norm` and `clip_grads_with_norm_`."""
    items = listed(parameters)
    if isinstance(parameters, GeneratorType) and not items:
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3
        )
    total = get_total_norm(_gradients(items), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(items, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The former name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit each element of the gradients to [-clip_value, clip_value], in place."""
    limit = as_float(clip_value)
    for grad in _gradients(listed(parameters)):
        grad.clamp_(min=-limit, max=limit)
