"""Where a trace puts its ops: into the graph, or into a graph inside it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.scope import Scope
from graphc.ir.builder import GraphBuilder, Var, user_location
from graphc.ir.copying import copy_nodes
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Location, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType
from graphc.ops.composite import stop_gradient
from graphc.ops.kinds.op import ContentCheck
from graphc.system import IMPORTING

Steps = list[tuple[Any, dict[str, Any]]]
"""Ops with their attributes, one behind the other."""


def origin(tensor: Tensor) -> tuple[Tensor, Steps]:
    """What a view shows in the end, and the ops that make the view from it."""
    steps: Steps = []
    while tensor._view is not None:
        view = tensor._view
        if view.tracked is not True:
            steps.append((stop_gradient, {}))
        if view.op is not None:
            steps.append((view.op, view.attributes))
        tensor = view.parent
    return tensor, steps[::-1]


class Builder(GraphBuilder):
    """A builder that can hand out graphs and go on (a derivative extends what was traced). Its
    nodes stem from where the trace is, `scope`."""

    def __init__(self, name: str, scope: Scope):
        super().__init__(name)
        self._scope = scope

    def _here(self) -> Location | None:
        if self._location is ...:
            return user_location(self._scope.module, self._scope.phase)
        return self._location

    def snapshot(
        self,
        inputs: Sequence[tuple[str, Var]],
        outputs: Sequence[Var],
        aliases: Sequence[tuple[int, int]] = (),
        shown: Sequence[tuple[Var, Var, Steps]] = (),
    ) -> Graph:
        """The graph from `inputs` (name, variable) to `outputs`, without what they do not need.
        `shown`: inputs of this builder that are made from others by ops, and no inputs there."""
        builder = Builder(self.name, self._scope)
        values: dict[Value, Var] = {}
        for name, var in inputs:
            with builder.at(self._nodes[var.value.node].location):
                values[var.value] = builder.input(name, var.type)
        for var, root, steps in shown:
            with builder.at(self._nodes[var.value.node].location):
                value = values[root.value]
                for op, attributes in steps:
                    (value,) = builder.apply(op, (value,), attributes)
            values[var.value] = value
        copy_nodes(self._nodes, sorted(self._needed(values, outputs)), values, builder.copied)
        return builder.finish(*[values[var.value] for var in outputs], aliases=aliases)

    def ahead(
        self, inputs: Sequence[tuple[str, Var]], outputs: Sequence[Var], positions: Sequence[int]
    ) -> list[int]:
        """For each position, a number of nodes: how many of them are ahead of it in the snapshot
        from `inputs` to `outputs`."""
        known = {var.value for _, var in inputs}
        needed = self._needed(known, outputs)
        return [
            len(inputs) + sum(identity < position for identity in needed) for position in positions
        ]

    def _needed(self, known: Container[Value], outputs: Sequence[Var]) -> set[int]:
        """The nodes between known values and the outputs."""
        return ancestors(self._nodes, [var.value for var in outputs], known.__contains__)

    def inputs_of(self, var: Var) -> set[int]:
        """The inputs that a variable depends on: numbers of their nodes."""
        return {i for i in self._needed((), [var]) if self._nodes[i].op == INPUT}

    def known_value(
        self, var: Var, known: Sequence[tuple[Var, np.ndarray]] = ()
    ) -> np.ndarray | None:
        """What a variable is that depends on no inputs but the given ones; None for any other."""
        if self.inputs_of(var) - {each.value.node for each, _ in known}:
            return None
        with IMPORTING:
            from graphc.ops.interpreter import run

        named = [(f"x{i}", each) for i, (each, _) in enumerate(known)]
        (value,) = run(self.snapshot(named, [var]), *[array for _, array in known])
        value.flags.writeable = False
        return value

    def content_check(self) -> Node | None:
        """The first node that may raise for what a value holds; None where there is none. Of a
        value that is known here it is known whether one does."""
        return next((node for node in self._nodes if self._may_raise(node)), None)

    def _may_raise(self, node: Node) -> bool:
        for check in content_checks(
            node, [self._nodes[v.node].types[v.index] for v in node.operands]
        ):
            value = node.operands[check.operand]
            type = self._nodes[value.node].types[value.index]
            array = self.known_value(Var(self, value, type))
            if array is None or not check.holds(array):
                return True
        return any(content_check_in(graph) for graph in node.regions)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)


def content_checks(node: Node, types: Sequence[TensorType]) -> tuple[ContentCheck, ...]:
    """What a node asks of the contents of its operands."""
    if node.op in (INPUT, CONSTANT):
        return ()
    checks: tuple[ContentCheck, ...] = lookup(node.op).checks(types, dict(node.attributes))
    return checks


def content_check_in(graph: Graph) -> bool:
    """Whether a node of a graph, or of one inside it, may raise for what a value holds."""
    return any(
        content_checks(node, [*map(graph.type_of, node.operands)])
        or any(map(content_check_in, node.regions))
        for node in graph.nodes
    )


class TracedRegion:
    """A graph inside the graph: the body of a loop, a side of a branch. What it reads from around
    becomes an input of it; what it changes in place is put back when it ends, and `changed`."""

    def __init__(self, name: str, scope: Scope):
        self.builder = Builder(name, scope)
        self.derived = False  # whether gradients may go through
        self.captured: dict[Any, tuple[Tensor, Var]] = {}
        self.changed: dict[int, tuple[Tensor, dict[str, Any], Any]] = {}
        self.derived_changes: set[int] = set()  # of tensors whose gradient follows
        # Once it has ended: what was changed, but for views, and the new values.
        self.changed_tensors: list[Tensor] = []
        self.results: dict[int, Var] = {}

    def input(self, type: TensorType) -> Var:
        return self.builder.input(f"x{len(self.builder._input_names)}", type)

    def input_of(self, tensor: Tensor) -> Var:
        """The input that stands for a tensor from around."""
        value = tensor._value
        # Tensors of one value may differ in where their gradient goes.
        to = (tensor._edge or id(tensor)) if tensor._requires_grad else None
        key = (id(value.context), value.value, to)
        if key not in self.captured:
            self.captured[key] = (tensor, self.input(tensor.tensor_type))
        return self.captured[key][1]

    def keep_state(self, tensor: Tensor) -> None:
        """`tensor`, from around, is about to be changed."""
        if id(tensor) not in self.changed:
            seen = None if tensor._view is None else tensor._view.seen
            self.changed[id(tensor)] = (tensor, dict(tensor._instance_state), seen)

    def restore(self) -> list[Tensor]:
        """Put back what was changed; the tensors whose new values stand in `results`. Views among
        them follow what they show."""
        changed = []
        for identity, (tensor, state, seen) in self.changed.items():
            if state.get("_view") is None:
                self.results[identity] = tensor._value
                changed.append(tensor)
            else:
                state["_view"].seen = seen
            restored(tensor, state)
        return changed


def restored(tensor: Tensor, state: dict[str, Any]) -> None:
    """Give a tensor back the state it had."""
    tensor._instance_state.clear()
    tensor._instance_state.update(state)
