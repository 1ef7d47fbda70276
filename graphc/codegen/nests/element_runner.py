"""The runner of nests without products: which elements are stored and kept, when, and where.

In: a nest, the values of its outputs along axes, what its sums are of, and what is combined into
its outputs, the sizes of a call. Out: the outputs as leaves store them, and sums in the order of
the nest. Raises VerifyError, by the rules of verifier.py, where an element is stored twice or never
(N3), a level of sums is no block of what is below it (N5), sums are not there (N6), a stage does
not hold what is read (N7) or has no room for it (N9), or sources are not combined once and in order
(N11). What an output's element is, is the leaf's: its value is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.codegen.nests.level_sums import LevelSums, Summed
from graphc.codegen.nests.nest import Effect, Holds, Leaf, Nest, Role, Stage
from graphc.codegen.nests.tiles import TileRange
from graphc.codegen.nests.visits import broken
from graphc.codegen.nests.walk import NestWalk, RunAt, parts_of
from graphc.ir.dims import evaluate
from graphc.records import field, record

Array = np.ndarray[Any, Any]


@record(frozen=False)
class _Kept:
    """Which elements of a stage are there, and of which tiles."""

    there: Array
    tiles: dict[str, TileRange] = field(default_factory=dict)


@record(frozen=False)
class Combined:
    """Sources along `axes` of the nest, where in a flat output each goes, and `put(output,
    positions, sources)`, flat arrays, which combines them in order. Along axes of elements each
    position has sources of its own; `done`: how many of them are combined."""

    sources: Array
    positions: Array
    put: Callable[[Array, Array, Array], None]
    axes: tuple[str, ...]
    done: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def begin(self, elements: Sequence[bool]) -> None:
        """Nothing is done; which of the axes are of elements."""
        shape = [n if each else 1 for n, each in zip(self.sources.shape, elements, strict=True)]
        self.done = np.zeros(shape, np.int64)

    @property
    def count(self) -> int:
        """Sources of one position of the axes of elements."""
        return self.sources.size // max(self.done.size, 1)

    @property
    def missing(self) -> int:
        return int((self.count - self.done).sum())

    def turns(self) -> Array:
        """When each is combined, of those of its position."""
        shape = [n // m if m else n for n, m in zip(self.sources.shape, self.done.shape)]
        return np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), self.sources.shape)


def run_elements(
    nest: Nest, values: Mapping[str, Array], sizes: Mapping[str, int] | None = None,
    parts: int = 1, sums: Mapping[str, Summed] | None = None,
    combined: Mapping[str, Combined] | None = None,
) -> dict[str, Array]:  # fmt: skip
    """The outputs by name, and sums by theirs, computed in so many parts, one after the other.
    `values`: of each output those along its axes; an array may have more axes behind, all of which
    a leaf stores at once. `combined`: by the names of outputs what is combined into them then."""
    sums, combined = sums or {}, combined or {}
    stored = {name: np.zeros(values[name].shape, values[name].dtype) for name in values}
    stored |= {name: np.zeros_like(each.elements[..., 0]) for name, each in sums.items()}
    for each in combined.values():
        roles = {axis.name: axis.role for axis in nest.axes}
        each.begin([roles.get(name) is Role.ELEMENTS for name in each.axes])
    times = {name: np.zeros(stored[name].shape, np.int64) for name in stored}
    for part in parts_of(nest, sizes or {}, parts):
        _ElementsPart(nest, sizes or {}, part, values, stored, times, sums, combined).run()
    for name, count in times.items():
        missing = int((count == 0).sum())
        if missing:
            raise broken("N3", f"{missing} of {count.size} elements of {name} are not stored")
    for name, each in combined.items():
        if each.missing:
            said = f"{each.missing} of {each.sources.size} sources are not"
            raise broken("N11", f"{said} combined into {name}")
    return stored


class _ElementsPart(NestWalk):
    """One thread's part. `times`: how often each element was stored."""

    def __init__(
        self, nest: Nest, sizes: Mapping[str, int], part: range, values: Mapping[str, Array],
        stored: Mapping[str, Array], times: Mapping[str, Array], sums: Mapping[str, Summed],
        combined: Mapping[str, Combined],
    ) -> None:  # fmt: skip
        super().__init__(nest, sizes, part)
        self.values = values
        self.stored = stored
        self.times = times
        self.combined = combined
        self.outputs = {output.name: output for output in nest.outputs}
        self.axes = {axis.name: axis for axis in nest.axes}
        self.kept = {
            stage.name: _Kept(np.zeros([evaluate(room, sizes) for _, room in stage.room], bool))
            for stage in nest.stages
        }
        summed = [axis for axis in nest.axes if axis.role is Role.SUM]
        self.levels = {
            stage.name: LevelSums(axis, sums)
            for axis in summed for stage in nest.stages if stage.holds is Holds.SUMS
        }  # fmt: skip

    def filled(self, stage: Stage, at: RunAt) -> None:
        """Of what it holds at a time all is there: a copy of an operand fills itself."""
        if stage.holds is Holds.SUMS:
            return
        kept = self._memory(stage, at)
        if stage.holds.is_operand:
            self._there(stage, at, fill=True)
        held = tuple(slice(0, len(self._inside(name, stage, at))) for name, _ in stage.room)
        if not kept.there[held].all():
            raise broken("N7", f"stage {stage.name} is filled, and not all of it is there")

    def clear(self, stage: Stage, at: RunAt) -> None:
        """Of what it holds at a time all is there: zeros."""
        if stage.holds is not Holds.VALUES:
            raise broken("N7", f"stage {stage.name} of {stage.holds} is cleared")
        self._there(stage, at, fill=True)

    def compute(self, leaf: Leaf, at: RunAt) -> None:
        effect = leaf.effect
        for name in effect.reads:
            stage = self.stages[name]
            if not self.is_current(name, at) or not self._there(stage, at).all():
                raise broken("N7", f"stage {name} is read by {leaf.text}, and not filled before")
        if effect.fills is not None:
            self._there(self.stages[effect.fills], at, fill=True)
        self._sum(effect, leaf, at)
        for name in effect.outputs if effect.stores else ():
            place = self._place(self.outputs[name].axes, at)
            self._store(name, self.values[name][place], place, leaf)
        if effect.combines is not None:
            self._combine(effect.combines, at)

    def _combine(self, name: str, at: RunAt) -> None:
        """The sources of the place, which are those that follow, into what is stored."""
        each = self.combined[name]
        ranges = [self._range(axis, at) for axis in each.axes]
        here = np.ix_(*ranges) if ranges else ...
        apart = tuple(slice(r.start, r.stop) if n > 1 else slice(None)
                      for r, n in zip(ranges, each.done.shape))  # fmt: skip
        turns, done = each.turns()[here], each.done[apart or ...]
        count = turns.size // max(done.size, 1)
        shape = [n // m for n, m in zip(turns.shape, done.shape)]
        if not np.array_equal(turns, done + np.arange(count).reshape(shape)):
            said = f"sources {turns.min()} to {turns.max()} are combined into {name} behind "
            raise broken("N11", said + str(done.max()))
        positions = each.positions[here].ravel()
        if not self.times[name].ravel()[positions].all():
            raise broken("N11", f"sources are combined into {name}, and it is not stored before")
        each.put(self.stored[name].reshape(-1), positions, each.sources[here].ravel())
        done += count

    def _place(self, axes: Sequence[str], at: RunAt) -> Any:
        return np.ix_(*(self._range(axis, at) for axis in axes)) if axes else ...

    def _store(self, name: str, values: Array, place: Any, leaf: Leaf) -> None:
        if not leaf.effect.overwrites and self.times[name][place].any():
            raise broken("N3", f"an element of {name} is stored twice, by {leaf.text}")
        self.times[name][place] += 1
        self.stored[name][place] = values

    # -- sums --------------------------------------------------------------------------------

    def _sum(self, effect: Effect, leaf: Leaf, at: RunAt) -> None:
        """What a leaf does with sums; those it takes are stored by the names of their own."""
        summed = next((axis for axis in self.nest.axes if axis.role is Role.SUM), None)
        if summed is None:
            return
        results = [axis.name for axis in self.nest.axes if axis.role is not Role.SUM]
        place = self._place(results, at)
        if effect.clears is not None:
            self._sums(effect.clears, at).clear(place)
        if effect.joins is not None and effect.adds is not None:
            self._sums(effect.adds, at).join(effect.joins, place)
        elif effect.adds is not None:
            self._sums(effect.adds, at).add(self._range(summed.name, at), place)
        if effect.takes is not None:
            count = len(self._all(summed.name))
            for name, total in self._sums(effect.takes, at).totals(count, place).items():
                self._store(name, total, place, leaf)

    def _sums(self, name: str, at: RunAt) -> LevelSums:
        """Those of a stage as they are at a place: of other tiles than before there are none."""
        stage, sums = self.stages[name], self.levels[name]
        self._check_room(stage, at)
        if self._is_another(stage, at):
            sums.forget()
        return sums

    # -- stages ------------------------------------------------------------------------------

    def _memory(self, stage: Stage, at: RunAt) -> _Kept:
        """What a stage has at a place: of other tiles than before nothing."""
        kept = self.kept[stage.name]
        if self._is_another(stage, at):
            kept.there[...] = False
        return kept

    def _is_another(self, stage: Stage, at: RunAt) -> bool:
        """Whether a stage has other tiles than before."""
        now = {split: at.tiles[split][1] for split in stage.whole if split in at.tiles}
        before, self.kept[stage.name].tiles = self.kept[stage.name].tiles, now
        return before != now

    def _check_room(self, stage: Stage, at: RunAt) -> None:
        for name, room in stage.room:
            held = len(self._inside(name, stage, at))
            if held > evaluate(room, self.sizes):
                said = f"stage {stage.name} holds {held} positions of axis {name}, and has room for"
                raise broken("N9", f"{said} {room}")

    def _there(self, stage: Stage, at: RunAt, fill: bool = False) -> Array:
        """Which of the elements of a place a stage has; with `fill`, it has them from here on."""
        kept = self._memory(stage, at)
        self._check_room(stage, at)
        mesh = np.ix_(*(
            np.array(self._range(name, at), np.int64) - self._inside(name, stage, at).start
            for name, _ in stage.room
        ))  # fmt: skip
        if fill:
            kept.there[mesh] = True
        present: Array = kept.there[mesh]
        return present

    def _inside(self, axis: str, stage: Stage, at: RunAt) -> range:
        """Of an axis the positions that a stage holds at a time."""
        positions = self.positions(self.axes[axis], at, stage.whole)
        return self._all(axis) if positions is None else positions

    def _range(self, axis: str, at: RunAt) -> range:
        positions = self.positions(self.axes[axis], at)
        return self._all(axis) if positions is None else positions

    def _all(self, axis: str) -> range:
        return range(evaluate(self.axes[axis].extent, self.sizes))
