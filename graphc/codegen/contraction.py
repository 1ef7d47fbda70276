"""The loops of `contract`: out[b, m, n] = Σ_k left[b, m, k] · right[b, n, k] in register tiles.

A tile of rows (m) and vectors of columns (n) stays in registers over all of k, one FMA chain per
result, cut into chains of at most `CHAIN` products that are added in order. Per column the tile
reads vectors of one operand, per row it broadcasts elements of the other. Each operand is read
where it lies if its address allows, else from a copy in scratch that suits the tile (staging.py).
What the body computes from the result is computed from the registers.

Where a window hangs over the edge its copy holds zeros. A zero is only right if what it is
multiplied with is finite: a tile with NaN among its results is computed again, product by product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.contraction_choice import Choice, batch_variables
from graphc.codegen.contraction_view import Accumulate, Chains, View, operand_value
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.guarded_sums import GuardedSums
from graphc.codegen.integers import Guard
from graphc.codegen.loops import Buffer, Kernel, Value
from graphc.codegen.scopes import OpenBlock
from graphc.codegen.staging import Box, Copier, Panel, Tiles
from graphc.codegen.tile_results import Place, store_tile
from graphc.codegen.tiles import Columns, Part
from graphc.ir.types import DType
from graphc.ops.index import Expr, Variable, flatten, of
from graphc.ops.kinds import Case
from graphc.schedule.access import Index, behind_reshape, unflatten


class Contraction:
    """Batch by batch; columns outside, rows inside."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, outputs: list[Buffer], choice: Choice
    ) -> None:
        self.builder = builder
        self.evaluator = evaluator
        self.integers = evaluator.integers
        self.outputs = outputs
        self.choice = choice
        self.view: View = choice.view
        self.body = self.view.body
        self.dtype = self.view.dtype
        self.tile = choice.tile
        self.lanes = choice.lanes
        self.copier = Copier(builder, evaluator, self.lanes)
        self.rows: int = math.prod(self.view.m)
        self.depth = math.prod(self.view.k)
        # Tiles of rows side by side in the copy of the broadcast operand.
        width = choice.left_width
        self.left_group = width // self.tile.rows if width % self.tile.rows == 0 else 1
        self.left_panel: Panel | None = None
        self.left_batch: tuple[Index, tuple[int, ...]] = ((), ())
        # Where a run of k starts in it, less the first k; how many there are for each group.
        self.left_first, self.left_depth = of(0), self.depth
        self.box: Box | None = None
        self.panel: Panel | None = None
        self.panel_start = of(0)
        self.lane = of(0)
        self.loaded: dict[Expr, list[tuple[Value, OpenBlock]]] = {}
        zero = builder.const(self.dtype, 0)
        self.guarded = GuardedSums(self.copier, self.view, builder.splat(zero, self.lanes))
        self.zeros = [builder.splat(zero, self.lanes)] * (self.tile.rows * self.tile.vectors)

    def build(self) -> Kernel:
        batch = batch_variables(self.view)
        index = tuple(of(variable) for variable in batch)
        loops = [variable for variable in batch if variable.extent != 1]
        if 0 in (self.rows, math.prod(self.view.n)) or 0 in self.view.batch:
            return self._finished(1)
        if self.choice.left == "panel":
            self._stage_left(index, loops)
        if self.choice.box is not None:
            self.box = Box(self.copier, self.view, self.choice.right_operand, self.choice.box)
            self.box.clear()
        if not loops:
            return self._finished(self._all_columns(index, split=True))
        with self.builder.loop(self.builder.begin, self.builder.end, hint="b") as outer:
            self.integers.bind(loops[0], outer.variable, self.builder.block)
            self._batches(loops[1:], index)
        return self._finished(loops[0].extent)

    def _finished(self, extent: int) -> Kernel:
        return self.builder.finish(extent, self.choice.reason)

    def _batches(self, loops: list[Variable], index: Index) -> None:
        if not loops:
            self._all_columns(index, split=False)
            return
        with self.builder.loop(0, loops[0].extent, hint="b") as inner:
            self.integers.bind(loops[0], inner.variable, self.builder.block)
            self._batches(loops[1:], index)

    # -- copies of operands ------------------------------------------------------------------

    def _stage_left(self, batch: Index, loops: list[Variable]) -> None:
        """The broadcast operand as [batch axes it has, group of tiles, k, row], ahead of all loops:
        a convolution's weight is copied once, not once per image."""
        probe = self.view.broadcast(batch, self._m(of(0)), self._k(of(0)))
        used = [v for v in loops if probe is None or any(v in i.variables() for i in probe.index)]
        extents = tuple(variable.extent for variable in used)
        depth = self._left_units * math.prod(extents) * self.depth
        width = self.choice.left_width
        self.left_panel = Panel(self.copier, self.view, "left", depth, width)
        self.left_batch = (tuple(of(variable) for variable in used), extents)

        def pack(rest: list[Variable]) -> None:
            if rest:
                with self.builder.loop(0, rest[0].extent, hint="p") as loop:
                    self.integers.bind(rest[0], loop.variable, self.builder.block)
                    pack(rest[1:])
                return
            first: Expr = flatten(self.left_batch[0], extents) * (self._left_units * self.depth)
            size = self.tile.rows * self.left_group
            whole, left_over = divmod(self.rows, size)

            def piece(begin: Expr, count: int) -> None:
                def place(unit: Expr) -> Expr:
                    return first + begin * self._left_units + unit * count

                if whole:
                    units = partial(self.copier.loop, whole, "pt")
                    self._pack_left(batch, units, size, place, begin, count)
                if left_over:
                    last = of(whole)
                    self._pack_left(batch, lambda run: run(last), left_over, place, begin, count)

            self._left_pieces(piece)

        pack(used)
        # Readers stand inside no loop of the packing.
        self.left_panel.filled_in = self.builder.block

    @property
    def _left_units(self) -> int:
        """Groups of tiles of rows, as many rows each as fill the width of the copy."""
        size: int = self.tile.rows * self.left_group
        return -(-self.rows // size)

    def _left_pieces(self, body: Callable[[Expr, int], None]) -> None:
        """`body(first, number)` for runs of k that follow one another in the copy of the broadcast
        operand, each for all rows."""
        body(of(0), self.depth)

    def _pack_left(
        self, batch: Index, units: Tiles, rows: int, place: Callable[[Expr], Expr], begin: Expr,
        count: int,
    ) -> None:  # fmt: skip
        """The first `rows` rows of some units, `count` elements of k from `begin` on, the first of
        these as row place(unit) of the copy."""
        panel = self.left_panel
        assert panel is not None
        panel.depth = count
        size = self.tile.rows * self.left_group
        panel.fill(
            units, rows,
            lambda unit, k, r: self.view.broadcast(
                batch, self._m(unit * size + r), self._left_k(begin + k)
            ),
            lambda unit: place(unit) * panel.columns,
        )  # fmt: skip

    @property
    def _left_order(self) -> tuple[int, ...]:
        """The axes of k as the copy of the broadcast operand has them. Phases use some kernel
        positions each, so there these come first."""
        axes = tuple(range(len(self.view.k)))
        first = self.choice.unrolled if len(self.choice.phases) > 1 else 0
        return axes[first:] + axes[:first]

    def _left_k(self, flat: Expr) -> Index:
        order = self._left_order
        found = dict(zip(order, unflatten(flat, tuple(self.view.k[a] for a in order)), strict=True))
        return tuple(found[axis] for axis in range(len(order)))

    def _left_position(self, k: Index) -> Expr:
        order = self._left_order
        return flatten([k[axis] for axis in order], [self.view.k[axis] for axis in order])

    def _m(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.m)

    def _k(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.k)

    # -- columns and rows --------------------------------------------------------------------

    def _all_columns(self, batch: Index, split: bool) -> int:
        """All results of one batch element; with `split`, the part begin…end of their tiles of
        columns, or, where there is one, of rows. Gives the number of tiles."""
        if self.box is not None:
            self.box.fill()
        all_columns = [self.choice.columns(phase) for phase in self.choice.phases]
        all_parts = [columns.tiles(self.tile) for columns in all_columns]
        count = sum(part.count for parts in all_parts for part in parts)
        row_tiles = -(-self.rows // self.tile.rows)
        by_rows = split and count == 1 < row_tiles
        split = split and count > 1
        done = 0
        for columns, parts in zip(all_columns, all_parts, strict=True):
            for part in parts:
                self._run(
                    part, done, split,
                    lambda number, first, vectors, c=columns: self._columns(  # type: ignore[misc]
                        batch, c, first, vectors, by_rows
                    ),
                )  # fmt: skip
            done += sum(part.count for part in parts)
        return row_tiles if by_rows else count

    def _run(
        self, part: Part, done: int, split: bool, body: Callable[[Expr, Expr, int], None]
    ) -> None:
        """`body(tile, first vector, vectors)` for the tiles of a run, or, with `split`, for those
        in begin…end; `done` tiles come before all of them."""
        begin, end = self._range(done + part.number, part.count, split)
        if part.count == 1 and not split:
            body(of(part.number), of(part.first), part.vectors)
            return
        with self.builder.loop(begin, end, hint="columns") as loop:
            tile = Variable(f"columns{done + part.number}", part.count)
            self.integers.bind(tile, loop.variable, self.builder.block)
            first = of(tile) * part.vectors + part.first
            body(of(tile) + part.number, first, part.vectors)

    def _range(self, done: int, whole: int, split: bool) -> tuple[int | Value, int | Value]:
        """Of tiles done…done + whole those in begin…end, counted from `done`."""
        if not split:
            return 0, whole
        builder = self.builder
        begin, end = builder.begin, builder.end
        if done:
            offset = builder.const(DType.i64, done)
            begin = builder.op("maximum", builder.sub(begin, offset), builder.const(DType.i64, 0))
            end = builder.sub(end, offset)
        return begin, builder.minimum(end, builder.const(DType.i64, whole))

    def _last(self, number: int | None, body: Callable[[], None]) -> None:
        """`body`, if tile `number` is among those of this call (None: it is)."""
        if number is None:
            return body()
        with self.builder.loop(*self._range(number, 1, True), hint="last"):
            body()

    def _columns(
        self, batch: Index, columns: Columns, first: Expr, vectors: int, by_rows: bool
    ) -> None:
        """One tile of columns, all rows; or tiles begin…end of them."""
        if self.choice.right == "panel":
            if self.panel is None:
                size = self.tile.vectors * self.lanes
                self.panel = Panel(self.copier, self.view, "right", self.depth, size)
            self._pack_columns(batch, columns, first, vectors, of(0), self.depth)
        whole, rest = divmod(self.rows, self.tile.rows)

        def tile(number: Expr, rows: int) -> None:
            row = number * self.tile.rows
            self._tile(batch, row, rows, number, columns, first, vectors)

        if whole and by_rows:
            with self.builder.loop(*self._range(0, whole, True), hint="tile") as loop:
                number = Variable("row_tile", whole)
                self.integers.bind(number, loop.variable, self.builder.block)
                tile(of(number), self.tile.rows)
        elif whole:
            self.copier.loop(whole, "tile", lambda i: tile(i, self.tile.rows))
        if rest:
            self._last(whole if by_rows else None, lambda: tile(of(whole), rest))

    def _pack_columns(
        self, batch: Index, columns: Columns, first: Expr, vectors: int, begin: Expr, depth: int
    ) -> None:
        """The vectors of one tile of columns as [k][column], for k from `begin` on."""
        panel = self.panel
        assert panel is not None
        start, width = first * self.lanes, vectors * self.lanes
        if start.is_constant:
            width = min(width, columns.lanes_used - start.constant)
        panel.depth = depth
        panel.fill(
            lambda run: run(of(0)), width,
            lambda _, k, c: self.view.vector(batch, columns.index(start + c), self._k(begin + k)),
            lambda _: (self.panel_start + begin) * panel.columns,
        )  # fmt: skip

    # -- the register tile -------------------------------------------------------------------

    def _tile(
        self, batch: Index, first_row: Expr, rows: int, number: Expr, columns: Columns,
        first: Expr, vectors: int,
    ) -> None:  # fmt: skip
        lane = Variable("tile_lane", self.lanes)
        self.integers.bind_lane(lane, self.builder.block)
        self.lane = of(lane)
        places = [columns.place(first + v, of(lane)) for v in range(vectors)]
        m = [self._m(first_row + r) for r in range(rows)]

        body = self._products(batch, m, places, number)
        chains = Chains(self.builder, self.evaluator, self.view.k, self.choice.unrolled, body)
        totals = chains.total(self.zeros[: rows * vectors])
        if self.choice.zeros_stand_in and self.dtype.is_float and self.depth:
            totals = self.guarded.tile(batch, first_row, rows, columns, first, vectors, totals)
        self._store(batch, first_row, rows, columns, first, totals)

    def _products(
        self, batch: Index, m: list[Index], places: list[Place], number: Expr
    ) -> Accumulate:
        """What adds the products at one k to the sums of a tile."""
        rows, vectors = len(m), len(places)

        def body(k: Index, sums: list[Value]) -> list[Value]:
            right = [self._right(batch, n, guards, k, v)
                     for v, (n, guards) in enumerate(places)]  # fmt: skip
            made = list(sums)
            for r in range(rows) if any(vector is not None for vector in right) else ():
                wide = self._left(batch, m[r], k, number, r)
                for v, vector in enumerate(right):
                    if vector is not None:
                        at = r * vectors + v
                        made[at] = self._multiply_add(wide, vector, sums[at])
            return made

        return body

    def _left(self, batch: Index, m: Index, k: Index, number: Expr, row: int) -> Value:
        """The element of one row, in all lanes."""
        if self.left_panel is not None:
            group = self.left_group
            first = flatten(*self.left_batch) * (self._left_units * self.depth) + self.left_first
            at = first + number // group * self.left_depth + self._left_position(k)
            at = at * self.left_panel.columns
            element = self.left_panel.load(at + number % group * self.tile.rows + row)
        else:
            case = self.view.broadcast(batch, m, k)
            assert case is not None
            element = operand_value(self.evaluator, self.view, case)
        return self.builder.splat(element, self.lanes)

    def _right(
        self, batch: Index, n: Index, guards: tuple[Guard, ...], k: Index, vector: int
    ) -> Value | None:
        """One vector of columns; None where its products are skipped."""
        if self.panel is not None:
            at = self.panel_start + flatten(k, self.view.k)
            return self.panel.load(at * self.panel.columns + vector * self.lanes + self.lane)
        case = self.view.vector(batch, n, k)
        if case is None:
            return None
        if self.box is not None:
            return self._from_box(self.box, case)
        value = operand_value(self.evaluator, self.view, case, guards)
        return self.builder.splat(value, self.lanes)

    def _from_box(self, box: Box, case: Case) -> Value:
        """A vector of the box, loaded once where windows share it."""
        at = box.position(case.index)
        for known, block in self.loaded.get(at, ()) if self.tile.rows == 1 else ():
            if self.evaluator.usable(block):
                return known
        made = self.builder.splat(box.load(case), self.lanes)
        self.loaded.setdefault(at, []).append((made, self.builder.block))
        return made

    def _multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        if self.dtype.is_float:
            return self.builder.fma(x, y, total)
        return self.builder.add(self.builder.mul(x, y), total)

    def _store(
        self, batch: Index, first_row: Expr, rows: int, columns: Columns, first: Expr,
        totals: list[Value],
    ) -> None:  # fmt: skip
        """The body's outputs for a tile."""
        vectors = len(totals) // rows
        sums = [totals[r * vectors : (r + 1) * vectors] for r in range(rows)]

        def place(row: Expr, vector: int, lane: Expr) -> Place:
            n, guards = columns.place(first + vector, lane)
            return self.view.out(batch, self._m(first_row + row), n), guards

        shape = self.view.node.types[0].shape
        store_tile(self.builder, self.integers, shape, place, self.lane, sums, self._finish)

    def _finish(self, index: Index, guards: tuple[Guard, ...], total: Value) -> None:
        """Compute and store the body's outputs for one vector of results. A reshaped output has
        its elements where they lie without."""
        self.evaluator.bind(self.view.anchor, index, total, self.builder.block)
        ready = []
        for buffer, output in zip(self.outputs, self.body.outputs, strict=True):
            inner = behind_reshape(self.body, output)
            value = self.evaluator.value(inner, index, guards)
            ready.append((buffer, flatten(index, self.body.type_of(inner).shape), value))
        for buffer, linear, value in ready:
            self.evaluator.store(buffer, linear, value, guards)
