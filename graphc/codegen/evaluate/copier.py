"""Copies into scratch by vectors: along rows, or by blocks that are transposed in registers.

In: what an element is, and where it goes. Out: loops that store it there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.evaluate.shuffles import transpose
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.ops.kinds.index_expr import Expr, Variable, of

Element = Callable[[Expr, Expr, tuple[Guard, ...]], LoopValue]
Position = Callable[[Expr, Expr], Expr]

_names = itertools.count()


@dataclass(frozen=True)
class Copier:
    """Copies blocks of `rows` x `columns` elements into scratch."""

    builder: LoopBuilder
    evaluator: Evaluator
    lanes: int

    def loop(self, extent: int, name: str, body: Callable[[Expr], None]) -> None:
        """`body` for each position below `extent`."""
        if extent == 1:
            body(of(0))
            return
        with self.builder.loop(0, extent, hint=name) as loop:
            variable = Variable(f"{name}{next(_names)}", extent)
            self.evaluator.integers.bind(variable, loop.variable, self.builder.block)
            body(of(variable))

    def lane(self) -> Expr:
        variable = Variable(f"lane{next(_names)}", self.lanes)
        self.evaluator.integers.bind_lane(variable, self.builder.block)
        return of(variable)

    def row(self, count: int, element: Element, position: Position, memory: Buffer) -> None:
        """memory[position(0, i)] = element(0, i) for i < count, by vectors along i."""
        whole, rest = divmod(count, self.lanes)
        if whole:
            self.loop(whole, "v", lambda block: self.vector(block, 0, element, position, memory))
        if rest:
            self.vector(of(whole), rest, element, position, memory)

    def vector(
        self, block: Expr, rest: int, element: Element, position: Position, memory: Buffer,
        row: Expr | None = None,
    ) -> None:  # fmt: skip
        """One vector of `row`; with `rest`, so many of its lanes."""
        row = of(0) if row is None else row
        lane = self.lane()
        at = block * self.lanes + lane
        guards: tuple[Guard, ...] = ((lane, 0, rest),) if rest else ()
        value = element(row, at, guards)
        self.evaluator.store(memory, position(row, at), value, guards)

    def transposed(
        self, rows: int, columns: int, element: Element, position: Position, memory: Buffer
    ) -> None:
        """memory[position(r, c)] = element(r, c), read by vectors along r, stored by vectors along
        c: blocks of lanes x lanes are transposed in registers."""

        def blocks(of_rows: Expr, row_count: int) -> None:
            whole, rest = divmod(columns, self.lanes)
            if whole:
                self.loop(
                    whole, "tc",
                    lambda block: self._block(
                        of_rows, row_count, block * self.lanes, self.lanes, element, position,
                        memory,
                    ),
                )  # fmt: skip
            if rest:
                first = of(whole * self.lanes)
                self._block(of_rows, row_count, first, rest, element, position, memory)

        whole, rest = divmod(rows, self.lanes)
        if whole:
            self.loop(whole, "tr", lambda block: blocks(block * self.lanes, self.lanes))
        if rest:
            blocks(of(whole * self.lanes), rest)

    def _block(
        self, row: Expr, rows: int, column: Expr, columns: int, element: Element,
        position: Position, memory: Buffer,
    ) -> None:  # fmt: skip
        lane = self.lane()
        guards: tuple[Guard, ...] = ((lane, 0, rows),) if rows < self.lanes else ()
        vectors = [element(row + lane, column + c, guards) for c in range(columns)]
        zero = self.builder.splat(self.builder.const(memory.dtype, 0), self.lanes)
        vectors = [self.builder.splat(vector, self.lanes) for vector in vectors]
        vectors += [zero] * (self.lanes - columns)
        kept: tuple[Guard, ...] = ((lane, 0, columns),) if columns < self.lanes else ()
        for r, vector in enumerate(transpose(self.builder, vectors)[:rows]):
            self.evaluator.store(memory, position(row + r, column + lane), vector, kept)
