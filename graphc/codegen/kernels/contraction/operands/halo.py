"""The halo buffer: a copy of the rectangle of coordinates that a window sweeps over.

There are zeros where it hangs over the edge of the operand; its axes come in another order if
vectors run along another axis; a strided axis is split by remainder, so that neighbouring windows
are neighbours in memory. It is filled by vectors: along rows where those are contiguous in both, by
transposed blocks in registers where the operand is contiguous along another axis, by gathers else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.copier import Copier, Element, Position
from graphc.codegen.kernels.contraction.cost.costs import group_tail
from graphc.codegen.kernels.contraction.cost.halo_plan import HaloAxis, HaloPlan
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.problem.view import ContractionView, operand_value
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.codegen.nests.tails import Tail
from graphc.ir.dims import Extent, at_least, ceil_div, is_single, known_number
from graphc.ir.types import row_major_strides
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.ops.kinds.movement import Case
from graphc.records import record
from graphc.schedule.access import Index

_names = itertools.count()


@record
class Group:
    """Indices of k's first axis that are added together: the variable of their number, how many
    they are, of the last group fewer than of others, and of others `size`."""

    number: Variable
    members: Number
    size: int


def group_end(emit: Emitter, first: Number, size: int) -> Number:
    """Where the group of `size` indices of k's first axis ends that begins with `first`."""
    return emit.numbers.tile_end(first, size, emit.view.k[0])


def group_members(emit: Emitter, groups: Variable, number: LoopValue, size: int) -> Group | None:
    """What buffers hold of group `number` where the last one may have fewer than others; None: as
    many as of the others."""
    if group_tail(emit.view.k[0]) is Tail.EXACT:
        return None
    first = emit.numbers.mul(number, size)
    return Group(groups, emit.numbers.sub(group_end(emit, first, size), first), size)


class HaloBuffer:
    """Scratch that holds what a window sweeps over, zeros at first."""

    def __init__(self, copier: Copier, view: ContractionView, plan: HaloPlan) -> None:
        self.copier = copier
        self.view = view
        self.operand = plan.operand
        self.axes = plan.axes
        dims: list[Any] = []
        for axis in self.axes:
            dims += [axis.split] if axis.split > 1 else []
            dims.append(ceil_div(axis.extent, axis.split))
        self.strides = row_major_strides(tuple(dims))
        # A vector at the last position reads behind the end.
        vectors = ceil_div(math.prod(dims), copier.lanes) + 8
        name = f"halo{next(_names)}"
        self.memory = copier.builder.scratch(name, view.element_dtype, vectors * copier.lanes)

    def position(self, index: Index) -> Expr:
        """Where the operand's element at `index` lies."""
        position = of(0)
        strides = iter(self.strides)
        for axis in self.axes:
            at = index[axis.axis] - axis.base - axis.low
            if axis.split > 1:
                position = position + (at % axis.split) * next(strides)
                at = at // axis.split
            position = position + at * next(strides)
        return position

    def clear(self) -> None:
        """Zeros everywhere: those outside the operand stay."""
        copier = self.copier
        zero = copier.builder.const(self.view.element_dtype, 0)

        def store(block: Expr) -> None:
            lane = copier.lane()
            copier.evaluator.store(self.memory, block * copier.lanes + lane, zero)

        copier.loop(self.memory.size // copier.lanes, "clear", store)

    def fill(self, columns: Extent | None = None, group: Group | None = None) -> FilledHalo:
        """Copies the part of the operand that exists; of the last axis only so many `columns`, of
        the axis along groups of k only what this `group` has."""
        filled = FilledHalo(self, self.copier.builder.block)
        last = self.axes[-1]
        source = self._contiguous()
        if source is not None and _is_along(source, group):
            source = None
        count = last.kept[1] - last.kept[0] if columns is None else columns
        rows = None
        if source is not None and source is not last:
            rows = known_number(source.kept[1] - source.kept[0])
            # Blocks that are transposed have a number of rows.
            source = None if rows is None else source
        outer = [axis for axis in self.axes[:-1] if axis is not source]
        self._loops(outer, {}, lambda at: self._rows(at, last, source, rows, count), group)
        return filled

    def _loops(
        self, axes: Sequence[HaloAxis], at: dict[int, Expr],
        body: Callable[[dict[int, Expr]], None], group: Group | None,
    ) -> None:  # fmt: skip
        if not axes:
            body(at)
            return
        begin, end = axes[0].kept
        self.copier.loop(
            end - begin, "s",
            lambda i: self._loops(axes[1:], {**at, axes[0].axis: i + begin}, body, group),
            self._present(axes[0], group),
        )  # fmt: skip

    def _present(self, axis: HaloAxis, group: Group | None) -> Number | None:
        """How many coordinates along an axis the members of a group have; None: all."""
        if group is None or not _is_along(axis, group):
            return None
        each = axis.base.coefficient(group.number)
        assert each is not None
        step = each // group.size  # of pairs 2
        if step == 1 and axis.extent == group.size:
            return group.members
        numbers = self.copier.builder.numbers
        return numbers.add(numbers.mul(group.members, step), axis.extent - group.size * step)

    def _rows(
        self, at: dict[int, Expr], last: HaloAxis, source: HaloAxis | None, rows: int | None,
        columns: Extent,
    ) -> None:  # fmt: skip
        """The last axis at these positions of the axes before it, but of `source` at all `rows`,
        where that is another one."""
        first_column = last.kept[0]
        first_row = source.kept[0] if source is not None else 0

        def index(row: Expr, column: Expr) -> dict[int, Expr]:
            inside = {**at, last.axis: column + first_column}
            if source is not None and source is not last:
                inside[source.axis] = row + first_row
            return inside

        def read(row: Expr, column: Expr, guards: tuple[Guard, ...]) -> LoopValue:
            where = self._source_index(index(row, column))
            return operand_value(
                self.copier.evaluator, self.view, Case(self.operand, where), guards
            )

        def position(row: Expr, column: Expr) -> Expr:
            return self.position(self._source_index(index(row, column)))

        if rows is not None:
            self._transposed(rows, columns, read, position)
            return
        if last.split == 1:
            self.copier.row(columns, read, position, self.memory)
            return
        for part in range(last.split):
            # Elements part, part + split, …: of those that exist, the first and their number.
            skip = (part - first_column) % last.split
            count = ceil_div(columns - skip, last.split)
            if count != 0:
                self.copier.row(
                    count,
                    lambda r, c, g, skip=skip: read(r, c * last.split + skip, g),  # type: ignore[misc]
                    lambda r, c, skip=skip: position(r, c * last.split + skip),  # type: ignore[misc]
                    self.memory,
                )

    def _transposed(self, rows: int, columns: Extent, read: Element, position: Position) -> None:
        """By blocks; of a size those that are whole, and behind them what is left of each row."""
        lanes, rest = self.copier.lanes, columns % self.copier.lanes
        if Tail.by(columns, Tail.WHOLE_AND_REST, Tail.MASKED) is Tail.WHOLE_AND_REST or rest == 0:
            self.copier.transposed(rows, columns, read, position, self.memory)
            return
        self.copier.transposed(rows, columns - rest, read, position, self.memory)
        last = of((columns - rest) // lanes)
        self.copier.loop(
            rows, "row",
            lambda row: self.copier.vector(last, rest, read, position, self.memory, row),
        )  # fmt: skip

    def _source_index(self, at: dict[int, Expr]) -> Index:
        """The operand's coordinate of a place in the buffer."""
        index = {axis.axis: at[axis.axis] + axis.base + axis.low for axis in self.axes}
        return tuple(index[axis] for axis in range(len(index)))

    def _contiguous(self) -> HaloAxis | None:
        """The axis along which the operand lies contiguous in memory."""
        probes = {
            axis.axis: Variable(f"probe{axis.axis}_{next(_names)}", at_least(axis.extent, 2))
            for axis in self.axes
        }
        index = self._source_index({axis: of(variable) for axis, variable in probes.items()})
        for axis in (self.axes[-1], *self.axes):
            case = Case(self.operand, index)
            if not is_single(axis.extent) and self.view.stride(case, probes[axis.axis]) == 1:
                return axis
        return None


def _is_along(axis: HaloAxis, group: Group | None) -> bool:
    return group is not None and group.number in axis.base.variables()


@record
class FilledHalo:
    """A halo buffer as it was filled in some block."""

    halo: HaloBuffer
    filled_in: OpenBlock

    def load(self, case: Case) -> LoopValue:
        halo = self.halo
        position = halo.position(case.index)
        return halo.copier.evaluator.load(halo.memory, position, (), self.filled_in)
