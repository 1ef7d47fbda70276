"""Operands of attention in scratch, and whether all they hold is finite.

in : operands of the composite, which may be index maps of inputs
out: `Operands`, which copies them with rows padded to whole vectors, and packs their transposes as
     panels; what they hold is tested on the way
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.shuffles import transpose
from graphc.codegen.kernels.attention.heads import Heads, Matrix
from graphc.codegen.loop_ir.nodes import Index, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.ir.dims import Extent, at_least, at_most, ceil_div, known_number
from graphc.ir.nodes import INPUT
from graphc.ir.nodes import Value as GraphValue
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import reads

Change = Callable[[LoopValue], LoopValue]
Taint = list[LoopValue]
"""Sums of what was read, not finite in some lane where something of it is not; without vectors
nothing is tested."""

GROUP = 8
"""Vectors of a row that are copied without a loop."""
TAINTS = 2
"""Vectors of a taint: enough that they do not wait for each other."""


class Operands(Heads):
    """Copies of operands. They take a taint, and give it with what they read."""

    def vector(
        self, source: GraphValue, block: Expr, columns: Extent,
        index: Callable[[Expr], tuple[Expr, ...]],
    ) -> LoopValue:  # fmt: skip
        """Vector `block` of so many elements of an operand that lie at `index`; zeros behind."""
        at = block * self.lanes + self.positions.lane(self.lanes)
        guards: tuple[Guard, ...] = () if at.within(0, columns) else ((at, 0, columns),)
        vector_value = self.evaluator.value(source, (*self.lead, *index(at)), guards)
        value = self.builder.splat(vector_value, self.lanes)
        if not guards:
            return value
        held, _ = self.addresses.mask(guards)
        return self.builder.select(held, value, self.zero)

    def across(
        self, columns: Extent, start: Taint, body: Callable[[Expr, Taint], Taint],
        group: int = GROUP,
    ) -> Taint:  # fmt: skip
        """Folds `body` over the vectors of a row, the incomplete one by itself; of a row that
        groups of vectors leave a size of, each as if it were incomplete."""
        every, groups = ceil_div(columns, self.lanes), columns // self.lanes // group
        rest = known_number(every - groups * group)
        if rest is None:
            return self.fold(
                every, "v", start, lambda i, taint: body(self.positions.expression(i, every), taint)
            )

        def several(first: Expr, count: int, taint: Taint) -> Taint:
            for i in range(count):
                taint = body(first + i, taint)
            return taint

        folded = self.fold(
            groups, "v", start,
            lambda i, taint: several(self.positions.expression(i, groups) * group, group, taint),
        )  # fmt: skip
        return several(of(groups * group), rest, folded)

    def scaled(self, value: LoopValue) -> LoopValue:
        return self.builder.mul(value, self.builder.const(self.dtype, self.scale))

    def copy(
        self, source: GraphValue, first: Number, count: Number, target: Matrix, taint: Taint,
        change: Change | None = None,
    ) -> Taint:  # fmt: skip
        """Rows first … first + count of an operand, changed."""
        limit, columns = self.body.type_of(source).shape[-2:]

        def row(number: Number, taint: Taint) -> Taint:
            place = self.positions.expression(number, limit)
            at = place + self.positions.expression(first, limit)

            def vector(block: Expr, taint: Taint) -> Taint:
                value = self.vector(source, block, columns, lambda column: (at, column))
                value = value if change is None else change(value)
                linear = place * target.stride + block * self.lanes
                index, _ = self.addresses.offset(linear)
                self.builder.store(target.memory, index, value)
                return self._with(taint, value)

            return self.across(columns, taint, vector)

        return self.fold(count, "copy", taint, row)

    # -- transposes --------------------------------------------------------------------------

    def pack(self, source: GraphValue, panels: Matrix, taint: Taint) -> Taint:
        """The operand's transpose. Columns behind the last are copies of it, or zeros."""
        depth = self.body.type_of(source).shape[-1]
        pack = self._pack_along if self._contiguous_along_rows(source) else self._pack_across

        def panel(number: Number, taint: Taint) -> Taint:
            done = self.numbers.mul(number, self.tile_vectors)
            left: Number = self.tile_vectors
            if self.vectors % self.tile_vectors != 0:
                left = self.numbers.minimum(self.numbers.sub(self.vectors, done), left)

            def vector(inner: Number, taint: Taint) -> Taint:
                base = self.numbers.index((number, depth * panels.stride), (inner, self.lanes))
                return pack(source, panels, base, self.numbers.add(done, inner), taint)

            return self.fold(left, "u", taint, vector)

        return self.fold(ceil_div(self.vectors, self.tile_vectors), "panel", taint, panel)

    def _pack_along(
        self, source: GraphValue, panels: Matrix, base: Index, block: Number, taint: Taint
    ) -> Taint:
        """One vector of columns, where they are neighbours in memory."""
        limit, depth = self.body.type_of(source).shape[-2:]
        columns = self.positions.expression(block, self.vectors)

        def row(number: Number, taint: Taint) -> Taint:
            place = self.positions.expression(number, depth)
            value = self.vector(source, columns, limit, lambda column: (column, place))
            at = base + self.numbers.index((number, panels.stride))
            self.builder.store(panels.memory, at, value)
            return self._with(taint, value)

        return self.fold(depth, "e", taint, row)

    def _pack_across(
        self, source: GraphValue, panels: Matrix, base: Index, block: Number, taint: Taint
    ) -> Taint:
        """One vector of columns, transposed in registers."""
        limit, depth = self.body.type_of(source).shape[-2:]
        first = self.numbers.mul(block, self.lanes)
        rows = []
        for i in range(self.lanes):
            row = self.numbers.add(first, i)
            if limit % self.lanes != 0:
                row = self.numbers.minimum(row, limit - 1)
            rows.append(self.positions.expression(row, limit))

        def part(number: Expr, taint: Taint) -> Taint:
            vectors = [
                self.vector(source, number, depth, lambda column, row=row: (row, column))  # type: ignore[misc]
                for row in rows
            ]
            left = depth - number.constant * self.lanes if number.is_constant else self.lanes
            count = at_most(left, self.lanes)
            start, _ = self.addresses.offset(number * (panels.stride * self.lanes))
            for i, vector in enumerate(transpose(self.builder, vectors)[:count]):
                place = base + start + self.numbers.index((i, panels.stride))
                self.builder.store(panels.memory, place, vector)
            return functools.reduce(self._with, vectors, taint)

        return self.across(depth, taint, part, group=1)

    def _contiguous_along_rows(self, source: GraphValue) -> bool:
        """Whether neighbouring rows of an operand are neighbours in memory, not its columns."""
        shape = self.body.type_of(source).shape
        variables = [Variable(f"probe{axis}", at_least(dim, 2)) for axis, dim in enumerate(shape)]
        index = tuple(of(variable) for variable in variables)

        def is_input(value: GraphValue) -> bool:
            return self.body.nodes[value.node].op == INPUT

        if is_input(source):
            return False
        accesses = list(reads(self.body, source, index, is_input))
        if len(accesses) != 1:
            return False
        linear = flatten(accesses[0].index, self.body.type_of(accesses[0].value).shape)
        return linear.coefficient(variables[-2]) == 1 and linear.coefficient(variables[-1]) != 1

    # -- what is not finite ------------------------------------------------------------------

    def untainted(self) -> Taint:
        """To start from. Only a causal kernel skips anything."""
        return [self.zero] * TAINTS if self.causal else []

    def _with(self, taint: Taint, vector: LoopValue) -> Taint:
        """A vector more that was read."""
        return [*taint[1:], self.builder.add(taint[0], vector)] if taint else taint

    def read(self, source: GraphValue, taint: Taint, change: Change | None = None) -> Taint:
        """All rows' numbers of an operand [.., L], changed: nothing but what they do to `taint`."""

        def vector(block: Expr, taint: Taint) -> Taint:
            value = self.vector(source, block, self.rows, lambda row: (row,))
            return self._with(taint, value if change is None else change(value))

        return self.across(self.rows, taint, vector) if taint else taint

    def meets_all(self, taint: Taint) -> LoopValue | None:
        """S where something was not finite, so that rows are to meet all columns, else 0; None
        where nothing was tested. A sum of what is finite may overflow: then nothing is skipped
        without need."""
        if not taint:
            return None
        total = self.horizontal(functools.reduce(self.builder.add, taint), self.builder.add)
        zero = self.builder.const(self.dtype, 0)
        bad = self.builder.compare("ne", self.builder.sub(total, total), zero)
        return self.builder.select(bad, self.numbers.value(self.columns), self.numbers.value(0))
