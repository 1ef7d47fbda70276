"""Loops and branches of a graph as steps of a plan.

in : a node that holds graphs, the buffers of its operands and results, the plans of its graphs
out: the step, and which operands are copied into which results before it: a loop's carries lie in
     their results' buffers, where each run finds what the one before left
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from graphc.ir.nodes import Constant, Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import DType, TensorType
from graphc.ops.kind_region import TimeLoop, WhileLoop
from graphc.schedule.plan import Branch, Buffer, Loop, Plan

Add = Callable[[Buffer], int]
AddConstant = Callable[[Constant], int]


def carries(node: Node) -> int:
    """How many of a region node's operands are carried from one run to the next."""
    return int(dict(node.attributes).get("carry", 0))  # type: ignore[arg-type]


def region_graphs(node: Node) -> tuple[Graph, ...]:
    """The graphs to plan, in order: a loop's body updates its carries in place."""
    op = lookup(node.op)
    if not isinstance(op, TimeLoop | WhileLoop):
        return node.regions
    aliases = tuple((i, i) for i in range(carries(node)))
    return (*node.regions[:-1], replace(node.regions[-1], aliases=aliases))


@dataclass(frozen=True)
class _Parts:
    """What the step is made of: the plans with their constants as further arguments, what the
    arguments and the results stand for, and the memory of their arenas."""

    node: Node
    plans: tuple[Plan, ...]
    reads: tuple[int, ...]
    constants: tuple[int, ...]
    results: tuple[int, ...]
    memory: int | None


def region_step(
    node: Node, plans: Sequence[Plan], reads: Sequence[int], results: Sequence[int],
    add: Add, add_constant: AddConstant,
) -> Loop | Branch:  # fmt: skip
    """The step of a region node. `reads` and `results` are the buffers of its operands and
    results; `add` and `add_constant` make further ones."""
    plans, constants = _with_constants(plans, add_constant)
    size = max(plan.arena_bytes for plan in plans)
    memory = add(Buffer(TensorType(DType.bool, (size,)), "arena", -1)) if size else None
    parts = _Parts(node, plans, tuple(reads), constants, tuple(results), memory)
    op = lookup(node.op)
    if isinstance(op, TimeLoop):
        return _time_loop(parts)
    if isinstance(op, WhileLoop):
        flag = add(Buffer(TensorType(DType.bool, ()), "arena", -1))
        return _while_loop(parts, flag)
    then, otherwise = plans
    return Branch(
        then, otherwise, reads[0], (*parts.reads[1:], *constants), parts.results, memory,
        node.location,
    )  # fmt: skip


def _time_loop(parts: _Parts) -> Loop:
    node = parts.node
    carry, sequences = node.attribute("carry"), node.attribute("sequences")
    reads = (*parts.results[:carry], *parts.reads[carry:], *parts.constants)
    cut = [carry <= i < carry + sequences for i in range(len(reads))]
    cut += [i >= carry for i in range(len(parts.results))]
    return Loop(
        parts.plans[0], reads, parts.results, tuple(cut), parts.memory,
        node.attribute("length"), node.attribute("reverse"), location=node.location,
    )  # fmt: skip


def _while_loop(parts: _Parts, flag: int) -> Loop:
    condition, body = parts.plans
    carry = parts.node.attribute("carry")
    reads = (*parts.results[:carry], *parts.reads[carry:], *parts.constants)
    return Loop(
        body, reads, parts.results, (False,) * (len(reads) + carry), parts.memory,
        condition=condition, flag=flag, location=parts.node.location,
    )  # fmt: skip


def _with_constants(
    plans: Sequence[Plan], add_constant: AddConstant
) -> tuple[tuple[Plan, ...], tuple[int, ...]]:
    """The plans with the constants of all of them as further arguments of each, and the buffers
    around that hold those: only the outermost plan has constants."""
    bound = tuple(add_constant(constant) for plan in plans for constant in plan.constants)
    types = tuple(constant.type for plan in plans for constant in plan.constants)
    made = []
    first = 0
    for plan in plans:
        offset = len(plan.argument_types) + first
        buffers = tuple(
            replace(buffer, place="argument", slot=offset + buffer.slot)
            if buffer.place == "constant" else buffer
            for buffer in plan.buffers
        )  # fmt: skip
        arguments = (*plan.argument_types, *types)
        made.append(replace(plan, argument_types=arguments, buffers=buffers, constants=()))
        first += len(plan.constants)
    return tuple(made), bound
