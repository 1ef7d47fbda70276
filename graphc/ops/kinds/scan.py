"""The kind `scan`: what has been combined so far, at each place along one axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.numpy_algebra import NUMPY
from graphc.ops.kinds.op import REQUIRED, Array, Arrays, Op, Parameters, Types

Parts = tuple[Any, ...]


class Scan(Op):
    """Element i along `axis` is combine(… combine(x₀, x₁) …, xᵢ): one after the other, in the order
    of the axis, starting from the first element itself. `combine(s, running, x)` is the rule,
    `numpy(x, axis)` the fast form that does the same in the same order."""

    kind = "scan"

    def __init__(
        self,
        name: str,
        combine: Callable[..., Any],
        numpy: Callable[..., Array],
        *,
        dtypes: tuple[DType, ...],
        **rest: Any,
    ):
        super().__init__(name, parameters=Parameters({"axis": REQUIRED}, ["axis"]), **rest)
        self.combine = combine
        self.numpy = numpy
        self.dtypes = dtypes

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 1)
        self.expect_dtype(types[0], self.dtypes)
        axis = attributes["axis"]
        if not 0 <= axis < types[0].rank:
            raise ShapeError(f"{self.name}: axis {axis} is out of range for {types[0]}")
        return (types[0].with_dtype(self.result_dtype(types[0].dtype)),)

    def result_dtype(self, dtype: DType) -> DType:
        return dtype

    def step(self, s: Any, running: Parts, new: Parts) -> Parts:
        """What runs along after one more element. The parts are the element, and its position
        where the op asks for it; the last part is the result there."""
        return (self.combine(s, running[0], new[0]),)

    def parts(self, element: Any, position: Callable[[], Any]) -> Parts:
        """The parts of one element."""
        return (element,)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        scanned = self.numpy(x, attributes["axis"])
        return (np.asarray(scanned, self.result_dtype(DType.of(x.dtype)).numpy),)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        axis = attributes["axis"]
        (type,) = self.infer((TensorType.of(x),), attributes)
        out = np.empty(type.shape, type.dtype.numpy)
        rows, out_rows = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
        running: Parts = ()
        for position, row in enumerate(rows):
            new = self.parts(row, partial(np.full, row.shape, position, np.int64))
            running = self.step(NUMPY, running, new) if position else new
            out_rows[position] = running[-1]
        return (out,)


class ArgScan(Scan):
    """The position, as i64, of the best element so far along `axis`. `combine(s, running, x)` says
    whether x takes its place; NaN takes the place of everything."""

    kind = "scan"

    def result_dtype(self, dtype: DType) -> DType:
        return DType.i64

    def step(self, s: Any, running: Parts, new: Parts) -> Parts:
        takes = s.logical_or(self.combine(s, running[0], new[0]), s.ne(new[0], new[0]))
        return s.select(takes, new[0], running[0]), s.select(takes, new[1], running[1])

    def parts(self, element: Any, position: Callable[[], Any]) -> Parts:
        return element, position()
