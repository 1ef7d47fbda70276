"""Reductions: how two partial results combine, and the identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.dims import always_le
from graphc.ir.size_guards import equal
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops.kinds.op import REQUIRED, Arrays, Op, Parameters, Types


class Reduce(Op):
    """Combines the elements along `axes` (removed from the shape). `combine(s, a, b)` is
    associative and commutative; the order native code uses is fixed: see docs/arithmetic.md."""

    kind = "reduce"

    def __init__(
        self,
        name: str,
        combine: Callable[..., Any],
        identity: Callable[[DType], Any],
        numpy: Callable[..., Any],
        *,
        dtypes: tuple[DType, ...],
        needs_elements: bool = False,
        **rest: Any,
    ):
        super().__init__(name, parameters=Parameters({"axes": REQUIRED}, ["axes"]), **rest)
        self.combine = combine
        self.identity = identity
        self.numpy = numpy
        self.dtypes = dtypes
        self.needs_elements = needs_elements

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 1)
        self.expect_dtype(types[0], self.dtypes)
        return (TensorType(types[0].dtype, self._kept(types[0], attributes)),)

    def _kept(self, type: TensorType, attributes: dict[str, Any]) -> Shape:
        axes = attributes["axes"]
        if list(axes) != sorted(set(axes)) or any(not 0 <= axis < type.rank for axis in axes):
            raise ShapeError(
                f"{self.name}: axes {list(axes)} do not fit {type}",
                hint="sorted, each once, counted from the front",
            )
        if self.needs_elements and any(equal(type.shape[axis], 0) for axis in axes):
            raise ShapeError(f"{self.name} of no elements: {type} over axes {list(axes)}")
        return tuple(dim for axis, dim in enumerate(type.shape) if axis not in axes)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        return (np.asarray(self.numpy(x, axis=attributes["axes"]), dtype=x.dtype),)


class ArgReduce(Reduce):
    """The position of the first best element along one axis, in the attribute `dtype` (i64, or i32
    where positions are kept for later and memory counts). NaN beats all numbers."""

    kind = "argreduce"

    def __init__(
        self, name: str, better: Callable[..., Any], numpy: Callable[..., Any], **rest: Any
    ):
        """`better(s, a, b)`: a is strictly better than b, for numbers."""
        super().__init__(
            name, better, identity=lambda dtype: None, numpy=numpy, needs_elements=True, **rest
        )
        self.parameters = Parameters({**self.parameters, "dtype": DType.i64}, self.whole)

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        if len(attributes["axes"]) != 1:
            raise ShapeError(f"{self.name} takes one axis, not {list(attributes['axes'])}")
        (kept,) = super().infer(types, attributes)
        dtype, extent = attributes["dtype"], types[0].shape[attributes["axes"][0]]
        if dtype not in (DType.i64, DType.i32):
            raise DTypeError(f"{self.name} gives positions as i64 or i32, not {dtype.value}")
        if dtype is DType.i32 and not always_le(extent - 1, np.iinfo(np.int32).max):
            raise ShapeError(f"{self.name} of {extent} elements: positions exceed {dtype.value}")
        return (TensorType(dtype, kept.shape),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (axis,) = attributes["axes"]
        positions = self.numpy(arrays[0], axis=axis)
        return (np.asarray(positions, dtype=attributes["dtype"].numpy),)
