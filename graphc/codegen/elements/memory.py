"""Elements of buffers at index expressions, and the blocks in which values stand.

in : a buffer, a linear position as an expression over loop variables and lanes, guards
out: loads, gathers and stores, each load in the outermost block where its position is known

Over a lane variable an access is a vector: contiguous where its address steps by one, neighbours
and shuffles where by a few, else a gather or scatter. Guards mask elements that do not exist.
"""

from __future__ import annotations

from graphc.codegen.elements.addresses import Addresses, Guard
from graphc.codegen.elements.algebra import LoopAlgebra
from graphc.codegen.elements.shuffles import pick
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.nodes import Index as LoopIndex
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.ops.kinds.index_expr import Expr, resolved

MOST_APART = 4
"""Elements from lane to lane up to which neighbours are loaded instead of a gather."""


class MemoryAccess:
    """Loads and stores of one kernel. `lanes` is the width of its vectors."""

    def __init__(self, builder: LoopBuilder, lanes: int):
        self.builder = builder
        self.lanes = lanes
        self.algebra = LoopAlgebra(builder)
        self.addresses = Addresses(builder)
        self.root = builder.block
        self._blocks: dict[str, OpenBlock] = {}

    # -- blocks ------------------------------------------------------------------------------

    def block_of(self, value: LoopValue) -> OpenBlock:
        return self._blocks.get(value.name, self.root)

    def note(self, value: LoopValue, block: OpenBlock) -> LoopValue:
        """Remember where a value stands. What computes nothing may give one that stands further
        out: there it stays."""
        known = self._blocks.get(value.name)
        if known is None or not known.encloses(block):
            self._blocks[value.name] = block
        return value

    def deepest(self, blocks: list[OpenBlock]) -> OpenBlock:
        return max(blocks, key=lambda block: block.depth, default=self.root)

    def usable(self, block: OpenBlock) -> bool:
        return block.is_open and block.encloses(self.builder.block)

    # -- memory ------------------------------------------------------------------------------

    def load(
        self,
        buffer: Buffer,
        linear: Expr,
        guards: tuple[Guard, ...],
        filled_in: OpenBlock | None = None,
    ) -> LoopValue:
        """The element(s) at a linear position; masked where guards may fail. Scratch is filled in
        some block, and its loads stay there or further in."""
        shape = self.addresses.stride(linear)
        if shape is None:
            # Lanes that end where a short row does lie side by side after all.
            linear = resolved(linear)
            shape = self.addresses.stride(linear)
        if shape is None:
            strided = self._strided(buffer, linear, guards, filled_in or self.root)
            if strided is not None:
                return strided
        mask, where = self._mask(guards)
        where = self.deepest([where, filled_in or self.root])
        vector_mask = mask is not None and not mask.type.is_scalar
        if shape == 1 or (shape == 0 and not vector_mask):
            index, block = self.addresses.offset(linear)
            lanes = self.addresses.lanes_of(linear) if shape else 1
            block = self.deepest([block, where])
            with self.builder.at(block):
                vector = self.builder.load(buffer, index, lanes, self._as_mask(mask, lanes))
            return self.note(vector, block)
        lanes = mask.type.lanes if shape == 0 and mask is not None else 0
        positions, block = self.addresses.positions(linear, lanes)
        block = self.deepest([block, where])
        with self.builder.at(block):
            mask = self._as_mask(mask, positions.type.lanes)
            vector = self.builder.gather(buffer, positions, mask)
        return self.note(vector, block)

    def _strided(
        self, buffer: Buffer, linear: Expr, guards: tuple[Guard, ...], where: OpenBlock
    ) -> LoopValue | None:
        """Elements a few apart: loads of all from the first to the last, which touch nothing
        outside them, and shuffles. None where they lie otherwise."""
        step, lane = self.addresses.lane_step(linear), self.addresses.lane_of(linear)
        if lane is None or step is None or not 1 < step <= MOST_APART:
            return None
        index, block = self.addresses.offset(linear)
        lanes = self.addresses.lanes_of(linear)
        # Where each lane's element lies: in which load, and in which lane of it.
        final = (step - 1) * (lanes - 1)
        starts = [min(step * i // lanes * lanes, final) for i in range(lanes)]
        loads = list(dict.fromkeys(starts))
        masks = []
        for start in loads:
            near = self.addresses.spread(guards, lane, step, start)
            if near is None:
                return None
            masks.append(self._mask(near))
        block = self.deepest([block, where, *(known for _, known in masks)])
        with self.builder.at(block):
            parts = [
                self.builder.load(buffer, index + start, lanes, self._as_mask(mask, lanes))
                for start, (mask, _) in zip(loads, masks, strict=True)
            ]
            lanes_of = [(loads.index(start), step * i - start) for i, start in enumerate(starts)]
            vector = pick(self.builder, parts, lanes_of)
        return self.note(vector, block)

    def store(
        self, buffer: Buffer, linear: Expr, value: LoopValue, guards: tuple[Guard, ...] = ()
    ) -> None:
        """Store in the current block: element(s) at a linear position, where the guards hold."""
        stride, lanes = self.addresses.stride(linear), self.addresses.lanes_of(linear)
        if stride == 1:
            index, _ = self.addresses.offset(linear)
            self._store_vector(buffer, index, self.builder.splat(value, lanes), guards)
            return
        mask, _ = self._mask(guards)
        if stride == 0:
            index, _ = self.addresses.offset(linear)
            self.builder.store(buffer, index, value, self._as_mask(mask, 1))
            return
        positions, _ = self.addresses.positions(linear, 0)
        vector = self.builder.splat(value, lanes)
        self.builder.scatter(buffer, positions, vector, self._as_mask(mask, lanes))

    def _store_vector(
        self, buffer: Buffer, index: LoopIndex, vector: LoopValue, guards: tuple[Guard, ...]
    ) -> None:
        builder, lanes = self.builder, vector.type.lanes
        for_all = tuple(
            g for g in guards if not (g[0].within(g[1], g[2]) or self.addresses.is_vector(g[0]))
        )
        if for_all:
            of_lanes = tuple(guard for guard in guards if self.addresses.is_vector(guard[0]))
            with builder.if_(self.addresses.mask(for_all)[0]) as branch:
                with branch.then():
                    self._store_vector(buffer, index, vector, of_lanes)
                with branch.otherwise():
                    pass
            return
        count = self.addresses.leading(guards, lanes)
        if count is not None:
            self._store_first(buffer, index, vector, count)
            return
        either = self.addresses.whole_or_rest(guards, lanes)
        if either is None:
            mask, _ = self._mask(guards)
            builder.store(buffer, index, vector, self._as_mask(mask, lanes))
            return
        is_whole, rest = either
        with builder.if_(is_whole) as branch:
            with branch.then():
                builder.store(buffer, index, vector)
            with branch.otherwise():
                self._store_first(buffer, index, vector, rest)

    def _store_first(self, buffer: Buffer, index: LoopIndex, vector: LoopValue, count: int) -> None:
        """The first `count` lanes, in pieces: a masked store takes as long as a dozen others on
        some processors."""
        builder, start = self.builder, 0
        if count == vector.type.lanes:
            builder.store(buffer, index, vector)
            return
        for piece in (1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1):
            piece_lanes = range(start, start + piece)
            part = builder.shuffle(vector, vector, piece_lanes) if piece > 1 else None
            builder.store(buffer, index + start, part or builder.extract(vector, start))
            start += piece

    def _mask(self, guards: tuple[Guard, ...]) -> tuple[LoopValue | None, OpenBlock]:
        """The mask of guards and where it is known; None where they certainly hold."""
        open_ones = tuple(guard for guard in guards if not guard[0].within(guard[1], guard[2]))
        return self.addresses.mask(open_ones) if open_ones else (None, self.root)

    def _as_mask(self, mask: LoopValue | None, lanes: int) -> LoopValue | None:
        if mask is None:
            return None
        if lanes > 1:
            return self.builder.splat(mask, lanes) if mask.type.is_scalar else mask
        return mask
