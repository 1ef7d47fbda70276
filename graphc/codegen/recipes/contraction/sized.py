"""Strategy: sizes known only at run time anywhere, columns and windows among them.

Some rows meet one vector of columns, along the last coordinate of n; all other coordinates are
loops. Operands are read where they lie, each product under its guards: nothing is copied, so no
size decides what fits. Strategies that know more cost less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue
from graphc.codegen.recipes.contraction.costs import note
from graphc.codegen.recipes.contraction.emitter import EmissionContext, Emitter
from graphc.codegen.recipes.contraction.k_blocks import KLoops
from graphc.codegen.recipes.contraction.problem import ContractionProblem, k_variables
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, is_symbolic
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

ROWS = 8
"""Rows that share each vector that is read."""
EFFICIENCY = 0.25
"""Part of the FMA peak: products are selected, and addresses computed, one by one."""
GATHERED = 8.0
"""Times as long where a vector's elements lie apart."""


@dataclass(frozen=True, slots=True)
class SizedPlan:
    """`rows` of so many lanes at a time."""

    problem: ContractionProblem
    lanes: int
    rows: int
    cost: float
    reason: str

    @staticmethod
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[SizedPlan]:
        view = problem.view
        if not is_symbolic((*view.batch, *view.m, *view.n, *view.k)):
            return
        along = view.n[-1] if view.n else 1
        lanes = problem.lanes_for(along) if isinstance(along, int) else problem.lanes
        rows = min(problem.typical(problem.rows), ROWS)
        products = problem.typical(problem.batch_count * problem.rows * problem.depth)
        products *= problem.typical(math.prod(view.n))
        cost = products / lanes / EFFICIENCY * ROWS / max(rows, 1)
        cost *= 1.0 if _is_read_by_vectors(problem) else GATHERED
        yield SizedPlan(
            problem, lanes, max(rows, 1), cost,
            note(problem, "any size", f"tile {rows}x1x{lanes}, both operands in place",
                 products=cost),
        )  # fmt: skip

    def lower(self, context: EmissionContext) -> Kernel:
        emit = Emitter(context, self.problem, self.lanes)
        nest = SizedNest(emit, self.rows)
        return emit.over_batch(emit.batch_loops(), nest.batch_element, self.reason)


def _is_read_by_vectors(problem: ContractionProblem) -> bool:
    """Whether neighbouring columns are neighbours in memory, but for windows' guards."""
    view = problem.view
    if not view.n:
        return False
    n = [Variable(f"probe_n{axis}", extent) for axis, extent in enumerate(view.n)]
    k = tuple(of(variable) for variable in k_variables(view))
    case = view.vector(problem.batch, tuple(of(variable) for variable in n), k)
    linear = None if case is None else view.linear(case)
    return linear is not None and linear.coefficient(n[-1]) == 1


class SizedNest:
    """Coordinates of n but the last outside, vectors along that, tiles of rows, k."""

    def __init__(self, emit: Emitter, rows: int) -> None:
        self.emit = emit
        self.problem, self.view = emit.problem, emit.view
        self.outer = [Variable(f"n{axis}", dim) for axis, dim in enumerate(emit.view.n[:-1])]
        self.columns = LoopCut(emit.view.n[-1] if emit.view.n else 1, emit.lanes)
        self.rows = LoopCut(emit.problem.rows, rows)

    def batch_element(self, split: bool) -> Extent:
        """What is split are vectors of columns."""
        emit = self.emit
        part = (emit.builder.begin, emit.builder.end) if split else None

        def vector(number: Expr, rest: Extent | None) -> None:
            lane = emit.copier.lane()
            at = number * emit.lanes + lane
            guards: tuple[Guard, ...] = () if rest is None else ((lane, 0, rest),)
            n = (*(of(v) for v in self.outer), at) if self.view.n else ()
            loops = [variable for variable in self.outer if variable.extent != 1]
            emit.nested(loops, "n", lambda: self._all_rows(n, guards))

        self.columns.each(emit.addresses, "columns_vector", vector, part)
        return self.columns.tiles

    def _all_rows(self, n: Index, guards: tuple[Guard, ...]) -> None:
        height = self.rows.size

        def tile(number: Expr, rest: Extent | None) -> None:
            first = number * height
            if rest is None or isinstance(rest, int):
                self._tile([first + r for r in range(rest or height)], n, guards)
            else:
                self.emit.copier.loop(rest, "row", lambda r: self._tile([first + r], n, guards))

        self.rows.each(self.emit.addresses, "rows_tile", tile)

    def _tile(self, rows: list[Expr], n: Index, guards: tuple[Guard, ...]) -> None:
        """The results of some rows for one vector of columns."""
        emit, view, batch = self.emit, self.view, self.problem.batch
        places = [self.problem.m(row) for row in rows]
        body = self._products(places, n, guards)
        k = KLoops(emit.builder, emit.evaluator, view.k, len(view.k), body, emit.zeros(len(rows)))
        for m, total in zip(places, k.total(), strict=True):
            emit.finish(view.out(batch, m, n), guards, total)

    def _products(
        self, rows: list[Index], n: Index, guards: tuple[Guard, ...]
    ) -> Callable[[Index, list[LoopValue]], list[LoopValue]]:
        """What adds the products at an index of k, each where its guards hold."""
        emit, view, batch = self.emit, self.view, self.problem.batch

        def added(k: Index, sums: list[LoopValue]) -> list[LoopValue]:
            vector = view.vector(batch, n, k)
            totals = list(sums)
            for r, m in enumerate(rows):
                broadcast = view.broadcast(batch, m, k)
                if vector is None or broadcast is None:
                    continue
                x = operand_value(emit.evaluator, view, broadcast)
                y = operand_value(emit.evaluator, view, vector, guards)
                wide, column = (emit.builder.splat(value, emit.lanes) for value in (x, y))
                total = emit.multiply_add(wide, column, sums[r])
                held = (*broadcast.guards, *vector.guards)
                if held:
                    mask, _ = emit.addresses.mask(held)
                    total = emit.builder.select(mask, total, sums[r])
                totals[r] = total
            return totals

        return added
