"""Graph values as loop values: the element at an index, computed where it is asked for.

in : a kernel's body graph, its buffers, index expressions over loop variables
out: statements in the builder; each value stands in the outermost block where all it depends on is
     known, and is computed once per block (loop-invariant code never enters a loop)

An index expression over a lane variable makes a vector: a contiguous load where its address steps
by one, a gather otherwise. Guards mask the loads of elements that do not exist.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from graphc.codegen.evaluate.addresses import Guard, Integers
from graphc.codegen.evaluate.algebra import LoopAlgebra, NonpositiveAlgebra
from graphc.codegen.evaluate.shuffles import pick
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.nodes import Index as LoopIndex
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.errors import LoweringError
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.generate import Generate
from graphc.ops.kinds.index import Gather
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of, resolved
from graphc.ops.kinds.movement import Movement
from graphc.ops.kinds.reduce import Reduce
from graphc.schedule.access import Index, as_index, movement_cases
from graphc.schedule.value_ranges import is_nonpositive

MOST_APART = 4
"""Elements from lane to lane up to which neighbours are loaded instead of a gather."""

Position = Callable[[Index], Expr]

_names = itertools.count()


class Evaluator:
    """Evaluates one body graph. `buffers[i]` holds input i of the body."""

    def __init__(self, builder: LoopBuilder, body: Graph, buffers: list[Buffer], lanes: int):
        self.builder = builder
        self.body = body
        self.lanes = lanes
        self.algebra = LoopAlgebra(builder)
        self._below = NonpositiveAlgebra(builder)
        self._nonpositive: dict[GraphValue, bool] = {}
        self.integers = Integers(builder)
        self.root = builder.block
        self._buffers = dict(enumerate(buffers))
        self._memo: dict[object, list[tuple[LoopValue, OpenBlock]]] = {}
        self._blocks: dict[str, OpenBlock] = {}
        self._loaded_at: dict[Variable, frozenset[Variable]] = {}
        self._rows: dict[GraphValue, tuple[Index, Buffer, Position, OpenBlock]] = {}

    # -- blocks ------------------------------------------------------------------------------

    def block_of(self, value: LoopValue) -> OpenBlock:
        return self._blocks.get(value.name, self.root)

    def note(self, value: LoopValue, block: OpenBlock) -> LoopValue:
        """Remember where a value stands."""
        self._blocks[value.name] = block
        return value

    def deepest(self, blocks: list[OpenBlock]) -> OpenBlock:
        return max(blocks, key=lambda block: block.depth, default=self.root)

    def usable(self, block: OpenBlock) -> bool:
        return block.is_open and block.encloses(self.builder.block)

    # -- values ------------------------------------------------------------------------------

    def bind(
        self, value: GraphValue, index: Index, loop_value: LoopValue, block: OpenBlock
    ) -> None:
        """Element `index` of `value` is `loop_value`, known inside `block` (a recipe's result)."""
        self._memo.setdefault((value, index, ()), []).append((self.note(loop_value, block), block))

    def keep_row(
        self, value: GraphValue, prefix: Index, memory: Buffer, position: Position,
        filled_in: OpenBlock,
    ) -> None:  # fmt: skip
        """Elements of `value` whose index starts with `prefix` lie in memory, at `position`."""
        self._rows[value] = (prefix, memory, position, filled_in)

    def value(self, value: GraphValue, index: Index, guards: tuple[Guard, ...] = ()) -> LoopValue:
        """Element `index` of `value`; elements for which a guard fails are unspecified."""
        relevant = self._relevant(guards, index) if guards else ()
        for key in ((value, index, relevant), (value, index, ())):
            for known, block in self._memo.get(key, ()):
                if self.usable(block):
                    return known
        node = self.body.nodes[value.node]
        made = self._from_row(value, index, relevant)
        if made is None:
            made = self._made(node, value, index, relevant)
        entry = (made, self.block_of(made))
        self._memo.setdefault((value, index, relevant), []).append(entry)
        return made

    def _from_row(
        self, value: GraphValue, index: Index, guards: tuple[Guard, ...]
    ) -> LoopValue | None:
        if value not in self._rows:
            return None
        prefix, memory, position, filled_in = self._rows[value]
        if index[: len(prefix)] != prefix or not self.usable(filled_in):
            return None
        return self.load(memory, position(index), guards, filled_in)

    def _relevant(self, guards: tuple[Guard, ...], index: Index) -> tuple[Guard, ...]:
        """The guards on what the index depends on."""
        variables = self._variables(index)
        return tuple([guard for guard in guards if guard[0].variables() & variables])

    def _variables(self, index: Index) -> frozenset[Variable]:
        """The variables an index depends on, also through loaded ones: a guard on where an index
        is loaded holds for what is read there."""
        found = frozenset(variable for item in index for variable in item.variables())
        found |= {self.integers.every_lane(variable) for variable in found}
        return found.union(*(self._loaded_at.get(variable, ()) for variable in found))

    def _made(
        self, node: Node, value: GraphValue, index: Index, guards: tuple[Guard, ...]
    ) -> LoopValue:
        if node.op == INPUT:
            shape = self.body.type_of(value).shape
            return self.load(self._buffers[value.node], flatten(index, shape), guards)
        if node.op == CONSTANT:
            constant = node.attribute("value")
            with self.builder.at(self.root):
                made = self.builder.const(constant.type.dtype, constant.scalar)
            return self.note(made, self.root)
        op = lookup(node.op)
        if isinstance(op, Elementwise):
            operands = [self.value(operand, index, guards) for operand in node.operands]
            block = self.deepest([self.block_of(operand) for operand in operands])
            with self.builder.at(block):
                made = op.scalar(self._algebra_of(node), *operands, **dict(node.attributes))
            return made if made in operands else self.note(made, block)
        if isinstance(op, Movement):
            return self._moved(op, node, value, index, guards)
        if isinstance(op, Reduce):
            from graphc.codegen.evaluate.reduction import reduce_value

            return reduce_value(self, op, node, index, guards)
        if isinstance(op, Gather):
            return self._gathered(op, node, index, guards)
        if isinstance(op, Generate):
            return self._generated(op, node, value, index)
        raise LoweringError(f"{op.name} cannot be computed element by element",
                            location=node.location)  # fmt: skip

    def _algebra_of(self, node: Node) -> LoopAlgebra:
        if node.op != "exp":
            return self.algebra
        (operand,) = node.operands
        if operand not in self._nonpositive:
            self._nonpositive[operand] = is_nonpositive(self.body, operand)
        return self._below if self._nonpositive[operand] else self.algebra

    def _moved(
        self, op: Movement, node: Node, value: GraphValue, index: Index, guards: tuple[Guard, ...]
    ) -> LoopValue:
        cases = movement_cases(op, self.body, value.node, index)
        last = cases[-1]
        made = self.value(node.operands[last.operand], as_index(last.index), guards + last.guards)
        for case in reversed(cases[:-1]):
            held, where = self.integers.mask(case.guards)
            inner = self.value(node.operands[case.operand], case.index, guards + case.guards)
            block = self.deepest([where, self.block_of(inner), self.block_of(made)])
            with self.builder.at(block):
                made = self.note(self.algebra.select(held, inner, made), block)
        return made

    def _gathered(
        self, op: Gather, node: Node, index: Index, guards: tuple[Guard, ...]
    ) -> LoopValue:
        types = tuple(self.body.type_of(operand) for operand in node.operands)

        def read(at: tuple[Expr | int, ...]) -> Expr:
            return self.dynamic(node.operands[1], as_index(at), guards)

        source = op.source(index, types, read, **dict(node.attributes))
        return self.value(node.operands[0], as_index(source), guards)

    def dynamic(self, source: GraphValue, at: Index, guards: tuple[Guard, ...]) -> Expr:
        """The integer at element `at` of `source` as a variable of index expressions."""
        value = self.value(source, at, guards)
        block = self.block_of(value)
        with self.builder.at(block):
            wide = self.note(self.builder.convert(value, DType.i64), block)
        # One variable per value, so that equal indices are equal expressions.
        variable = Variable(f"g_{wide.name}", 1 << 40)
        self.integers.bind(variable, wide, block)
        self._loaded_at[variable] = self._variables(at)
        return of(variable)

    def _generated(self, op: Generate, node: Node, value: GraphValue, index: Index) -> LoopValue:
        coordinates = tuple(self.integers.number(item) for item in index)
        reads: list[LoopValue] = []

        def read(operand: int, at: tuple[int, ...]) -> LoopValue:
            made = self.value(node.operands[operand], tuple(of(i) for i in at))
            reads.append(made)
            return made

        types = tuple(self.body.type_of(operand) for operand in node.operands)
        attributes = dict(node.attributes)
        elements = op.element(
            self.algebra, tuple(v for v, _ in coordinates), read, types, **attributes
        )
        block = self.deepest([b for _, b in coordinates] + [self.block_of(v) for v in reads])
        with self.builder.at(block):
            made: LoopValue = elements[value.index]()
        return self.note(made, block)

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
        shape = self.integers.stride(linear)
        if shape is None:
            # Lanes that end where a short row does lie side by side after all.
            linear = resolved(linear)
            shape = self.integers.stride(linear)
        if shape is None:
            strided = self._strided(buffer, linear, guards, filled_in or self.root)
            if strided is not None:
                return strided
        mask, where = self._mask(guards)
        where = self.deepest([where, filled_in or self.root])
        vector_mask = mask is not None and not mask.type.is_scalar
        if shape == 1 or (shape == 0 and not vector_mask):
            index, block = self.integers.offset(linear)
            lanes = self.integers.lanes_of(linear) if shape else 1
            block = self.deepest([block, where])
            with self.builder.at(block):
                made = self.builder.load(buffer, index, lanes, self._as_mask(mask, lanes))
            return self.note(made, block)
        lanes = mask.type.lanes if shape == 0 and mask is not None else 0
        positions, block = self.integers.positions(linear, lanes)
        block = self.deepest([block, where])
        with self.builder.at(block):
            made = self.builder.gather(buffer, positions, self._as_mask(mask, positions.type.lanes))
        return self.note(made, block)

    def prefetch(self, number: int, linear: Expr) -> None:
        """Ask in the current block for an element of input `number`, which is read later."""
        index, _ = self.integers.offset(linear)
        self.builder.prefetch(self._buffers[number], index)

    def _strided(
        self, buffer: Buffer, linear: Expr, guards: tuple[Guard, ...], where: OpenBlock
    ) -> LoopValue | None:
        """Elements a few apart: loads of all from the first to the last, which touch nothing beside
        them, and shuffles. None where they lie otherwise."""
        step, lane = self.integers.lane_step(linear), self.integers.lane_of(linear)
        if lane is None or step is None or not 1 < step <= MOST_APART:
            return None
        index, block = self.integers.offset(linear)
        lanes = self.integers.lanes_of(linear)
        # Where each lane's element is found: in which load, and at which place of it.
        final = (step - 1) * (lanes - 1)
        starts = [min(step * i // lanes * lanes, final) for i in range(lanes)]
        loads = list(dict.fromkeys(starts))
        masks = []
        for start in loads:
            near = self.integers.spread(guards, lane, step, start)
            if near is None:
                return None
            masks.append(self._mask(near))
        block = self.deepest([block, where, *(known for _, known in masks)])
        with self.builder.at(block):
            parts = [
                self.builder.load(buffer, index + start, lanes, self._as_mask(mask, lanes))
                for start, (mask, _) in zip(loads, masks, strict=True)
            ]
            places = [(loads.index(start), step * i - start) for i, start in enumerate(starts)]
            made = pick(self.builder, parts, places)
        return self.note(made, block)

    def store(
        self, buffer: Buffer, linear: Expr, value: LoopValue, guards: tuple[Guard, ...] = ()
    ) -> None:
        """Store in the current block: element(s) at a linear position, where the guards hold."""
        stride, lanes = self.integers.stride(linear), self.integers.lanes_of(linear)
        if stride == 1:
            index, _ = self.integers.offset(linear)
            self._store_vector(buffer, index, self.builder.splat(value, lanes), guards)
            return
        mask, _ = self._mask(guards)
        if stride == 0:
            index, _ = self.integers.offset(linear)
            self.builder.store(buffer, index, value, self._as_mask(mask, 1))
            return
        positions, _ = self.integers.positions(linear, 0)
        vector = self.builder.splat(value, lanes)
        self.builder.scatter(buffer, positions, vector, self._as_mask(mask, lanes))

    def _store_vector(
        self, buffer: Buffer, index: LoopIndex, vector: LoopValue, guards: tuple[Guard, ...]
    ) -> None:
        builder, lanes = self.builder, vector.type.lanes
        for_all = tuple(
            g for g in guards if not (g[0].within(g[1], g[2]) or self.integers.is_vector(g[0]))
        )
        if for_all:
            of_lanes = tuple(guard for guard in guards if self.integers.is_vector(guard[0]))
            with builder.if_(self.integers.mask(for_all)[0]) as branch:
                with branch.then():
                    self._store_vector(buffer, index, vector, of_lanes)
                with branch.otherwise():
                    pass
            return
        count = self.integers.leading(guards, lanes)
        if count is not None:
            self._store_first(buffer, index, vector, count)
            return
        either = self.integers.whole_or_rest(guards, lanes)
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
            places = range(start, start + piece)
            part = builder.shuffle(vector, vector, places) if piece > 1 else None
            builder.store(buffer, index + start, part or builder.extract(vector, start))
            start += piece

    def _mask(self, guards: tuple[Guard, ...]) -> tuple[LoopValue | None, OpenBlock]:
        """The mask of guards and where it is known; None where they certainly hold."""
        open_ones = tuple(guard for guard in guards if not guard[0].within(guard[1], guard[2]))
        return self.integers.mask(open_ones) if open_ones else (None, self.root)

    def _as_mask(self, mask: LoopValue | None, lanes: int) -> LoopValue | None:
        if mask is None:
            return None
        if lanes > 1:
            return self.builder.splat(mask, lanes) if mask.type.is_scalar else mask
        return mask
