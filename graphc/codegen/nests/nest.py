"""What a nest is: axes, splits, stages, sums, and the statements that put them in order.

    nest = Nest("k", axes, stages, parallel, body=(ForEach(columns, (Fill(panel), tile)),))

A nest computes out[p] = Σ_k f(p, k) for each position p of its result axes. Everything in it is
frozen; it knows neither builder nor kernel. What is special (a register tile, lists of taps, an
epilogue) stays a leaf: it is given the positions that the loops around it are at (`NestPlace`), and
says what it does with them (`Effect`), which is what the verifier and the runner go by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.tails import Run, Tail
from graphc.ir.dims import Extent, ceil_div, fixed
from graphc.ops.kinds.index_expr import Expr


class Role(Enum):
    """What an axis runs over."""

    BATCH = "batch"
    ROWS = "rows"
    COLUMNS = "columns"
    SUM = "sum"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Axis:
    """Positions [0, extent). Along an axis of sums their order is fixed: no split reorders it."""

    name: str
    extent: Extent
    role: Role


@dataclass(frozen=True, slots=True)
class Split:
    """An axis, or the tiles of another split, in tiles of `size`. `runs`: of Tail.RUNS. `variable`:
    the name of the loops' variable in index expressions, by default the split's own."""

    name: str
    of: Axis | Split
    size: int
    tail: Tail
    runs: tuple[Run, ...] = ()
    variable: str = ""

    @property
    def extent(self) -> Extent:
        """Of what is split."""
        return self.of.extent if isinstance(self.of, Axis) else self.of.tiles

    @property
    def axis(self) -> Axis:
        return self.of if isinstance(self.of, Axis) else self.of.axis

    @property
    def whole(self) -> Extent:
        """How many tiles are whole."""
        return self.extent // self.size

    @property
    def rest(self) -> Extent:
        """Positions of the tile behind them; 0 where there is none."""
        return self.extent % self.size

    @property
    def tiles(self) -> Extent:
        """How many tiles there are."""
        if self.tail is Tail.RUNS:
            return sum(run.count for run in self.runs)
        if self.tail is Tail.APART:
            assert isinstance(self.of, Split)
            return ceil_div(self.of.whole, self.size) + (self.of.rest != 0)
        return ceil_div(self.extent, self.size)

    @property
    def numbered(self) -> tuple[Run, ...]:
        """Its runs of equal tiles: those it has, or the whole tiles, and what is left."""
        if self.tail is Tail.RUNS:
            return self.runs
        whole, rest = fixed(self.whole), fixed(self.rest)
        runs = [Run(0, 0, whole, self.size)] if whole else []
        return (*runs, *([Run(whole, whole * self.size, 1, rest)] if rest else []))

    @property
    def unit(self) -> int:
        """Positions of the axis in one of what is split."""
        return 1 if isinstance(self.of, Axis) else self.of.unit * self.of.size


@dataclass(frozen=True, slots=True)
class Clipped:
    """The tiles of a run that are in a block: from `begin` to below `end`, numbered in the run, of
    which the block begins with `first`."""

    run: int
    begin: Number
    end: Number
    first: Expr


@dataclass(frozen=True, slots=True)
class Span:
    """Where a loop over a split is: in tile `number`, whose first position is `first`, of `size`
    positions. `rest`: only so many of them are there, in a tile that is masked or clamped; `count`:
    so many, in one that is counted. `inside`: the tile's number in the tile of
    the split around it. `bounds`: first position and end, as numbers. `run`: which of the runs.
    `clipped`: of splits inside, by name, the runs of tiles in this one."""

    number: Expr
    first: Expr
    size: int
    rest: Extent | None = None
    count: Number | None = None
    inside: Expr | None = None
    bounds: tuple[Number, Number] | None = None
    run: int = 0
    is_last: bool = False
    clipped: Mapping[str, Sequence[Clipped]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NestPlace:
    """What a stage or leaf is given: the spans of the loops around it by the names of their splits,
    and by name what was filled before it. `memory`: the scratch of each stage."""

    spans: Mapping[str, Span]
    filled: Mapping[str, Any]
    memory: Mapping[str, Any]

    def __getitem__(self, split: str) -> Span:
        return self.spans[split]


OF_NUMBERS = frozenset({Tail.EXACT, Tail.WHOLE_AND_REST, Tail.RUNS, Tail.PEELED})
"""Tails of which every tile has a number of positions that is known where code is written."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a leaf does at a place. `covers`: axes of which it goes through all positions itself.
    `reads`: stages. `clears`, `adds`, `takes`, `checks`: sums that it sets to zero, adds products
    to, makes results of, computes again where they are NaN. `stores`: whether it stores results of
    the place, `last` only in the last tile of that split. Without sums it stores those of products
    it adds itself. `tails`: those of which it takes the last tiles."""

    covers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    clears: str | None = None
    adds: str | None = None
    takes: str | None = None
    checks: str | None = None
    stores: bool = False
    last: str | None = None
    tails: frozenset[Tail] = OF_NUMBERS
    overwrites: bool = False
    """Whether a result may be computed and stored twice."""

    @property
    def has_products(self) -> bool:
        return self.adds is not None or (self.stores and self.takes is None)


class Stage(Protocol):
    """Scratch with a layout: a copy of an operand, or sums. `axes`: those its elements depend on.
    `whole`: the splits of which it holds one tile at a time; of other axes it holds all."""

    @property
    def name(self) -> str: ...

    @property
    def axes(self) -> tuple[str, ...]: ...

    @property
    def text(self) -> str:
        """Layout and size, for readers."""

    def declare(self, context: Any) -> Any:
        """Its scratch, in the order of the nest's stages."""

    def clear(self, context: Any, place: NestPlace) -> None:
        """Writes what sets it to zero."""

    def fill(self, context: Any, place: NestPlace) -> Any:
        """Writes what fills it, and gives what readers read it by."""


class Leaf(Protocol):
    """What stands inside the loops."""

    @property
    def text(self) -> str: ...

    @property
    def effect(self) -> Effect: ...

    def write(self, context: Any, place: NestPlace) -> None:
        """Writes its statements for a place."""


@dataclass(frozen=True, slots=True)
class ForEach:
    """`body` for each tile of `split`; `within`: for those in the tile that the loop over that
    split, which is one of this split's tiles, is at. `always`: a loop also where there is one
    tile. `fused`: a split inside, whose tiles are counted together with those of this one.
    `clips`: the splits inside whose runs it clips."""

    split: Split
    body: tuple[Statement, ...]
    within: Split | None = None
    always: bool = False
    fused: Split | None = None
    clips: tuple[Split, ...] = ()


@dataclass(frozen=True, slots=True)
class Fill:
    """The stage has its elements from here on, for the statements behind it and inside them."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Clear:
    """Zeros in all of a stage."""

    stage: Stage


@dataclass(frozen=True, slots=True)
class Compute:
    """A leaf, at the place of the loops around it."""

    leaf: Leaf


Statement = ForEach | Fill | Clear | Compute


@dataclass(frozen=True, slots=True)
class Nest:
    """A kernel. `parallel`: the splits that threads divide, tiles of the first ahead of those of
    the next; with none, a single part. `fused`: see the loop over the parallel one. `note`: see
    Kernel."""

    name: str
    axes: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    parallel: tuple[Split, ...]
    body: tuple[Statement, ...]
    note: str = ""
    fused: Split | None = None

    @property
    def parts(self) -> Extent:
        """Into how many parts threads can divide it."""
        total: Extent = 0
        for split in self.parallel:
            total = total + split.tiles
        if not self.parallel:
            return 1
        return total if self.fused is None else total * self.fused.tiles


def walk_splits(statements: tuple[Statement, ...]) -> Iterator[Split]:
    """The splits of all loops, each ahead of those inside it."""
    for statement in walk(statements):
        if isinstance(statement, ForEach):
            yield statement.split


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, each ahead of those inside it."""
    for statement in statements:
        yield statement
        if isinstance(statement, ForEach):
            yield from walk(statement.body)
