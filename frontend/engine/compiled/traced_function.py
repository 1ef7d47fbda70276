"""The trace of a function that is differentiated: graphs for its values and its gradients.

A `TracedFunction` is a part of a kept trace: inputs, outputs, and the tape between them. What is
made of it, a graph of the values, a forward and a backward graph, or the derivative as a traced
function again, is made when first needed. Where sizes are left open it serves all of them that give
the same answers to what was asked meanwhile; for others it is made once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frontend.engine.compiled.budget import within
from frontend.engine.compiled.options import Options
from frontend.engine.eager.dispatch import filled
from frontend.engine.eager.gradients.backward import leaves_behind, run_backward
from frontend.engine.eager.gradients.non_differentiable import DerivativeError
from frontend.engine.eager.tape import FreedError, ModifiedError
from frontend.engine.sizes.sized_memo import BySizes, executable_at, remembered_at
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.session import Session
from graphc.errors import MemoryLimitError, SizeBoundError
from graphc.ir.builder import Var
from graphc.ir.dims import Extent
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard
from graphc.system import IMPORTING

# What backward raises that the forward alone need not.
_IMPASSABLE = (DerivativeError, FreedError, ModifiedError)


def _zeros(like: Tensor) -> Tensor:
    return filled(0, like.tensor_type.dtype, like.tensor_type.shape)


class GraphPair:
    """A forward and a backward graph, and what passes from one to the other. `holes`: by wanted
    input whether it has a gradient; `influences`: by active output, on which of them it depends."""

    def __init__(
        self, function: TracedFunction, parts: Any, holes: list[bool],
        influences: list[list[bool]],
    ):  # fmt: skip
        self.function = function
        self.forward_graph: Graph = parts.forward
        self.backward_graph: Graph = parts.backward
        self.saved_inputs = tuple(parts.saved_inputs)
        self.saved_bytes: Extent = parts.saved_bytes
        self.holes = holes
        self.influences = influences
        updated = {target for _, target in function.updates}
        # An input that forward changes in place and backward reads as it was.
        self.copied = tuple(i for i in self.saved_inputs if i in updated)
        self._forward: Any = None
        self._backward: Any = None

    def forward(self, sizes: Mapping[str, int]) -> Any:
        """The executable of the forward graph, at these sizes."""
        if self._forward is None:
            with TRACE_LOCK.specializing:
                executable = self._forward or self.function.compile_graph(self.forward_graph, sizes)
                self._forward = executable
        return executable_at(self._forward, sizes)

    def backward(self, sizes: Mapping[str, int]) -> Any:
        """The executable of the backward graph, at these sizes."""
        with TRACE_LOCK.specializing:
            try:
                if self._backward is None:
                    self._backward = self.function.compile_graph(self.backward_graph, sizes)
                return executable_at(self._backward, sizes)
            except (MemoryLimitError, SizeBoundError):
                raise
            except Exception:
                if not sizes:
                    raise
                # Forward has run: what cannot be made with sizes left open is made for these.
                graph = at_sizes(self.backward_graph, sizes)
                return self.function.compile_graph(graph, {})


class TracedFunction:
    """`inputs` (name, tensor in the trace, its variable) to `outputs`; `updates` are new contents
    of inputs (variable, position of the input). Tensors are those of the trace."""

    def __init__(
        self,
        session: Session,
        name: str,
        inputs: Sequence[tuple[str, Tensor, Var]],
        outputs: Sequence[Tensor],
        updates: Sequence[tuple[Var, int]],
        compile_graph: Callable[[Graph, Mapping[str, int]], Any],
        options: Options,
    ):
        self.session = session
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.updates = list(updates)
        self.compile_graph = compile_graph
        self.options = options
        with leaving(session), session:
            self.wanted = tuple(t._requires_grad and t._edge is None for _, t, _ in inputs)
            # Leaves made inside require gradients, and depend on nothing.
            self.active = [i for i, tensor in enumerate(outputs) if tensor._edge is not None]
            self.leaves = [i for i, t in enumerate(outputs) if t._requires_grad and not t._edge]
        # Outputs that backward cannot pass: because of which function, and what it raises.
        self.non_differentiable: dict[int, tuple[str, Callable[[str], Exception]]] = {}
        self.types = [tensor.tensor_type for tensor in outputs]
        self._plain, self._split, self._derivative = BySizes(), BySizes(), BySizes()

    # -- made when first needed --------------------------------------------------------------

    def plain(self, sizes: Mapping[str, int]) -> Any:
        """The executable that leaves nothing for backward, at these sizes."""
        return executable_at(self._made(self._plain, sizes, self._compiled_plain), sizes)

    def split(self, sizes: Mapping[str, int]) -> GraphPair:
        """The forward and the backward graph that serve these sizes."""
        pair: GraphPair = self._made(self._split, sizes, self._divided)
        return pair

    def derivative(self, sizes: Mapping[str, int]) -> TracedFunction:
        """(inputs, cotangents of the active outputs) to the gradients of the wanted inputs; those
        without influence are zeros. It serves these sizes."""
        differentiated: TracedFunction = self._made(self._derivative, sizes, self._differentiated)
        return differentiated

    @property
    def known_split(self) -> GraphPair | None:
        """The split that was made last, once one was needed."""
        split: GraphPair | None = self._split.latest
        return split

    def _made(self, known: BySizes, sizes: Mapping[str, int], make: Callable[..., Any]) -> Any:
        value = known.get(sizes)
        if value is None:
            with TRACE_LOCK.specializing:
                value = known.get(sizes)
                if value is None:
                    self.session.answer_by(sizes)
                    value, guards = make(sizes)
                    answers = self.session.answers
                    known.add((*guards, *(() if answers is None else answers.guards)), value)
        return value

    def _compiled_plain(self, sizes: Mapping[str, int]) -> tuple[Any, tuple[SizeGuard, ...]]:
        return self.compile_graph(self.graph(), sizes), ()

    def graph(self, extra: Sequence[Tensor] = (), more: Sequence[tuple[str, Var]] = ()) -> Graph:
        """The graph of outputs and updates, then `extra`, of the inputs and `more`."""
        with leaving(self.session), self.session:
            named = [(name, var) for name, _, var in self.inputs]
            values = [self.session.value(tensor) for tensor in self.outputs]
            first = len(values)
            values += [var for var, _ in self.updates]
            values += [self.session.value(tensor) for tensor in extra]
            aliases = [(first + i, target) for i, (_, target) in enumerate(self.updates)]
            return self.session.builder.snapshot([*named, *more], values, aliases)

    def _divided(self, sizes: Mapping[str, int]) -> tuple[GraphPair, tuple[SizeGuard, ...]]:
        with IMPORTING:
            from graphc.autodiff.joint import Joint
            from graphc.passes.pipelines import forward_and_backward

        options = self.options
        try:
            cotangents, gradients = self._gradients(create_graph=False)
        except _IMPASSABLE:
            self._set_apart()
            cotangents, gradients = self._gradients(create_graph=False)
        present = [g for g in gradients if g is not None]
        names = self._free_names("cotangent", len(cotangents))
        more = [(name, tensor._value) for name, tensor in zip(names, cotangents)]
        first, count = len(self.inputs), len(self.outputs) + len(self.updates)
        joint = Joint(
            self.graph(present, more), count, tuple(range(first, first + len(cotangents)))
        )
        budget = options.saved_bytes
        parts, guards = remembered_at(
            sizes, "split", joint.graph, (options.level, count, joint.cotangents, budget),
            lambda: forward_and_backward(joint, options.level, budget),
        )  # fmt: skip
        guards += within(parts.saved_bytes, budget)
        return GraphPair(
            self, parts, [g is not None for g in gradients], self._influences()
        ), guards

    def _differentiated(
        self, sizes: Mapping[str, int]
    ) -> tuple[TracedFunction, tuple[SizeGuard, ...]]:
        cotangents, gradients = self._gradients(create_graph=True)
        names = self._free_names(f"seed_{len(self.inputs)}", len(cotangents))
        more = [(n, t, t._value) for n, t in zip(names, cotangents)]
        chosen = [x for x, want in zip(self.inputs, self.wanted) if want]
        with leaving(self.session), self.session:
            filled = [_zeros(x[1]) if g is None else g for x, g in zip(chosen, gradients)]
        return TracedFunction(
            self.session, f"{self.name}_backward", [*self.inputs, *more], filled, (),
            self.compile_graph, self.options,
        ), ()  # fmt: skip

    def _gradients(self, create_graph: bool) -> tuple[list[Tensor], list[Tensor | None]]:
        """New cotangent inputs, and what the tape makes of them."""
        chosen = [x[1] for x, want in zip(self.inputs, self.wanted) if want]
        with leaving(self.session), self.session:
            cotangents = []
            for i in self.active:
                cotangent = self.session.traced_input(self.types[i])
                cotangent._requires_grad = create_graph
                cotangents.append(cotangent)
            roots = [(self.outputs[i], seed) for i, seed in zip(self.active, cotangents)]
            # Hooks of leaves run outside, where their gradients arrive.
            hooks = [(tensor, tensor._hooks) for tensor in chosen if tensor._hooks]
            try:
                for tensor, _ in hooks:
                    tensor._hooks = None
                return cotangents, run_backward(
                    roots, chosen, retain_graph=True, create_graph=create_graph
                )
            finally:
                for tensor, held in hooks:
                    tensor._hooks = held

    def _free_names(self, label: str, count: int) -> list[str]:
        """Names for inputs of this sort that no input has."""
        taken = {name for name, _, _ in self.inputs}
        while any(f"{label}_{i}" in taken for i in range(count)):
            label += "_"
        return [f"{label}_{i}" for i in range(count)]

    def _influences(self) -> list[list[bool]]:
        """For each active output, which of the wanted inputs it depends on."""
        with leaving(self.session), self.session:
            behind = [leaves_behind(self.outputs[i]) for i in self.active]
        wanted = [tensor for (_, tensor, _), want in zip(self.inputs, self.wanted) if want]
        return [[id(tensor) in leaves for tensor in wanted] for leaves in behind]

    def _set_apart(self) -> None:
        """Outputs that backward cannot pass are no longer active: the others have gradients."""
        for i in self.active:
            self.active, everything = [i], self.active
            try:
                self._gradients(create_graph=False)
            except _IMPASSABLE as error:
                self.non_differentiable[i] = (error.function, type(error))
            self.active = everything
        self.active = [i for i in self.active if i not in self.non_differentiable]
