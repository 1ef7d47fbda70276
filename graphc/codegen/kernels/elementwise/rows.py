"""Strategy: row by row, the innermost loop by vectors. It fits every nest."""

from __future__ import annotations

from graphc.codegen.kernels.elementwise.axes import vectors_of
from graphc.codegen.kernels.elementwise.element_nest import StoreOutputs, element_nest, store_level
from graphc.codegen.kernels.elementwise.kept_values import KeepValues, values_of_row
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.kernels.elementwise.widths import registers
from graphc.codegen.nests.nest import Compute, Fill, ForEach, Nest, Statement
from graphc.records import record


@record
class RowsPlan:
    """Loops, and lanes that may fill several registers."""

    over: LoopNest
    lanes: int

    @staticmethod
    def of(over: LoopNest) -> RowsPlan:
        return RowsPlan(over, over.lanes * registers(over))

    def nest(self) -> Nest:
        over, depth = self.over, len(self.over.loops)
        if not depth:
            return element_nest(over, (Compute(StoreOutputs(over, 0)),), None, depth=0)
        vectors, stages = vectors_of(over, self.lanes), values_of_row(over, self.lanes)
        body: list[Statement] = []
        for number, stage in enumerate(stages):
            keep = Compute(KeepValues(stage, stages[:number]))
            body += [ForEach(vectors, (keep,)), Fill(stage)]
        # Behind them, so that reductions which are outputs read what is kept.
        body += store_level(over, depth - 1, stages)
        store = Compute(StoreOutputs(over, depth, self.lanes, stages))
        body.append(ForEach(vectors, (store,)))
        return element_nest(over, tuple(body), vectors, stages=stages)
