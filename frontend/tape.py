"""The tape: what ran, for which tensors, and the reverse sweep over it.

in : tensors with a `grad_fn`, and gradients for them
out: gradients of leaves (accumulated into `.grad`) or of chosen tensors

Nodes are numbered as they are made, so going backwards is going down the numbers. A node keeps
only the operands and results that its op's rule reads. Values carry a version; one changed in
place after it was saved is an error, not a wrong gradient. The same code serves traced tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from typing import Any

import numpy as np

from frontend.state import STATE
from frontend.tensor import Tensor, make
from graphc.autodiff.sweep import Reads, Record, Unread, sweep
from graphc.errors import GraphError
from graphc.ir.builder import user_location
from graphc.ir.types import TensorType

Edge = tuple[Any, int]
_SEQUENCE = count().__next__

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class UnreadTensor(Unread):
    """A value the rule does not read, among tensors: constants like it can be made."""

    __slots__ = ()
    _requires_grad = False

    @property
    def context(self) -> Any:
        return Tensor.context

    @property
    def _value(self) -> Any:
        raise GraphError("internal: a gradient rule read a value it was not traced to read")


class Saves:
    """What the nodes of one op and signature keep: positions of the operands and results that the
    gradient rule reads, and the types of all."""

    __slots__ = ("inputs", "outputs", "result_types", "types")

    def __init__(
        self, types: tuple[TensorType, ...], result_types: tuple[TensorType, ...], reads: Reads
    ):
        self.types = types
        self.result_types = result_types
        self.inputs = tuple(i for i, read in enumerate(reads[0]) if read)
        self.outputs = tuple(i for i, read in enumerate(reads[1]) if read)


class TapeNode:
    """One op that ran. `edges[i]` is (node, result index) of operand i, or None where operand i
    takes no gradient. `op` needs only a `name` and a `vjp`."""

    # Instance attributes with their common values: a node is made for every op that is recorded.
    freed = False
    location: Any = None
    hooks: dict[int, dict[int, Any]] | None = None  # result index -> tensor hooks
    prehooks: list[Any] | None = None  # called with the gradients of all results
    retained: dict[int, Any] | None = None  # result index -> weak tensor

    def __init__(
        self,
        op: Any,
        attributes: dict[str, Any],
        operands: tuple[Tensor, ...],
        results: tuple[Tensor, ...],
        saves: Saves,
    ):
        self.op = op
        self.attributes = attributes
        self.sequence = _SEQUENCE()
        self.saves = saves
        self.edges = tuple(
            [
                (x._edge if x._edge is not None else edge_of(x)) if x._requires_grad else None
                for x in operands
            ]
        )
        # A saved operand is (tensor, its value, its version).
        self.inputs: Any = ()
        if saves.inputs:
            self.inputs = tuple(
                [(x := operands[i], x._value, x._counter[0]) for i in saves.inputs]
            )
        # A saved result is its bare value: the tensor itself would be a reference cycle.
        self.outputs: Any = ()
        if saves.outputs:
            self.outputs = tuple(
                [(x := results[i], x._value, x._counter, x._counter[0])[1:] for i in saves.outputs]
            )

    def name(self) -> str:
        """The name PyTorch gives such nodes: `AddBackward0`."""
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    def register_prehook(self, hook: Any) -> None:
        """`hook(gradients)` sees the gradients of the results before the rule runs; it may
        return a tuple to put in their place."""
        self.prehooks = [*(self.prehooks or ()), hook]

    def free(self) -> None:
        """Forget saved values. A node that saved none can run again, as in PyTorch."""
        release = getattr(self.op, "release", None)
        if (release is not None and release()) or self.inputs or self.outputs:
            self.inputs = self.outputs = ()
            self.freed = True

    def unpack(self, wanted: tuple[bool, ...]) -> Record:
        """The record for the sweep. Raises RuntimeError where saved values are gone or changed."""
        if self.freed:
            raise GraphError(f"{FREED} ({self.name()})", location=user_location())
        saves = self.saves
        inputs: list[Any] = [UnreadTensor(type) for type in saves.types]
        for position, saved in zip(saves.inputs, self.inputs):
            inputs[position] = self._input(position, *saved)
        outputs: list[Any] = [UnreadTensor(type) for type in saves.result_types]
        for position, saved in zip(saves.outputs, self.outputs):
            outputs[position] = self._output(position, *saved)
        return Record(
            self.op,
            self.attributes,
            tuple(inputs),
            tuple(outputs),
            tuple([edge if want else None for edge, want in zip(self.edges, wanted)]),
            tuple([(self, i) for i in range(len(outputs))]),
            self.location,
        )

    def _input(self, position: int, tensor: Tensor, value: Any, version: int) -> Any:
        self._check(self.saves.types[position], tensor._counter[0], version)
        if tensor._value is value:
            return tensor
        return self._rewrapped(value, self.saves.types[position], self.edges[position])

    def _output(self, position: int, value: Any, counter: list[int], version: int) -> Any:
        type = self.saves.result_types[position]
        self._check(type, counter[0], version)
        return self._rewrapped(value, type, (self, position))

    @staticmethod
    def _rewrapped(value: Any, type: TensorType, edge: Edge | None) -> Tensor:
        tensor = make(value, type)
        if edge is not None and type.dtype.is_float:
            tensor._edge = edge
            tensor._requires_grad = True
        return tensor

    def _check(self, type: TensorType, version: int, expected: int) -> None:
        if version != expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: [{type}], used by {self.name()}, is at version {version}; "
                f"expected version {expected} instead. Hint: compute a new tensor instead of "
                "changing this one in place, or change it after backward()."
            )


class AccumulateGrad:
    """The end of the graph at a leaf: adds to the leaf's `.grad`."""

    __slots__ = ("__weakref__", "variable")
    next_functions: tuple[()] = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


def edge_of(tensor: Tensor) -> Edge:
    """The edge gradients for `tensor` travel along: its maker's, or its accumulator's."""
    if tensor._edge is not None:
        return tensor._edge
    node = tensor._accumulator() if tensor._accumulator is not None else None
    if node is None:
        node = AccumulateGrad(tensor)
        tensor._accumulator = weakref.ref(node)
    return (node, 0)


def record(
    op: Any,
    attributes: dict[str, Any],
    operands: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    saves: Saves,
) -> None:
    """Note that `op` made `results` from `operands`; float results get the node as `grad_fn`."""
    node = TapeNode(op, attributes, operands, results, saves)
    for index, result in enumerate(results):
        if result.tensor_type.dtype.is_float:
            result._edge = (node, index)
            result._requires_grad = True
    if STATE.session is not None:
        node.location = STATE.session.location_of(results[0])


# -- backward ------------------------------------------------------------------------------------


def run_backward(
    roots: Sequence[tuple[Tensor, Tensor]],
    inputs: Sequence[Tensor] | None,
    *,
    retain_graph: bool,
    create_graph: bool,
) -> list[Tensor | None]:
    """Sweep back from `roots` (tensor, its gradient). With `inputs`: their gradients, None where
    there is no path. Without: gradients are added to the leaves' `.grad`."""
    session = STATE.session
    if session is not None:
        session.note_backward(accumulates=inputs is None)
    cotangents: dict[Any, Any] = {}
    previous, STATE.grad_enabled = STATE.grad_enabled, create_graph
    try:
        for tensor, gradient in roots:
            edge = edge_of(tensor)
            earlier = cotangents.get(edge)
            cotangents[edge] = gradient if earlier is None else earlier + gradient
        # Accumulators live only while something points at them: `targets` does.
        targets = None if inputs is None else [edge_of(tensor) for tensor in inputs]
        nodes = _reachable(cotangents)
        needed = None if targets is None else _leading_to(nodes, set(targets))
        captured: dict[Edge, Any] = dict.fromkeys(targets or ())
        records = _unpacked(nodes, cotangents, captured, needed, retain_graph)
        sweep(records, cotangents, None if session is None else _at_origin(session))
        for edge in captured:
            if isinstance(edge[0], AccumulateGrad) and edge in cotangents:
                captured[edge] = _hooked(edge[0].variable._hooks, cotangents[edge])
        if targets is not None:
            return [captured[edge] for edge in targets]
        taken = {id(gradient._value) for _, gradient in roots}
        for (node, _), gradient in cotangents.items():
            if isinstance(node, AccumulateGrad):
                given = _hooked(node.variable._hooks, gradient)
                accumulate(node.variable, given, create_graph, taken)
        return []
    finally:
        STATE.grad_enabled = previous


def _reachable(cotangents: dict[Any, Any]) -> list[TapeNode]:
    """Every op node behind the roots, latest first."""
    found: dict[int, TapeNode] = {}
    stack = [node for node, _ in cotangents if isinstance(node, TapeNode)]
    while stack:
        node = stack.pop()
        if node.sequence in found:
            continue
        found[node.sequence] = node
        for edge in node.edges:
            if edge is not None and isinstance(edge[0], TapeNode):
                stack.append(edge[0])
    return [found[sequence] for sequence in sorted(found, reverse=True)]


def _leading_to(nodes: list[TapeNode], targets: set[Edge]) -> dict[TapeNode, tuple[bool, ...]]:
    """For each node on a path to a target: which of its operands lie on one."""
    result: dict[TapeNode, tuple[bool, ...]] = {}
    for node in reversed(nodes):
        wanted = tuple(
            [e is not None and (e in targets or e[0] in result) for e in node.edges]
        )
        if any(wanted):
            result[node] = wanted
    return result


def _unpacked(
    nodes: list[TapeNode],
    cotangents: dict[Any, Any],
    captured: dict[Edge, Any],
    needed: dict[TapeNode, tuple[bool, ...]] | None,
    retain_graph: bool,
) -> Iterator[Record]:
    """Records for the sweep. When one is drawn, the gradients of its results are complete: hooks
    see them here, and requested ones are kept."""
    for node in nodes:
        for index in range(len(node.saves.result_types)):
            edge = (node, index)
            if edge not in cotangents:
                continue
            if node.hooks is not None:
                cotangents[edge] = _hooked(node.hooks.get(index), cotangents[edge])
            if node.retained is not None and index in node.retained:
                retaining = node.retained[index]()
                if retaining is not None:
                    given = cotangents[edge]
                    kept = given if STATE.grad_enabled else _owned(retaining, given, None)
                    retaining._grad = kept
            if edge in captured:
                captured[edge] = cotangents[edge]
        if needed is not None and node not in needed:
            continue
        wanted = needed[node] if needed is not None else (True,) * len(node.edges)
        if node.prehooks is not None:
            _run_prehooks(node, cotangents)
        yield node.unpack(wanted)
        if not retain_graph:
            node.free()


def _run_prehooks(node: TapeNode, cotangents: dict[Any, Any]) -> None:
    edges = [(node, index) for index in range(len(node.saves.result_types))]
    for hook in node.prehooks or ():
        replaced = hook(tuple(cotangents.get(edge) for edge in edges))
        if replaced is not None:
            cotangents.update({e: g for e, g in zip(edges, replaced) if g is not None})


def _hooked(hooks: Any, gradient: Tensor) -> Tensor:
    for hook in tuple(hooks.values() if isinstance(hooks, dict) else hooks or ()):
        replaced = hook(gradient)
        gradient = gradient if replaced is None else replaced
    return gradient


def _at_origin(session: Any) -> Any:
    def place(record: Record) -> AbstractContextManager[None]:
        return session.at(record.location) if record.location is not None else nullcontext()

    return place


def accumulate(
    variable: Tensor, gradient: Tensor, create_graph: bool, taken: set[int] | None = None
) -> None:
    """Add `gradient` to `variable.grad`: in place, unless the sum itself is to be differentiated.
    `taken` holds the ids of arrays that belong to others: those are copied."""
    present = variable.grad
    if present is None:
        variable.grad = gradient if create_graph else _owned(variable, gradient, taken)
    elif create_graph or present._requires_grad:
        variable.grad = present + gradient
    else:
        present._assign(present + gradient)


def _owned(variable: Tensor, gradient: Tensor, taken: set[int] | None) -> Tensor:
    """`gradient` off the tape, over an array nobody else holds."""
    value = gradient._value
    if isinstance(value, np.ndarray):
        shared = taken is None or id(value) in taken or variable._hooks
        if shared or value.base is not None or not value.flags.c_contiguous:
            value = value.copy(order="C")
        if taken is not None:
            taken.add(id(value))
    return make(value, gradient.tensor_type)
