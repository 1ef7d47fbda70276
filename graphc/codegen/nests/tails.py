"""What becomes of the last tile of a split, where the tiles do not divide the axis.

in : an axis of so many positions in tiles of a size
out: `Tail`, one name for each way: what it means, when it is legal, what it costs; and which
     positions its tiles have, as numbers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from graphc.ir.dims import Extent
from graphc.records import record


@record
class Run:
    """`count` equal tiles of `size` positions each, the first at `first`; `number` tiles of other
    runs come before."""

    number: int
    first: int
    count: int
    size: int


@record
class _Way:
    text: str
    meaning: str
    legal: str
    cost: str


class Tail(Enum):
    """Ways to end a split. Which of them the leaf inside can take is the leaf's to say."""

    EXACT = _Way(
        "exact", "tiles divide the axis", "the extent is a multiple of the size at every size",
        "nothing",
    )  # fmt: skip
    WHOLE_AND_REST = _Way(
        "whole and rest", "what is left has code of its own, written for its number of positions",
        "what is left is a number", "the body twice",
    )  # fmt: skip
    MASKED = _Way(
        "masked", "what is left is a tile whose other positions are masked off",
        "the leaf guards its positions", "the body twice; a masked access",
    )  # fmt: skip
    ONE_BY_ONE = _Way(
        "one by one", "of what is left, if that is a size, each position is a tile",
        "the leaf takes tiles of one", "the body twice; as much time for each as for a tile",
    )  # fmt: skip
    CLAMPED = _Way(
        "clamped", "of what is left, if that is a size, the positions that are not there are "
        "computed from the last one, and not stored", "the leaf stores position by position",
        "the body twice; a whole tile's time for the last",
    )  # fmt: skip
    SHIFTED = _Way(
        "shifted", "the last tile begins early enough to be whole", "the axis has a whole tile, "
        "and a result may be computed twice: nothing the leaf reads is stored by it",
        "positions that are computed twice",
    )  # fmt: skip
    COUNTED = _Way(
        "counted", "one body for all tiles, which is told how many positions the last one has",
        "a loop inside takes the number", "a minimum for each tile",
    )  # fmt: skip
    APART = _Way(
        "counted with rest apart",
        "of tiles of tiles: as counted, but what is left of the inner tiles is a tile of its own",
        "what is split are tiles of a split, of numbers",
        "the body twice where anything is left",
    )  # fmt: skip
    BEHIND = _Way(
        "counted with rest behind",
        "of tiles of tiles: as counted; who does the last one does what is left of the inner tiles",
        "what is split are tiles of a split, of numbers",
        "the body twice where anything is left",
    )  # fmt: skip
    STEPPED = _Way(
        "stepped", "as counted; the loop steps from one tile's first position to the next one's; "
        "tiles of tiles it counts from a thread's first one on", "a loop inside takes the bounds",
        "a minimum for each tile",
    )  # fmt: skip
    BOUNDED = _Way(
        "bounded", "one body for all tiles; who reads the axis inside stops at its end",
        "stages and leaf inside stop at the end of the axis", "a minimum for each of these",
    )  # fmt: skip
    RUNS = _Way(
        "runs", "runs of equal tiles that were laid out ahead, the last ones smaller",
        "runs follow one another", "the body once for each run",
    )  # fmt: skip
    NUMBERED = _Way(
        "numbered", "whole tiles, then what is left, each a loop over the numbers of its tiles",
        "what is left is a number", "the body twice",
    )  # fmt: skip
    CLIPPED = _Way(
        "clipped", "of tiles of tiles: the loops over the tiles inside are clipped to the block",
        "what is split are runs of tiles", "a minimum and a maximum for each run",
    )  # fmt: skip
    BY_RUN = _Way(
        "run by run", "of tiles in runs: each run apart, and no loop", "what is split are runs",
        "the body once for each run",
    )  # fmt: skip
    PEELED = _Way(
        "peeled", "the last tile, whole or not, has code of its own",
        "what is left is a number", "the body twice",
    )  # fmt: skip

    def __str__(self) -> str:
        return self.value.text

    @staticmethod
    def by(extent: Extent, known: Tail, open_size: Tail) -> Tail:
        """One of two: for an extent that is a number, or a size known only at run time."""
        return known if isinstance(extent, int) else open_size

    @property
    def splits_sums(self) -> bool:
        """Whether tiles are disjoint and come in order, as those of an axis of sums have to."""
        return self not in (Tail.SHIFTED, Tail.CLAMPED, Tail.MASKED, Tail.ONE_BY_ONE)

    def tiles(self, extent: int, size: int, runs: Sequence[Run] = ()) -> Iterator[tuple[int, int]]:
        """First position and number of positions of each tile, in order. Of a tile that is masked
        or clamped those that count."""
        if self is Tail.RUNS:
            for run in runs:
                yield from ((run.first + i * run.size, run.size) for i in range(run.count))
            return
        if self is Tail.SHIFTED:
            for first in range(0, extent, size):
                yield min(first, extent - size), size
            return
        if self is Tail.PEELED and extent == 0:
            yield 0, 0
        whole = extent // size * size
        for first in range(0, extent, size):
            if first == whole and self is Tail.ONE_BY_ONE:
                yield from ((at, 1) for at in range(first, extent))
            else:
                yield first, min(size, extent - first)

    def refusal(self, extent: Extent, size: int, runs: Sequence[Run] = ()) -> str | None:
        """Why an axis cannot be split so, whatever is inside; None where it can."""
        rest = extent % size
        if self is Tail.EXACT and rest != 0:
            return f"tiles of {size} do not divide {extent}"
        if self in (Tail.WHOLE_AND_REST, Tail.PEELED, Tail.NUMBERED) and not isinstance(rest, int):
            return f"what tiles of {size} leave of {extent} is not known where code is written"
        if self is Tail.SHIFTED and not (isinstance(extent, int) and extent >= size):
            return f"{extent} need not have a whole tile of {size}"
        if self is Tail.RUNS:
            return _runs_refusal(extent, runs)
        return None


def _runs_refusal(extent: Extent, runs: Sequence[Run]) -> str | None:
    number = first = 0
    for run in runs:
        if (run.number, run.first) != (number, first):
            return f"a run begins at tile {run.number}, position {run.first} instead of {first}"
        number, first = number + run.count, first + run.count * run.size
    return None if first == extent else f"runs have {first} of {extent} positions"
