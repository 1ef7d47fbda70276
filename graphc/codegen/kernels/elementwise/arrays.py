"""The outputs of an elementwise kernel as arrays along its nest's axes, for the runner of nests.

In: a plan, the values of the kernel's body. Out: both sides of a comparison, for each output: as
the nest stores it, and as the values are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphc.codegen.kernels.elementwise.axes import outputs_of
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.kernels.elementwise.recipe import NestPlan
from graphc.codegen.nests.element_runner import run_elements
from graphc.ir.dims import evaluate
from graphc.ir.nodes import Value

Array = np.ndarray[Any, Any]


def elements_by_nest(
    plan: NestPlan, sizes: Mapping[str, int], values: Mapping[Value, Array]
) -> list[tuple[Array, Array]]:
    """For each output what the nest stores at `sizes`, and what it is: it has these values."""
    named = zip(outputs_of(plan.over), plan.over.body.outputs, strict=True)
    arrays = {output.name: along(plan.over, values[value], sizes) for output, value in named}
    stored = run_elements(plan.nest(), arrays, sizes, parts=2)
    return [(stored[name], arrays[name]) for name in arrays]


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
