"""Sums whose skipped products must be skipped, not added as zeros.

Fast code reads zeros where a window hangs over the edge. Times an infinite or NaN factor these give
NaN, so where a result is NaN it is summed again, product by product, under the guards.
"""

from __future__ import annotations

import math

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.copier import Copier
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.contraction.cost.tiles import OutputTile
from graphc.codegen.kernels.contraction.problem.k_blocks import KLoops
from graphc.codegen.kernels.contraction.problem.view import ContractionView, operand_value
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.ir.dims import Extent
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index, unflatten


class GuardedSums:
    """Checks and recomputes sums of one contraction; `zero` is a vector."""

    def __init__(self, copier: Copier, view: ContractionView, zero: LoopValue) -> None:
        self.copier = copier
        self.builder = copier.builder
        self.evaluator: Evaluator = copier.evaluator
        self.addresses = self.evaluator.addresses
        self.view = view
        self.zero = zero
        self.lanes = copier.lanes
        self.dtype = view.dtype
        self.memory: dict[int, Buffer] = {}

    def tile(self, at: OutputTile, totals: list[LoopValue]) -> list[LoopValue]:
        """`totals`, or, where one of them is not finite, the sums with skipped products skipped."""
        builder = self.builder
        with builder.if_(self.any_nan(totals), cold=True) as branch:
            with branch.then():
                memory = self._scratch(len(totals) * self.lanes)
                filled_in = builder.block
                lane = self.copier.lane()

                def one(r: Expr, v: Expr) -> None:
                    n, guards = at.columns.place(at.vector + v, lane)
                    m = unflatten(self._row(at, r), self.view.m)
                    total = self.total(at.batch, m, n, guards)
                    position = (r * at.vectors + v) * self.lanes + lane
                    self.evaluator.store(memory, position, total)

                self.copier.loop(
                    at.rows, "r",
                    lambda r: self.copier.loop(at.vectors, "v", lambda v: one(r, v)),
                )  # fmt: skip
                again = [
                    self.evaluator.load(memory, lane + i * self.lanes, (), filled_in)
                    for i in range(len(totals))
                ]
                branch.yield_(*(builder.splat(value, self.lanes) for value in again))
            with branch.otherwise():
                branch.yield_(*totals)
        return list(branch.results)

    def _row(self, at: OutputTile, r: Expr) -> Expr:
        """The number of a tile's row; of one that is not there that of the last."""
        row = at.row + r
        if not at.clamped:
            return row
        rows: Extent = math.prod(self.view.m)
        least = self.builder.minimum(self.addresses.scalar(row), self.builder.size(rows - 1))
        variable = Variable(f"row{least.name}", rows)
        self.addresses.bind(variable, least, self.builder.block)
        return of(variable)

    def _scratch(self, size: int) -> Buffer:
        if size not in self.memory:
            self.memory[size] = self.builder.scratch(f"again{size}", self.dtype, size)
        return self.memory[size]

    def any_nan(self, values: list[LoopValue]) -> LoopValue:
        """Whether some lane of some value is NaN (or: infinities of both signs are)."""
        total = values[0]
        for value in values[1:]:
            total = self.builder.add(total, value)
        lanes = self.lanes
        while lanes > 1:
            lanes //= 2
            order = [(i + lanes) % self.lanes for i in range(self.lanes)]
            total = self.builder.add(total, self.builder.shuffle(total, total, order))
        if self.lanes > 1:
            total = self.builder.extract(total, 0)
        return self.builder.compare("ne", total, total)

    def total(self, batch: Index, m: Index, n: Index, guards: tuple[Guard, ...]) -> LoopValue:
        """One vector of results, each product under its guards."""

        def body(k: Index, sums: list[LoopValue]) -> list[LoopValue]:
            a, b = self.view.broadcast(batch, m, k), self.view.vector(batch, n, k)
            if a is None or b is None:
                return sums
            held = tuple(a.guards) + tuple(b.guards)
            x = operand_value(self.evaluator, self.view, a)
            y = operand_value(self.evaluator, self.view, b, guards)
            total = self.builder.fma(
                self.builder.splat(x, self.lanes), self.builder.splat(y, self.lanes), sums[0]
            )
            if held:
                mask, _ = self.addresses.mask(held)
                total = self.builder.select(mask, total, sums[0])
            return [total]

        k = self.view.k
        loops = KLoops(self.builder, self.evaluator, k, len(k), body, [self.zero])
        return loops.total()[0]
