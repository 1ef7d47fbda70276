"""The tape: what ran, and for which tensors. `gradients.backward` sweeps over it.

A node keeps only the operands and results that its op's rule reads. Values carry a version; one
changed in place after it was saved is an error, not a wrong gradient. The same code serves traced
tensors. An edge is (tape node, result index), or (leaf tensor, 0) where the graph ends.
"""

from __future__ import annotations

import functools
import weakref
from itertools import count
from typing import Any

from frontend.engine.eager.node_names import node_name
from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, make
from graphc.autodiff.sweep import Reads, Record, Unread
from graphc.errors import GraphError, ShapeError
from graphc.ir.builder import Var, user_location
from graphc.ir.types import TensorType

Edge = tuple[Any, int]
next_sequence = count().__next__

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class FreedError(GraphError):
    """Backward through a part of the tape whose saved values are gone. `function` is its node."""

    def __init__(self, function: str):
        super().__init__(f"{FREED} ({function})", location=user_location())
        self.function = function


class ModifiedError(RuntimeError):
    """Backward through a value that was changed in place since it was saved. `function` says it."""

    def __init__(self, message: str):
        super().__init__(message)
        self.function = message


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
    gradient rule reads, the types of all, and what backward knows of the rule (`gradient_programs`;
    None where each node has its own)."""

    __slots__ = ("inputs", "outputs", "result_types", "rules", "types")
    rules: dict[Any, Any] | None

    def __init__(
        self, types: tuple[TensorType, ...], result_types: tuple[TensorType, ...], reads: Reads
    ):
        self.types = types
        self.result_types = result_types
        self.inputs = tuple(i for i, read in enumerate(reads[0]) if read)
        self.outputs = tuple(i for i, read in enumerate(reads[1]) if read)
        self.rules = {}


class TapeNode:
    """One op that ran. `edges[i]` is where the gradient of operand i goes, or None where operand i
    takes none. `op` needs only a `name` and a `vjp`; it may have a `node_name` and a `release`."""

    # Instance attributes with their common values: a node is made for every op that is recorded.
    freed = False
    label: str | None = None  # of the public function whose result it made, see `node_names`
    location: Any = None
    hooks: dict[int, dict[int, Any]] | None = None  # result index -> tensor hooks
    prehooks: dict[int, Any] | None = None  # called with the gradients of all results
    posthooks: dict[int, Any] | None = None  # called with the gradients of operands and results
    retained: dict[int, Any] | None = None  # result index -> weak tensor
    # A saved operand is (tensor, its value, its version). A saved result is its bare value, its
    # version counter and its version: the tensor itself would be a reference cycle.
    inputs: Any = ()
    outputs: Any = ()
    unpacks: Any = None  # makes tensors of what is saved, where hooks packed it

    def __init__(
        self, op: Any, attributes: dict[str, Any], operands: tuple[Tensor, ...], saves: Saves
    ):
        self.op = op
        self.attributes = attributes
        self.saves = saves
        self.sequence = next_sequence()
        self.edges = tuple([(x._edge or (x, 0)) if x._requires_grad else None for x in operands])
        if saves.inputs:
            self.inputs = [(x := operands[i], x._value, x._counter[0]) for i in saves.inputs]

    def keep_outputs(self, results: tuple[Tensor, ...]) -> None:
        self.outputs = [
            ((x := results[i])._value, x._counter, x._counter[0]) for i in self.saves.outputs
        ]

    def pack(self, results: tuple[Tensor, ...], pack: Any, unpack: Any) -> None:
        """Keep what the hook `pack` makes of each saved value; `unpack` gives the value back."""
        saves, self.unpacks = self.saves, unpack
        self.inputs = [pack(tensor.detach()) for tensor, _, _ in self.inputs]
        self.outputs = [pack(results[i].detach()) for i in saves.outputs]

    def name(self) -> str:
        """The name PyTorch gives such nodes: `AddBackward0`."""
        return node_name(self)

    def shown(self) -> TapeNode:
        """The node as users see it, of a class of its own name, as in PyTorch."""
        if type(self) is TapeNode:
            self.__class__ = _kind(self.name())
        return self

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if edge is None else _shown(edge) for edge in self.edges)

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What a custom Function saved; for other nodes, the operands and results kept."""
        if hasattr(self.op, "saved_tensors"):
            return tuple(self.op.saved_tensors)
        record = self.unpack((True,) * len(self.edges))
        kept = [record.inputs[i] for i in self.saves.inputs]
        return (*kept, *[record.outputs[i] for i in self.saves.outputs])

    def register_prehook(self, hook: Any) -> Any:
        """`hook(gradients)` sees the gradients of the results before the rule runs; it may
        return a tuple to put in their place. Returns a handle."""
        if self.prehooks is None:
            self.prehooks = {}
        return RemovableHandle(self.prehooks, hook)

    def register_hook(self, hook: Any) -> Any:
        """`hook(grad_inputs, grad_outputs)` sees the gradients of the operands after the rule ran,
        and those of the results; it may return a tuple to put in place of the former. Returns a
        handle."""
        if self.posthooks is None:
            self.posthooks = {}
        return RemovableHandle(self.posthooks, hook)

    def free(self) -> None:
        """Forget saved values. A node that saved none can run again, as in PyTorch."""
        release = getattr(self.op, "release", None)
        if (release is not None and release()) or self.inputs or self.outputs:
            self.inputs = self.outputs = ()
            self.freed = True

    def unpack(self, wanted: tuple[bool, ...]) -> Record:
        """The record for the sweep. Raises RuntimeError where saved values are gone or changed."""
        if self.freed:
            raise FreedError(self.name())
        saves = self.saves
        inputs: list[Any] = [UnreadTensor(type) for type in saves.types]
        for position, saved in zip(saves.inputs, self.inputs):
            inputs[position] = (
                self._input(position, *saved)
                if self.unpacks is None
                else self._unpacked(saved, saves.types[position], self.edges[position])
            )
        outputs: list[Any] = [UnreadTensor(type) for type in saves.result_types]
        for position, saved in zip(saves.outputs, self.outputs):
            outputs[position] = (
                self._output(position, *saved)
                if self.unpacks is None
                else self._unpacked(saved, saves.result_types[position], (self, position))
            )
        return Record(
            self.op,
            self.attributes,
            tuple(inputs),
            tuple(outputs),
            tuple([edge if want else None for edge, want in zip(self.edges, wanted)]),
            tuple([(self, i) for i in range(len(outputs))]),
            self.location,
        )

    def _unpacked(self, packed: Any, type: TensorType, edge: Edge | None) -> Tensor:
        """The value the hooks give back. Raises RuntimeError where it is another one."""
        tensor = self.unpacks(packed)
        if not isinstance(tensor, Tensor) or tensor.tensor_type != type:
            shown = tensor.tensor_type if isinstance(tensor, Tensor) else tensor.__class__.__name__
            raise ShapeError(f"{self.name()}: unpack_hook returned {shown}, not a tensor {type}")
        return _rewrapped(tensor._value, type, edge)

    def _input(self, position: int, tensor: Tensor, value: Any, version: int) -> Any:
        self._check(self.saves.types[position], tensor._counter[0], version)
        if tensor._value is value:
            return tensor
        return _rewrapped(value, self.saves.types[position], self.edges[position])

    def _output(self, position: int, value: Any, counter: list[int], version: int) -> Any:
        type = self.saves.result_types[position]
        self._check(type, counter[0], version)
        return _rewrapped(value, type, (self, position))

    def _check(self, type: TensorType, version: int, expected: int) -> None:
        # The rule of a branch or loop reads more than its body's ops saved; a trace has old values.
        if version != expected and getattr(self.op, "kind", "") != "region":
            site = "" if self.location is None else f" It was computed at {self.location}."
            raise ModifiedError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: [{type}], used by {self.name()}, is at version {version}; "
                f"expected version {expected} instead.{site} Hint: compute a new tensor instead of "
                "changing this one in place, or change it after backward()."
            )


def _rewrapped(value: Any, type: TensorType, edge: Edge | None) -> Tensor:
    tensor = make(value, type)
    if edge is not None and type.dtype.is_float:
        tensor._edge = None if isinstance(edge[0], Tensor) else edge
        tensor._requires_grad = True
    return tensor


class AccumulateGrad:
    """Stands for the end of the graph at a leaf, where gradients are added to its `.grad`."""

    __slots__ = ("__weakref__", "variable")
    next_functions: tuple[()] = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def register_prehook(self, hook: Any) -> Any:
        """`hook((gradient,))` before it is added up."""
        return self.variable.register_hook(lambda gradient: (hook((gradient,)) or (None,))[0])

    def register_hook(self, hook: Any) -> Any:
        """`hook((), (gradient,))` after the gradient was added up."""
        return self.variable.register_post_accumulate_grad_hook(
            lambda variable: hook((), (variable._grad,))
        )

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


@functools.cache
def _kind(name: str) -> type[TapeNode]:
    return type(name, (TapeNode,), {})


def _shown(edge: Edge) -> Edge:
    """An edge as users see it: with the leaf's one AccumulateGrad, which lives while it is used."""
    leaf, index = edge
    if not isinstance(leaf, Tensor):
        return (leaf.shown(), index)
    node = leaf._accumulator() if leaf._accumulator is not None else None
    if node is None:
        node = AccumulateGrad(leaf)
        leaf._accumulator = weakref.ref(node)
    return (node, index)


def edge_of(tensor: Tensor) -> Edge:
    """The edge gradients for `tensor` travel along."""
    if tensor._view is not None:
        tensor._view.bring_history(tensor)
    return tensor._edge or (tensor, 0)


def record(
    op: Any,
    attributes: dict[str, Any],
    operands: tuple[Tensor, ...],
    results: tuple[Tensor, ...],
    saves: Saves,
) -> TapeNode:
    """Record that `op` made `results` from `operands`; float results get the node as `grad_fn`."""
    node = TapeNode(op, attributes, operands, saves)
    for index, result in enumerate(results):
        if result.tensor_type.dtype.is_float:
            result._edge = (node, index)
            result._requires_grad = True
    if STATE.saved_hooks is not None and STATE.mode is None:
        node.pack(results, *STATE.saved_hooks)
    elif saves.outputs:
        node.keep_outputs(results)
    if STATE.mode is not None:
        value = results[0]._value
        node.location = value.context.node_of(value).location if type(value) is Var else None
    elif STATE.detect_anomaly:
        node.location = user_location()
    return node
