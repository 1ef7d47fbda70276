"""The runner of nests: a plain interpreter of the value, in NumPy.

In: a nest, the operands of its products as arrays, the sizes of a call. Out: the results, with the
bits of the nest's loops. A leaf does what its `Effect` says. Raises VerifyError, by the rules of
verifier.py, where that cannot be: a stage does not hold what is read of it, sums are not there, an
element of the result is stored twice or never, a stage has no room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.codegen.loop_ir.operations import fused_multiply_add
from graphc.codegen.nests.nest import (
    Effect,
    Holds,
    Leaf,
    Nest,
    Role,
    Stage,
)
from graphc.codegen.nests.tiles import TileRange
from graphc.codegen.nests.visits import broken
from graphc.codegen.nests.walk import NestWalk, RunAt, parts_of
from graphc.ir.dims import evaluate
from graphc.records import field, record

Array = np.ndarray[Any, Any]


@record
class Products:
    """Operands [batch, rows, sum] and [batch, columns, sum], each role's coordinates in one axis,
    and where they have an element: a product without one of them is skipped. `blocks`: where K
    blocks begin, in order, and the end of the last one. `scaled(totals, sums, b, at)`: what totals
    are with the sums of block b more, for results at an open mesh; None: they are added. `dtype`:
    of results, if that is not the operands'. `chains`: equal parts of the sum, of whole K blocks
    each, whose sums are added as a binary tree."""

    broadcast: Array
    vectors: Array
    has_broadcast: Array
    has_vectors: Array
    blocks: tuple[int, ...]
    scaled: Callable[[Array, Array, int, tuple[Array, ...]], Array] | None = None
    dtype: Any = None
    chains: int = 1


@record(frozen=False)
class _Sums:
    """Scratch of sums: their values, which of them are there, and for which tiles."""

    values: Array
    there: Array
    tiles: dict[str, TileRange] = field(default_factory=dict)


def run_nest(
    nest: Nest, products: Products, sizes: Mapping[str, int] | None = None, parts: int = 1
) -> Array:
    """The results [batch, rows, columns], computed in so many parts, one after the other, each with
    scratch of its own."""
    results = _Results(nest, products)
    for part in parts_of(nest, sizes or {}, parts):
        _ProductsPart(nest, products, sizes or {}, results, part).run()
    return results.checked()


class _Results:
    """The results, and how often each was stored."""

    def __init__(self, nest: Nest, products: Products) -> None:
        batch, rows, _ = products.broadcast.shape
        dtype = products.dtype or products.broadcast.dtype
        self.values = np.zeros((batch, rows, products.vectors.shape[1]), dtype)
        self.stored = np.zeros(self.values.shape, np.int64)

    def store(self, at: tuple[Array, ...], values: Array, again: bool, leaf: Leaf) -> None:
        if not again and self.stored[at].any():
            raise broken("N3", f"a result is stored twice, by {leaf.text}")
        self.values[at] = values
        self.stored[at] += 1

    def checked(self) -> Array:
        missing = int((self.stored == 0).sum())
        if missing:
            raise broken("N3", f"{missing} of {self.stored.size} results are not stored")
        return self.values


class _ProductsPart(NestWalk):
    """One thread's part of a nest of products."""

    def __init__(
        self, nest: Nest, products: Products, sizes: Mapping[str, int], results: _Results,
        part: range,
    ) -> None:  # fmt: skip
        super().__init__(nest, sizes, part)
        self.products = products
        self.results = results
        self.counts = {
            Role.BATCH: products.broadcast.shape[0], Role.ROWS: products.broadcast.shape[1],
            Role.COLUMNS: products.vectors.shape[1], Role.SUM: products.broadcast.shape[2],
        }  # fmt: skip
        self.sums = {
            stage.name: _Sums(np.zeros_like(results.values), np.zeros(results.values.shape, bool))
            for stage in nest.stages if stage.holds is Holds.SUMS
        }  # fmt: skip

    # -- where things are --------------------------------------------------------------------

    def _coordinates(self, role: Role, limits: Mapping[str, range]) -> Array:
        """Coordinates of a role; `limits`: positions of axes that are not all there."""
        axes = sorted((a for a in self.nest.axes if a.role is role), key=lambda a: a.number)
        parts = [axis for axis in axes if axis.cells is not None]
        if parts:
            there = [axis for axis in parts if axis.name in limits]
            flat: list[int] = []
            for axis in there or parts:
                assert axis.cells is not None
                positions = limits.get(axis.name, range(evaluate(axis.extent, self.sizes)))
                for position in positions:
                    flat += axis.cells.coordinates(position)
            return np.array(flat, np.int64)
        total = np.zeros(1, np.int64)
        for axis in axes:
            inner = evaluate(axis.inner, self.sizes)
            extent = evaluate(axis.extent, self.sizes)
            those = np.array(limits.get(axis.name, range(extent)), np.int64)
            steps = (those[:, None] * inner + np.arange(inner)).ravel()
            total = (total[:, None] * (extent * inner) + steps).ravel()
        return total

    def _results_at(self, leaf: Leaf, at: RunAt) -> tuple[Array, ...]:
        """The results of a leaf, as an open mesh."""
        limits = {
            axis.name: positions for axis in self.nest.axes
            if axis.name not in leaf.effect.covers
            and (positions := self.positions(axis, at)) is not None
        }  # fmt: skip
        roles = (Role.BATCH, Role.ROWS, Role.COLUMNS)
        return np.ix_(*(self._coordinates(role, limits) for role in roles))

    def _indices(self, at: RunAt) -> range:
        """The reduced coordinates of a place, in order."""
        axis = next(axis for axis in self.nest.axes if axis.role is Role.SUM)
        positions = self.positions(axis, at)
        if positions is None:
            return range(self.counts[Role.SUM])
        inner = evaluate(axis.inner, self.sizes)
        return range(positions.start * inner, positions.stop * inner)

    # -- stages ------------------------------------------------------------------------------

    def clear(self, stage: Stage, at: RunAt) -> None:
        if stage.holds is Holds.SUMS:
            self._zero(stage.name, at, (slice(None),) * 3)

    def filled(self, stage: Stage, at: RunAt) -> Mapping[Role, Array]:
        """What the stage holds from here on: of `whole` splits one tile, of other axes all."""
        axes = {axis.name: axis for axis in self.nest.axes}
        one_at_a_time = {self.axis_of[split] for split in stage.whole}
        limits = {
            name: positions for name, _ in stage.room
            if (positions := self.positions(axes[name], at, stage.whole)) is not None
        }  # fmt: skip
        for name, room in stage.room:
            if name in one_at_a_time and name not in limits:
                # Of parts of the columns, each with a loop of its own, one is at hand.
                if not any(axes[other].role is axes[name].role for other in limits):
                    said = (
                        f"stage {stage.name} holds a tile of axis {name} at a time, and is filled"
                    )
                    raise broken("N7", f"{said} in no loop over it")
                continue
            extent = evaluate(axes[name].extent, self.sizes)
            held = len(limits[name]) if name in limits else extent
            if held > evaluate(room, self.sizes):
                said = f"stage {stage.name} holds {held} positions of axis {name}, and has room for"
                raise broken("N9", f"{said} {room}")
        holds: dict[Role, Array] = {}
        for role, count in self.counts.items():
            holds[role] = np.zeros(count, bool)
            holds[role][self._coordinates(role, limits)] = True
        return holds

    def _check_reads(self, leaf: Leaf, at: RunAt, mesh: tuple[Array, ...]) -> None:
        batch, rows, columns = (each.ravel() for each in mesh)
        for name in leaf.effect.reads:
            if not self.is_current(name, at):
                raise broken("N7", f"stage {name} is read by {leaf.text}, and not filled before")
            holds, (_, filled) = self.stages[name].holds, at.filled[name]
            if not holds.is_operand or not leaf.effect.has_products:
                continue
            read = [(Role.BATCH, batch), (Role.SUM, np.array(self._indices(at), np.int64))]
            read += [(Role.ROWS, rows)] if holds is not Holds.VECTORS else []
            read += [(Role.COLUMNS, columns)] if holds is not Holds.BROADCAST else []
            for role, coordinates in read:
                if not filled[role][coordinates].all():
                    said = f"stage {name} does not hold all that {leaf.text} reads along {role}"
                    raise broken("N7", said)

    def _memory(self, name: str, at: RunAt) -> _Sums:
        """Sums as they are at a place: of another tile than before nothing is there."""
        sums = self.sums[name]
        now = {split: at.tiles[split][1] for split in self.stages[name].whole if split in at.tiles}
        if any(sums.tiles.get(split, tile) != tile for split, tile in now.items()):
            sums.there[...] = False
        sums.tiles |= now
        return sums

    def _zero(self, name: str, at: RunAt, mesh: tuple[Any, ...]) -> None:
        sums = self._memory(name, at)
        sums.values[mesh] = 0
        sums.there[mesh] = True

    def _kept(self, name: str, at: RunAt, mesh: tuple[Array, ...], leaf: Leaf) -> Array:
        sums = self._memory(name, at)
        if not sums.there[mesh].all():
            raise broken("N6", f"sums {name} that {leaf.text} adds to or takes are not there")
        values: Array = sums.values[mesh]
        return values

    # -- leaves ------------------------------------------------------------------------------

    def compute(self, leaf: Leaf, at: RunAt) -> None:
        effect, mesh = leaf.effect, self._results_at(leaf, at)
        self._check_reads(leaf, at, mesh)
        if effect.clears is not None:
            self._zero(effect.clears, at, mesh)
        if effect.has_products:
            total = self._added(leaf, at, mesh)
        elif effect.takes is not None:
            if effect.takes not in at.filled:
                raise broken("N7", f"stage {effect.takes} is read by {leaf.text}, and not filled")
            total = self._taken(effect, at, mesh, leaf)
        else:
            return
        if effect.stores and (effect.last is None or effect.last in at.last):
            self.results.store(mesh, total, effect.overwrites, leaf)
        elif effect.adds is not None:
            sums = self._memory(effect.adds, at)
            sums.values[mesh], sums.there[mesh] = total, True

    def _taken(self, effect: Effect, at: RunAt, mesh: tuple[Array, ...], leaf: Leaf) -> Array:
        assert effect.takes is not None
        skipped = [axis for axis in self.nest.axes if not axis.has_products]
        sums = self._memory(effect.takes, at)
        for axis in skipped:  # results without products, which no sums are kept of
            limits = {axis.name: range(evaluate(axis.extent, self.sizes))}
            sums.there[:, :, self._coordinates(Role.COLUMNS, limits)] = True
        total = self._kept(effect.takes, at, mesh, leaf)
        return total if effect.adds is None else self._kept(effect.adds, at, mesh, leaf) + total

    def _added(self, leaf: Leaf, at: RunAt, mesh: tuple[Array, ...]) -> Array:
        """The sums of a place with its products, K block after K block."""
        effect, indices = leaf.effect, self._indices(at)
        starts = effect.adds is None or (effect.starts and indices.start == 0)
        zeros = np.zeros(np.broadcast_shapes(*(each.shape for each in mesh)),
                         self.results.values.dtype)  # fmt: skip
        total = zeros
        if effect.adds is not None and not starts:
            total = self._kept(effect.adds, at, mesh, leaf)
        if effect.continues:
            return self._chain(total, mesh, indices)
        blocks = self.products.blocks
        if indices and (indices.start not in blocks or indices.stop not in blocks):
            said = f"{leaf.text} adds products {indices.start} to {indices.stop} as K blocks"
            raise broken("N5", said)
        if (chains := self.products.chains) == 1:
            return self._in_blocks(total, mesh, indices)
        depth = self.products.broadcast.shape[-1]
        if indices != range(depth):
            said = f"{leaf.text} adds a part of what {chains} chains are of, which are a tree"
            raise broken("N5", said)
        ends = range(0, depth + 1, depth // chains) if depth else (0,) * (chains + 1)
        sums = [self._in_blocks(zeros, mesh, range(*part)) for part in pairwise(ends)]
        while len(sums) > 1:
            sums = [x + y for x, y in zip(sums[::2], sums[1::2], strict=True)]
        return sums[0]

    def _in_blocks(self, total: Array, mesh: tuple[Array, ...], indices: range) -> Array:
        """The total with the products of whole K blocks."""
        blocks, scaled = self.products.blocks, self.products.scaled
        none = np.zeros(total.shape, self.products.broadcast.dtype)
        for begin, end in pairwise(b for b in blocks if indices.start <= b <= indices.stop):
            sums = self._chain(none, mesh, range(begin, end))
            total = total + sums if scaled is None else scaled(
                total, sums, blocks.index(begin), mesh
            )  # fmt: skip
        return total

    def _chain(self, total: Array, mesh: tuple[Array, ...], indices: range) -> Array:
        """Products that are added one by one."""
        p, (batch, rows, columns) = self.products, mesh
        for k in indices:
            there = p.has_broadcast[batch, rows, k] & p.has_vectors[batch, columns, k]
            x, y = p.broadcast[batch, rows, k], p.vectors[batch, columns, k]
            x, y = np.broadcast_to(x, total.shape), np.broadcast_to(y, total.shape)
            total = np.where(there, fused_multiply_add(x, y, total), total)
        return total
