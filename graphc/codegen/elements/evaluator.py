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
from functools import partial

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.algebra import LoopAlgebra, NonpositiveAlgebra
from graphc.codegen.elements.memory import MemoryAccess
from graphc.codegen.elements.reduction import reduce_value
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.errors import LoweringError
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.generate import Generate
from graphc.ops.kinds.index import Gather
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.ops.kinds.movement import Movement
from graphc.ops.kinds.reduce import Reduce
from graphc.schedule.access import Index, as_index, movement_cases
from graphc.schedule.value_ranges import is_nonpositive

Position = Callable[[Index], Expr]

_names = itertools.count()


class Evaluator(MemoryAccess):
    """Evaluates one body graph. `buffers[i]` holds input i of the body."""

    def __init__(self, builder: LoopBuilder, body: Graph, buffers: list[Buffer], lanes: int):
        super().__init__(builder, lanes)
        self.body = body
        self._below = NonpositiveAlgebra(builder)
        self._nonpositive: dict[GraphValue, bool] = {}
        self._buffers = dict(enumerate(buffers))
        self._memo: dict[object, list[tuple[LoopValue, OpenBlock]]] = {}
        self._loaded_at: dict[Variable, frozenset[Variable]] = {}
        self._rows: dict[GraphValue, tuple[Index, Buffer, Position, OpenBlock]] = {}

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
        element = self._from_row(value, index, relevant)
        if element is None:
            element = self._computed(node, value, index, relevant)
        entry = (element, self.block_of(element))
        self._memo.setdefault((value, index, relevant), []).append(entry)
        return element

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
        """The guards on what the index depends on, and those that never hold."""
        variables = self._variables(index)
        return tuple(
            [guard for guard in guards if guard[0].variables() & variables or _fails(guard)]
        )

    def _variables(self, index: Index) -> frozenset[Variable]:
        """The variables an index depends on, also through loaded ones: a guard on where an index
        is loaded holds for what is read there."""
        variables = frozenset(variable for item in index for variable in item.variables())
        variables |= {self.addresses.every_lane(variable) for variable in variables}
        return variables.union(*(self._loaded_at.get(variable, ()) for variable in variables))

    def _computed(
        self, node: Node, value: GraphValue, index: Index, guards: tuple[Guard, ...]
    ) -> LoopValue:
        if node.op == INPUT:
            shape = self.body.type_of(value).shape
            return self.load(self._buffers[value.node], flatten(index, shape), guards)
        if node.op == CONSTANT:
            constant = node.attribute("value")
            with self.builder.at(self.root):
                number = self.builder.const(constant.type.dtype, constant.scalar)
            return self.note(number, self.root)
        op = lookup(node.op)
        if isinstance(op, Elementwise):
            operands = [self.value(operand, index, guards) for operand in node.operands]
            block = self.deepest([self.block_of(operand) for operand in operands])
            with self.builder.at(block):
                result: LoopValue = op.scalar(
                    self._algebra_of(node), *operands, **dict(node.attributes)
                )
            return result if result in operands else self.note(result, block)
        if isinstance(op, Movement):
            return self._moved(op, node, value, index, guards)
        if isinstance(op, Reduce):
            (operand,) = node.operands
            source, element = self.body.type_of(operand), partial(self.value, operand)
            return reduce_value(self, op, node, source, element, index, guards)
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
        element = self.value(
            node.operands[last.operand], as_index(last.index), guards + last.guards
        )
        for case in reversed(cases[:-1]):
            held, where = self.addresses.mask(case.guards)
            inner = self.value(node.operands[case.operand], case.index, guards + case.guards)
            block = self.deepest([where, self.block_of(inner), self.block_of(element)])
            with self.builder.at(block):
                element = self.note(self.algebra.select(held, inner, element), block)
        return element

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
        self.addresses.bind(variable, wide, block)
        self._loaded_at[variable] = self._variables(at)
        return of(variable)

    def _generated(self, op: Generate, node: Node, value: GraphValue, index: Index) -> LoopValue:
        coordinates = tuple(self.addresses.number(item) for item in index)
        reads: list[LoopValue] = []

        def read(operand: int, at: tuple[int, ...]) -> LoopValue:
            reads.append(self.value(node.operands[operand], tuple(of(i) for i in at)))
            return reads[-1]

        types = tuple(self.body.type_of(operand) for operand in node.operands)
        attributes = dict(node.attributes)
        elements = op.element(
            self.algebra, tuple(v for v, _ in coordinates), read, types, **attributes
        )
        block = self.deepest([b for _, b in coordinates] + [self.block_of(v) for v in reads])
        with self.builder.at(block):
            element: LoopValue = elements[value.index]()
        return self.note(element, block)

    def run_of(self, number: int, linear: Expr, lanes: int) -> LoopValue:
        """So many elements of input `number` that lie side by side, from a position on."""
        index, block = self.addresses.offset(linear)
        with self.builder.at(block):
            return self.note(self.builder.load(self._buffers[number], index, lanes), block)

    def prefetch(self, number: int, linear: Expr) -> None:
        """Ask in the current block for an element of input `number`, which is read later."""
        index, _ = self.addresses.offset(linear)
        self.builder.prefetch(self._buffers[number], index)


def _fails(guard: Guard) -> bool:
    """Whether a guard fails wherever it is asked: an element that a last cell does not have."""
    number, low, high = guard
    return number.is_constant and not number.within(low, high)
