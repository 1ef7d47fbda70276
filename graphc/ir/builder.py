"""GraphBuilder: the only constructor of graphs. It infers types and notes the user's line.

g = graphc.GraphBuilder("scale")
x = g.input("x", "f32[2,3]")
graph = g.finish(x * 2.0)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import EllipsisType
from typing import Any

from graphc.errors import DTypeError, GraphError, TraceError
from graphc.ir.handle import Handle
from graphc.ir.nodes import (
    CONSTANT,
    FORWARD,
    INPUT,
    Constant,
    Graph,
    Location,
    Node,
    Value,
)
from graphc.ir.own_frames import BY_FILE, is_own
from graphc.ir.registry import OpDefinition, named
from graphc.ir.types import TensorType
from graphc.records import replace

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class Var(Handle):
    """A handle on one value of a graph under construction."""

    __slots__ = ("context", "tensor_type", "value")

    def __init__(self, context: GraphBuilder, value: Value, type: TensorType):
        self.context = context
        self.value = value
        self.tensor_type = type

    @property
    def type(self) -> TensorType:
        return self.tensor_type

    def __repr__(self) -> str:
        return f"Var(%{self.value.node}.{self.value.index}: {self.type})"

    def __bool__(self) -> bool:
        raise TraceError("a graph value has no truth value", hint="the op `where`")


class GraphBuilder:
    """Collects nodes. `finish` returns the graph; a finished builder takes no more nodes. With
    `share` a node equal to an earlier one is that one."""

    def __init__(self, name: str = "graph", *, share: bool = False):
        self.name = _checked_name(name, "graph name")
        self._nodes: list[Node] = []
        self._input_names: set[str] = set()
        self._location: Location | EllipsisType | None = ...
        self._finished = False
        self._shared: dict[Node, int] | None = {} if share else None

    def input(self, name: str, type: TensorType | str) -> Var:
        """A named input. In the finished graph inputs stand before all other nodes."""
        if isinstance(type, str):
            type = TensorType.parse(type)
        _checked_name(name, "input name")
        if name in self._input_names:
            raise GraphError(f"two inputs are named {name!r}")
        self._input_names.add(name)
        node = Node(INPUT, (), (("name", name),), (type,), location=self._here())
        return self._add(node)[0]

    def free_name(self, name: str) -> str:
        """`name`, with underscores behind it where an input has that name."""
        while name in self._input_names:
            name += "_"
        return name

    def constant(self, array: Any) -> Var:
        """An array as a constant of the graph (content is copied)."""
        value = array if isinstance(array, Constant) else Constant(array)
        node = Node(CONSTANT, (), (("value", value),), (value.type,), location=self._here())
        return self._add(node)[0]

    def apply(
        self,
        op: OpDefinition,
        operands: tuple[Any, ...],
        attributes: dict[str, Any],
        regions: tuple[Graph, ...] = (),
    ) -> tuple[Var, ...]:
        """Record one op; raises GraphError (with the user's line) if the operands do not fit. An
        op's regions may stand among the attributes, by name, or in order in `regions`."""
        for operand in operands:
            if not isinstance(operand, Var) or operand.context is not self:
                raise TraceError(
                    f"{op.name} got {operand!r}, which is no value of graph {self.name!r}",
                    hint="make it an input or a constant of the graph",
                )
        try:
            canonical = op.canonical(named(op, attributes, regions))
            types = tuple(operand.type for operand in operands)
            results = op.infer(types, canonical)
        except GraphError as error:
            if error.location is None:
                raise _located(error, self._here()) from None
            raise
        return self.record(op, operands, canonical, results)

    def record(
        self,
        op: OpDefinition,
        operands: tuple[Var, ...],
        canonical: dict[str, Any],
        results: tuple[TensorType, ...],
    ) -> tuple[Var, ...]:
        """`apply` where operands, canonical attributes and result types are known to fit."""
        values = tuple([operand.value for operand in operands])
        regions: tuple[Graph, ...] = ()
        if op.region_names:
            canonical = dict(canonical)
            regions = tuple(canonical.pop(name) for name in op.region_names)
        attributes = tuple(sorted(canonical.items())) if canonical else ()
        return self._add(Node(op.name, values, attributes, results, regions, self._here()))

    def copied(self, node: Node, operands: Sequence[Var]) -> tuple[Var, ...]:
        """A node of another graph, on operands of the same types: nothing is inferred anew."""
        values = tuple([operand.value for operand in operands])
        if values != node.operands:
            node = Node(node.op, values, node.attributes, node.types, node.regions, node.location)
        return self._add(node)

    def finish(self, *outputs: Var, aliases: Sequence[tuple[int, int]] = ()) -> Graph:
        """The graph with these outputs."""
        for output in outputs:
            if not isinstance(output, Var) or output.context is not self:
                raise GraphError(f"output {output!r} is no value of graph {self.name!r}")
        self._finished = True
        nodes, moved = _inputs_first(self._nodes)
        values = tuple(Value(moved[o.value.node], o.value.index) for o in outputs)
        return Graph(self.name, nodes, values, tuple(sorted(aliases)))

    @contextmanager
    def at(self, location: Location | None) -> Iterator[None]:
        """Nodes made inside carry `location`, also None (a pass or a gradient hands on its
        origin); outside, they carry the user's line."""
        previous, self._location = self._location, location
        try:
            yield
        finally:
            self._location = previous

    def node_of(self, var: Var) -> Node:
        return self._nodes[var.value.node]

    def _here(self) -> Location | None:
        return user_location() if self._location is ... else self._location

    def _add(self, node: Node) -> tuple[Var, ...]:
        for type in node.types:
            if not type.dtype.is_compiled:
                raise _uncompiled(type, node.location)
        if self._finished:
            raise GraphError(f"graph {self.name!r} is finished and takes no more nodes ({node.op})")
        identity = len(self._nodes)
        if self._shared is not None:
            identity = self._shared.setdefault(node, identity)
        if identity == len(self._nodes):
            self._nodes.append(node)
        return tuple([Var(self, Value(identity, i), type) for i, type in enumerate(node.types)])


def _uncompiled(type: TensorType, location: Location | None) -> DTypeError:
    error = DTypeError(
        f"dtype {type.dtype.numpy.name} is not supported in compiled code ({type})",
        hint="keep what uses it outside of the compiled function",
        location=location,
    )
    error.is_refusal = True
    return error


def _inputs_first(nodes: list[Node]) -> tuple[tuple[Node, ...], list[int]]:
    """The nodes with inputs leading (a trace meets some late), and each node's new id."""
    lead = sum(node.op == INPUT for node in nodes)
    if all(node.op == INPUT for node in nodes[:lead]):
        return tuple(nodes), list(range(len(nodes)))
    order = sorted(range(len(nodes)), key=lambda i: nodes[i].op != INPUT)
    moved = [0] * len(nodes)
    for new, old in enumerate(order):
        moved[old] = new
    return tuple(
        replace(
            nodes[old],
            operands=tuple(Value(moved[v.node], v.index) for v in nodes[old].operands),
        )
        for old in order
    ), moved


# Frames of these packages are ours, the first frame outside them is the user's.


def user_location(module: str = "", phase: str = FORWARD) -> Location | None:
    """The innermost line on the stack that is not of graphc or its frontend; with `module` the
    module alone where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not (BY_FILE.get(code.co_filename) or is_own(frame)):
            return Location(code.co_filename, frame.f_lineno, code.co_name, module, phase)
        frame = frame.f_back  # type: ignore[assignment]
    return Location("", 0, "", module, phase) if module else None


def line_of(error: BaseException) -> Location | None:
    """The innermost line that an error passed which is not of graphc or its frontend."""
    line, step = None, error.__traceback__
    while step is not None:
        if not is_own(step.tb_frame):
            code = step.tb_frame.f_code
            line = Location(code.co_filename, step.tb_lineno, code.co_name)
        step = step.tb_next
    return line


def _checked_name(name: str, what: str) -> str:
    if not NAME.fullmatch(name):
        raise GraphError(f"{what} {name!r} is not a name", hint="letters, digits, '_' and '.'")
    return name


def _located(error: GraphError, location: Location | None) -> GraphError:
    """The same error with a location."""
    message = str(error).partition("\n  try: ")[0]
    return type(error)(message, hint=error.hint, location=location)


def rebuilt(
    graph: Graph, name: str | None = None, *, share: bool = False
) -> tuple[GraphBuilder, list[Var]]:
    """A new builder that already holds `graph`'s inputs, and their handles."""
    builder = GraphBuilder(name or graph.name, share=share)
    handles = []
    for node in graph.inputs:
        with builder.at(node.location):
            handles.append(builder.input(node.attribute("name"), node.types[0]))
    return builder, handles
