"""A kernel of attention, head by head: its sizes and loops, and its operands in scratch.

in : a kernel's body around one composite of q, k, v and a mask, and a target
out: `Heads`, which writes loops over heads and blocks of rows, copies operands (which may be index
     maps of inputs) with rows padded to whole vectors, and packs their transposes as panels
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.codegen.attention_results import stored
from graphc.codegen.builder import LoopBuilder
from graphc.codegen.contraction.tiles import vector_registers
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.integers import Guard
from graphc.codegen.loops import Buffer, Index, Value
from graphc.codegen.nest import declare_buffers
from graphc.codegen.shuffles import transpose
from graphc.codegen.target import Target
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.index import Expr, Variable, flatten, of
from graphc.schedule.access import reads, unflatten

Number = Value | int
Body = Callable[[Number], None]
Change = Callable[[Value], Value]


@dataclass(frozen=True)
class Matrix:
    """Scratch of rows of `stride` elements, a whole number of vectors."""

    memory: Buffer
    stride: int


@dataclass(frozen=True)
class Rows:
    """Rows of a block: `tiles` whole tiles, and `rest` rows where `has_rest` (0 or 1)."""

    first: Number
    count: Number
    tiles: Number
    rest: int
    has_rest: Number


class Heads:
    """One kernel over all heads; `block_rows` rows of scores are in scratch at a time."""

    def __init__(self, name: str, body: Graph, target: Target, block_rows: int, matrices: int):
        self.builder = LoopBuilder(name)
        inputs, outputs = declare_buffers(self.builder, body)
        self.body = body
        self.anchor = next(
            i for i, node in enumerate(body.nodes)
            if node.op not in (INPUT, "constant") and lookup(node.op).kind == "composite"
        )  # fmt: skip
        node = body.nodes[self.anchor]
        self.operands = node.operands
        self.outputs = stored(body, self.anchor, outputs)
        self.scale = float(node.attribute("scale"))
        self.causal = bool(node.attribute("causal"))
        self.dtype = node.types[0].dtype
        self.lanes = target.lanes(self.dtype)
        self.evaluator = Evaluator(self.builder, body, inputs, self.lanes)
        self.integers = self.evaluator.integers
        # Powers of two rows, so that blocks of rows are whole tiles and chains whole blocks.
        self.tile_rows = 8 if vector_registers(target) == 32 else 4
        self.tile_vectors = 3
        self.zero = self.builder.splat(self.builder.const(self.dtype, 0), self.lanes)
        self.hidden = self.builder.splat(self.builder.const(self.dtype, -math.inf), self.lanes)
        self.block_limit = (block_rows, matrices, target.l2_bytes)
        # Names of its own for each kernel: its loops do not depend on what was lowered before.
        self.names = itertools.count()
        self.lead: tuple[Expr, ...] = ()
        self.whole: Value | None = None
        """S where nothing may be skipped, else 0."""

    def shaped(self, q: GraphValue, v: GraphValue, mask: Sequence[GraphValue]) -> None:
        """Sizes of the problem, and its mask."""
        shape = self.body.type_of(q).shape
        self.heads = shape[:-2]
        self.rows, self.depth = shape[-2:]
        self.columns, self.width = self.body.type_of(v).shape[-2:]
        self.mask = mask[0] if mask else None
        self.vectors = -(-self.columns // self.lanes)
        stride = self.padded(self.columns)
        # Rows a multiple of 1024 bytes apart would share few sets of the cache.
        stride += self.lanes if stride * self.dtype.itemsize % 1024 == 0 else 0
        size, matrices, cache = self.block_limit
        while size > 16 and size * stride * self.dtype.itemsize * matrices > cache // 2:
            size //= 2
        self.block = min(size, -(-self.rows // self.tile_rows) * self.tile_rows)
        self.stride = stride

    # -- numbers and loops -------------------------------------------------------------------

    def padded(self, columns: int) -> int:
        return -(-columns // self.lanes) * self.lanes

    def value(self, number: Number) -> Value:
        return number if isinstance(number, Value) else self.builder.const(DType.i64, number)

    def computed(self, opcode: str, x: Number, y: Number) -> Number:
        """`opcode` of two i64 numbers, done here where both are known."""
        if isinstance(x, int) and isinstance(y, int):
            known: dict[str, Callable[[int, int], int]] = {
                "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
                "div": lambda a, b: a // b, "minimum": min, "maximum": max,
            }  # fmt: skip
            return known[opcode](x, y)
        return self.builder.op(opcode, self.value(x), self.value(y))

    def plus(self, x: Number, y: Number) -> Number:
        return self.computed("add", x, y)

    def times(self, x: Number, y: Number) -> Number:
        return self.computed("mul", x, y)

    def at(self, *terms: tuple[Number, int]) -> Index:
        """The offset Σ factor · number."""
        constant = sum(number * factor for number, factor in terms if isinstance(number, int))
        return Index.of(constant, *((n, f) for n, f in terms if isinstance(n, Value)))

    def loop(self, begin: Number, end: Number, hint: str, body: Body, step: int = 1) -> None:
        """`body` for each position; nothing is written for a loop that is known to be empty."""
        if isinstance(begin, int) and isinstance(end, int) and begin + step >= end:
            if begin < end:
                body(begin)
            return
        with self.builder.loop(begin, end, step, hint=hint) as scope:
            body(scope.variable)

    def expression(self, number: Number, extent: int) -> Expr:
        """A number below `extent` for index expressions."""
        if isinstance(number, int):
            return of(number)
        variable = Variable(f"attention{next(self.names)}", extent)
        self.integers.bind(variable, number, self.builder.block)
        return of(variable)

    def lane(self) -> Expr:
        variable = Variable(f"attention{next(self.names)}", self.lanes)
        self.integers.bind_lane(variable, self.builder.block)
        return of(variable)

    def scratch(self, name: str, rows: int, columns: int) -> Matrix:
        stride = self.padded(columns)
        return Matrix(self.builder.scratch(name, self.dtype, rows * stride), stride)

    def load(self, matrix: Matrix, row: Number, column: Number, plus: int = 0) -> Value:
        """A vector at `column + plus` of a row."""
        index = self.at((row, matrix.stride), (column, 1), (plus, 1))
        return self.builder.load(matrix.memory, index, self.lanes)

    def element(self, matrix: Matrix, row: Number, column: Number, plus: int = 0) -> Value:
        index = self.at((row, matrix.stride), (column, 1), (plus, 1))
        return self.builder.splat(self.builder.load(matrix.memory, index), self.lanes)

    def store(self, matrix: Matrix, row: Number, column: Number, value: Value) -> None:
        index = self.at((row, matrix.stride), (column, 1))
        self.builder.store(matrix.memory, index, value)

    # -- heads and blocks of rows ------------------------------------------------------------

    def each_head(self, body: Callable[[], None]) -> int:
        """`body` for the heads of this call, with `lead` as their index; gives their number."""
        count = math.prod(self.heads)
        with self.builder.loop(self.builder.begin, self.builder.end, hint="head") as scope:
            self.head: Value = scope.variable
            self.lead = unflatten(self.expression(scope.variable, count), self.heads)
            every = [target for targets in self.outputs.values() for target in targets]
            self.starts = {t: self.integers.number(t.start(self.lead))[0] for t in every}
            body()
        return count

    def each_block(self, body: Callable[[Rows], None]) -> None:
        rest = self.rows % self.tile_rows
        if self.rows <= self.block:
            tiles = self.rows // self.tile_rows
            body(Rows(0, self.rows, tiles, rest, int(rest > 0)))
            return

        def block(first: Number) -> None:
            count = self.computed("minimum", self.computed("sub", self.rows, first), self.block)
            tiles = self.computed("div", count, self.tile_rows)
            left = self.computed("sub", count, self.times(tiles, self.tile_rows))
            body(Rows(first, count, tiles, rest, self.computed("minimum", left, int(rest > 0))))

        self.loop(0, self.rows, "block", block, step=self.block)

    def row_tiles(self, rows: Rows, begin: Number, body: Callable[[Number, int], None]) -> None:
        """`body(first row within the block, rows)` for the tiles from `begin` on, and the rest."""
        def tile(number: Number) -> None:
            body(self.times(number, self.tile_rows), self.tile_rows)

        self.loop(begin, rows.tiles, "rows", tile)
        if rows.rest:
            last = self.times(rows.tiles, self.tile_rows)
            self.loop(0, rows.has_rest, "rest", lambda _: body(last, rows.rest))

    def column_tiles(self, columns: int, body: Callable[[Number, int], None]) -> None:
        """`body(number of the tile, vectors)` for the tiles of a row of so many columns."""
        whole = columns // (self.tile_vectors * self.lanes)
        rest = self.padded(columns) // self.lanes - whole * self.tile_vectors
        self.loop(0, whole, "columns", lambda number: body(number, self.tile_vectors))
        if rest:
            body(whole, rest)

    # -- operands ----------------------------------------------------------------------------

    def vector(self, source: GraphValue, row: Expr, block: Expr, columns: int) -> Value:
        """Vector `block` of a row of an operand (of an operand [.., L]: of it), zeros behind it."""
        lane = self.lane()
        at = block * self.lanes + lane
        guards: tuple[Guard, ...] = () if at.within(0, columns) else ((at, 0, columns),)
        rank = len(self.body.type_of(source).shape)
        index = (*self.lead, *((row,) if rank > len(self.lead) + 1 else ()), at)
        value = self.builder.splat(self.evaluator.value(source, index, guards), self.lanes)
        if not guards:
            return value
        held, _ = self.integers.mask(guards)
        return self.builder.select(held, value, self.zero)

    def across(self, columns: int, body: Callable[[Expr], None]) -> None:
        """`body` for each vector of a row, the incomplete one by itself."""
        whole = columns // self.lanes
        self.loop(0, whole, "v", lambda block: body(self.expression(block, whole)))
        if columns % self.lanes:
            body(of(whole))

    def scaled(self, value: Value) -> Value:
        return self.builder.mul(value, self.builder.const(self.dtype, self.scale))

    def copy(
        self, source: GraphValue, first: Number, count: Number, target: Matrix,
        change: Change | None = None,
    ) -> None:  # fmt: skip
        """Rows first … first + count of an operand, changed."""
        limit, columns = self.body.type_of(source).shape[-2:]

        def row(number: Number) -> None:
            place = self.expression(number, limit)
            at = place + self.expression(first, limit)

            def block(number_of_block: Expr) -> None:
                value = self.vector(source, at, number_of_block, columns)
                value = value if change is None else change(value)
                linear = place * target.stride + number_of_block * self.lanes
                index, _ = self.integers.offset(linear)
                self.builder.store(target.memory, index, value)

            self.across(columns, block)

        self.loop(0, count, "copy", row)

    def packed(self, source: GraphValue, name: str) -> Matrix:
        """Scratch for the transpose of an operand, as panels of a tile's columns: [panel][depth]
        [columns of a tile], the columns being the operand's rows."""
        panels = -(-self.vectors // self.tile_vectors)
        depth = self.body.type_of(source).shape[-1]
        return self.scratch(name, panels * depth, self.tile_vectors * self.lanes)

    def pack(self, source: GraphValue, panels: Matrix) -> None:
        """The operand's transpose. Columns behind the last are copies of it, or undefined."""
        limit, depth = self.body.type_of(source).shape[-2:]
        by_rows = self._contiguous_along_rows(source)

        def panel(number: Number) -> None:
            done = self.times(number, self.tile_vectors)
            left: Number = self.tile_vectors
            if self.vectors % self.tile_vectors:
                left = self.computed("minimum", self.computed("sub", self.vectors, done), left)

            def vector(inner: Number) -> None:
                block = self.plus(done, inner)
                base = self.at((number, depth * panels.stride), (inner, self.lanes))
                if by_rows:
                    self._pack_along(source, panels, base, block, depth)
                else:
                    self._pack_across(source, panels, base, block, limit, depth)

            self.loop(0, left, "u", vector)

        self.loop(0, -(-self.vectors // self.tile_vectors), "panel", panel)

    def _pack_along(
        self, source: GraphValue, panels: Matrix, base: Index, block: Number, depth: int
    ) -> None:
        """One vector of columns, where they are neighbours in memory."""
        def row(number: Number) -> None:
            lane = self.lane()
            at = self.expression(block, self.vectors) * self.lanes + lane
            guards: tuple[Guard, ...] = ()
            if not at.within(0, self.columns):
                guards = ((at, 0, self.columns),)
            index = (*self.lead, at, self.expression(number, depth))
            value = self.evaluator.value(source, index, guards)
            where = base + self.at((number, panels.stride))
            self.builder.store(panels.memory, where, self.builder.splat(value, self.lanes))

        self.loop(0, depth, "e", row)

    def _pack_across(
        self, source: GraphValue, panels: Matrix, base: Index, block: Number, limit: int, depth: int
    ) -> None:
        """One vector of columns, transposed in registers."""
        first = self.times(block, self.lanes)
        rows = []
        for i in range(self.lanes):
            row = self.plus(first, i)
            if limit % self.lanes:
                row = self.computed("minimum", row, limit - 1)
            rows.append(self.expression(row, limit))

        def part(number: Expr) -> None:
            vectors = [self.vector(source, row, number, depth) for row in rows]
            known = number.is_constant
            count = min(self.lanes, depth - number.constant * self.lanes) if known else self.lanes
            start, _ = self.integers.offset(number * (self.lanes * panels.stride))
            for i, vector in enumerate(transpose(self.builder, vectors)[:count]):
                self.builder.store(panels.memory, base + start + i * panels.stride, vector)

        self.across(depth, part)

    def _contiguous_along_rows(self, source: GraphValue) -> bool:
        """Whether neighbouring rows of an operand are neighbours in memory, not its columns."""
        shape = self.body.type_of(source).shape
        variables = [Variable(f"probe{axis}", max(dim, 2)) for axis, dim in enumerate(shape)]
        index = tuple(of(variable) for variable in variables)

        def is_input(value: GraphValue) -> bool:
            return self.body.nodes[value.node].op == INPUT

        if is_input(source):
            return False
        found = list(reads(self.body, source, index, is_input))
        if len(found) != 1:
            return False
        linear = flatten(found[0].index, self.body.type_of(found[0].value).shape)
        return linear.coefficient(variables[-2]) == 1 and linear.coefficient(variables[-1]) != 1

    def check_finite(self, *sources: tuple[GraphValue, Change | None]) -> None:
        """Sets `whole`: whether some element of the operands, changed, is not finite, so that all
        rows are to meet all columns."""
        if not self.causal:
            return
        poison = [self._poison(*source) for source in sources]
        total = self.horizontal(self._sum(poison), self.builder.add)
        bad = self.builder.compare("ne", total, total)
        self.whole = self.builder.select(bad, self.value(self.columns), self.value(0))

    def _poison(self, source: GraphValue, change: Change | None) -> Value:
        """0 in every lane, or NaN in some where a changed element of the operand is not finite."""
        rows, columns = (1, *self.body.type_of(source).shape[len(self.heads) :])[-2:]
        blocks = -(-columns // self.lanes)
        group = min(blocks, 4)
        groups = -(-blocks // group)
        with self.builder.loop(0, rows * groups, carried=[self.zero] * group, hint="test") as scope:
            flat = self.expression(scope.variable, rows * groups)
            row, part = unflatten(flat, (rows, groups))
            made = []
            for i, carried in enumerate(scope.carried):
                value = self.vector(source, row, part * group + i, columns)
                value = value if change is None else change(value)
                made.append(self.builder.fma(value, self.zero, carried))
            scope.yield_(*made)
        return self._sum(scope.results)

    def _sum(self, values: Sequence[Value]) -> Value:
        return functools.reduce(self.builder.add, values)

    def finite(self, level: Value) -> Value:
        """What is subtracted from scores: 0 for -∞."""
        zero, lowest = (self.builder.const(self.dtype, x) for x in (0, -math.inf))
        return self.builder.select(self.builder.compare("eq", level, lowest), zero, level)

    def horizontal(self, vector: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All lanes combined as a tree: lane i with i + half, and so on."""
        width = self.lanes
        while width > 1:
            width //= 2
            low = self.builder.shuffle(vector, vector, tuple(range(width)))
            high = self.builder.shuffle(vector, vector, tuple(range(width, 2 * width)))
            vector = combine(low, high)
        return vector
