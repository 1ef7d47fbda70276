"""Orders of loops around the register tile.

A tile of rows (m) and vectors of columns (n) stays in registers over all of k, one FMA chain per
result, cut into chains of at most `CHAIN` products that are added in order. Per column the tile
reads vectors of one operand, per row it broadcasts elements of the other. What the body computes
from the results is computed from the registers.

Where a window hangs over the edge its copy holds zeros. A zero is only right if what it is
multiplied with is finite: a tile with NaN among its results is computed again, product by product.
"""

from __future__ import annotations

from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.recipes.contraction.broadcast_operand import BroadcastOperand, Run, Runs
from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.k_blocks import Accumulate, Chains
from graphc.codegen.recipes.contraction.loop_order import LoopOrder
from graphc.codegen.recipes.contraction.tile_results import store_tile
from graphc.codegen.recipes.contraction.tiles import OutputTile, Place
from graphc.codegen.recipes.contraction.vector_operand import VectorOperand
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.schedule.access import Index

FIRST = of(0)


class TiledOrder(LoopOrder):
    """Reads both operands as the choice says, and adds their products to the sums of a tile."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, outputs: list[Buffer], choice: Choice
    ) -> None:
        super().__init__(builder, evaluator, outputs, choice)
        self.left = BroadcastOperand(self.copier, choice)
        self.right = VectorOperand(self.copier, choice)

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        if self.choice.left == "panel":
            self.left.copy_all(batch, loops, self.left_runs)
        if self.choice.box is not None:
            self.right.new_box()

    @property
    def left_runs(self) -> Runs:
        """The runs of k as they follow one another in the copy of the broadcast operand."""
        return lambda body: body(of(0), self.depth)

    def lane(self) -> Expr:
        """The lanes of a tile's vectors: one variable, so that tiles share what depends on it."""
        lane = Variable("tile_lane", self.lanes)
        self.integers.bind_lane(lane, self.builder.block)
        return of(lane)

    def products(
        self, at: OutputTile, lane: Expr, tile: Expr, run: Run | None = None, start: Expr = FIRST
    ) -> Accumulate:
        """What adds the products at one k to the sums of a tile, row by row. `tile` is its number
        in the copy of the broadcast operand, of which k lies in `run`; in the panel of the other
        one index k is row `start` + k."""
        places = at.places(lane)
        m = [self.m(at.row + r) for r in range(at.rows)]

        def body(k: Index, sums: list[LoopValue]) -> list[LoopValue]:
            right = [
                self.right.vector(at.batch, n, guards, k, lane + v * self.lanes, start)
                for v, (n, guards) in enumerate(places)
            ]
            made = list(sums)
            for r in range(at.rows) if any(vector is not None for vector in right) else ():
                wide = self.left.element(at.batch, m[r], k, tile, r, run)
                for v, vector in enumerate(right):
                    if vector is not None:
                        number = r * at.vectors + v
                        made[number] = self.multiply_add(wide, vector, sums[number])
            return made

        return body

    def chains(self, at: OutputTile, lane: Expr, tile: Expr) -> Chains:
        """The loops over k of one tile."""
        body = self.products(at, lane, tile)
        return Chains(self.builder, self.evaluator, self.view.k, self.choice.unrolled, body)

    def checked(self, at: OutputTile, totals: list[LoopValue]) -> list[LoopValue]:
        """The totals, without the zeros that stood in for what a window does not have."""
        if self.choice.zeros_stand_in and self.dtype.is_float and self.depth:
            return self.guarded.tile(at, totals)
        return totals

    def store(self, at: OutputTile, lane: Expr, totals: list[LoopValue]) -> None:
        """The body's outputs for a tile."""
        sums = [totals[r * at.vectors : (r + 1) * at.vectors] for r in range(at.rows)]

        def place(row: Expr, vector: int, lane: Expr) -> Place:
            n, guards = at.columns.place(at.vector + vector, lane)
            return self.view.out(at.batch, self.m(at.row + row), n), guards

        shape = self.view.node.types[0].shape
        store_tile(self.builder, self.integers, shape, place, lane, sums, self.finish)
