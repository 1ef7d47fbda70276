"""The kind `sort`: the order of the elements along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.types import DType
from graphc.ops.kinds.op import NUMBERS, REQUIRED, Array, Arrays, Op, Parameters, Types


class Sort(Op):
    """The positions, as i64, that sort the elements along `axis`: result i is the position of the
    i-th smallest (`descending`: greatest). Equal elements keep their order; -0 equals +0; NaN is
    greater than all numbers and equal to NaN."""

    kind = "sort"

    def __init__(self, name: str, **rest: Any):
        super().__init__(
            name, parameters=Parameters({"axis": REQUIRED, "descending": False}, ["axis"]), **rest
        )

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 1)
        self.expect_dtype(types[0], NUMBERS)
        axis = attributes["axis"]
        if not 0 <= axis < types[0].rank:
            raise ShapeError(f"{self.name}: axis {axis} is out of range for {types[0]}")
        return (types[0].with_dtype(DType.i64),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        axis = attributes["axis"]
        if not attributes["descending"]:
            return (_ascending(x, axis),)
        # What is last among the reversed is first among the equal ones.
        backwards = _ascending(np.flip(x, axis), axis)
        return (np.ascontiguousarray(np.flip(x.shape[axis] - 1 - backwards, axis)),)


def _ascending(x: Array, axis: int) -> Array:
    return np.asarray(np.argsort(x, axis=axis, kind="stable"), np.int64)
