"""The recipe `serial`: the op's own rule, on one thread; it reads back what it has written. It has
no nest: what order its elements have is the rule's alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import counted_loop
from graphc.codegen.kernels.common import declare_buffers
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.loop_ir.numbers import Number
from graphc.codegen.target import Target
from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup
from graphc.ops.kinds.index_expr import Variable, of
from graphc.ops.kinds.serial import Serial


def lower_serial(name: str, body: Graph, target: Target) -> Kernel:
    """The kernel of a body whose one output is a serial op."""
    builder = LoopBuilder(name)
    inputs, (out,) = declare_buffers(builder, body, "readwrite")
    evaluator = Evaluator(builder, body, inputs, 1)
    (output,) = body.outputs
    node = body.nodes[output.node]
    op: Serial = lookup(node.op)
    memory = _Buffers(builder, evaluator, body, node, out)
    op.write(evaluator.algebra, memory, **dict(node.attributes))
    return builder.finish(extent=1)


class _Buffers:
    """The `SerialMemory` of a kernel."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, body: Graph, node: Node, out: Buffer
    ):
        self.builder, self.evaluator = builder, evaluator
        self.body, self.node, self.out = body, node, out
        self.count = 0

    def number(self, value: Extent) -> LoopValue:
        return self.builder.size(value)

    def extent(self, operand: int) -> Extent:
        (size,) = self.body.type_of(self.node.operands[operand]).shape
        return size

    def read(self, operand: int, at: LoopValue) -> LoopValue:
        value, size = self.node.operands[operand], self.extent(operand)
        self.count += 1
        place = Variable(f"place{self.count}", size)
        self.evaluator.addresses.bind(place, at, self.builder.block)
        return self.evaluator.value(value, (of(place),))

    def load(self, at: LoopValue) -> LoopValue:
        return self.builder.load(self.out, at)

    def store(self, at: LoopValue, value: LoopValue) -> None:
        self.builder.store(self.out, at, value)

    def loop(self, first: Any, end: Extent, body: Callable[..., Any], start: Any = None) -> Any:
        carried = () if start is None else (start,)

        def at(number: Number, values: list[LoopValue]) -> Sequence[LoopValue]:
            so_far = body(number, *values)
            return (so_far,) if carried else ()

        ends = self.builder.numbers.value(first), self.number(end)
        results = counted_loop(self.builder, *ends, at, carried, hint="k")
        return results[0] if carried else None

    def branch(
        self, condition: LoopValue, then: Callable[[], Any], otherwise: Callable[[], Any]
    ) -> LoopValue:
        with self.builder.if_(condition) as branch:
            with branch.then():
                branch.yield_(then())
            with branch.otherwise():
                branch.yield_(otherwise())
        return branch.results[0]
