"""The outputs of an elementwise kernel as arrays along its nest's axes, for the runner of nests.

In: a plan, the values of the kernel's body. Out: both sides of a comparison, for each output, and
for each sum of columns: as the nest stores it, and as the values are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from graphc.codegen.kernels.elementwise.axes import outputs_of
from graphc.codegen.kernels.elementwise.columns import ColumnsPlan, reduction
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.kernels.elementwise.recipe import NestPlan
from graphc.codegen.nests.element_runner import run_elements
from graphc.codegen.nests.level_sums import Summed
from graphc.ir.dims import evaluate
from graphc.ir.nodes import Value
from graphc.ops.kinds.numpy_algebra import NUMPY

Array = np.ndarray[Any, Any]


def elements_by_nest(
    plan: NestPlan, sizes: Mapping[str, int], values: Mapping[Value, Array]
) -> list[tuple[Array, Array]]:
    """For each output what the nest stores at `sizes`, and what it is: it has these values. Of sums
    of columns what the nest makes of their elements."""
    named = zip(outputs_of(plan.over), plan.over.body.outputs, strict=True)
    arrays = {output.name: along(plan.over, values[value], sizes) for output, value in named}
    sums = summed_of(plan, sizes, values)
    stored = run_elements(plan.nest(), arrays, sizes, 2, sums)
    reduced = {name: along(plan.over, values[value], sizes) for name, value in sums_of(plan)}
    return [(stored[name], array) for name, array in (arrays | reduced).items()]


def sums_of(plan: NestPlan) -> list[tuple[str, Value]]:
    """The sums that a nest has an axis for, by names of their own."""
    if not isinstance(plan, ColumnsPlan):
        return []
    return [(f"sum {identity}", Value(identity, 0)) for identity in plan.sums]


def summed_of(
    plan: NestPlan, sizes: Mapping[str, int], values: Mapping[Value, Array]
) -> dict[str, Summed]:
    """What those sums are of."""
    summed: dict[str, Summed] = {}
    for name, value in sums_of(plan):
        assert isinstance(plan, ColumnsPlan)
        op, (operand,) = reduction(plan, value.node), plan.over.body.nodes[value.node].operands
        extents = [*(loop.variable.extent for loop in plan.over.loops), plan.count]
        elements = np.moveaxis(values[operand], plan.axes, range(-len(plan.axes), 0))
        elements = elements.reshape([evaluate(extent, sizes) for extent in extents])
        identity = op.identity(plan.over.body.type_of(value).dtype)
        summed[name] = Summed(elements, partial(op.combine, NUMPY), identity)
    return summed


def along(over: LoopNest, array: Array, sizes: Mapping[str, int]) -> Array:
    """An array with an axis for each loop over its axes, and where loops are over cells one more
    behind them for the elements of a cell, zeros where the last one has none."""
    level, period = over.level_of(array.ndim), over.domain.period
    extents = [evaluate(loop.variable.extent, sizes) for loop in over.loops[:level]]
    if not period:
        return array.reshape(extents)
    cells = [-(-extent // p) for extent, p in zip(array.shape, period, strict=True)]
    missing = zip(array.shape, cells, period, strict=True)
    array = np.pad(array, [(0, count * p - extent) for extent, count, p in missing])
    array = array.reshape([n for pair in zip(cells, period, strict=True) for n in pair])
    order = [*range(0, array.ndim, 2), *range(1, array.ndim, 2)]
    return array.transpose(order).reshape(*extents, math.prod(period))
