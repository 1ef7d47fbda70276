"""The recipe `contract`: out[b, m, n] = Σ_k left[b, m, k] · right[b, n, k] in register tiles.

For each batch and each panel of columns the right operand is packed into scratch, k by k, unless
its rows lie contiguous in memory already; the left operand is packed once, ahead of all loops,
where its address is not affine in k. A tile of rows and vectors of columns stays in registers over
all of k, one FMA chain per result, cut into partial sums of `CHAIN` products that are added in
order. What the body computes from the result is computed from the registers.
"""

from __future__ import annotations

import math
from typing import Any

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.integers import Guard
from graphc.codegen.loops import Buffer, Kernel, Value
from graphc.codegen.nest import declare_buffers, lanes_for
from graphc.codegen.scopes import OpenBlock
from graphc.codegen.target import Target
from graphc.codegen.tiles import choose_tile, vector_registers
from graphc.ir.nodes import Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ops.index import Expr, Quotient, Variable, flatten, of
from graphc.ops.kind_contract import Contract, Space
from graphc.ops.kinds import Case
from graphc.schedule.access import Index, as_index, reads, unflatten

CHAIN = 512
"""Products of one FMA chain; longer sums add chains in order (the arithmetic of level exact)."""


Packed = tuple[Buffer, OpenBlock]
"""Scratch that holds an operand, and the block it was filled in."""


def lower_contract(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body around one contraction and its epilogue."""
    builder = LoopBuilder(name)
    inputs, outputs = declare_buffers(builder, body)
    evaluator = Evaluator(builder, body, inputs, lanes_for(body, target))
    registers = vector_registers(target)
    return _Contraction(builder, evaluator, body, outputs, registers).build()


class _Contraction:
    def __init__(
        self,
        builder: LoopBuilder,
        evaluator: Evaluator,
        body: Graph,
        outputs: list[Buffer],
        registers: int,
    ):
        self.builder = builder
        self.evaluator = evaluator
        self.integers = evaluator.integers
        self.body = body
        self.outputs = outputs
        self.anchor = next(
            GraphValue(i) for i, node in enumerate(body.nodes)
            if node.op not in ("input", "constant") and isinstance(lookup(node.op), Contract)
        )  # fmt: skip
        self.node = body.nodes[self.anchor.node]
        self.op: Contract = lookup(self.node.op)
        self.types = tuple(body.type_of(operand) for operand in self.node.operands)
        self.attributes = dict(self.node.attributes)
        self.dtype = self.node.types[0].dtype
        self.space: Space = self.op.space(self.types, **self.attributes)
        self.m, self.n, self.k = (
            math.prod(part) for part in (self.space.m, self.space.n, self.space.k)
        )
        self.lanes = evaluator.lanes
        while self.lanes > 1 and self.lanes // 2 >= self.n:
            self.lanes //= 2
        self.tile = choose_tile(max(self.m, 1), max(self.n, 1), self.lanes, registers)
        self.packed_left: Packed | None = None
        self.left_batch: tuple[Index, tuple[int, ...]] = ((), ())
        self.right_is_direct = False

    def build(self) -> Kernel:
        batch = tuple(Variable(f"b{axis}", dim) for axis, dim in enumerate(self.space.batch))
        index = tuple(of(variable) for variable in batch)
        loops = [variable for variable in batch if variable.extent != 1]
        if 0 in (self.m, self.n) or 0 in self.space.batch:
            return self.builder.finish(extent=1)
        m, n, k = (
            Variable(f"probe_{name}", max(extent, 2))
            for name, extent in zip("mnk", (self.m, self.n, self.k), strict=True)
        )
        left = self._left_case(index, of(m), of(k))
        self.right_is_direct = self._is_direct(self._right_case(index, of(n), of(k)), n, 1)
        if not self._is_direct(left, k, None):
            used = {v for item in as_index(left.index) for v in item.variables()}
            self._pack_left(index, [variable for variable in loops if variable in used])
        if not loops:
            self._panels(index)
            return self.builder.finish(extent=1)
        with self.builder.loop(self.builder.begin, self.builder.end, hint="b") as outer:
            self.integers.bind(loops[0], outer.variable, self.builder.block)
            self._batches(loops[1:], index)
        return self.builder.finish(extent=loops[0].extent)

    def _batches(self, loops: list[Variable], index: Index) -> None:
        if not loops:
            self._panels(index)
            return
        with self.builder.loop(0, loops[0].extent, hint="b") as inner:
            self.integers.bind(loops[0], inner.variable, self.builder.block)
            self._batches(loops[1:], index)

    # -- operands ----------------------------------------------------------------------------

    def _left_case(self, batch: Index, m: Expr, k: Expr) -> Case:
        return self.op.left(
            batch, unflatten(m, self.space.m), unflatten(k, self.space.k), self.types,
            **self.attributes,
        )  # fmt: skip

    def _right_case(self, batch: Index, n: Expr, k: Expr) -> Case:
        return self.op.right(
            batch, unflatten(n, self.space.n), unflatten(k, self.space.k), self.types,
            **self.attributes,
        )  # fmt: skip

    def _operand(self, case: Case, guards: tuple[Guard, ...] = ()) -> Value:
        """The operand's element, 0 where the case's guards fail."""
        own = tuple((of(e) if isinstance(e, int) else e, low, high) for e, low, high in case.guards)
        own = tuple(guard for guard in own if not guard[0].within(guard[1], guard[2]))
        operand = self.node.operands[case.operand]
        value = self.evaluator.value(operand, as_index(case.index), guards + own)
        if not own:
            return value
        held, where = self.integers.mask(own)
        block = self.evaluator.deepest([where, self.evaluator.block_of(value)])
        with self.builder.at(block):
            zero = self.builder.const(self.dtype, 0)
            return self.evaluator.note(self.builder.select(held, value, zero), block)

    def _is_direct(self, case: Case, along: Variable, step: int | None) -> bool:
        """Whether the operand is read from memory, unguarded, with an address affine in `along`
        (with coefficient `step`, where given)."""
        if any(
            not (of(e) if isinstance(e, int) else e).within(low, high)
            for e, low, high in case.guards
        ):
            return False
        operand = self.node.operands[case.operand]
        if self.body.nodes[operand.node].op == "input":
            found = [(operand, as_index(case.index), False)]
        else:
            found = [
                (read.value, read.index, read.guarded)
                for read in reads(self.body, operand, as_index(case.index), self._is_input)
            ]
        if len(found) != 1 or found[0][2]:
            return False
        linear = flatten(found[0][1], self.body.type_of(found[0][0]).shape)
        coefficient = linear.coefficient(along)
        if any(
            isinstance(a, Quotient) and along in a.dividend.variables() for a, _ in linear.terms
        ):
            return False
        return coefficient is not None and (step is None or coefficient == step)

    def _is_input(self, value: GraphValue) -> bool:
        return self.body.nodes[value.node].op == "input"

    # -- blocking ----------------------------------------------------------------------------

    def _panels(self, batch: Index) -> None:
        """All tiles of one batch element: panels of columns, tiles of rows inside."""
        width = self.tile.vectors * self.lanes
        whole, rest = divmod(self.n, width)
        if whole:
            with self.builder.loop(0, whole, hint="panel") as loop:
                panel = Variable("panel", whole)
                self.integers.bind(panel, loop.variable, self.builder.block)
                self._panel(batch, of(panel) * width, width)
        if rest:
            self._panel(batch, of(whole * width), rest)

    def _panel(self, batch: Index, first: Expr, width: int) -> None:
        """Columns first..first + width of one batch element."""
        vectors = -(-width // self.lanes)
        direct = self.right_is_direct
        right = None if direct else self._packed_right(batch, first, width, vectors)
        rows = self.tile.rows
        whole, rest = divmod(self.m, rows)
        if whole:
            with self.builder.loop(0, whole, hint="tile") as loop:
                tile = Variable(f"tile{vectors}_{width}", whole)
                self.integers.bind(tile, loop.variable, self.builder.block)
                self._tile(batch, of(tile) * rows, rows, first, width, right)
        if rest:
            self._tile(batch, of(whole * rows), rest, first, width, right)

    def _pack_left(self, batch: Index, used: list[Variable]) -> None:
        """The left operand as [used batch axes, m, k], ahead of all loops: a convolution's weight
        is packed once, not once per image."""
        extents = tuple(variable.extent for variable in used)
        size = math.prod(extents) * self.m * self.k
        memory = self.builder.scratch("left", self.dtype, max(size, 1))
        self.packed_left = (memory, self.builder.block)
        m = Variable("pack_m", self.m)

        def pack(loops: list[Variable]) -> None:
            if loops:
                with self.builder.loop(0, loops[0].extent, hint="p") as loop:
                    self.integers.bind(loops[0], loop.variable, self.builder.block)
                    pack(loops[1:])
                return
            self._packed_row(
                self.k,
                lambda at, guards: self._operand(self._left_case(batch, of(m), at), guards),
                lambda at: self._left_position(of(m), at),
                memory,
            )

        self.left_batch = (tuple(of(variable) for variable in used), extents)
        pack([*used, *([m] if self.m != 1 else [])])

    def _left_position(self, m: Expr, k: Expr) -> Expr:
        """Where the packed left operand holds (m, k) of the current batch element."""
        index, extents = self.left_batch
        position: Expr = (flatten(index, extents) * self.m + m) * self.k + k
        return position

    def _packed_right(self, batch: Index, first: Expr, width: int, vectors: int) -> Packed:
        """Columns first..first + width of the right operand as [k, vectors · lanes]."""
        stride = vectors * self.lanes
        memory = self.builder.scratch(f"right{width}", self.dtype, max(self.k * stride, 1))
        with self.builder.loop(0, self.k, hint="pk") as depth:
            k = Variable("pack_k", self.k)
            self.integers.bind(k, depth.variable, self.builder.block)
            self._packed_row(
                width,
                lambda at, guards: self._operand(
                    self._right_case(batch, first + at, of(k)), guards
                ),
                lambda at: of(k) * stride + at,
                memory,
            )
        return memory, self.builder.block

    def _packed_row(self, count: int, element: Any, position: Any, memory: Buffer) -> None:
        """memory[position(i)] = element(i) for i < count, by vectors. Lanes behind the end of a
        row are stored too, as whatever the masked load gives: no result depends on them."""
        lanes = self.lanes
        lane = Variable("pack_lane", lanes)
        whole, rest = divmod(count, lanes)
        if whole:
            with self.builder.loop(0, whole, hint="v") as loop:
                block = Variable("pack_block", whole)
                self.integers.bind(block, loop.variable, self.builder.block)
                self.integers.bind_lane(lane, self.builder.block)
                at = of(block) * lanes + of(lane)
                self.evaluator.store(memory, position(at), element(at, ()))
        if rest:
            self.integers.bind_lane(lane, self.builder.block)
            at = of(lane) + whole * lanes
            guards = ((of(lane), 0, rest),)
            self.evaluator.store(memory, position(at), element(at, guards), guards)

    # -- the register tile -------------------------------------------------------------------

    def _tile(
        self,
        batch: Index,
        first_row: Expr,
        rows: int,
        first: Expr,
        width: int,
        right: Packed | None,
    ) -> None:
        vectors = -(-width // self.lanes)
        totals = self._products(batch, first_row, rows, first, width, vectors, right)
        for row in range(rows):
            for vector in range(vectors):
                self._finish(
                    batch, first_row + row, first, vector, width, totals[row * vectors + vector]
                )

    def _products(
        self, batch: Index, first_row: Expr, rows: int, first: Expr, width: int, vectors: int,
        right: Packed | None,
    ) -> list[Value]:  # fmt: skip
        """The tile's sums over k: chains of `CHAIN` products, added in order."""
        zero = self.builder.splat(self.builder.const(self.dtype, 0), self.lanes)
        start = [zero] * (rows * vectors)

        def chain(begin: Expr, count: int) -> list[Value]:
            with self.builder.loop(0, count, carried=start, hint="k") as loop:
                inner = Variable("k_in", count)
                self.integers.bind(inner, loop.variable, self.builder.block)
                k = begin + of(inner)
                columns = [
                    self._right_vector(batch, first, width, vector, vectors, k, right)
                    for vector in range(vectors)
                ]
                sums = []
                for row in range(rows):
                    element = self._left_element(batch, first_row + row, k)
                    wide = self.builder.splat(element, self.lanes)
                    for vector in range(vectors):
                        old = loop.carried[row * vectors + vector]
                        sums.append(self._multiply_add(wide, columns[vector], old))
                loop.yield_(*sums)
            return list(loop.results)

        if self.k == 0:
            return start
        whole, rest = divmod(self.k, CHAIN)
        if whole <= 1 and not (whole and rest):
            return chain(of(0), self.k)
        totals = chain(of(0), CHAIN)
        if whole > 1:
            with self.builder.loop(1, whole, carried=totals, hint="chain") as loop:
                block = Variable("k_out", whole)
                self.integers.bind(block, loop.variable, self.builder.block)
                partial = chain(of(block) * CHAIN, CHAIN)
                loop.yield_(*map(self.builder.add, loop.carried, partial))
            totals = list(loop.results)
        if rest:
            partial = chain(of(whole * CHAIN), rest)
            totals = [self.builder.add(a, b) for a, b in zip(totals, partial, strict=True)]
        return totals

    def _multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        if self.dtype.is_float:
            return self.builder.fma(x, y, total)
        return self.builder.add(self.builder.mul(x, y), total)

    def _left_element(self, batch: Index, m: Expr, k: Expr) -> Value:
        if self.packed_left is None:
            return self._operand(self._left_case(batch, m, k))
        memory, filled_in = self.packed_left
        return self.evaluator.load(memory, self._left_position(m, k), (), filled_in)

    def _right_vector(
        self, batch: Index, first: Expr, width: int, vector: int, vectors: int, k: Expr,
        right: Packed | None,
    ) -> Value:  # fmt: skip
        lane = Variable(f"tile_lane{vector}", self.lanes)
        self.integers.bind_lane(lane, self.builder.block)
        at = of(lane) + vector * self.lanes
        if right is not None:
            position = k * (vectors * self.lanes) + at
            return self.evaluator.load(right[0], position, (), right[1])
        guards = self._column_guards(lane, vector, width)
        value = self._operand(self._right_case(batch, first + at, k), guards)
        return self.builder.splat(value, self.lanes)

    def _column_guards(self, lane: Variable, vector: int, width: int) -> tuple[Guard, ...]:
        rest = width - vector * self.lanes
        return ((of(lane), 0, rest),) if rest < self.lanes else ()

    def _finish(
        self, batch: Index, m: Expr, first: Expr, vector: int, width: int, total: Value
    ) -> None:
        """Compute and store the body's outputs for one vector of results."""
        lane = Variable(f"out_lane{vector}", self.lanes)
        block = self.builder.block
        self.integers.bind_lane(lane, block)
        n = first + of(lane) + vector * self.lanes
        guards = self._column_guards(lane, vector, width)
        index = as_index(
            self.op.out(
                batch, unflatten(m, self.space.m), unflatten(n, self.space.n), self.types,
                **self.attributes,
            )
        )  # fmt: skip
        self.evaluator.bind(self.anchor, index, total, block)
        ready = []
        for buffer, output in zip(self.outputs, self.body.outputs, strict=True):
            value = self.evaluator.value(output, index, guards)
            ready.append((buffer, flatten(index, self.body.type_of(output).shape), value))
        for buffer, linear, value in ready:
            self.evaluator.store(buffer, linear, value, guards)
