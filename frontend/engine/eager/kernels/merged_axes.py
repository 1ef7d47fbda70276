"""Ops that treat neighbouring axes alike, on contiguous operands: the same op on fewer axes.

in : an op, the types of its operands, its attributes
out: what it is called with instead, and the shapes of its results

A sum over [N, C, H, W] along N, H and W is one over [N, C, H·W]: element t of what is summed is the
same one, so the bits are too (docs/arithmetic.md). One kernel then serves images of any shape, and
rows of four elements fill vectors of sixteen.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from frontend.engine.eager.kernels.gradient_rule import GradientRule
from frontend.engine.eager.kernels.layouts import Layout, Layouts
from graphc.ir.types import Shape
from graphc.ops.composite import mean
from graphc.ops.kinds.op import Op, Types
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.ops.nn.normalization import batch_norm, batch_norm_by
from graphc.records import record

PER_CHANNEL = (batch_norm, batch_norm_by)
"""Ops that know the first two axes of their first operand, and take all others together."""


@record
class MergedCall:
    """A call on fewer axes. Results of the shape `merged` have the shape `whole` with all axes;
    others are the same as without merging."""

    types: Types
    attributes: dict[str, Any]
    merged: Shape
    whole: Shape

    def results(self, merged: Types) -> Types:
        """The types of results, from those found for fewer axes."""
        return tuple([t.with_shape(self.whole) if t.shape == self.merged else t for t in merged])

    def layouts(self, layouts: Layouts) -> Layouts:
        """Those of the operands: each is contiguous, or one number."""
        ranks = [len(type.shape) for type in self.types]
        return tuple([x and Layout((), tuple(range(rank))) for x, rank in zip(layouts, ranks)])


def merged_call(
    op: Op, types: Types, attributes: dict[str, Any], layouts: Layouts = ()
) -> MergedCall | None:
    """The call on fewer axes; None where there are no neighbours to merge, or operands do not lie
    so in memory."""
    if any([layout is not None and layout.order for layout in layouts]):
        return None
    if _per_channel(op):
        shape = max([type.shape for type in types], key=len)
        if len(shape) < 4:
            return None
        merged = (*shape[:2], math.prod(shape[2:]))
        fewer = tuple([t.with_shape(merged) if t.shape == shape else t for t in types])
        return MergedCall(fewer, attributes, merged, shape)
    return _reduction(types, attributes) if _combines_along_axes(op) else None


def _per_channel(op: Op) -> bool:
    return (op.of if isinstance(op, GradientRule) else op) in PER_CHANNEL


def _combines_along_axes(op: Op) -> bool:
    return op is mean or (isinstance(op, Reduce) and not isinstance(op, ArgReduce))


def _reduction(types: Types, attributes: dict[str, Any]) -> MergedCall | None:
    (x,), axes = types, attributes["axes"]
    # Axes that are kept may be sizes of different kinds: each stays its own.
    own = [-1 if axis in axes else axis for axis in range(len(x.shape))]
    runs = [list(run) for _, run in groupby(range(len(x.shape)), key=own.__getitem__)]
    if len(runs) == len(x.shape):
        return None
    merged = x.with_shape(tuple([math.prod([x.shape[axis] for axis in run]) for run in runs]))
    reduced = tuple([number for number, run in enumerate(runs) if run[0] in axes])
    kept = tuple([extent for axis, extent in enumerate(x.shape) if axis not in axes])
    left = tuple([extent for axis, extent in enumerate(merged.shape) if axis not in reduced])
    return MergedCall((merged,), {**attributes, "axes": reduced}, left, kept)


def sums_short_rows(op: Op, types: Types, attributes: dict[str, Any]) -> bool:
    """Whether rows of the last axis are summed together with others, of several images. Code for
    any length is as fast then as code for one."""
    if _per_channel(op):
        return max([len(type.shape) for type in types]) == 3
    return _combines_along_axes(op) and len(types[0].shape) == 3 and attributes["axes"] == (0, 2)
