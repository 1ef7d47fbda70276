"""Ops that treat neighbouring axes alike, on contiguous operands: the same op on fewer axes.

in : an op, the types of its operands, its attributes
out: what it is called with instead, and the shape of its first result

A sum over [N, C, H, W] along N, H and W is one over [N, C, H·W]: element t of what is summed is the
same one, so the bits are too (docs/arithmetic.md). One kernel then serves images of any shape, and
rows of four elements fill vectors of sixteen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from graphc.ir.types import Shape
from graphc.ops.composite import mean
from graphc.ops.kinds.op import Op, Types
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.ops.normalization import batch_norm, batch_norm_by

PER_CHANNEL = (batch_norm, batch_norm_by)
"""Ops that know the first two axes of their first operand, and take all others together."""


@dataclass(frozen=True, slots=True)
class MergedCall:
    """A call on fewer axes. `first`: the shape of its first result with all axes; others are the
    same as without merging."""

    types: Types
    attributes: dict[str, Any]
    first: Shape

    def results(self, found: Types) -> Types:
        """The types of results, from those found for fewer axes."""
        return (found[0].with_shape(self.first), *found[1:])


def merged_call(op: Op, types: Types, attributes: dict[str, Any]) -> MergedCall | None:
    """The call on fewer axes; None where there are no neighbours to merge."""
    if op in PER_CHANNEL:
        shape = types[0].shape
        if len(shape) < 4:
            return None
        first = types[0].with_shape((*shape[:2], math.prod(shape[2:])))
        return MergedCall((first, *types[1:]), attributes, shape)
    return _reduction(types, attributes) if _combines_along_axes(op) else None


def _combines_along_axes(op: Op) -> bool:
    return op is mean or (isinstance(op, Reduce) and not isinstance(op, ArgReduce))


def _reduction(types: Types, attributes: dict[str, Any]) -> MergedCall | None:
    (x,), axes = types, attributes["axes"]
    runs = [list(run) for _, run in groupby(range(len(x.shape)), key=lambda axis: axis in axes)]
    if len(runs) == len(x.shape):
        return None
    merged = x.with_shape(tuple([math.prod([x.shape[axis] for axis in run]) for run in runs]))
    reduced = tuple([number for number, run in enumerate(runs) if run[0] in axes])
    kept = tuple([extent for axis, extent in enumerate(x.shape) if axis not in axes])
    return MergedCall((merged,), {**attributes, "axes": reduced}, kept)


def sums_short_rows(op: Op, types: Types, attributes: dict[str, Any]) -> bool:
    """Whether rows of the last axis are summed together with others, of several images. Code for
    any length is as fast then as code for one."""
    if op in PER_CHANNEL:
        return len(types[0].shape) == 3
    return _combines_along_axes(op) and len(types[0].shape) == 3 and attributes["axes"] == (0, 2)
