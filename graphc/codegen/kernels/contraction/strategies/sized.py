"""Strategy: what no register tile is for among sizes known only at run time.

Several reduced coordinates that are sizes (gradients by the weight over planes of any size), where
K blocks end is then computed; residues of more strides than a tile has room for; sums of pairs with
open columns; sums over nothing. Some rows meet one vector of columns, along the last coordinate of
n; all other coordinates are loops. Operands are read where they lie, each product under its guards:
nothing is copied, so no size decides what fits. Strategies that know more cost less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.kernels.contraction.cost.costs import note
from graphc.codegen.kernels.contraction.emission.axes import BatchNest, batch_loops, each
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates, open_to
from graphc.codegen.kernels.contraction.problem.k_blocks import KLoops
from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem, k_variables
from graphc.codegen.kernels.contraction.problem.view import operand_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    Fill,
    ForEach,
    Holds,
    Nest,
    NestPlace,
    Role,
    Room,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.codegen.target import Target
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record
from graphc.schedule.access import Index

ROWS = 8
"""Rows that share each vector that is read."""
EFFICIENCY = 0.25
"""Part of the FMA peak: products are selected, and addresses computed, one by one."""
GATHERED = 8.0
"""Times as long where a vector's elements lie apart."""


@record
class SizedPlan:
    """`rows` of so many lanes at a time."""

    problem: ContractionProblem
    lanes: int
    rows: int
    cost: float
    reason: str

    @staticmethod
    @open_to(Coordinates.ANY, needs=Coordinates.ANY)
    def candidates(
        problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[SizedPlan]:
        view = problem.view
        lanes = problem.lanes_for(view.n[-1] if view.n else 1)
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

    def nest(self) -> Nest:
        problem, n = self.problem, self.problem.view.n
        columns = Split(
            "columns", Axis("columns", n[-1] if n else 1, Role.COLUMNS, max(len(n) - 1, 0)),
            self.lanes, Tail.MASKED,
        )  # fmt: skip
        rows = Split("rows", Axis("rows", problem.rows, Role.ROWS), self.rows, Tail.ONE_BY_ONE)
        leaf = SizedLeaf(problem, self.rows, len(n) - 1)
        body: tuple[Statement, ...] = (ForEach(rows, (Compute(leaf),)),)
        for axis in reversed(range(len(n) - 1)):
            split = each(f"n{axis}", Variable(f"n{axis}", n[axis]), Role.COLUMNS, axis)
            body = (ForEach(split, body, always=n[axis] != 1),)
        lanes = Lanes(self.lanes)
        return BatchNest(
            problem, (lanes,), (ForEach(columns, (Fill(lanes), *body)),), self.reason,
            parallel=(columns,),
        ).nest(batch_loops(problem))  # fmt: skip


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


@record
class Lanes:
    """The stage of a vector's columns: their lanes, and the guard of those that are there."""

    lanes: int
    name: str = "lanes"
    whole: tuple[str, ...] = ("columns",)
    holds: Holds = Holds.NUMBERS

    @property
    def room(self) -> Room:
        return (("columns", self.lanes),)

    @property
    def text(self) -> str:
        return f"registers [{self.lanes} lanes]"

    def declare(self, emit: Emitter) -> None:
        return None

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> tuple[Expr, tuple[Guard, ...]]:
        columns, lane = place["columns"], emit.copier.lane()
        guards: tuple[Guard, ...] = ()
        if columns.rest is not None:
            guards = ((lane, 0, columns.rest),)
        return columns.first + lane, guards


@record
class SizedLeaf:
    """The leaf of some rows and one vector of columns, along the last coordinate of n; `outer`: how
    many others there are."""

    problem: ContractionProblem
    rows: int
    outer: int

    @property
    def text(self) -> str:
        return f"guarded tile {self.rows}x1x{self.problem.lanes}"

    @property
    def effect(self) -> Effect:
        return Effect(
            covers=("k",), reads=("lanes",), stores=True,
            tails=OF_NUMBERS | {Tail.MASKED, Tail.ONE_BY_ONE},
        )  # fmt: skip

    def write(self, emit: Emitter, place: NestPlace) -> None:
        """The results of some rows for one vector of columns."""
        view, problem = self.problem.view, self.problem
        at, guards = place.filled["lanes"]
        outer = (place[f"n{axis}"].first for axis in range(self.outer))
        n = (*outer, at) if view.n else ()
        rows = [place["rows"].first + r for r in range(place["rows"].size)]
        places = [problem.m(row) for row in rows]
        body = self._products(emit, places, n, guards)
        k = KLoops(
            emit.builder, emit.evaluator, view.k, len(view.k), body, emit.zeros(len(rows)),
            problem.pairs, chains=view.chains,
        )  # fmt: skip
        for m, total in zip(places, k.total(), strict=True):
            emit.finish(view.out(problem.batch, m, n), guards, total)

    def _products(
        self, emit: Emitter, rows: list[Index], n: Index, guards: tuple[Guard, ...]
    ) -> Callable[[Index, list[LoopValue]], list[LoopValue]]:
        """What adds the products at an index of k, each where its guards hold."""
        view, batch = self.problem.view, self.problem.batch

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
