"""The kind `sort`: the order of the elements along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.dims import always_le
from graphc.ir.types import DType
from graphc.ir.undecided import answers_now
from graphc.ops.kinds.op import NUMBERS, REQUIRED, Array, Arrays, Op, Parameters, Types


class Sort(Op):
    """The positions, as i64, that sort the elements along `axis`: result i is the position of the
    i-th smallest (`descending`: greatest). Equal elements keep their order; -0 equals +0; NaN is
    greater than all numbers and equal to NaN. Of an op that is `counted` the attribute `count` says
    how many of them there are: the first ones."""

    kind = "sort"

    def __init__(self, name: str, counted: bool = False, **rest: Any):
        defaults = {"axis": REQUIRED, "descending": False, "count": REQUIRED}
        if not counted:
            del defaults["count"]
        super().__init__(name, parameters=Parameters(defaults, ["axis", "count"]), **rest)

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 1)
        self.expect_dtype(types[0], NUMBERS)
        axis = attributes["axis"]
        if not 0 <= axis < types[0].rank:
            raise ShapeError(f"{self.name}: axis {axis} is out of range for {types[0]}")
        result = types[0].with_dtype(DType.i64)
        if "count" not in attributes:
            return (result,)
        count, size = attributes["count"], types[0].shape[axis]
        # A size that was left open: always, or in the example that answers.
        fits = always_le(0, count) and always_le(count, size)
        if not fits and (answers_now() is None or not 0 <= count <= size):
            raise ShapeError(f"{self.name}: {count} of the {size} elements along axis {axis}")
        shape = result.shape
        return (result.with_shape((*shape[:axis], count, *shape[axis + 1 :])),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        axis = attributes["axis"]
        order = _descending(x, axis) if attributes["descending"] else _ascending(x, axis)
        first = (*[slice(None)] * axis, slice(attributes.get("count")))
        return (np.ascontiguousarray(order[first]),)


def _ascending(x: Array, axis: int) -> Array:
    return np.asarray(np.argsort(x, axis=axis, kind="stable"), np.int64)


def _descending(x: Array, axis: int) -> Array:
    # What is last among the reversed is first among the equal ones.
    return np.flip(x.shape[axis] - 1 - _ascending(np.flip(x, axis), axis), axis)
