"""The kinds `gather` and `scatter`: elements read, or written, at data-dependent coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import DTypeError
from graphc.ir.types import DType, Shape, TensorType, row_major_strides
from graphc.ops.kinds.op import EVERY, Array, Arrays, Op, Types, keyword_parameters


class Gather(Op):
    """An element is read at a data-dependent coordinate. `source(index, types, read)` gives the
    coordinate in operand 0, where `read(coordinate)` is an element of the index operand 1."""

    kind = "gather"
    dtypes = EVERY

    def __init__(
        self,
        name: str,
        shape: Callable[..., Shape],
        source: Callable[..., tuple[Any, ...]],
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(shape), **rest)
        self.shape_rule = shape
        self.source = source

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 2)
        self.expect_dtype(types[1], (DType.i32, DType.i64), 1)
        return (TensorType(types[0].dtype, self.shape_rule(types, **attributes)),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        x, indices = arrays
        types = tuple(TensorType.of(array) for array in arrays)
        (result,) = self.infer(types, attributes)
        grid = tuple(np.indices(result.shape, sparse=True))
        source = self.source(grid, types, lambda at: indices[at], **attributes)
        picked = x[tuple(source)] if source else x
        # Not ascontiguousarray: that makes a 0-d result 1-d.
        return (np.array(np.broadcast_to(picked, result.shape), order="C"),)


class Scatter(Op):
    """operand 0 with the elements of operand 2 put in, each at a data-dependent coordinate, one
    after the other in row-major order of operand 2. `target(index, types, read)` is that
    coordinate; `combine(s, old, new)` is what stands there afterwards, None: the new element, so
    that the last of several stays. `put(flat, positions, elements)` is the NumPy form, on flat
    arrays, in the same order."""

    kind = "scatter"

    def __init__(
        self,
        name: str,
        validate: Callable[..., None],
        target: Callable[..., tuple[Any, ...]],
        combine: Callable[..., Any] | None,
        put: Callable[[Array, Array, Array], None],
        *,
        dtypes: tuple[DType, ...],
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(validate), **rest)
        self.validate = validate
        self.target = target
        self.combine = combine
        self.put = put
        self.dtypes = dtypes

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 3)
        self.expect_dtype(types[0], self.dtypes)
        self.expect_dtype(types[1], (DType.i32, DType.i64), 1)
        if types[2].dtype is not types[0].dtype:
            raise DTypeError(f"{self.name} takes operands of one dtype, got {types[0]}, {types[2]}")
        self.validate(types, **attributes)
        return (types[0],)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        x, _, source = arrays
        out = np.array(x, order="C")
        # Flat arrays: NumPy goes through several index arrays in an order of its own.
        flat = self.positions(arrays, attributes).reshape(-1)
        self.put(out.reshape(-1), flat, source.reshape(-1))
        return (out,)

    def positions(self, arrays: Arrays, attributes: dict[str, Any]) -> Array:
        """Where in operand 0, taken flat, each element of operand 2 goes."""
        x, indices, source = arrays
        types = tuple(TensorType.of(array) for array in arrays)
        grid: tuple[Any, ...] = tuple(np.indices(source.shape, sparse=True))
        target = self.target(grid, types, lambda at: indices[at], **attributes)
        position: Any = np.zeros((), np.int64)
        for coordinate, stride in zip(target, row_major_strides(x.shape), strict=True):
            position = position + np.asarray(coordinate, np.int64) * stride
        return np.broadcast_to(position, source.shape)


def put_last(flat: Array, positions: Array, elements: Array) -> None:
    """The last element that goes to a position stays there."""
    flat[positions] = elements
