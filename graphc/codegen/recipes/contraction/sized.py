"""Contractions with sizes that are known only at run time.

In: a kernel's body in which the batch, the rows, or the first reduced coordinate have such sizes.
Out: a plan: that of the same body at typical sizes, if it needs no memory that grows with them. The
columns, which run along vectors, are a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graphc.codegen.recipes.contraction.problem import ContractionProblem, problems
from graphc.codegen.recipes.contraction.tilings import Tiling, tilings
from graphc.codegen.recipes.contraction.unblocked import UnblockedPlan
from graphc.codegen.recipes.contraction.vector_read import VectorRead
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.ir.dims import is_symbolic
from graphc.ir.instances import at_sizes, symbols_of
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import nearest


def choose_sized(body: Graph, lanes: int, target: Target) -> UnblockedPlan:
    """The cheapest plan at typical sizes that is right at all. Raises LoweringError where there is
    none."""
    typical = at_sizes(body, {symbol.name: nearest(symbol) for symbol in symbols_of(body)})
    best: UnblockedPlan | None = None
    pairs = zip(problems(body, lanes), problems(typical, lanes), strict=True)
    for problem, example in pairs:
        for plan in _plans(problem, example, target):
            if best is None or plan.cost < best.cost:
                best = replace(plan, problem=problem)
    if best is None:
        raise LoweringError(
            f"a contraction with sizes known only at run time: {body.name}",
            hint="columns and windows have to be numbers",
        )
    return best


def _plans(
    problem: ContractionProblem, example: ContractionProblem, target: Target
) -> Iterator[UnblockedPlan]:
    """The plans for an example that are right for the problem."""
    view = problem.view
    if is_symbolic((*view.n, *view.k[1:])):
        return
    for plan in UnblockedPlan.candidates(example, target):
        panel = plan.read.packed and is_symbolic(view.k)
        if plan.tiling.packing is None and not panel and not plan.read.guarded:
            yield plan
    for tiling in tilings(example, target, float("inf")):
        if tiling.is_flat and _reads_in_place(problem):
            yield _in_place(example, tiling)


def _reads_in_place(problem: ContractionProblem) -> bool:
    """Whether every product has both its elements: there are no windows."""
    return len(problem.view.k) == 1


def _in_place(example: ContractionProblem, tiling: Tiling) -> UnblockedPlan:
    """Both operands are read where they lie, as a last resort."""
    return UnblockedPlan(
        example, replace(tiling, packing=None), VectorRead(), 4 * tiling.products,
        f"{example.name}, unblocked, at any size: {tiling.description}",
    )  # fmt: skip
