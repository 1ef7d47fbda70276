"""Copies into scratch by vectors: along rows, or by blocks that are transposed in registers.

In: what an element is, and where it goes. Out: loops that store it there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import counted_loop, position_of
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Extent
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import record

Element = Callable[[Expr, Expr, tuple[Guard, ...]], LoopValue]
Position = Callable[[Expr, Expr], Expr]

_names = itertools.count()


@record(slots=False)
class Copier:
    """Copies blocks of `rows` x `columns` elements into scratch."""

    builder: LoopBuilder
    evaluator: Evaluator
    lanes: int

    def loop(
        self, extent: Extent, name: str, body: Callable[[Expr], None],
        count: Number | None = None,
    ) -> None:  # fmt: skip
        """`body` for each position below `extent`, or for so many of these."""

        def at(number: Number, values: Sequence[LoopValue]) -> Sequence[LoopValue]:
            addresses = self.evaluator.addresses
            body(position_of(addresses, f"{name}{next(_names)}", extent, number))
            return values

        counted_loop(self.builder, 0, extent if count is None else count, at, hint=name)

    def tiles(
        self, extent: Extent, size: int, name: str, body: Callable[[Expr, int], None]
    ) -> None:
        """`body(number, elements)` for each tile of `size`, the last of which may have fewer."""
        LoopCut(extent, size).each(self.evaluator.addresses, f"{name}_{next(_names)}", body)

    def lane(self) -> Expr:
        variable = Variable(f"lane_c{next(_names)}", self.lanes)
        self.evaluator.addresses.bind_lane(variable, self.builder.block)
        return of(variable)

    def row(self, count: Extent, element: Element, position: Position, memory: Buffer) -> None:
        """memory[position(0, i)] = element(0, i) for i < count, by vectors along i."""
        LoopCut(count, self.lanes).masked(
            self.evaluator.addresses, f"v_{next(_names)}",
            lambda block, there: self.vector(block, there, element, position, memory),
        )  # fmt: skip

    def vector(
        self, block: Expr, there: Extent, element: Element, position: Position, memory: Buffer,
        row: Expr | None = None, whole: bool = False,
    ) -> None:  # fmt: skip
        """One vector of `row`, of which so many lanes are there; `whole` stores zeros behind."""
        row = of(0) if row is None else row
        lane = self.lane()
        at = block * self.lanes + lane
        guards: tuple[Guard, ...] = ((lane, 0, there),) if there != self.lanes else ()
        value = element(row, at, guards)
        if whole and guards:
            value, guards = self._or_zero(value, guards), ()
        self.evaluator.store(memory, position(row, at), value, guards)

    def _or_zero(self, value: LoopValue, guards: tuple[Guard, ...]) -> LoopValue:
        held, _ = self.evaluator.addresses.mask(guards)
        zero = self.builder.const(value.type.dtype, 0)
        return self.builder.select(held, value, zero)

    def transposed(
        self, rows: int, columns: Extent, element: Element, position: Position, memory: Buffer,
        whole: bool = False,
    ) -> None:  # fmt: skip
        """memory[position(r, c)] = element(r, c), read by vectors along r, stored by vectors along
        c: blocks of lanes x lanes are transposed in registers. What blocks leave of `columns` is a
        number. `whole`: behind the last column stand zeros to the end of its vector."""

        lanes = self.lanes

        def row_block(row: Expr, rows: int) -> None:
            def block(column: Expr, columns: int) -> None:
                self._block(
                    row * lanes, rows, column * lanes, columns, element, position, memory, whole
                )

            self.tiles(columns, lanes, "tc", block)

        self.tiles(rows, lanes, "tr", row_block)

    def _block(
        self, row: Expr, rows: int, column: Expr, columns: int, element: Element,
        position: Position, memory: Buffer, whole: bool,
    ) -> None:  # fmt: skip
        lane = self.lane()
        guards: tuple[Guard, ...] = ((lane, 0, rows),) if rows < self.lanes else ()
        vectors = [element(row + lane, column + c, guards) for c in range(columns)]
        zero = self.builder.splat(self.builder.const(memory.dtype, 0), self.lanes)
        vectors = [self.builder.splat(vector, self.lanes) for vector in vectors]
        vectors += [zero] * (self.lanes - columns)
        ends = columns < self.lanes and not whole
        kept: tuple[Guard, ...] = ((lane, 0, columns),) if ends else ()
        for r, vector in enumerate(transpose(self.builder, vectors)[:rows]):
            self.evaluator.store(memory, position(row + r, column + lane), vector, kept)
