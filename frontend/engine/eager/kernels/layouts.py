"""How operands lie in memory: what is passed to a kernel that reads them so.

in : arrays of any strides
out: for each the contiguous array whose elements it shows, in which order, if there is one
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from graphc.ir.builder import Var
from graphc.ir.types import Shape, TensorType
from graphc.ops.kinds.op import Array
from graphc.ops.movement import broadcast, reshape, transpose
from graphc.records import record

Base = Callable[[Array], Array] | None
"""Makes of an operand the contiguous array that is passed; None for one that is passed itself."""

COPIED: Base = partial(np.asarray, order="C")
"""For operands that no kernel reads as they lie."""


@record(slots=False)
class Layout:
    """An operand whose elements are those of a contiguous array: `order` are its axes from the
    outermost in memory; along the others, `spread`, all elements are the same one."""

    order: tuple[int, ...]
    spread: tuple[int, ...]

    def dense(self, type: TensorType) -> TensorType:
        """The type of the contiguous array."""
        return type.with_shape(tuple([type.shape[axis] for axis in self.order]))

    def shown(self, dense: Var, shape: Shape) -> Any:
        """The operand, of `shape`, as a node over the contiguous array."""
        back = tuple([self.order.index(axis) for axis in sorted(self.order)])
        ones = tuple([dim if axis in self.order else 1 for axis, dim in enumerate(shape)])
        transposed = transpose(dense, permutation=back)
        return broadcast(reshape(transposed, shape=ones), shape=shape)

    def shown_array(self, dense: Array, shape: Shape) -> Array:
        """The same of an array."""
        back = [self.order.index(axis) for axis in sorted(self.order)]
        ones = [dim if axis in self.order else 1 for axis, dim in enumerate(shape)]
        return np.broadcast_to(dense.transpose(back).reshape(ones), shape)


Layouts = tuple[Layout | None, ...]
"""Of each operand of a call; None where it is contiguous, or copied."""


def layout_of(array: Array) -> Layout | None:
    """How an operand is passed: None as it is, or as a contiguous copy."""
    strides, shape = array.strides, array.shape
    if array.flags.c_contiguous:
        return None
    spread = tuple([axis for axis, dim in enumerate(shape) if strides[axis] == 0 or dim == 1])
    order = [axis for axis in range(len(shape)) if axis not in spread]
    order.sort(key=lambda axis: -strides[axis])
    expected = array.itemsize
    for axis in reversed(order):
        if strides[axis] != expected:
            return None
        expected *= shape[axis]
    return Layout(tuple(order), spread)


def base_of(array: Array, layout: Layout | None) -> Base:
    """How the array that is passed is made of operands of these strides."""
    if array.flags.c_contiguous:
        return None
    if layout is None:
        return COPIED
    index = (*[0 if axis in layout.spread else slice(None) for axis in range(array.ndim)], ...)
    kept = sorted(layout.order)
    permutation = tuple([kept.index(axis) for axis in layout.order])
    if permutation == tuple(range(len(kept))):
        return itemgetter(index)
    if not layout.spread:
        return methodcaller("transpose", permutation)
    return lambda array: array[index].transpose(permutation)
