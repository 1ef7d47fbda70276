"""Handles: what gradient rules, composites and users write ordinary expressions with.

A `Handle` has a type and a context; its operators emit ops into the context. A `GraphBuilder` is
a context that records; eager contexts compute. So one rule serves all of them. Handles are
strict: dtypes must agree; shapes broadcast by explicit `broadcast` nodes; a Python number takes
the dtype of the handle it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.dims import Dim
from graphc.ir.registry import OpDefinition, lookup
from graphc.ir.size_floats import SizeFloat
from graphc.ir.types import DType, Shape, TensorType, broadcast_shapes
from graphc.system import IMPORTING


class Context(Protocol):
    """Where ops go: a builder records them, an eager context computes them."""

    def apply(
        self, op: OpDefinition, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Emit `op`; the handles of its results."""
        ...

    def constant(self, array: Any) -> Any:
        """A handle on a constant array."""
        ...


class Handle:
    """A typed tensor expression with operators. Subclasses set `tensor_type` and `context`."""

    __slots__ = ()

    tensor_type: TensorType
    context: Any

    @property
    def shape(self) -> Shape:
        return self.tensor_type.shape

    @property
    def dtype(self) -> DType:
        return self.tensor_type.dtype

    def __add__(self, other: Any) -> Any:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return binary("div", other, self)

    def __pow__(self, other: Any) -> Any:
        return binary("pow", self, other)

    def __neg__(self) -> Any:
        return apply(lookup("neg"), self)

    def __gt__(self, other: Any) -> Any:
        return binary("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return binary("ge", self, other)

    def __lt__(self, other: Any) -> Any:
        return binary("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return binary("le", self, other)

    def __matmul__(self, other: Any) -> Any:
        return apply(lookup("matmul"), self, other)


def apply(op: OpDefinition, *operands: Any, **attributes: Any) -> Any:
    """Emit `op` on handles; one handle for one result, else a tuple."""
    results = operands[0].context.apply(op, operands, attributes)
    return results[0] if len(results) == 1 else results


def binary(name: str, left: Any, right: Any) -> Any:
    """An elementwise op on two handles, or a handle and a Python number, with broadcasting."""
    try:
        operands = aligned(left, right)
    except ShapeError as error:
        with IMPORTING:
            from graphc.ir.builder import user_location

        raise ShapeError(
            f"{name} of {left.tensor_type} and {right.tensor_type}: {error}",
            location=user_location(),
        ) from None
    return apply(lookup(name), *operands)


def aligned(*operands: Any) -> tuple[Any, ...]:
    """The operands lifted to handles and broadcast to their common shape."""
    model = next(operand for operand in operands if isinstance(operand, Handle))
    lifted = [
        operand if isinstance(operand, Handle) else lift(operand, model) for operand in operands
    ]
    shape = broadcast_shapes(*(operand.tensor_type.shape for operand in lifted))
    return tuple(broadcast_to(operand, shape) for operand in lifted)


def lift(number: Any, model: Handle) -> Any:
    """A Python number as a 0-d constant of `model`'s dtype in `model`'s context; a size known only
    at run time as what it then is."""
    if isinstance(number, Dim):
        return cast_to(_extent(number, model.dtype.computes_as, model), model.dtype)
    if type(number) is SizeFloat and number.is_native:
        wide = number.emitted(
            lambda part: _extent(part, DType.f64, model),
            lambda name, left, right: apply(lookup(name), left, right),
        )
        return cast_to(wide, model.dtype)
    plain = float(number) if type(number) is SizeFloat else number
    return model.context.constant(np.asarray(plain, dtype=model.dtype.numpy))


def _extent(number: Any, dtype: DType, model: Handle) -> Any:
    """A number or an extent as a 0-d value of a dtype."""
    if not isinstance(number, Dim):
        return model.context.constant(np.asarray(number, dtype=dtype.numpy))
    return model.context.apply(lookup("extent"), (), {"size": number, "dtype": dtype})[0]


def broadcast_to(operand: Any, shape: Sequence[int]) -> Any:
    """`operand` broadcast to `shape` by an explicit node, or itself where it has that shape."""
    shape = tuple(shape)
    if len(operand.shape) == len(shape) and operand.shape == shape:
        return operand
    return apply(lookup("broadcast"), operand, shape=shape)


def filled_like(number: Any, like: Any) -> Any:
    """A number in the shape and dtype of `like`."""
    return broadcast_to(lift(number, like), like.shape)


def cast_to(operand: Any, dtype: DType) -> Any:
    """`operand` in `dtype`, by an explicit node, or itself where it has that."""
    return operand if operand.dtype is dtype else apply(lookup("cast"), operand, dtype=dtype)


def sum_to(operand: Any, shape: Sequence[int]) -> Any:
    """`operand` summed over the axes along which `shape` would be broadcast to its own: the adjoint
    of `broadcast_to`."""
    shape, wide = tuple(shape), operand.shape
    lead = len(wide) - len(shape)
    repeated = [i for i, dim in enumerate(shape, start=lead) if dim == 1 and wide[i] != 1]
    axes = (*range(lead), *repeated)
    reduced = apply(lookup("sum"), operand, axes=axes) if axes else operand
    return reduced if reduced.shape == shape else apply(lookup("reshape"), reduced, shape=shape)
