"""Linear maps."""

from __future__ import annotations

import math

from frontend.nn.checks import fail, scalar_name, sizes
from frontend.tensor import Tensor
from graphc.errors import DTypeError, ShapeError
from graphc.ops import contract, movement

__all__ = ["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input [*, in] times weight [out, in] transposed, plus bias [out]: [*, out]. A weight [in]
    gives [*]. Raises ShapeError where sizes do not fit, DTypeError where dtypes differ."""
    if not input.ndim or not weight.ndim:
        raise fail(
            ShapeError,
            "both arguments to linear need to be at least 1D, "
            f"but they are {input.ndim}D and {weight.ndim}D",
        )
    columns = weight if weight.ndim == 2 else movement.reshape(weight, shape=(1, *weight.shape))
    *lead, features = input.shape
    rows = input if input.ndim == 2 else movement.reshape(
        input, shape=(math.prod(lead), features)
    )  # fmt: skip
    _check_linear(rows, columns, bias)
    out = contract.matmul(rows, movement.transpose(columns, permutation=(1, 0)))
    if bias is not None:
        out = out + bias
    shape = (*lead, *weight.shape[:-1])
    return out if tuple(out.shape) == shape else movement.reshape(out, shape=shape)


def _check_linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for other in (weight,) if bias is None else (weight, bias):
        if rows.dtype is not other.dtype:
            raise fail(
                DTypeError,
                "mat1 and mat2 must have the same dtype, "
                f"but got {scalar_name(rows)} and {scalar_name(other)}",
            )
    if rows.shape[1] != weight.shape[1]:
        by = f"{rows.shape[0]}x{rows.shape[1]} and {weight.shape[1]}x{weight.shape[0]}"
        raise fail(ShapeError, f"mat1 and mat2 shapes cannot be multiplied ({by})")
    if bias is not None and tuple(bias.shape) not in ((weight.shape[0],), (1,), ()):
        raise fail(
            ShapeError,
            f"The expanded size of the tensor ({weight.shape[0]}) must match the existing size "
            f"({bias.shape[-1]}) at non-singleton dimension 1.  Target sizes: "
            f"{[rows.shape[0], weight.shape[0]]}.  Tensor sizes: {sizes(bias)}",
        )
