"""Bodies of loops and branches: run once to be traced, or run eagerly, held to the same rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.tensors import tree
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tensors.views import Positions
from frontend.engine.tracing.regions import TracedRegion, origin
from frontend.engine.tracing.session import trace_under_way
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import Var, user_location
from graphc.ir.nodes import INPUT, Graph, exact
from graphc.ir.types import TensorType


class TracedBody:
    """A body that ran once in a trace: its region, its inputs, and what it returned."""

    def __init__(
        self, name: str, function: Callable[..., Any], arguments: Sequence[TensorType],
        structure: Any,
    ):  # fmt: skip
        session = trace_under_way(f"the {name} of a loop or branch")
        with session.region(name) as region:
            self.inputs = [region.input(type) for type in arguments]
            stand_ins = [make(var, type) for var, type in zip(self.inputs, arguments)]
            self.leaves: list[Tensor] = []
            result = unchanging(function, stand_ins)(*tree.build(structure, iter(stand_ins)))
            self.structure = tree.flatten(result, self.leaves)
            self.values = [session.value(leaf) for leaf in self.leaves]
        self.result = result
        self.region: TracedRegion = region
        self.types = [value.type for value in self.values]

    def same_as(self, other: TracedBody) -> bool:
        """Whether two traces computed the same of the same."""
        known: dict[Any, int] = {}
        (around, graph), (around_other, other_graph) = self._run(), other._run()
        return around == around_other and numbered(graph, known) == numbered(other_graph, known)

    def _run(self) -> tuple[list[int], Graph]:
        """The tensors from around that a run takes, and what it makes of them."""
        changed = self.region.changed_tensors
        taken = [*changed, *captured_by(changed, self)]
        inputs = [*self.inputs, *map(self.region.input_of, taken)]
        outputs = [*self.values, *map(self.new_value, changed)]
        return [len(changed), *map(id, taken)], self.graph(inputs, outputs, changed)

    def new_value(self, tensor: Tensor) -> Var:
        """What a tensor from around is after a run."""
        return self.region.results.get(id(tensor), self.region.input_of(tensor))

    def graph(
        self, inputs: Sequence[Var], outputs: Sequence[Var], changed: Sequence[Tensor]
    ) -> Graph:
        """The body's graph. Views of `changed` tensors are made of those in each run."""
        named = [(f"x{i}", var) for i, var in enumerate(inputs)]
        roots = {id(tensor): self.region.input_of(tensor) for tensor in changed}
        shown = []
        for tensor, var in self.region.captured.values():
            root, steps = origin(tensor)
            if root is not tensor and id(root) in roots:
                if any(isinstance(op, Positions) for op, _ in steps):
                    raise error(
                        TraceError, "the body of a loop or branch reads a view by index of a "
                        "tensor that it changes", "clone() the view first",
                    )  # fmt: skip
                shown.append((var, roots[id(root)], steps))
        return self.region.builder.snapshot(named, outputs, shown=shown)


def numbered(graph: Graph, known: dict[Any, int]) -> tuple[tuple[int, int], ...]:
    """A number for each output, the same for what is computed in the same way of the same inputs,
    in whatever order. `known` keeps the numbers of several graphs apart."""
    numbers: list[int] = []
    inputs = 0
    for node in graph.nodes:
        operands = tuple((numbers[value.node], value.index) for value in node.operands)
        regions = tuple(numbered(region, known) for region in node.regions)
        key: Any = (node.op, exact(node.attributes), node.types, operands, regions)
        if node.op == INPUT:
            key = (INPUT, inputs, node.types)
            inputs += 1
        numbers.append(known.setdefault(key, len(known)))
    return tuple((numbers[value.node], value.index) for value in graph.outputs)


def traced_steps(
    name: str, function: Callable[..., Any], arguments: Sequence[TensorType], structure: Any
) -> TracedBody:
    """The body of a loop, as each step computes it. It is traced twice, as eager mode would run the
    first two steps: where the second differs, Python has kept something from one step to the next,
    which compiled code would not see."""
    session = trace_under_way("the body of a loop")
    body = TracedBody(name, function, arguments, structure)
    if session.regions:
        return body  # the loop around is traced twice, and this one with it
    cause: Exception | None = None
    try:
        again = TracedBody(name, function, arguments, structure)
        same = body.same_as(again)
    except TraceError as problem:
        cause, same = problem, False
    if same:
        return body
    raise error(
        TraceError, "the body of a loop computes something else in its second step: Python keeps "
        "a value from one step to the next, or counts them",
        "carry what changes from step to step; make what does not ahead of the loop",
    ) from cause  # fmt: skip


def changed_by(*traced: TracedBody) -> list[Tensor]:
    """The tensors from around that a run changes."""
    return list({id(t): t for each in traced for t in each.region.changed_tensors}.values())


def captured_by(changed: Sequence[Tensor], *traced: TracedBody) -> list[Tensor]:
    """The other tensors from around that a run reads, but for views of those it changes."""
    own = {id(tensor) for tensor in changed}
    captured: dict[Any, Tensor] = {}
    for each in traced:
        # A copy: `input_of` adds to it.
        for key, (tensor, _) in list(each.region.captured.items()):
            if id(origin(tensor)[0]) not in own:
                captured.setdefault(key, tensor)
    return list(captured.values())


def unchanging(function: Callable[..., Any], tensors: Sequence[Tensor]) -> Callable[..., Any]:
    """`function`, which raises where it changes in place what it was given: a loop hands out
    slices and values of its own, so compiled nobody would see the change."""

    def checked(*arguments: Any) -> Any:
        before = [x._counter[0] for x in tensors]
        result = function(*arguments)
        if [x._counter[0] for x in tensors] != before:
            raise error(
                TraceError, "the body of a loop or branch changes a tensor that it is given",
                "return the new value, or change a clone()",
            )  # fmt: skip
        return result

    return checked


def unshared(result: Any, tensors: Sequence[Tensor]) -> Any:
    """`result` with copies of the tensors that share memory with those given, or with each other:
    compiled, no result shares memory."""
    leaves: list[Tensor] = []
    structure = tree.flatten(result, leaves)
    known = {id(x._counter) for x in tensors}
    distinct = []
    for x in leaves:
        distinct.append(x.clone() if id(x._counter) in known else x)
        known.add(id(x._counter))
    return tree.build(structure, iter(distinct))


def error(kind: type[GraphError], message: str, hint: str | None = None) -> GraphError:
    """The error with the user's line."""
    return kind(message, hint=hint, location=user_location())
