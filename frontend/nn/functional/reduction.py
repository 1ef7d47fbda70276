"""What losses share: how losses per element become one number, and PyTorch's warnings."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.checks import fail, scalar_name
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import AttributeValueError, DTypeError

__all__: list[str] = []

CHOICES = ("none", "mean", "sum")


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that is asked for, by its name or by the older arguments (with a warning).
    Raises ValueError for an unknown name."""
    if size_average is not None or reduce is not None:
        return legacy(size_average, reduce)
    if reduction not in CHOICES:
        raise fail(AttributeValueError, f"{reduction} is not a valid value for reduction")
    return reduction


def legacy(
    size_average: bool | None, reduce: bool | None, stacklevel: int = 4, warns: bool = True
) -> str:
    """The name of what the older arguments say, with PyTorch's warning."""
    if reduce is False:
        name = "none"
    else:
        name = "sum" if size_average is False else "mean"
    if not warns:
        return name
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
        stacklevel=asked_from(stacklevel),
    )
    return name


def reduced(lost: Tensor, reduction: str) -> Tensor:
    """The losses, their mean or their sum."""
    if reduction == "none":
        return lost
    return lost.mean() if reduction == "mean" else lost.sum()


def warn_of_sizes(input: Tensor, target: Tensor) -> None:
    """Warn where input and target differ in shape, and so broadcast."""
    if input._sizes != target._sizes:
        warnings.warn(
            f"Using a target size ({target.shape!r}) that is different to the input size "
            f"({input.shape!r}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=asked_from(3),
        )


def require_floats(name: str, *tensors: Any) -> None:
    """Raise RuntimeError where a tensor is not floating point."""
    for tensor in tensors:
        if not tensor.dtype.is_float:
            raise fail(
                DTypeError,
                f"{name}: result type Float can't be cast to the desired output type "
                f"{scalar_name(tensor)}",
            )
