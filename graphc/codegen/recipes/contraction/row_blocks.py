"""Runs of equal tiles of rows, all of them or those of one block.

In: rows, and how many a tile has. Out: `RowRun`s, and the loops over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from graphc.codegen.evaluate.loop_cut import LoopCut
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.recipes.contraction.emitter import Emitter
from graphc.ir.dims import fixed
from graphc.ops.kinds.index_expr import Expr, Variable, of


@dataclass(frozen=True, slots=True)
class RowRun:
    """A run of tiles, or of groups of tiles, of `rows` rows each: from `begin` to `end`, at most
    `count`. They are counted over all blocks: then a loop's variable has the extent of the operand,
    and no index seems to lie beyond it."""

    begin: Number
    end: Number
    count: int
    rows: int

    def behind(self, number: Expr, first: Expr) -> Expr:
        """A tile's number behind the first of its block. A run of one tile is the first block's
        first, and its number the constant 0 whichever block is at hand: of others it has none."""
        return number - first if self.count > 1 else number


def row_runs(total: int, rows: int) -> list[RowRun]:
    """All rows, so many at a time, and what is left of them."""
    cut = LoopCut(total, rows)
    whole, rest = fixed(cut.whole), fixed(cut.rest)
    runs = [RowRun(0, whole, whole, rows)] if whole else []
    return runs + ([RowRun(whole, whole + 1, whole + 1, rest)] if rest else [])


def clipped(emit: Emitter, run: RowRun, block: LoopValue, size: int) -> RowRun:
    """The part of a run in a block of so many."""
    first = emit.numbers.mul(block, size)
    behind = emit.numbers.add(first, size)
    begin = emit.numbers.maximum(first, run.begin)
    return replace(run, begin=begin, end=emit.numbers.minimum(behind, run.end))


def over_run(emit: Emitter, run: RowRun, name: str, body: Callable[[Expr], None]) -> None:
    """`body(number)` for each tile of a run."""
    with emit.builder.loop(run.begin, run.end, hint=name) as loop:
        variable = Variable(f"{name}{run.count}_{run.rows}", run.count)
        emit.addresses.bind(variable, loop.variable, emit.builder.block)
        body(of(variable))
