"""The writer: loops of a nest. The one place where loops over the splits of axes are written.

In: a nest, and the context its stages and leaves write with. Out: statements of a kernel, in the
order of the nest's own. A range known where it is written and one computed at run time go the same
way: bounds are `Number`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.nest import (
    Clear,
    Clipped,
    Every,
    Fill,
    ForEach,
    Nest,
    NestPlace,
    Span,
    Split,
    Statement,
)
from graphc.codegen.nests.tails import Run, Tail
from graphc.config import verify_passes
from graphc.ir.dims import Extent, ceil_div, fixed
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import field, record, replace
from graphc.system import IMPORTING


class WriterContext(Protocol):
    """What stages and leaves write with; the writer needs no more of it."""

    @property
    def builder(self) -> LoopBuilder: ...

    @property
    def addresses(self) -> Addresses: ...


Part = tuple[Number, Number]
"""The tiles a thread does: from, to below."""
Body = Callable[[Span], None]


@record
class _At:
    """Where the writer is. `parts`: by the names of splits, the tiles that are to be done; `done`:
    how many are, the one that the loop is at among them; `numbers`: of splits that are counted with
    one around, the tile that is at hand."""

    place: NestPlace
    parts: Mapping[str, Part]
    done: Mapping[str, Number] = field(default_factory=dict)
    numbers: Mapping[str, Expr] = field(default_factory=dict)


def write_nest(nest: Nest, context: WriterContext) -> Kernel:
    """The kernel of a nest, which is verified where graphs are after each pass (GRAPHC_VERIFY)."""
    if verify_passes():
        with IMPORTING:  # compiling needs it not
            from graphc.codegen.nests.verifier import verify_nest
        verify_nest(nest)
    writer = _Writer(nest, context)
    memory = {stage.name: stage.declare(context) for stage in nest.stages}
    builder = context.builder
    parts = {split.name: (builder.begin, builder.end) for split in nest.parallel}
    writer.block(nest.body, _At(NestPlace({}, {}, memory), parts))
    return builder.finish(nest.parts, nest.note)


class _Writer:
    def __init__(self, nest: Nest, context: WriterContext) -> None:
        self.nest = nest
        self.context = context
        self.builder = context.builder
        self.numbers = context.builder.numbers
        self.addresses = context.addresses

    def block(self, statements: tuple[Statement, ...], at: _At) -> None:
        for statement in statements:
            if isinstance(statement, ForEach):
                self.loop(statement, at)
            elif isinstance(statement, Every):
                self.every(statement, at)
            elif isinstance(statement, Fill):
                stage = statement.stage
                filled = stage.fill(self.context, at.place)
                place = replace(at.place, filled={**at.place.filled, stage.name: filled})
                at = replace(at, place=place)
            elif isinstance(statement, Clear):
                statement.stage.clear(self.context, at.place)
            else:
                statement.leaf.write(self.context, at.place)

    def loop(self, loop: ForEach, at: _At) -> None:
        split = loop.split

        def body(
            span: Span, parts: Mapping[str, Part] = at.parts,
            numbers: Mapping[str, Expr] = at.numbers,
        ) -> None:  # fmt: skip
            spans = {**at.place.spans, split.name: span}
            statements = loop.body
            if span.is_rest and loop.rest is not None:
                statements = loop.rest
            place = replace(at.place, spans=spans)
            self.block(statements, replace(at, place=place, parts=parts, numbers=numbers))

        if loop.within is not None:
            _WITHIN[loop.within.tail](self, loop, at.place[loop.within.name], body)
        elif split.name in at.numbers:
            number = at.numbers[split.name]
            body(Span(number, number * split.size, split.size))
        elif loop.fused is not None and loop.flat:
            self._flat(split, loop.fused, at, body)
        elif loop.fused is not None:
            self._fused(loop, loop.fused, at, body)
        else:
            _WAYS[split.tail](self, loop, at.parts.get(split.name), body)

    def every(self, statement: Every, at: _At) -> None:
        name, n = statement.split.name, self.numbers
        done = at.done.get(name)
        if done is None:
            done = n.add(self.addresses.scalar(at.place[name].number), 1)
        over = self.builder.op("mod", n.value(done), n.value(statement.count))
        with self.builder.if_(n.compare("eq", over, 0)) as branch:
            with branch.then():
                self.block(statement.body, replace(at, done={**at.done, name: done}))
            with branch.otherwise():
                pass

    # -- ranges ------------------------------------------------------------------------------

    def over(
        self, split: Split, begin: Number, end: Number, extent: Extent,
        body: Callable[[Expr], None], suffix: str = "",
    ) -> None:  # fmt: skip
        """`body(number)` in a loop over numbers from `begin` to below `end`, less than `extent`."""
        name = split.variable or split.name
        with self.builder.loop(begin, end, hint=split.name) as loop:
            variable = Variable(f"{name}{suffix}", extent)
            self.addresses.bind(variable, loop.variable, self.builder.block)
            body(of(variable))

    def range_of(self, split: Split, run: Run, part: Part | None) -> Part:
        """Of a run's tiles all, or those of a part, in which all parallel splits are numbered."""
        if part is None:
            return 0, self.numbers.bound(run.count)
        begin, end = part
        before = self.before(split) + run.number
        if before:
            begin = self.numbers.maximum(self.numbers.sub(begin, before), 0)
            end = self.numbers.sub(end, before)
        return self.numbers.bound(begin), self.numbers.bound(self.numbers.minimum(end, run.count))

    def before(self, split: Split) -> int:
        """Tiles of other parallel splits that are counted ahead of this one's."""
        splits = self.nest.parallel
        return sum(fixed(other.tiles) for other in splits[: splits.index(split)])

    def present(self, number: Expr, extent: Extent, size: int) -> Number:
        """How many positions the tile of a number has, of so many in tiles of this size."""
        if extent % size == 0:
            return size
        # The extent stands ahead of what is computed of the tile.
        all_of_them = self.numbers.value(extent)
        left = self.numbers.sub(all_of_them, self.addresses.scalar(number * size))
        return self.numbers.minimum(left, size)

    # -- tails -------------------------------------------------------------------------------

    def _whole(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """The whole tiles, those of a part."""
        split, whole = loop.split, loop.split.whole
        begin: Number = 0
        end: Number = whole
        if part is not None:
            begin, end = part
            if split.rest != 0:
                end = self.numbers.minimum(end, self.numbers.bound(whole))
        elif whole == 1 and not loop.always:
            body(Span(of(0), of(0), split.size))
            return

        def tile(number: Expr) -> None:
            body(Span(number, number * split.size, split.size))

        self.over(split, begin, end, whole, tile)

    def whole_and_last(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """Whole tiles, then what is left, if anything is: with a part, where that ends there."""
        split = loop.split
        if split.whole != 0:
            self._whole(loop, part, body)
        self._if_left(split, split.rest, part, lambda: self._last(split, body))

    def _if_left(
        self, split: Split, rest: Extent, part: Part | None, last: Callable[[], None]
    ) -> None:
        """`last` where anything is left, by the part that ends with the last tile."""
        if rest == 0:
            return
        tests = []
        if part is not None:
            tests.append(self.numbers.compare("eq", part[1], split.tiles))
        is_there = self.numbers.nonzero(rest)
        if is_there is not None:
            tests.append(is_there)
        if not tests:
            last()
            return
        condition = tests[0] if len(tests) == 1 else self.builder.op("and", *tests)
        with self.builder.if_(condition) as branch:
            with branch.then():
                last()
            with branch.otherwise():
                pass

    def _last(self, split: Split, body: Body) -> None:
        number, rest = of(split.whole), split.rest
        first = number * split.size
        if split.tail is Tail.MASKED:
            body(Span(number, first, split.size, rest, is_rest=True))
        elif isinstance(rest, int):
            body(Span(number, first, rest, is_rest=True))
        elif split.tail is Tail.CLAMPED:
            body(Span(number, first, split.size, rest, is_rest=True))
        else:  # one by one
            ones = replace(split, variable=f"{split.name}_last")
            self.over(
                ones, 0, rest, rest,
                lambda r: body(Span(first + r, first + r, 1, is_rest=True)),
            )  # fmt: skip

    def shifted(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """All tiles by the same code: the last one begins in the one before."""
        split, tiles = loop.split, fixed(loop.split.tiles)

        def tile(number: Expr) -> None:
            last = fixed(split.extent) - split.size
            at = self.numbers.mul(self.addresses.scalar(number), split.size)
            first = self.numbers.minimum(at, last)
            variable = Variable(f"{split.variable or split.name}_first", last + 1)
            self.addresses.bind(variable, self.numbers.value(first), self.builder.block)
            body(Span(number, of(variable), split.size))

        self.over(split, *self.range_of(split, Run(0, 0, tiles, split.size), part), tiles, tile)

    def counted(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """All tiles by one body. What is left of the tiles that are split may be a tile apart."""
        split, of_split = loop.split, loop.split.of
        extent, rest = split.extent, None
        if split.tail in (Tail.APART, Tail.BEHIND) and isinstance(of_split, Split):
            extent, rest = of_split.whole, of_split.rest or None
        tiles = ceil_div(extent, split.size)

        def tile(number: Expr) -> None:
            counts = split.tail is not Tail.BOUNDED
            count = self.present(number, extent, split.size) if counts else None
            body(Span(number, number * split.size, split.size, count=count))

        if tiles != 0 or split.tail is Tail.BOUNDED:
            begin, end = (0, tiles) if part is None else part
            if split.tail is Tail.APART and part is not None:
                end = self.numbers.minimum(end, tiles)
            self.over(split, begin, end, tiles, tile)
        if rest is None:
            return
        if split.tail is Tail.BEHIND:
            left = Span(of(tiles), of(extent), 1, count=1, is_rest=True)
            self._if_left(split, rest, part, lambda: body(left))
            return
        last = Span(of(tiles), of(extent), 1, count=1, is_last=True)
        if part is None:
            body(last)
            return
        run = Run(fixed(tiles), fixed(extent), 1, 1)
        with self.builder.loop(*self.range_of(split, run, part), hint="last"):
            body(last)

    def stepped(self, loop: ForEach, part: Part | None, body: Body) -> None:
        split = loop.split
        if isinstance(split.of, Split):
            self._steps_of_part(split, split.of, body)
            return
        with self.builder.loop(0, split.extent, split.size, hint=split.name) as steps:
            behind = self.numbers.add(steps.variable, split.size)
            end = self.numbers.minimum(behind, split.extent)
            variable = Variable(split.variable or split.name, split.extent)
            self.addresses.bind(variable, steps.variable, self.builder.block)
            first = of(variable)
            body(Span(first // split.size, first, split.size, bounds=(steps.variable, end)))

    def _steps_of_part(self, split: Split, tiles: Split, body: Body) -> None:
        n = self.numbers
        begin, end = self._part_of(tiles) or (0, n.value(tiles.tiles))
        with self.builder.loop(begin, end, split.size, hint=split.name) as steps:
            first = Variable(split.variable or split.name, tiles.tiles)
            self.addresses.bind(first, steps.variable, self.builder.block)
            count = n.value(n.minimum(n.sub(end, steps.variable), split.size))
            whole = n.value(n.minimum(count, n.sub(tiles.whole, steps.variable)))
            bounds = steps.variable, end
            body(Span(of(first), of(first), split.size, None, count, whole, bounds=bounds))

    def runs(self, loop: ForEach, part: Part | None, body: Body) -> None:
        split = loop.split
        for index, run in enumerate(split.runs):
            if run.count == 1 and part is None and not loop.always:
                body(Span(of(run.number), of(run.first), run.size, run=index))
                continue

            def tile(number: Expr, run: Run = run, index: int = index) -> None:
                at = number * run.size + run.first
                body(Span(number + run.number, at, run.size, run=index))

            begin, end = self.range_of(split, run, part)
            self.over(split, begin, end, run.count, tile, str(run.number))

    def peeled(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """All tiles but the last, then that: of an empty axis too, with no positions."""
        split, count = loop.split, max(fixed(loop.split.tiles), 1)

        def tile(number: Expr) -> None:
            body(Span(number, number * split.size, split.size))

        if count == 2:
            tile(of(0))
        elif count > 2:
            self.over(split, 0, count - 1, count - 1, tile)
        begin = (count - 1) * split.size
        body(Span(of(count - 1), of(begin), fixed(split.extent) - begin, is_last=True))

    # -- splits in splits --------------------------------------------------------------------

    def _fused(
        self, loop: ForEach, inner: Split, at: _At, body: Callable[[Span, Mapping[str, Part]], None]
    ) -> None:  # fmt: skip
        """The tiles of a split and, inside, those of another, counted as one range."""
        b, n, split = self.builder, self.numbers, loop.split
        count, part = split.tiles * inner.tiles, at.parts.get(split.name)
        size = n.value(inner.tiles)
        begin, end = (0, count) if part is None else (part[0], n.minimum(part[1], count))
        first, last = n.value(begin), n.value(end)
        behind = b.add(last, n.value(inner.tiles - 1))
        with b.loop(b.op("div", first, size), b.op("div", behind, size), hint=split.name) as outer:
            number = Variable(split.variable or split.name, split.tiles)
            self.addresses.bind(number, outer.variable, b.block)
            done, zero = b.mul(outer.variable, size), n.value(0)
            begin = n.maximum(n.sub(first, done), zero)
            end = n.minimum(n.sub(last, done), size)
            span = Span(of(number), of(number) * split.size, split.size)
            body(span, {**at.parts, inner.name: (begin, end)})

    def _flat(
        self, split: Split, inner: Split, at: _At,
        body: Callable[[Span, Mapping[str, Part], Mapping[str, Expr]], None],
    ) -> None:  # fmt: skip
        count, tiles = split.tiles * inner.tiles, inner.tiles

        def tile(both: Expr) -> None:
            number = both // tiles
            span = Span(number, number * split.size, split.size)
            body(span, at.parts, {**at.numbers, inner.name: both % tiles})

        self.over(split, *at.parts.get(split.name, (0, count)), count, tile)

    def in_counted(self, loop: ForEach, outer: Span, body: Body) -> None:
        """The tiles of a block, of which so many are there."""
        split = loop.split
        if outer.is_rest:
            number = outer.first
            body(Span(number, number * split.size, split.size, split.rest, is_rest=True))
            return
        size = split.left if outer.is_last else split.size

        assert outer.count is not None
        is_there = not loop.padded or outer.count == outer.size

        def tile(inside: Expr) -> None:
            number = outer.first + inside
            if not is_there:
                number = self._at_most(split, number)
            body(Span(number, number * split.size, size, inside=inside))

        count = outer.size if loop.padded else outer.count
        self.over(split, 0, count, outer.size, tile, str(outer.size))

    def _at_most(self, split: Split, number: Expr) -> Expr:
        """The number of a tile, or behind the last one that of the last."""
        least = self.numbers.minimum(self.addresses.scalar(number), split.tiles - 1)
        variable = Variable(f"{split.variable or split.name}_there", split.tiles)
        self.addresses.bind(variable, self.numbers.value(least), self.builder.block)
        return of(variable)

    def in_stepped(self, loop: ForEach, outer: Span, body: Body) -> None:
        """The tiles of a block, counted from its first one: whole ones, then what is left."""
        b, split, block = self.builder, loop.split, loop.within
        assert block is not None and outer.bounds is not None
        assert outer.count is not None and outer.whole is not None
        name = split.variable or split.name
        inside = Variable(f"{name}_in_{block.name}", block.size)
        if split.whole != 0:
            with b.loop(0, self.numbers.bound(outer.whole), hint=split.name) as tiles:
                number = Variable(name, split.whole)
                self.addresses.bind(inside, tiles.variable, b.block)
                at = self.numbers.add(outer.bounds[0], tiles.variable)
                self.addresses.bind(number, self.numbers.value(at), b.block)
                first = of(number) * split.size
                body(Span(of(number), first, split.size, inside=of(inside)))
        if split.rest == 0:
            return
        with b.if_(self.numbers.compare("gt", outer.count, outer.whole)) as branch:
            with branch.then():
                self.addresses.bind(inside, self.numbers.value(outer.whole), b.block)
                first, rest = of(split.whole * split.size), split.left
                body(Span(of(split.whole), first, rest, inside=of(inside), is_rest=True))
            with branch.otherwise():
                pass

    def numbered(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """All tiles, as in a block of them all."""
        runs = [
            Clipped(index, run.number, run.number + run.count, of(0))
            for index, run in enumerate(loop.split.numbered)
        ]
        self._in_runs(loop, runs, body)

    def clipped(self, loop: ForEach, part: Part | None, body: Body) -> None:
        """Blocks of tiles: of numbered ones a loop; of runs a loop for each, or none where all are
        one block."""
        split = loop.split
        tiles = split.of
        assert isinstance(tiles, Split)
        if tiles.tail is not Tail.RUNS:
            self._numbered_blocks(loop, body)
        elif split.size >= fixed(tiles.tiles):
            whole = []
            for index, run in enumerate(tiles.runs):
                bounds = self.range_of(tiles, run, self._part_of(tiles))
                whole.append(Clipped(index, *bounds, of(-run.number)))
            body(Span(of(0), of(0), split.size, clipped={tiles.name: whole}))
        else:
            for index in range(len(tiles.runs)):
                self._run_blocks(split, tiles, index, body)

    def _part_of(self, split: Split) -> Part | None:
        is_parallel = split.name in (other.name for other in self.nest.parallel)
        return (self.builder.begin, self.builder.end) if is_parallel else None

    def _run_blocks(self, split: Split, tiles: Split, index: int, body: Body) -> None:
        run = tiles.runs[index]
        begin, end = self.range_of(tiles, run, self._part_of(tiles))
        size = min(split.size, run.count)
        with self.builder.loop(begin, end, size, hint=split.name) as steps:
            first = Variable(f"{split.variable or split.name}{run.number}", run.count)
            self.addresses.bind(first, steps.variable, self.builder.block)
            behind = self.numbers.add(steps.variable, size)
            last = self.numbers.minimum(behind, end)
            part = Clipped(index, steps.variable, last, of(first))
            body(Span(of(first), of(first), size, run=index, clipped={tiles.name: (part,)}))

    def _numbered_blocks(self, loop: ForEach, body: Body) -> None:
        split = loop.split

        def tile(number: Expr) -> None:
            clipped = {}
            for inner in loop.clips:
                size = split.size * split.unit // inner.size
                clipped[inner.name] = self._clips(inner, number, size)
            body(Span(number, number * split.size, split.size, clipped=clipped))

        self.over(split, 0, split.tiles, split.tiles, tile)

    def _clips(self, inner: Split, number: Expr, size: int) -> list[Clipped]:
        n, block, clipped = self.numbers, self.addresses.scalar(number), []
        for index, run in enumerate(inner.numbered):
            first = n.mul(block, size)
            behind = n.add(first, size)
            begin = n.maximum(first, run.number)
            end = n.minimum(behind, run.number + run.count)
            clipped.append(Clipped(index, begin, end, number * size))
        return clipped

    def by_run(self, loop: ForEach, outer: Span, body: Body) -> None:
        """Each run of the block around."""
        tiles = loop.split.of
        assert isinstance(tiles, Split)
        for part in outer.clipped[tiles.name]:
            number = of(part.run)
            body(Span(number, number, 1, run=part.run, clipped={tiles.name: (part,)}))

    def in_clipped(self, loop: ForEach, outer: Span, body: Body) -> None:
        """The tiles in the block around; its runs are those of a split whose tiles it has."""
        if loop.split.tail is Tail.BY_RUN:
            self.by_run(loop, outer, body)
        else:
            self._in_runs(loop, outer.clipped[loop.split.name], body)

    def _in_runs(self, loop: ForEach, parts: Sequence[Clipped], body: Body) -> None:
        split = loop.split
        for part in parts:
            run = split.numbered[part.run]
            suffix, extent, before, at = str(run.number), run.count, run.number, run.first
            if split.tail is Tail.NUMBERED:
                # Counted over all runs: the variable has the extent of the operand.
                suffix, extent = f"{run.number + run.count}_{run.size}", run.number + run.count
                before, at = 0, 0

            def tile(
                number: Expr, part: Clipped = part, run: Run = run, before: int = before,
                at: int = at, extent: int = extent,
            ) -> None:  # fmt: skip
                # A run of one tile is the first block's first, and has no number in others.
                inside = number - part.first if extent > 1 or split.tail is Tail.RUNS else number
                step = split.size if split.tail is Tail.NUMBERED else run.size
                first = number * step + at
                span = Span(number + before, first, run.size, inside=inside, run=part.run)
                body(span)

            self.over(split, part.begin, part.end, extent, tile, suffix)

    def in_whole(self, loop: ForEach, outer: Span, body: Body) -> None:
        """Tiles of a tile, of its positions that are there."""
        split = loop.split
        extent = outer.size if outer.rest is None else outer.rest
        of_tile = replace(split, of=replace(split.axis, extent=extent))

        def tile(span: Span) -> None:
            body(replace(span, first=outer.first + span.first, inside=span.number))

        _WAYS[split.tail](self, replace(loop, split=of_tile, within=None), None, tile)


_WAYS: dict[Tail, Callable[[_Writer, ForEach, Part | None, Body], None]] = {
    Tail.EXACT: _Writer.whole_and_last, Tail.WHOLE_AND_REST: _Writer.whole_and_last,
    Tail.MASKED: _Writer.whole_and_last, Tail.ONE_BY_ONE: _Writer.whole_and_last,
    Tail.CLAMPED: _Writer.whole_and_last, Tail.SHIFTED: _Writer.shifted,
    Tail.COUNTED: _Writer.counted, Tail.BOUNDED: _Writer.counted, Tail.APART: _Writer.counted,
    Tail.BEHIND: _Writer.counted,
    Tail.STEPPED: _Writer.stepped,
    Tail.NUMBERED: _Writer.numbered, Tail.CLIPPED: _Writer.clipped,
    Tail.RUNS: _Writer.runs, Tail.PEELED: _Writer.peeled,
}  # fmt: skip
_WITHIN: dict[Tail, Callable[[_Writer, ForEach, Span, Body], None]] = {
    Tail.COUNTED: _Writer.in_counted, Tail.APART: _Writer.in_counted,
    Tail.BEHIND: _Writer.in_counted, Tail.STEPPED: _Writer.in_stepped,
    Tail.MASKED: _Writer.in_whole,
    Tail.CLIPPED: _Writer.in_clipped, Tail.BY_RUN: _Writer.in_clipped,
    Tail.EXACT: _Writer.in_whole, Tail.WHOLE_AND_REST: _Writer.in_whole,
    Tail.RUNS: _Writer.in_whole, Tail.PEELED: _Writer.in_whole,
}  # fmt: skip
