"""Plan kernels → loop kernels: picks the recipe.

in : a KernelSpec of the plan, and a target
out: a verified loop kernel whose buffers are the body's inputs, then its outputs
"""

from __future__ import annotations

from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.attention.backward import lower_attention_grad
from graphc.codegen.recipes.attention.forward import lower_attention
from graphc.codegen.recipes.contraction.recipe import lower_contract
from graphc.codegen.recipes.contraction.winograd import lower_winograd
from graphc.codegen.recipes.nest.recipe import lower_nest
from graphc.codegen.recipes.nest.update import lower_update
from graphc.codegen.recipes.scan import lower_scan
from graphc.codegen.recipes.scatter import lower_scatter
from graphc.codegen.recipes.sort import lower_sort
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.schedule.plan import KernelSpec

RECIPES = {
    "nest": lower_nest, "contract": lower_contract, "scatter": lower_scatter, "scan": lower_scan,
    "sort": lower_sort, "attention": lower_attention, "attention_grad": lower_attention_grad,
    "winograd": lower_winograd, "update": lower_update,
}  # fmt: skip


def lower(kernel: KernelSpec, target: Target, name: str = "kernel") -> Kernel:
    """The loops of a kernel. Raises LoweringError for a recipe that does not exist."""
    recipe = RECIPES.get(kernel.recipe)
    if recipe is None:
        raise LoweringError(f"no recipe {kernel.recipe!r}", hint=f"one of {', '.join(RECIPES)}")
    return recipe(name, kernel.body, target)
