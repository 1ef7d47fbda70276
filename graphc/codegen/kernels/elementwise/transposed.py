"""Strategy: transposes, where an input is contiguous along another axis than the output.

Vectors along the output's last axis would gather such an input element by element. So blocks of
lanes x lanes are read by vectors along the input's axis, transposed in registers, and computed and
stored by vectors along the output's.
"""

from __future__ import annotations

from functools import partial

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.kernels.elementwise.axes import OF_VECTORS, axis_of, index_at, stored_at
from graphc.codegen.kernels.elementwise.element_nest import element_nest
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.nests.nest import (
    Compute,
    Effect,
    ForEach,
    Nest,
    NestPlace,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.ir.nodes import CONSTANT, INPUT
from graphc.ir.registry import lookup
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Movement
from graphc.records import record, replace
from graphc.schedule.access import Index


@record
class TransposedPlan:
    """The two innermost loops run in blocks of lanes x lanes."""

    over: LoopNest

    @staticmethod
    def of(over: LoopNest) -> TransposedPlan | None:
        """For an elementwise nest with an input that lies along its second-last loop."""
        body = over.body
        plain = all(
            node.op in (INPUT, CONSTANT) or isinstance(lookup(node.op), Elementwise | Movement)
            for node in body.nodes
        )
        if not plain or len(over.loops) < 2 or over.lanes < 4:
            return None
        if any(type.shape != over.domain.shape for type in body.output_types):
            return None
        row, column = over.loops[-2].variable, over.loops[-1].variable
        if any(LoopCut(loop.extent, over.lanes).least_whole < 1 for loop in (row, column)):
            return None
        reads = over.reads()
        if any(read.guarded for read in reads):
            return None
        along_rows = any(_lies_along_rows(over.problem.linear(read), row, column) for read in reads)
        return TransposedPlan(over) if along_rows else None

    def nest(self) -> Nest:
        """Blocks; of what is left, columns or rows, each row by itself."""
        over, lanes, depth = self.over, self.over.lanes, len(self.over.loops)
        rows = Split("rows", axis_of(over, depth - 2), lanes, Tail.MASKED, variable="rows_block")
        axis = axis_of(over, depth - 1)
        columns = Split("columns", axis, lanes, Tail.MASKED, variable="columns_block")
        row = Split("row", rows.axis, 1, Tail.EXACT, variable="single")
        vectors = replace(columns, name="v", variable="v_single")

        def each_row(body: Statement) -> tuple[Statement, ...]:
            return (ForEach(row, (body,), within=rows, always=True),)

        block, left = Compute(RegisterTranspose(over)), Compute(SingleRow(over, columns.name))
        whole = ForEach(columns, (block,), rest=each_row(left))
        rest = each_row(ForEach(vectors, (Compute(SingleRow(over, vectors.name)),)))
        return element_nest(over, (ForEach(rows, (whole,), rest=rest),), rows, depth=2)


@record
class BlockLeaf:
    """What stores all outputs at places of the two innermost loops."""

    over: LoopNest

    @property
    def effect(self) -> Effect:
        outputs = stored_at(self.over, len(self.over.loops))
        return Effect(stores=True, outputs=outputs, tails=OF_VECTORS)

    def index(self, place: NestPlace, row: Expr, column: Expr) -> Index:
        over = self.over
        prefix = index_at(over, place, len(over.loops) - 2)
        return prefix + over.domain.at(over.loops[-2], row) + over.domain.at(over.inner, column)

    def store(self, emit: NestEmitter, index: Index, guards: tuple[Guard, ...] = ()) -> None:
        emit.store(self.over, len(self.over.loops), index, guards)


@record
class SingleRow(BlockLeaf):
    """A vector of one row; `along`: the split of its columns."""

    along: str

    @property
    def text(self) -> str:
        return f"one row, vectors of {self.over.lanes}"

    def write(self, emit: NestEmitter, place: NestPlace) -> None:
        lanes, span = self.over.lanes, place[self.along]
        lane = Variable("single_lane", lanes)
        emit.addresses.bind_lane(lane, emit.builder.block)
        guards: tuple[Guard, ...] = () if span.rest is None else ((of(lane), 0, span.rest),)
        index = self.index(place, place["row"].first, span.number * lanes + of(lane))
        self.store(emit, index, guards)


@record
class RegisterTranspose(BlockLeaf):
    """lanes x lanes elements."""

    @property
    def text(self) -> str:
        return f"blocks of {self.over.lanes} x {self.over.lanes}, transposed in registers"

    def write(self, emit: NestEmitter, place: NestPlace) -> None:
        lanes, problem = self.over.lanes, self.over.problem
        row, column = place["rows"].first, place["columns"].first
        lane = Variable("transposed_lane", lanes)
        block = emit.builder.block
        emit.addresses.bind_lane(lane, block)
        at = partial(self.index, place)
        sample = problem.reads(at(row + of(lane), column))
        transposed = [
            position for position, read in enumerate(sample)
            if problem.linear(read).coefficient(lane) == 1
        ]  # fmt: skip
        along = [problem.reads(at(row + of(lane), column + c)) for c in range(lanes)]
        across = [problem.reads(at(row + r, column + of(lane))) for r in range(lanes)]
        # At some places two elements of a value between are one, and what it reads is listed once:
        # then positions in the lists do not say which reads belong together, and none is bound.
        count = len(self.over.reads())
        if any([len(reads) != count for reads in (sample, *along, *across)]):
            transposed = []
        for position in transposed:
            if problem.linear(across[0][position]).coefficient(lane) in (0, 1):
                continue
            vectors = [
                emit.evaluator.value(at_column[position].value, at_column[position].index)
                for at_column in along
            ]
            for r, vector in enumerate(transpose(emit.builder, vectors)):
                read = across[r][position]
                emit.evaluator.bind(read.value, read.index, vector, block)
        for r in range(lanes):
            self.store(emit, at(row + r, column + of(lane)))


def _lies_along_rows(linear: Expr, row: Variable, column: Variable) -> bool:
    return linear.coefficient(row) == 1 and linear.coefficient(column) not in (0, 1)
