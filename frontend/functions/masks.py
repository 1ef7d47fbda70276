"""Elements where a mask holds: filled, replaced in order, picked; and where a tensor is not 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import casted, common_shape, expanded
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.no_value import deciding
from frontend.engine.tensors.tensor import Tensor, from_data, make
from frontend.functions import shape as s
from frontend.functions.arguments import fail, need_tensors, refuse_overlap, stored
from frontend.functions.declarations import public
from frontend.functions.index import getitem, in_turn
from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e


def _need_mask(name: str, mask: Tensor) -> None:
    if mask.dtype is not DType.bool:
        raise fail(
            DTypeError,
            f"{name}_ only supports boolean masks, but got mask with dtype {mask.dtype}",
        )


def fill_value(name: str, input: Tensor, value: Any) -> Tensor:
    """A number or 0-d tensor in the dtype of `input`."""
    if isinstance(value, Tensor):
        if value.dim():
            raise fail(
                ShapeError,
                f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.dim()} dimension(s).",
            )
        if value.dtype.is_complex and not input.dtype.is_complex:
            raise RuntimeError(f"value cannot be converted to type {input.dtype} without overflow")
        return casted(value, input.dtype)
    if isinstance(value, complex) and not input.dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {input.dtype} without overflow")
    return filled(fitting(value, input.dtype), input.dtype, ())


@public(method=True, in_place=True, node="MaskedFill")
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value`, a number or a 0-d tensor, where `mask` holds, broadcast against `input`."""
    need_tensors("masked_fill", input=input, mask=mask)
    _need_mask("masked_fill", mask)
    filling = fill_value("masked_fill_", input, value)
    shape = common_shape(input, mask)
    return CONTEXT.apply(e.where, tuple(expanded(x, shape) for x in (mask, filling, input)), {})[0]


@public(method=True, in_place=True, node="MaskedScatter")
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of `source`, in order, where `mask` holds, broadcast against `input`. Raises
    RuntimeError (where it is traced, when the graph runs) if there are too few."""
    need_tensors("masked_scatter", input=input, mask=mask, source=source)
    _need_mask("masked_scatter", mask)
    if source.dtype is not input.dtype:
        raise fail(
            DTypeError,
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{SCALAR_NAMES[input.dtype]} and {SCALAR_NAMES[source.dtype]}",
        )
    x, held = s.broadcast_tensors(input, mask)
    message = "Number of elements of source < number of ones in mask"
    new, enough = in_turn(x._sizes, held, 0, s.ravel(source), message, at_most=True)
    held = CONTEXT.apply(e.logical_and, (held, expanded(enough, x._sizes)), {})[0]
    return CONTEXT.apply(e.where, (held, new, x), {})[0]


@public(method=True, node="MaskedSelect")
def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """The elements where `mask` holds, as a vector; its length depends on the data, so a trace
    raises TraceError."""
    need_tensors("masked_select", input=input, mask=mask)
    refuse_overlap(out, input, mask)
    if mask.dtype is not DType.bool:
        raise fail(DTypeError, "masked_select: expected BoolTensor for mask")
    x, chosen = s.broadcast_tensors(input if input.dim() else s.reshape(input, 1), mask)
    return stored(getitem(x, chosen), out)


@public(method=True)
def nonzero(input: Tensor, *, out: Any = None, as_tuple: bool = False) -> Any:
    """Positions of elements that differ from 0: [n, rank], or one vector per dimension. How many
    there are depends on the data, so a trace raises TraceError."""
    need_tensors("nonzero", input=input)
    array = deciding(input, "nonzero()", "nonzero_static(input, size=…), which has a bound")
    if as_tuple:
        return tuple(from_data(places) for places in np.atleast_1d(array).nonzero())
    positions = np.argwhere(array).astype(np.int64)
    return stored(make(positions, TensorType.of(positions)), out)


@public(method=True)
def argwhere(input: Tensor) -> Tensor:
    """Positions of elements that differ from 0, [n, rank]."""
    result: Tensor = nonzero(input)
    return result
