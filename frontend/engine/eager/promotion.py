"""PyTorch's type promotion, done once and written down as explicit casts and broadcasts.

bool < int < float < complex. Within a category a Python number yields to any tensor and a 0-d
tensor to one with dimensions; a number of a higher category takes the default dtype of that
category.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from frontend.engine.eager.dispatch import (
    CONTEXT,
    apply_binary,
    filled,
    filled_like,
    view_plainly,
)
from frontend.engine.eager.spreading import Spread, apply_spread
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.dtypes import CATEGORY, as_dtype, complex_of, promote_types
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import shown
from frontend.engine.tensors.tensor import Tensor, from_data
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.dims import Dim
from graphc.ir.types import DType, broadcast_shapes
from graphc.ops import elementwise as e
from graphc.ops.elementwise import cast
from graphc.ops.movement import broadcast

Number = (int, float, np.generic)


def number_dtype(number: Any) -> DType:
    """The dtype a Python number takes where it decides. Raises TypeError for other things."""
    if isinstance(number, bool | np.bool_):
        return DType.bool
    if isinstance(number, int | np.integer):
        return DType.i64
    if isinstance(number, float | np.floating | ml_dtypes.bfloat16):
        return STATE.default_dtype
    if isinstance(number, complex | np.complexfloating):
        return complex_of(STATE.default_dtype)
    raise TypeError(f"expected a Tensor or a number, got {type(number).__name__}")


def result_type(*operands: Any) -> DType:
    """The dtype of an arithmetic result of these tensors and numbers."""
    by_priority: list[DType | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Tensor):
            priority, dtype = (0 if operand.tensor_type.shape else 1), operand.tensor_type.dtype
        else:
            priority, dtype = 2, number_dtype(operand)
        known = by_priority[priority]
        by_priority[priority] = dtype if known is None else promote_types(known, dtype)
    result: DType | None = None
    for dtype_ in by_priority:
        if dtype_ is None:
            continue
        if result is not None and dtype_.is_complex and result.is_float:
            result = complex_of(result)  # the digits are those of what decides
        elif result is None or CATEGORY[dtype_] > CATEGORY[result]:
            result = dtype_
    assert result is not None
    return result


def can_cast(from_: Any, to: Any) -> bool:
    """True where an in-place result of dtype `from_` may be written to `to`: bool < integers <
    floats < complex numbers."""
    return CATEGORY[as_dtype(from_)] <= CATEGORY[as_dtype(to)]


def casted(tensor: Tensor, dtype: DType) -> Tensor:
    """`tensor` in `dtype`, by an explicit cast where it differs."""
    if tensor.tensor_type.dtype is dtype:
        return tensor
    return CONTEXT.apply(cast, (tensor,), {"dtype": dtype})[0]


def expanded(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`tensor` broadcast to `shape`, by an explicit op where it differs."""
    if tensor.tensor_type.shape == shape:
        return tensor
    array = tensor._value
    if array.__class__ is np.ndarray and not STATE.watched:
        try:
            value = broadcast.view(array, shape=shape)
        except (TypeError, ValueError):  # `apply` says what does not fit
            value = None
        if value is not None and value.shape == shape:
            result = view_plainly(broadcast, {"shape": shape}, tensor, value)
            if result is not None:
                return result
    return CONTEXT.apply(broadcast, (tensor,), {"shape": shape})[0]


def common_shape(*operands: Any) -> tuple[int, ...]:
    """The shape operands broadcast to. Raises ShapeError in PyTorch's words."""
    shapes = [x.tensor_type.shape for x in operands if isinstance(x, Tensor)]
    try:
        return broadcast_shapes(*shapes)
    except ShapeError:
        raise _mismatch(shapes) from None


def _mismatch(shapes: list[tuple[int, ...]]) -> ShapeError:
    rank = max(map(len, shapes))
    for axis in range(-1, -rank - 1, -1):
        dims = [shape[axis] for shape in shapes if len(shape) >= -axis and shape[axis] != 1]
        if len(set(dims)) > 1:
            other = next(dim for dim in dims if dim != dims[0])
            return ShapeError(
                f"The size of tensor a ({dims[0]}) must match the size of tensor b ({other}) at "
                f"non-singleton dimension {rank + axis} (shapes "
                f"{' and '.join(str(list(shape)) for shape in shapes)})",
                hint="unsqueeze() or reshape() one of them",
                location=user_location(),
            )
    return ShapeError(f"shapes {shapes} do not broadcast", location=user_location())


def aligned(operands: tuple[Any, ...], dtype: DType) -> tuple[Tensor, ...]:
    """The operands in `dtype`, broadcast to their common shape; numbers become constants."""
    shape = common_shape(*operands)
    return tuple(
        [
            expanded(casted(x, dtype), shape) if isinstance(x, Tensor) else filled(x, dtype, shape)
            for x in operands
        ]
    )


Common = tuple[DType, tuple[int, ...], Spread | None, Spread | None]
_COMMON: Bounded[Any, Common] = Bounded(4096)
"""By the types of two tensors, what `_common` gives."""
_PRODUCTS = (e.mul, e.div)
_WIDE = (*_PRODUCTS, e.floordiv)
"""What scales a half type by a number in float32: the number is not rounded first. (Narrow integers
are divided by what they have of it.)"""
HALVES = (DType.f16, DType.bf16)
_YIELDING: tuple[tuple[type, ...], ...] = ((bool,), (int, bool), (int, float, bool), ())
"""By the category of a tensor, the numbers that take its dtype. (For complex ones see `apply`.)"""


def binary(op: Any, left: Any, right: Any) -> Tensor:
    """An elementwise op after promotion and broadcasting."""
    # The common cases: tensors of one type, a tensor and a number of the same or a lower category.
    if isinstance(left, Tensor):
        kind = left.tensor_type
        if isinstance(right, Tensor):
            if kind is right.tensor_type:
                return apply_binary(op, left, right)
            if op in _WIDE and (scaled := _scaled(op, left, right)) is not None:
                return scaled
            if not STATE.watched:
                return _of_two_types(op, left, right)
        elif right.__class__ in _YIELDING[CATEGORY[kind.dtype]]:
            if kind.dtype.is_storage and op in (_WIDE if kind.dtype.is_float else _PRODUCTS):
                return casted(binary(op, casted(left, kind.dtype.computes_as), right), kind.dtype)
            return apply_binary(op, left, filled_like(right, kind))
    elif isinstance(right, Tensor):
        kind = right.tensor_type
        if left.__class__ in _YIELDING[CATEGORY[kind.dtype]]:
            if kind.dtype.is_storage and op in _PRODUCTS:
                return casted(binary(op, left, casted(right, kind.dtype.computes_as)), kind.dtype)
            return apply_binary(op, filled_like(left, kind), right)
    left, right = lifted(left), lifted(right)
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        raise TypeError(f"{op.name}(): one of the arguments must be a Tensor")
    if not STATE.watched and isinstance(left, Tensor) and isinstance(right, Tensor):
        return _of_two_types(op, left, right)
    dtype = result_type(left, right)
    return CONTEXT.apply(op, aligned((left, right), dtype), {})[0]


def _scaled(op: Any, left: Tensor, right: Tensor) -> Tensor | None:
    """`left` of a half type scaled by the one element of a tensor of another dtype, which counts as
    a number does: it is not rounded first. None where that is not what is asked for."""
    kind = result_type(left, right)
    if kind not in HALVES or right.tensor_type.dtype is kind or not is_one_number(right):
        return None
    wide = kind.computes_as
    return casted(binary(op, casted(casted(left, kind), wide), casted(right, wide)), kind)


def is_one_number(x: Any) -> bool:
    """A number, or a tensor that is known to have one element."""
    return not isinstance(x, Tensor) or all(
        [n.__class__ is int and n == 1 for n in x.tensor_type.shape]
    )


def _of_two_types(op: Any, left: Tensor, right: Tensor) -> Tensor:
    """`binary` of tensors of different types, where nothing is watched."""
    key = (left.tensor_type, right.tensor_type)
    common = _COMMON.get(key)
    if common is None:
        common = _COMMON[key] = _common(left, right)
    dtype, shape, of_left, of_right = common
    if left.tensor_type.dtype is not dtype:
        left = casted(left, dtype)
    if right.tensor_type.dtype is not dtype:
        right = casted(right, dtype)
    if of_left is not None or of_right is not None:
        result = apply_spread(op, left, right, of_left, of_right)
        if result is not None:
            return result
    if left.tensor_type.shape != shape:
        left = expanded(left, shape)
    if right.tensor_type.shape != shape:
        right = expanded(right, shape)
    return apply_binary(op, left, right)


def _common(left: Tensor, right: Tensor) -> Common:
    """What is computed of two tensors: its dtype and shape, and the broadcasts they need."""
    dtype, shape = result_type(left, right), common_shape(left, right)
    kinds = [x.tensor_type.with_dtype(dtype) for x in (left, right)]
    of_left, of_right = [None if kind.shape == shape else Spread(kind, shape) for kind in kinds]
    return dtype, shape, of_left, of_right


def lifted(operand: Any) -> Any:
    """A NumPy array (with dimensions) as a tensor over its memory, a size as a number; others as
    they are."""
    if isinstance(operand, Dim):
        return shown(operand)
    return from_data(operand, copy=False) if isinstance(operand, np.ndarray) else operand


def float_binary(op: Any, left: Any, right: Any) -> Tensor:
    """As `binary`, integers first turned to the default float dtype."""
    left, right = lifted(left), lifted(right)
    dtype = result_type(left, right)
    if not dtype.is_float and (isinstance(left, Tensor) or isinstance(right, Tensor)):
        dtype = STATE.default_dtype
        return CONTEXT.apply(op, aligned((left, right), dtype), {})[0]
    return binary(op, left, right)


def floating(x: Any) -> Tensor:
    """`x` itself if it is a float tensor, else cast to the default float dtype."""
    if not isinstance(x, Tensor):
        raise TypeError(f"expected a Tensor, got {type(x).__name__}")
    return x if x.tensor_type.dtype.is_float else casted(x, STATE.default_dtype)


def no_bool_subtract(left: Any, right: Any) -> None:
    """Raise what PyTorch raises for `-` on bool tensors."""
    are_bool = (_is_bool(left), _is_bool(right))
    if True not in are_bool:
        return
    if all(are_bool):
        raise DTypeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead.",
            location=user_location(),
        )
    raise DTypeError(
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
        "to invert a mask, use the `~` or `logical_not()` operator instead.",
        location=user_location(),
    )


def _is_bool(x: Any) -> bool:
    return x.tensor_type.dtype is DType.bool if isinstance(x, Tensor) else isinstance(x, bool)
