"""The runner of nests without sums: which elements are stored and kept, when, and where.

In: a nest, the values of its outputs and of its stages' elements along axes, the sizes of a call.
Out: the outputs as leaves store them. Raises VerifyError, by the rules of verifier.py, where an
element is stored twice or never (N3), or a stage does not hold what is read (N7) or has no room for
it (N9). What an element is, is the leaf's: its value is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.codegen.nests.nest import Leaf, Nest, Stage
from graphc.codegen.nests.tiles import TileRange
from graphc.codegen.nests.visits import broken
from graphc.codegen.nests.walk import NestWalk, RunAt, parts_of
from graphc.ir.dims import evaluate

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class _Kept:
    """Which elements of a stage are there, and of which tiles."""

    there: Array
    tiles: dict[str, TileRange] = field(default_factory=dict)


def run_elements(
    nest: Nest, values: Mapping[str, Array], sizes: Mapping[str, int] | None = None, parts: int = 1
) -> dict[str, Array]:
    """The outputs by name, computed in so many parts, one after the other. `values`: of each output
    those along its axes; an array may have more axes behind, all of which a leaf stores at once."""
    stored = {name: np.zeros(values[name].shape, values[name].dtype) for name in values}
    times = {name: np.zeros(values[name].shape, np.int64) for name in values}
    for part in parts_of(nest, sizes or {}, parts):
        _ElementsPart(nest, sizes or {}, part, values, stored, times).run()
    for name, count in times.items():
        missing = int((count == 0).sum())
        if missing:
            raise broken("N3", f"{missing} of {count.size} elements of {name} are not stored")
    return stored


class _ElementsPart(NestWalk):
    """One thread's part. `times`: how often each element was stored."""

    def __init__(
        self, nest: Nest, sizes: Mapping[str, int], part: range, values: Mapping[str, Array],
        stored: Mapping[str, Array], times: Mapping[str, Array],
    ) -> None:  # fmt: skip
        super().__init__(nest, sizes, part)
        self.values = values
        self.stored = stored
        self.times = times
        self.outputs = {output.name: output for output in nest.outputs}
        self.axes = {axis.name: axis for axis in nest.axes}
        self.kept = {
            stage.name: _Kept(np.zeros([evaluate(room, sizes) for _, room in stage.room], bool))
            for stage in nest.stages
        }

    def filled(self, stage: Stage, at: RunAt) -> None:
        """Of what it holds at a time all is there: a copy of an operand fills itself."""
        kept = self._memory(stage, at)
        if stage.holds.is_operand:
            self._there(stage, at, fill=True)
        held = tuple(slice(0, len(self._inside(name, stage, at))) for name, _ in stage.room)
        if not kept.there[held].all():
            raise broken("N7", f"stage {stage.name} is filled, and not all of it is there")

    def clear(self, stage: Stage, at: RunAt) -> None:
        raise broken("N7", f"stage {stage.name} of values is cleared")

    def compute(self, leaf: Leaf, at: RunAt) -> None:
        effect = leaf.effect
        for name in effect.reads:
            stage = self.stages[name]
            if not self.is_current(name, at) or not self._there(stage, at).all():
                raise broken("N7", f"stage {name} is read by {leaf.text}, and not filled before")
        if effect.fills is not None:
            self._there(self.stages[effect.fills], at, fill=True)
        for name in effect.outputs if effect.stores else ():
            self._store(name, leaf, at)

    def _store(self, name: str, leaf: Leaf, at: RunAt) -> None:
        axes = self.outputs[name].axes
        place = np.ix_(*(self._range(axis, at) for axis in axes)) if axes else ...
        if not leaf.effect.overwrites and self.times[name][place].any():
            raise broken("N3", f"an element of {name} is stored twice, by {leaf.text}")
        self.times[name][place] += 1
        self.stored[name][place] = self.values[name][place]

    # -- stages ------------------------------------------------------------------------------

    def _memory(self, stage: Stage, at: RunAt) -> _Kept:
        """What a stage has at a place: of other tiles than before nothing."""
        kept = self.kept[stage.name]
        now = {split: at.tiles[split][1] for split in stage.whole if split in at.tiles}
        if kept.tiles != now:
            kept.there[...] = False
            kept.tiles = now
        return kept

    def _there(self, stage: Stage, at: RunAt, fill: bool = False) -> Array:
        """Which of the elements of a place a stage has; with `fill`, it has them from here on."""
        kept, place = self._memory(stage, at), []
        for name, room in stage.room:
            held = self._inside(name, stage, at)
            positions = self._range(name, at)
            if len(held) > evaluate(room, self.sizes):
                said = f"stage {stage.name} holds {len(held)} positions of axis {name}, and has "
                raise broken("N9", f"{said}room for {room}")
            place.append(np.array(positions) - held.start)
        mesh = np.ix_(*place)
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
