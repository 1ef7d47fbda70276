"""What the kernels of attention and of its gradient share: which entries are seen, and products.

Scores of a block of rows against all columns lie in scratch; sums of a tile stay in registers. The
order of each sum is that of a contraction: one FMA chain in the order of its index, cut after
`K_BLOCK` products.

Of a causal matrix only what is seen is computed, tile by tile. A hidden weight is 0, and adding
0·x changes nothing where x is finite: where something hidden is not, nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.leaf_loops import counted_loop
from graphc.codegen.kernels.attention.heads import AttentionContext, Head, HeadRows, Matrix
from graphc.codegen.kernels.attention.operands import Operands
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK, first_addend, is_one_block
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number, is_known
from graphc.ir.dims import Extent
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import of

Finish = Callable[[list[LoopValue], Number, Number, int], None]
"""Takes the sums of a tile: `finish(sums, first row within the block, first column, vectors)`."""


class AttentionKernel(Operands):
    """The tiles of one head. `whole`: S where nothing may be skipped, else 0; None: nothing is
    known to be not finite."""

    def __init__(self, context: AttentionContext, head: Head, whole: LoopValue | None):
        super().__init__(context, head)
        self.whole = whole

    # -- what is seen ------------------------------------------------------------------------

    def column_end(self, row: Number, rows: int) -> Number:
        """Where the columns end that some of so many rows from `row` on sees."""
        if not self.causal:
            return self.columns
        end = self.numbers.minimum(self.numbers.add(row, rows), self.columns)
        return end if self.whole is None else self.numbers.maximum(end, self.whole)

    def first_tile(self, rows: HeadRows, column: Number) -> Number:
        """The first tile of rows of a block that sees a column."""
        return self.numbers.div(self.first_row(rows, column), self.tile_rows)

    def first_row(self, rows: HeadRows, column: Number) -> Number:
        """The first row of a block that sees a column, at most their number."""
        if not self.causal:
            return 0
        row = self.numbers.maximum(self.numbers.sub(column, rows.first), 0)
        if self.whole is None:
            return self.numbers.minimum(row, rows.count)
        none_hidden = self.builder.compare("ne", self.whole, self.numbers.value(0))
        return self.builder.select(none_hidden, self.numbers.value(0), self.numbers.value(row))

    def vector_end(self, row: Number) -> Number:
        """The number of vectors of scores that a tile with `row` needs."""
        end = self.numbers.add(self.column_end(row, self.tile_rows), self.lanes - 1)
        return self.numbers.div(end, self.lanes)

    def hide(
        self, rows: HeadRows, sums: list[LoopValue], row: Number, column: Number, vectors: int
    ) -> list[LoopValue]:
        """Scores of a tile with the mask, -∞ where a row does not see a column."""
        builder = self.builder
        kind = DType.i32 if self.dtype is DType.f32 else DType.i64
        lanes = builder.iota(kind, self.lanes)
        first = self.numbers.add(rows.first, row)
        reach = builder.convert(self.numbers.value(self.numbers.sub(first, column)), kind)
        masked = []
        for number, scores in enumerate(sums):
            i, u = divmod(number, vectors)
            if self.mask is not None:
                scores = self._masked(scores, self.numbers.add(first, i), column, u)
            if self.causal:
                ahead = builder.add(lanes, builder.const(kind, u * self.lanes - i, self.lanes))
                seen = builder.compare("le", ahead, builder.splat(reach, self.lanes))
                scores = builder.select(seen, scores, self.hidden)
            if u + 1 == vectors and self.may_end(column, u, self.columns):
                assert is_known(column)
                left = builder.size(self.columns - column - u * self.lanes, kind, self.lanes)
                scores = builder.select(builder.compare("lt", lanes, left), scores, self.hidden)
            masked.append(scores)
        return masked

    def may_end(self, column: Number, vector: int, columns: Extent) -> bool:
        """Whether a row of so many columns may end within a vector of the tile at `column`: it does
        so in the last one of a tile of its own, whose column is known ahead."""
        return is_known(column) and not of(column + (vector + 1) * self.lanes - 1).below(columns)

    def _masked(self, scores: LoopValue, row: Number, column: Number, vector: int) -> LoopValue:
        """A vector of scores of a tile with the mask."""
        assert self.mask is not None
        builder = self.builder
        number = self.numbers.add(self.numbers.div(column, self.lanes), vector)
        # Only a tile of its own, whose column is known, has an incomplete vector.
        count = self.vectors if is_known(column) else self.columns // self.lanes
        at = self.positions.expression(number, count) * self.lanes + self.positions.lane(self.lanes)
        guards: tuple[Guard, ...] = ()
        if not at.within(0, self.columns):
            guards = ((at, 0, self.columns),)
        lead = self.lead[: len(self.body.type_of(self.mask).shape) - 2]
        place = (*lead, self.positions.expression(row, self.rows), at)
        mask = builder.splat(self.evaluator.value(self.mask, place, guards), self.lanes)
        if mask.type.dtype is DType.bool:
            return builder.select(mask, scores, self.hidden)
        return builder.add(scores, mask)

    # -- products ----------------------------------------------------------------------------

    def product(
        self, count: int, extent: Extent, end: Number, left: Callable[[Number], list[LoopValue]],
        right: Callable[[Number], list[LoopValue]],
        begin: Number = 0, start: list[LoopValue] | None = None,
    ) -> list[LoopValue]:  # fmt: skip
        """The `count` sums over k of left(k) x right(k), row by row of the tile, from begin to end;
        on top of `start`, or cut into chains of an index below `extent`."""

        def chain(first: Number, last: Number, sums: list[LoopValue]) -> list[LoopValue]:
            def at(k: Number, sums: list[LoopValue]) -> list[LoopValue]:
                vectors = right(k)
                return [
                    self.builder.fma(wide, vector, sums[i * len(vectors) + u])
                    for i, wide in enumerate(left(k))
                    for u, vector in enumerate(vectors)
                ]

            return counted_loop(self.builder, first, last, at, sums, hint="k", always=True)

        if start is not None:
            return chain(begin, end, start)
        zeros = [self.zero] * count
        if is_one_block(extent):
            return chain(begin, end, zeros)
        totals = [first_addend(self.builder, (extent,), self.zero)] * count

        def block(k: Number, totals: list[LoopValue]) -> list[LoopValue]:
            last = self.numbers.minimum(self.numbers.add(k, K_BLOCK), end)
            return list(map(self.builder.add, totals, chain(k, last, zeros)))

        return counted_loop(self.builder, 0, end, block, totals, K_BLOCK, hint="chain", always=True)

    def scores(
        self, rows: HeadRows, left: Matrix, panels: Matrix, depth: int, finish: Finish
    ) -> None:
        """left · panels for a block of rows, tile by tile, where some row sees some column. On the
        diagonal of a causal matrix tiles are narrower: they end with the vector they see last."""

        def columns(number: Number, vectors: int) -> None:
            column = self.numbers.mul(number, self.tile_vectors * self.lanes)
            panel = self.numbers.mul(number, depth * panels.stride)

            def tile(row: Number, count: int, width: int) -> None:
                sums = self.product(
                    count * width, depth, depth,
                    lambda k: [
                        self.element(left, self.numbers.add(row, i), k) for i in range(count)
                    ],
                    lambda k: [
                        self.load(panels, k, panel, u * self.lanes) for u in range(width)
                    ],
                )  # fmt: skip
                finish(sums, row, column, width)

            begin = self.first_tile(rows, column)
            narrow = range(1, vectors) if self.causal and self.lanes % self.tile_rows == 0 else ()
            for width in narrow:
                end = self.first_tile(rows, self.numbers.add(column, width * self.lanes))
                end = self.numbers.minimum(end, rows.tiles)
                self.loop(
                    begin, end, "diagonal",
                    lambda i, u=width: tile(  # type: ignore[misc]
                        self.numbers.mul(i, self.tile_rows), self.tile_rows, u
                    ),
                )  # fmt: skip
                begin = end
            self.row_tiles(rows, begin, lambda row, count: tile(row, count, vectors))

        self.column_tiles(self.columns, columns)

    def rows_times(
        self, rows: HeadRows, weights: Matrix, right: Matrix, columns: int,
        finish: Finish,
    ) -> None:  # fmt: skip
        """weights · right for a block of rows, each row over the columns of weights it sees."""

        def tiles(number: Number, vectors: int) -> None:
            column = self.numbers.mul(number, self.tile_vectors * self.lanes)

            def tile(row: Number, count: int) -> None:
                end = self.column_end(self.numbers.add(rows.first, row), self.tile_rows)
                sums = self.product(
                    count * vectors, self.columns, end,
                    lambda k: [
                        self.element(weights, self.numbers.add(row, i), k) for i in range(count)
                    ],
                    lambda k: [
                        self.load(right, k, column, u * self.lanes) for u in range(vectors)
                    ],
                )  # fmt: skip
                finish(sums, row, column, vectors)

            self.row_tiles(rows, 0, tile)

        self.column_tiles(columns, tiles)

    def write(
        self, result: int, columns: int, row: Number, column: Number, value: LoopValue,
        vector: int = 0,
    ) -> None:  # fmt: skip
        """A vector of a result of the head at `column`, `vector` vectors on; lanes behind the end
        are left out."""
        rest, mask = columns % self.lanes, None
        if rest and self.may_end(column, vector, columns):
            kind = DType.i32 if self.dtype is DType.f32 else DType.i64
            places = self.builder.iota(kind, self.lanes)
            mask = self.builder.compare("lt", places, self.builder.const(kind, rest))
        for target in self.outputs[result]:
            index = self.numbers.index(
                (self.starts[target], 1), (row, target.stride(-2)), (column, 1),
                (vector * self.lanes, 1),
            )  # fmt: skip
            self.builder.store(target.buffer, index, value, mask)
