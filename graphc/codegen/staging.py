"""Copies of a contraction's operand in scratch, laid out as the register tile reads them.

- A `Panel` holds [k][columns]: the vectors of a tile lie behind one another.
- A `Box` holds the rectangle of coordinates that a window sweeps over, with zeros where it hangs
  over the edge of the operand, its axes in another order if vectors run along another axis, and a
  strided axis split by remainder, so that neighbouring windows are neighbours in memory.

Both are filled by vectors: along rows where those are contiguous in both, by transposed blocks in
registers where the operand is contiguous along another axis, by gathers else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.contraction_view import View, operand_value
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.integers import Guard
from graphc.codegen.loops import Buffer, Value
from graphc.codegen.scopes import OpenBlock
from graphc.codegen.shuffles import transpose
from graphc.ir.types import Shape, row_major_strides
from graphc.ops.index import Expr, Quotient, Variable, of, resolved
from graphc.ops.kinds import Case
from graphc.schedule.access import Index

Element = Callable[[Expr, Expr, tuple[Guard, ...]], Value]
Position = Callable[[Expr, Expr], Expr]
Tiles = Callable[[Callable[[Expr], None]], None]
"""Runs its argument for each of some tiles."""

ROWS_AT_ONCE = 8
"""Rows of which a panel's tiles are filled before the next: streams that a core fetches ahead."""

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


class Panel:
    """Scratch [k][columns] of one operand; `columns` is a multiple of the lanes of its reader."""

    def __init__(self, copier: Copier, view: View, name: str, depth: int, columns: int) -> None:
        self.copier = copier
        self.view = view
        self.depth = depth
        self.columns = columns
        size = max(depth * columns, 1)
        self.memory = copier.builder.scratch(name, view.dtype, size)
        self.filled_in: OpenBlock = copier.builder.block

    def fill(
        self, tiles: Tiles, width: int, element: Callable[[Expr, Expr, Expr], Case | None],
        first: Callable[[Expr], Expr],
    ) -> None:  # fmt: skip
        """element(tile, k, column) for columns below `width`, behind element first(tile) of the
        scratch. Where columns lie side by side, those of all tiles are read for a few k before the
        next: in runs of memory, no part of a cache line twice."""
        copier, view = self.copier, self.view
        self.filled_in = copier.builder.block
        # Vectors along k start at multiples of the lanes: they may end where a row of k does.
        step = copier.lanes if self.depth % copier.lanes == 0 else 1
        extents = (max(self.depth // step, 2), step, max(width, 2))
        k, lane, column = (Variable(f"probe{next(_names)}", extent) for extent in extents)
        probe = element(of(0), of(k) * step + of(lane), of(column))
        turned = not _side_by_side(view, probe, column)
        turned = turned and _side_by_side(view, probe, lane if step > 1 else k)

        def one(tile: Expr, begin: Expr, count: int) -> None:
            start = first(tile)

            def read(at: Expr, c: Expr, guards: tuple[Guard, ...]) -> Value:
                case = element(tile, begin + at, c)
                return guarded_value(copier.evaluator, view, case, guards)

            def position(at: Expr, c: Expr) -> Expr:
                return start + (begin + at) * self.columns + c

            def row(at: Expr) -> None:
                for block in range(-(-width // copier.lanes)):
                    rest = min(width - block * copier.lanes, copier.lanes) % copier.lanes
                    copier.vector(of(block), rest, read, position, self.memory, at)

            if turned:
                copier.transposed(count, width, read, position, self.memory)
            else:
                copier.loop(count, "row", row)

        def rows(begin: Expr, count: int) -> None:
            tiles(lambda tile: one(tile, begin, count))

        together = self.depth if turned else ROWS_AT_ONCE if len(view.k) == 1 else 1
        whole, rest = divmod(self.depth, max(together, 1))
        if whole:
            copier.loop(whole, "pk", lambda block: rows(block * together, together))
        if rest:
            rows(of(whole * together), rest)

    def load(self, position: Expr) -> Value:
        return self.copier.evaluator.load(self.memory, position, (), self.filled_in)


def _side_by_side(view: View, case: Case | None, along: Variable) -> bool:
    """Whether elements lie behind one another in memory."""
    linear = view.linear(case) if case is not None and not case.guards else None
    return linear is not None and resolved(linear).coefficient(along) == 1


def guarded_value(
    evaluator: Evaluator, view: View, case: Case | None, guards: tuple[Guard, ...] = ()
) -> Value:
    """An operand's element, 0 where the case's guards fail."""
    builder = evaluator.builder
    zero = builder.const(view.dtype, 0)
    if case is None:
        return zero
    value = operand_value(evaluator, view, case, guards)
    own = tuple(case.guards)
    if not own:
        return value
    held, where = evaluator.integers.mask(own)
    block = evaluator.deepest([where, evaluator.block_of(value)])
    with builder.at(block):
        return evaluator.note(builder.select(held, value, zero), block)


@dataclass(frozen=True)
class BoxAxis:
    """One axis of the operand in a box: coordinates `base + low + i` for i below `extent`, split
    into `split` interleaved parts. `dim`: the operand's own extent where the box may hang over."""

    axis: int
    base: Expr
    low: int
    extent: int
    split: int
    dim: int | None

    @property
    def kept(self) -> tuple[int, int]:
        """The part of the box that exists: its begin and end."""
        if self.dim is None:
            return 0, self.extent
        return max(0, -self.low), min(self.extent, self.dim - self.low)


class Box:
    """Scratch that holds what a window sweeps over. Made by `plan_box`."""

    def __init__(self, copier: Copier, view: View, operand: int, axes: Sequence[BoxAxis]) -> None:
        self.copier = copier
        self.view = view
        self.operand = operand
        self.axes = tuple(axes)
        dims: list[int] = []
        for axis in self.axes:
            dims += [axis.split] if axis.split > 1 else []
            dims.append(-(-axis.extent // axis.split))
        self.strides = row_major_strides(tuple(dims))
        # A vector at the last position reads behind the end.
        vectors = -(-math.prod(dims) // copier.lanes) + 8
        name = f"box{next(_names)}"
        self.memory = copier.builder.scratch(name, view.dtype, vectors * copier.lanes)
        self.filled_in: OpenBlock = copier.builder.block
        self.columns: int | None = None
        self.hangs_over = any(axis.kept != (0, axis.extent) for axis in self.axes)

    def position(self, index: Index) -> Expr:
        """Where the operand's element at `index` lies."""
        found = of(0)
        strides = iter(self.strides)
        for axis in self.axes:
            at = index[axis.axis] - axis.base - axis.low
            if axis.split > 1:
                found = found + (at % axis.split) * next(strides)
                at = at // axis.split
            found = found + at * next(strides)
        return found

    def load(self, case: Case) -> Value:
        linear = self.position(case.index)
        return self.copier.evaluator.load(self.memory, linear, (), self.filled_in)

    def clear(self) -> None:
        """Zeros everywhere: those outside the operand stay."""
        copier = self.copier
        zero = copier.builder.const(self.view.dtype, 0)

        def store(block: Expr) -> None:
            lane = copier.lane()
            copier.evaluator.store(self.memory, block * copier.lanes + lane, zero)

        copier.loop(self.memory.size // copier.lanes, "clear", store)

    def fill(self, columns: int | None = None) -> None:
        """Copies the part of the box that exists; of the last axis only so many `columns`."""
        self.columns = columns
        self.filled_in = self.copier.builder.block
        last = self.axes[-1]
        source = self._contiguous()
        outer = [axis for axis in self.axes[:-1] if axis is not source]
        self._loops(outer, {}, lambda at: self._rows(at, last, source))

    def _loops(
        self, axes: Sequence[BoxAxis], at: dict[int, Expr], body: Callable[[dict[int, Expr]], None]
    ) -> None:
        if not axes:
            body(at)
            return
        begin, end = axes[0].kept
        self.copier.loop(
            end - begin, "s",
            lambda i: self._loops(axes[1:], {**at, axes[0].axis: i + begin}, body),
        )  # fmt: skip

    def _rows(self, at: dict[int, Expr], last: BoxAxis, source: BoxAxis | None) -> None:
        """All of the last axis, at given positions of the axes before it (but `source`)."""
        first_column, columns = last.kept[0], last.kept[1] - last.kept[0]
        columns = columns if self.columns is None else self.columns
        first_row = source.kept[0] if source is not None else 0

        def index(row: Expr, column: Expr) -> dict[int, Expr]:
            found = {**at, last.axis: column + first_column}
            if source is not None and source is not last:
                found[source.axis] = row + first_row
            return found

        def read(row: Expr, column: Expr, guards: tuple[Guard, ...]) -> Value:
            where = self._source_index(index(row, column))
            return operand_value(
                self.copier.evaluator, self.view, Case(self.operand, where), guards
            )

        def position(row: Expr, column: Expr) -> Expr:
            return self.position(self._source_index(index(row, column)))

        if source is not None and source is not last:
            rows = source.kept[1] - source.kept[0]
            self.copier.transposed(rows, columns, read, position, self.memory)
            return
        if last.split == 1:
            self.copier.row(columns, read, position, self.memory)
            return
        for part in range(last.split):
            # Elements part, part + split, …: of those that exist, the first and their number.
            skip = (part - first_column) % last.split
            count = -(-(columns - skip) // last.split)
            if count > 0:
                self.copier.row(
                    count,
                    lambda r, c, g, skip=skip: read(r, c * last.split + skip, g),  # type: ignore[misc]
                    lambda r, c, skip=skip: position(r, c * last.split + skip),  # type: ignore[misc]
                    self.memory,
                )

    def _source_index(self, at: dict[int, Expr]) -> Index:
        """The operand's coordinate of a place in the box."""
        found: dict[int, Expr] = {}
        for axis in self.axes:
            found[axis.axis] = at[axis.axis] + axis.base + axis.low
        return tuple(found[axis] for axis in range(len(found)))

    def _contiguous(self) -> BoxAxis | None:
        """The axis along which the operand lies contiguous in memory."""
        probes = {
            axis.axis: Variable(f"probe{axis.axis}_{next(_names)}", max(axis.extent, 2))
            for axis in self.axes
        }
        index = self._source_index({axis: of(variable) for axis, variable in probes.items()})
        for axis in (self.axes[-1], *self.axes):
            case = Case(self.operand, index)
            if axis.extent > 1 and self.view.stride(case, probes[axis.axis]) == 1:
                return axis
        return None


def plan_box(
    view: View, cases: Sequence[Case], inner: frozenset[Variable], lane_axes: Sequence[int],
    split: int,
) -> tuple[BoxAxis, ...] | None:  # fmt: skip
    """The axes of a box that holds what `cases` read while the `inner` variables run over their
    extents; those in `lane_axes` come last, the very last one split into `split` parts. None where
    no box does: an address that is not affine, or guards other than the operand's own bounds."""
    operand = cases[0].operand
    shape: Shape = view.body.type_of(view.node.operands[operand]).shape
    found: list[BoxAxis] = []
    order = [axis for axis in range(len(shape)) if axis not in lane_axes] + list(lane_axes)
    for axis in order:
        bases, bounds = set(), []
        for case in cases:
            expression: Expr = case.index[axis]
            if any(isinstance(atom, Quotient) for atom, _ in expression.terms):
                return None
            moving = frozenset(t for t in expression.terms if t[0] in inner)
            bases.add(Expr(0, expression.terms - moving))
            bounds.append(Expr(expression.constant, moving).bounds())
        if len(bases) != 1:
            return None
        base = bases.pop()
        low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
        guarded = [
            guard for case in cases for guard in case.guards if guard[0] == case.index[axis]
        ]
        if any(guard[1:] != (0, shape[axis]) for guard in guarded) or (guarded and base.terms):
            return None
        found.append(
            BoxAxis(
                axis, base, low, high - low + 1, split if axis == order[-1] else 1,
                shape[axis] if guarded else None,
            )
        )  # fmt: skip
    coordinates = [guard for case in cases for guard in case.guards]
    held = [guard for case in cases for guard in case.guards if guard[0] in case.index]
    return tuple(found) if len(coordinates) == len(held) else None
