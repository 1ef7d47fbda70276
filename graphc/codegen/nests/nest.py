"""What a nest is: axes, splits, stages, sums, and the statements that put them in order.

    nest = Nest("k", axes, stages, parallel, body=(ForEach(columns, (Fill(panel), tile)),))

A nest computes out[p] = Σ_k f(p, k) for each position p of its result axes, or, where it has no
axis of sums, its outputs at each position of the axes that these have. Everything in it is
frozen; it knows neither builder nor kernel. What is special (a register tile, lists of taps, an
epilogue) stays a leaf: it is given the positions that the loops around it are at (`NestPlace`), and
says what it does with them (`Effect`), which is what the verifier and the runner go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.nests.tails import Run, Tail
from graphc.ir.dims import Extent, always_le, ceil_div, fixed, remainder
from graphc.ops.kinds.index_expr import Expr
from graphc.records import field, record
from graphc.system import IMPORTING


class Role(Enum):
    """What an axis runs over."""

    BATCH = "batch"
    ROWS = "rows"
    COLUMNS = "columns"
    SUM = "sum"
    ELEMENTS = "elements"
    SOURCES = "sources"
    """What is combined into results, at positions that are data: inside loops over elements those
    whose positions these loops are at."""
    KEYS = "keys"
    """What decides in which order results are: all of a line, and as data."""

    def __str__(self) -> str:
        return self.value


class AxisCells(Protocol):
    """What positions of an axis stand for, where that is no run of coordinates."""

    @property
    def count(self) -> int:
        """How many coordinates all of them have."""

    def coordinates(self, position: int) -> tuple[int, ...]:
        """Those of one position, of all axes of the role as one number."""


@record
class Axis:
    """Positions [0, extent). Each stands for `inner` coordinates of its role, one behind the other,
    or for those that `cells` has. Several axes of a role are its coordinates row by row, the one of
    the least `number` outermost; those with cells are parts of it, side by side. Along an axis of
    sums the order is fixed: no split reorders it. `block`: positions of one K block there; None:
    where K blocks end is known only at run time. `levels`: the sums of so many blocks as one has
    positions are a block again, and so on, up to so many levels. `has_products`: whether its
    results have any; without they are zero."""

    name: str
    extent: Extent
    role: Role
    number: int = 0
    inner: Extent = 1
    cells: AxisCells | None = None
    block: int | None = None
    levels: int = 1
    has_products: bool = True

    @property
    def count(self) -> Extent:
        """Coordinates of its role."""
        return self.extent * self.inner if self.cells is None else self.cells.count


@record
class Split:
    """An axis, or the tiles of another split, in tiles of `size`. `runs`: of Tail.RUNS. `variable`:
    the name of the loops' variable in index expressions, by default the split's own."""

    name: str
    of: Axis | Split
    size: int
    """In positions of the axis, or tiles of the split."""
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
    def left(self) -> int:
        """The rest as a number. Raises UndecidedSizeError where it is a size."""
        return remainder(self.extent, self.size)

    @property
    def tiles(self) -> Extent:
        """How many tiles there are."""
        if self.tail is Tail.RUNS:
            return sum(run.count for run in self.runs)
        if self.tail is Tail.APART:
            assert isinstance(self.of, Split)
            return ceil_div(self.of.whole, self.size) + (self.of.rest != 0)
        if self.tail is Tail.BEHIND:
            assert isinstance(self.of, Split)
            return ceil_div(self.of.whole, self.size)
        return ceil_div(self.extent, self.size)

    @property
    def refusal(self) -> str | None:
        """Why it cannot be split so, whatever is inside; None where it can."""
        return self.tail.refusal(self.extent, self.size, self.runs)

    @property
    def is_one_tile(self) -> bool:
        """Whether there is at most one tile, at every size."""
        return always_le(self.tiles, 1)

    @property
    def numbered(self) -> tuple[Run, ...]:
        """Its runs of equal tiles: those it has, or the whole tiles, and what is left."""
        if self.tail is Tail.RUNS:
            return self.runs
        whole, rest = fixed(self.whole), self.left
        runs = [Run(0, 0, whole, self.size)] if whole else []
        return (*runs, *([Run(whole, whole * self.size, 1, rest)] if rest else []))

    @property
    def count(self) -> int:
        """How many tiles there are, of runs of equal tiles."""
        return sum(run.count for run in self.numbered)

    @property
    def unit(self) -> int:
        """Positions of the axis in one of what is split."""
        return 1 if isinstance(self.of, Axis) else self.of.unit * self.of.size

    @property
    def positions(self) -> int:
        """Positions of the axis in a whole tile."""
        return self.size * self.unit


@record
class Clipped:
    """The tiles of a run that are in a block: from `begin` to below `end`, numbered in the run, of
    which the block begins with `first`."""

    run: int
    begin: Number
    end: Number
    first: Expr


@record
class Span:
    """Where a loop over a split is: in tile `number`, whose first position is `first`, of `size`
    positions. `rest`: only so many of them are there, in a tile that is masked or clamped; `count`:
    so many, in one that is counted, `whole` of which are whole. `inside`: the tile's number in the
    tile of the split around it. `bounds`: first position and end, as numbers. `run`: which of the
    runs. `is_rest`: whether it is what whole tiles leave. `clipped`: of splits inside, by name, the
    runs of tiles in this one."""

    number: Expr
    first: Expr
    size: int
    rest: Extent | None = None
    count: Number | None = None
    whole: Number | None = None
    inside: Expr | None = None
    bounds: tuple[Number, Number] | None = None
    run: int = 0
    is_last: bool = False
    is_rest: bool = False
    clipped: Mapping[str, Sequence[Clipped]] = field(default_factory=dict)


@record
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


@record
class Effect:
    """What a leaf does at a place: for its results, those at the positions of the loops around it
    and at all positions of the axes that it `covers`.

    `reads`: stages. `fills`: a stage, of which it writes the elements of the place. `clears`,
    `adds`, `takes`, `checks`: sums that it sets to zero, adds products to, makes results of,
    computes again where they are NaN. Products are added K block by K block, each a sum from zero;
    with `continues` one by one, to what the sums have. `joins`: it adds no products, but the level
    of that number to the next one of the same sums, and zeroes it. `starts`: in the first tile
    along the axis of sums it takes them for zero. `stores`: whether it stores results, `last` only
    in the last tile of that split. Without sums it stores those of products it adds itself.
    `outputs`: which ones it stores, of a nest that says which it has. `combines`: an output that is
    stored, into which it combines the sources of the place in order. `tails`: those of which it
    takes the last tiles. `overwrites`: whether a result may be computed and stored twice."""

    covers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    fills: str | None = None
    clears: str | None = None
    adds: str | None = None
    takes: str | None = None
    checks: str | None = None
    stores: bool = False
    outputs: tuple[str, ...] = ()
    combines: str | None = None
    last: str | None = None
    starts: bool = False
    continues: bool = False
    joins: int | None = None
    tails: frozenset[Tail] = OF_NUMBERS
    overwrites: bool = False

    @property
    def has_products(self) -> bool:
        if self.takes is not None or self.joins is not None:
            return False
        return self.adds is not None or self.stores


class Holds(Enum):
    """What the elements of a stage are."""

    BROADCAST = "broadcast operand"
    VECTORS = "vector operand"
    OPERANDS = "both operands"
    SUMS = "sums"
    NUMBERS = "numbers"
    VALUES = "values"

    def __str__(self) -> str:
        return self.value

    @property
    def is_operand(self) -> bool:
        return self in (Holds.BROADCAST, Holds.VECTORS, Holds.OPERANDS)


Room = tuple[tuple[str, Extent], ...]
"""Of how many positions of an axis there is room, by the axes' names."""


class Stage(Protocol):
    """Scratch with a layout: a copy of an operand, or sums. `room`: for the axes its elements
    depend on. `whole`: the splits of which it holds one tile at a time; of other axes it holds
    all."""

    @property
    def name(self) -> str: ...

    @property
    def holds(self) -> Holds: ...

    @property
    def room(self) -> Room: ...

    @property
    def whole(self) -> tuple[str, ...]: ...

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


@record
class FunctionLeaf:
    """A leaf whose statements a function writes."""

    text: str
    effect: Effect
    write: Callable[[Any, NestPlace], None]


@record
class ForEach:
    """`body` for each tile of `split`; `within`: for those in the tile that the loop over that
    split, which is one of this split's tiles, is at. `always`: a loop also where there is one
    tile. `rest`: what is done with what is left behind whole tiles, if not `body`. `fused`: a split
    inside, whose tiles are counted together with those of this one; `flat`: in one loop, whose
    number is divided into both. `clips`: the splits inside whose runs it clips. `padded`: as many
    as a whole tile of the one around has; those that are not there are the last one again, so that
    a stage is filled to its end."""

    split: Split
    body: tuple[Statement, ...]
    within: Split | None = None
    always: bool = False
    fused: Split | None = None
    flat: bool = False
    clips: tuple[Split, ...] = ()
    rest: tuple[Statement, ...] | None = None
    padded: bool = False


@record
class Fill:
    """The stage has its elements from here on, for the statements behind it and inside them."""

    stage: Stage


@record
class Clear:
    """Zeros in all of a stage."""

    stage: Stage


@record
class Compute:
    """A leaf, at the place of the loops around it."""

    leaf: Leaf


@record
class Every:
    """`body` after every `count` tiles of the loop around that is over `split`, in which nothing is
    left over."""

    split: Split
    count: int
    body: tuple[Statement, ...]


Statement = ForEach | Every | Fill | Clear | Compute


@record
class NestOutput:
    """Results along some axes, all of role ELEMENTS: a row's sums have those of rows only."""

    name: str
    axes: tuple[str, ...]


@record
class Nest:
    """A kernel. `domain`: coordinates of each role. `axes`: all, also those that leaves cover.
    `outputs`: what is stored; with none, one result along all axes but that of sums.
    `parallel`: the splits that threads divide, tiles of the first ahead of those of the next; with
    none, a single part. `fused`: see the loop over the parallel one. `note`: see Kernel."""

    name: str
    domain: tuple[tuple[Role, Extent], ...]
    axes: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    parallel: tuple[Split, ...]
    body: tuple[Statement, ...]
    note: str = ""
    fused: Split | None = None
    outputs: tuple[NestOutput, ...] = ()

    def __str__(self) -> str:
        with IMPORTING:
            from graphc.codegen.nests.printer import print_nest

        return print_nest(self)

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


def all_splits(nest: Nest) -> list[Split]:
    """Every split once: those of loops, each behind the splits whose tiles it splits, then what
    loops clip besides."""
    loops = [statement for statement in walk(nest.body) if isinstance(statement, ForEach)]
    listed: dict[Split, None] = {}

    def add(split: Split) -> None:
        if isinstance(split.of, Split):
            add(split.of)
        listed[split] = None

    for loop in loops:
        add(loop.split)
    for split in (*nest.parallel, *(split for loop in loops for split in loop.clips)):
        add(split)
    return list(listed)


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, each ahead of those inside it."""
    for statement in statements:
        yield statement
        if isinstance(statement, ForEach):
            yield from walk((*statement.body, *(statement.rest or ())))
        elif isinstance(statement, Every):
            yield from walk(statement.body)
