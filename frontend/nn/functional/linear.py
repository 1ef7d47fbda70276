"""Linear and bilinear maps."""

from __future__ import annotations

import math

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, view_plainly
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions.arguments import need_tensors
from frontend.functions.declarations import public
from frontend.nn.checks import fail, scalar_name, sizes
from graphc.errors import DTypeError, ShapeError
from graphc.ops import contract, movement
from graphc.ops.nn import products


@public(at="nn.functional", out=True, autocast="lower_precision")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input [*, in] times weight [out, in] transposed, plus bias [out]: [*, out]. A weight [in]
    gives [*]. Raises ShapeError where sizes do not fit, DTypeError where dtypes differ."""
    try:
        x, w = input.tensor_type, weight.tensor_type
    except AttributeError:
        need_tensors("linear", input=input, weight=weight)
        raise
    if bias is not None and not STATE.watched:
        b, shape = bias.tensor_type, w.shape
        if (
            len(shape) == 2 == len(x.shape)
            and x.dtype is w.dtype is b.dtype
            and x.shape[1] == shape[1]
            and b.shape == shape[:1]
        ):
            turned = _turned(weight)
            if turned is not None:
                return CONTEXT.apply(products.addmm, (bias, input, turned), {})[0]
    if not input.ndim or not weight.ndim:
        raise fail(
            ShapeError,
            "both arguments to linear need to be at least 1D, "
            f"but they are {input.ndim}D and {weight.ndim}D",
        )
    if weight.ndim > 2:
        raise fail(
            ShapeError, f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D"
        )
    columns = weight if weight.ndim == 2 else movement.reshape(weight, shape=(1, *weight.shape))
    *lead, features = input.shape
    rows = input if input.ndim == 2 else movement.reshape(
        input, shape=(math.prod(lead), features)
    )  # fmt: skip
    _check_linear(rows, columns, bias)
    transposed = movement.transpose(columns, permutation=(1, 0))
    if bias is not None and tuple(bias.shape) == (columns.shape[0],):
        out = products.addmm(bias, rows, transposed)
    else:
        out = contract.matmul(rows, transposed)
        out = out if bias is None else out + bias
    shape = (*lead, *weight.shape[:-1])
    return out if tuple(out.shape) == shape else own(movement.reshape(out, shape=shape))


def _turned(weight: Tensor) -> Tensor | None:
    """`weight.t()` in eager mode, of which less is asked than of any op: a small layer's call is
    mostly such questions. None where that is left to the op."""
    array = weight._value
    if array.__class__ is not np.ndarray:
        return None
    return view_plainly(movement.transpose, _PERMUTATION, weight, array.T)


_PERMUTATION = {"permutation": (1, 0)}


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


@public(at="nn.functional torch")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ weight[k] input2 + bias[k] for each k: input1 [*, in1], input2 [*, in2], weight
    [out, in1, in2] and bias [out] give [*, out]. Raises ShapeError, DTypeError."""
    _check_bilinear(input1, input2, weight, bias)
    outputs, first, second = weight.shape
    lead = tuple(input1.shape[:-1])
    rows = movement.reshape(input1, shape=(math.prod(lead), first))
    table = movement.transpose(weight, permutation=(1, 0, 2))
    table = movement.reshape(table, shape=(first, outputs * second))
    mapped = movement.reshape(contract.matmul(rows, table), shape=(*lead, outputs, second))
    out = (mapped * input2.unsqueeze(-2)).sum(-1)
    return out if bias is None else out + bias


def _check_bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    parts = {"input1": input1, "input2": input2, "weight": weight}
    if len({part.dtype for part in (*parts.values(), *(() if bias is None else (bias,)))}) > 1:
        listed = ", ".join(f"{name}: {scalar_name(part)}" for name, part in parts.items())
        raise fail(DTypeError, f"All tensors must have the same dtype, got {listed}")
    if input1.ndim != input2.ndim or not input1.ndim:
        raise fail(
            ShapeError,
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}",
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise fail(
            ShapeError,
            "bilinear(): input batch dimensions do not match: "
            f"got {sizes(input1)} and {sizes(input2)}",
        )
    if weight.ndim != 3:
        raise fail(ShapeError, f"bilinear(): weight is [out, in1, in2], got {sizes(weight)}")
    for name, part, size in (("input1", input1, weight.shape[1]),
                             ("input2", input2, weight.shape[2])):  # fmt: skip
        if part.shape[-1] != size:
            raise fail(
                ShapeError,
                f"bilinear(): {name} size does not match weight size: got {part.shape[-1]} but "
                f"expected {size}",
            )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise fail(
            ShapeError,
            f"bilinear(): bias size does not match weight size: got {sizes(bias)} but expected "
            f"{weight.shape[0]}",
        )
