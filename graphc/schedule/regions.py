"""Loops and branches of a graph as steps of a plan.

in : a node that holds graphs, the buffers of its operands and results, the plans of its graphs
out: the step, and which operands are copied into which results before it: a loop's carries lie in
     their results' buffers, where each run finds what the one before left

A carry that the runs also hand out, as it was when they began or as they left it, lies in the stack
of all its values: the first one, then one per run. A run reads its carry from one slice and writes
it into the next, so nothing is copied (`Stack`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphc.ir.nodes import Constant, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.region import TimeLoop, WhileLoop
from graphc.records import record, replace
from graphc.schedule.plan import Branch, Loop, Plan, PlanBuffer

Add = Callable[[PlanBuffer], int]
AddConstant = Callable[[Constant], int]


def carries(node: Node) -> int:
    """How many of a region node's operands are carried from one run to the next."""
    return int(dict(node.attributes).get("carry", 0))  # type: ignore[arg-type]


@record
class Stack:
    """A carry all of whose values are kept, `length` + 1 slices in the order of time. The results
    `begun` are those without the last one in the order of runs, the results `left` those without
    the first."""

    begun: tuple[int, ...]
    left: tuple[int, ...]

    @property
    def results(self) -> tuple[int, ...]:
        return (*self.begun, *self.left)


def stacked_carries(node: Node, returned: set[int]) -> dict[int, Stack]:
    """By carry of a time loop its stack, where results of the node are parts of that: all but those
    `returned` by the graph, which lie in arrays of their own."""
    if not isinstance(lookup(node.op), TimeLoop) or not node.attribute("length"):
        return {}
    body, carry = node.regions[-1], carries(node)
    free = [i for i in range(carry, len(body.outputs)) if i not in returned]
    stacks = {}
    for i in range(carry):
        begun = tuple(y for y in free if body.outputs[y] == Value(i))
        left = tuple(y for y in free if body.outputs[y] == body.outputs[i] and y not in begun)
        free = [y for y in free if y not in (*begun, *left)]
        if begun or left:
            stacks[i] = Stack(begun, left)
    return stacks


def region_graphs(node: Node, stacks: Mapping[int, Stack]) -> tuple[Graph, ...]:
    """The graphs to plan, in order: a loop's body updates its carries in place, but for those that
    have stacks, and does not return what is a part of a stack."""
    op = lookup(node.op)
    if not isinstance(op, TimeLoop | WhileLoop):
        return node.regions
    body = node.regions[-1]
    aliases = tuple((i, i) for i in range(carries(node)) if i not in stacks)
    parts = _parts_of(stacks)
    outputs = tuple(output for i, output in enumerate(body.outputs) if i not in parts)
    return (*node.regions[:-1], replace(body, outputs=outputs, aliases=aliases))


def _parts_of(stacks: Mapping[int, Stack]) -> set[int]:
    return {result for stack in stacks.values() for result in stack.results}


@record
class StackBuffers:
    """The buffers of a stack: where runs find their carry, where they leave it (both by slices),
    the first value and the last."""

    begun: int
    left: int
    first: int
    last: int


def stack_buffers(node: Node, carry: int, add: Add) -> StackBuffers:
    """The memory of a stack and the parts of it."""
    length, reverse = node.attribute("length"), node.attribute("reverse")
    one = node.types[carry]
    base = add(PlanBuffer(one.with_shape((length + 1, *one.shape)), "arena", -1))

    def part(start: int, slices: int | None) -> int:
        shape = one.shape if slices is None else (slices, *one.shape)
        return add(PlanBuffer(one.with_shape(shape), "arena", -1, base, start * one.nbytes))

    begun, left = (1, 0) if reverse else (0, 1)
    first, last = (length, 0) if reverse else (0, length)
    return StackBuffers(part(begun, length), part(left, length), part(first, None),
                        part(last, None))  # fmt: skip


@record(slots=False)
class _Parts:
    """What the step is made of: the plans with their constants as further arguments, what the
    arguments and the results stand for, and the memory of their arenas."""

    node: Node
    plans: tuple[Plan, ...]
    stacks: Mapping[int, Stack]
    reads: tuple[int, ...]
    constants: tuple[int, ...]
    results: tuple[int, ...]
    memory: int | None


def region_step(
    node: Node, plans: Sequence[Plan], stacks: Mapping[int, Stack], reads: Sequence[int],
    results: Sequence[int], add: Add, add_constant: AddConstant,
) -> Loop | Branch:  # fmt: skip
    """The step of a region node. `reads` and `results` are the buffers of its operands and
    results, of a carry with a stack those it is read from and written to; `add` and
    `add_constant` make further ones."""
    plans, constants = _with_constants(plans, add_constant)
    size = max(plan.arena_bytes for plan in plans)
    memory = add(PlanBuffer(TensorType(DType.bool, (size,)), "arena", -1)) if size else None
    parts = _Parts(node, plans, stacks, tuple(reads), constants, tuple(results), memory)
    op = lookup(node.op)
    if isinstance(op, TimeLoop):
        return _time_loop(parts)
    if isinstance(op, WhileLoop):
        flag = add(PlanBuffer(TensorType(DType.bool, ()), "arena", -1))
        return _while_loop(parts, flag)
    then, otherwise = plans
    return Branch(
        then, otherwise, reads[0], (*parts.reads[1:], *constants), parts.results, memory,
        node.location,
    )  # fmt: skip


def _time_loop(parts: _Parts) -> Loop:
    node = parts.node
    carry, sequences = node.attribute("carry"), node.attribute("sequences")
    dropped = _parts_of(parts.stacks)
    written = [i for i in range(len(parts.results)) if i not in dropped]
    reads = (*parts.reads, *parts.constants)
    cut = [i in parts.stacks or carry <= i < carry + sequences for i in range(len(reads))]
    cut += [i in parts.stacks or i >= carry for i in written]
    return Loop(
        parts.plans[0], reads, tuple(parts.results[i] for i in written), tuple(cut), parts.memory,
        node.attribute("length"), node.attribute("reverse"), location=node.location,
    )  # fmt: skip


def _while_loop(parts: _Parts, flag: int) -> Loop:
    condition, body = parts.plans
    reads = (*parts.reads, *parts.constants)
    return Loop(
        body, reads, parts.results, (False,) * (len(reads) + len(parts.results)), parts.memory,
        condition=condition, flag=flag, location=parts.node.location,
    )  # fmt: skip


def _with_constants(
    plans: Sequence[Plan], add_constant: AddConstant
) -> tuple[tuple[Plan, ...], tuple[int, ...]]:
    """The plans with the constants of all of them as further arguments of each, and the buffers
    around that hold those: only the outermost plan has constants."""
    bound = tuple(add_constant(constant) for plan in plans for constant in plan.constants)
    types = tuple(constant.type for plan in plans for constant in plan.constants)
    closed = []
    first = 0
    for plan in plans:
        offset = len(plan.argument_types) + first
        buffers = tuple(
            replace(buffer, place="argument", slot=offset + buffer.slot)
            if buffer.place == "constant" else buffer
            for buffer in plan.buffers
        )  # fmt: skip
        arguments = (*plan.argument_types, *types)
        closed.append(replace(plan, argument_types=arguments, buffers=buffers, constants=()))
        first += len(plan.constants)
    return tuple(closed), bound
