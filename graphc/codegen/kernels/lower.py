"""Plan kernels → loop kernels: picks the recipe.

in : a KernelSpec of the plan, and a target
out: a verified loop kernel whose buffers are the body's inputs, then its outputs
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from graphc.codegen.kernels.attention.backward import backward_nest, lower_attention_grad
from graphc.codegen.kernels.attention.forward import forward_nest, lower_attention
from graphc.codegen.kernels.contraction.recipe import (
    contract_nest,
    lower_contract,
)
from graphc.codegen.kernels.elementwise.recipe import NestPlan, lower_nest, plan_elements
from graphc.codegen.kernels.elementwise.update import lower_update, plan_update
from graphc.codegen.kernels.scan import lower_scan, plan_scan
from graphc.codegen.kernels.scatter import lower_scatter, plan_scatter
from graphc.codegen.kernels.serial import lower_serial
from graphc.codegen.kernels.sort import lower_sort, plan_sort
from graphc.codegen.kernels.winograd.recipe import lower_winograd, winograd_nest
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.nests.nest import Nest
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.ir.dims import evaluate
from graphc.ir.nodes import Graph, Value
from graphc.schedule.plan import KernelSpec

Array = np.ndarray[Any, Any]

RECIPES = {
    "nest": lower_nest, "contract": lower_contract, "scatter": lower_scatter, "scan": lower_scan,
    "sort": lower_sort, "serial": lower_serial, "attention": lower_attention,
    "attention_grad": lower_attention_grad, "winograd": lower_winograd, "update": lower_update,
}  # fmt: skip


NESTS: dict[str, Callable[[Graph, Target], Nest | None]] = {
    "contract": contract_nest, "winograd": winograd_nest, "attention": forward_nest,
    "attention_grad": backward_nest,
}  # fmt: skip
"""Of kernels around an anchor."""


class _Plan(Protocol):
    def nest(self) -> Nest: ...


class _LinesPlan(_Plan, Protocol):
    @property
    def axis(self) -> int:
        """Along which lines are; that of the nest is the last one."""


ELEMENTS: dict[str, Callable[[Graph, Target], NestPlan | None]] = {
    "nest": plan_elements, "update": plan_update,
}  # fmt: skip
"""Plans of kernels without anchor."""
LINES: dict[str, Callable[[Graph, Target], _LinesPlan | None]] = {
    "scan": plan_scan, "sort": plan_sort,
}  # fmt: skip
PLANS: dict[str, Callable[[Graph, Target], _Plan | None]] = {
    **ELEMENTS, **LINES, "scatter": plan_scatter,
}  # fmt: skip


def nest_of(kernel: KernelSpec, target: Target) -> Nest | None:
    """The nest that the loops of a kernel are written from; None where there is none."""
    if kernel.recipe in NESTS:
        return NESTS[kernel.recipe](kernel.body, target)
    plan = PLANS[kernel.recipe](kernel.body, target) if kernel.recipe in PLANS else None
    return None if plan is None else plan.nest()


def by_nest(
    kernel: KernelSpec, target: Target, sizes: Mapping[str, int], body: Graph,
    values: Mapping[Value, Array],
) -> list[tuple[Array, Array]]:  # fmt: skip
    """What the nest of a kernel computes, by its runner, and what `body` has there, which is the
    kernel's at `sizes`, with these values: of a contraction its sums, of `winograd` the op's
    result, else of each output. Raises LoweringError for a kernel without a nest."""
    # Compiling needs them not.
    from graphc.codegen.kernels.attention.arrays import attention_by_nest
    from graphc.codegen.kernels.contraction.arrays import contract_by_nest
    from graphc.codegen.kernels.elementwise.arrays import elements_by_nest
    from graphc.codegen.kernels.winograd.arrays import winograd_by_nest
    from graphc.codegen.nests.element_runner import Combined, run_elements

    if kernel.recipe == "contract":
        both = contract_by_nest(kernel.body, target, sizes, body, values)
        if both is not None:
            return [both]
    elif kernel.recipe in ("attention", "attention_grad"):
        nest = NESTS[kernel.recipe](kernel.body, target)
        assert nest is not None
        return attention_by_nest(nest, kernel.body, sizes, values)
    elif kernel.recipe == "winograd":
        return [winograd_by_nest(kernel.body, target, sizes, values)]
    elif kernel.recipe in ELEMENTS:
        plan = ELEMENTS[kernel.recipe](kernel.body, target)
        if plan is not None:
            return elements_by_nest(plan, sizes, values)
    elif kernel.recipe in LINES:
        lines = LINES[kernel.recipe](kernel.body, target)
        if lines is not None:
            array = along_lines(lines, values[kernel.body.outputs[0]], sizes)
            return [(run_elements(lines.nest(), {"y0": array}, sizes, parts=2)["y0"], array)]
    elif kernel.recipe == "scatter":
        scatter, (output,) = plan_scatter(kernel.body, target), body.outputs
        arrays = tuple(values[operand] for operand in scatter.node.operands)
        positions = scatter.op.positions(arrays, dict(body.nodes[output.node].attributes))
        source = Combined(arrays[2], positions, scatter.op.put, scatter.source_axes)
        nest = scatter.nest()
        extents = {axis.name: evaluate(axis.extent, sizes) for axis in nest.axes}
        operand = arrays[0].reshape([extents[name] for name in nest.outputs[0].axes])
        combined = {} if 0 in scatter.types[2].shape else {"y0": source}
        stored = run_elements(nest, {"y0": operand}, sizes, parts=3, combined=combined)
        return [(stored["y0"].reshape(-1), values[output].reshape(-1))]
    raise LoweringError(f"a kernel of recipe {kernel.recipe} has no nest")


def along_lines(plan: _LinesPlan, array: Array, sizes: Mapping[str, int]) -> Array:
    """Results by the axes that those of such a plan's nest have."""
    nest = plan.nest()
    (output,) = nest.outputs
    extents = [evaluate(axis.extent, sizes) for axis in nest.axes if axis.name in output.axes]
    return np.moveaxis(array, plan.axis, -1).reshape(extents)


def lower(kernel: KernelSpec, target: Target, name: str = "kernel") -> Kernel:
    """The loops of a kernel. Raises LoweringError for a recipe that does not exist."""
    recipe = RECIPES.get(kernel.recipe)
    if recipe is None:
        raise LoweringError(f"no recipe {kernel.recipe!r}", hint=f"one of {', '.join(RECIPES)}")
    return recipe(name, kernel.body, target)
