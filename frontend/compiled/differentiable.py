"""Traced functions as differentiable, compiled functions of tensors.

A `DifferentiableFunction` is a part of a kept trace: inputs, outputs, and the tape between them.
Called with gradients wanted it runs a forward graph, and leaves one node on the tape whose backward
is a second graph: a forward/backward pair. What passes between the two is chosen by `partition`.
Its `derivative()` extends the same trace and is again a DifferentiableFunction, so any order of
gradients works, and whatever the function cut off from the tape (detach, no_grad) stays cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.compiled.options import Options
from frontend.eager.backward import leaves_behind, run_backward
from frontend.eager.dispatch import filled
from frontend.eager.non_differentiable import DerivativeError, mark_non_differentiable
from frontend.eager.tape import FreedError, ModifiedError, Saves, record
from frontend.tensors.epoch import TRACE_LOCK
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor, make
from frontend.tracing.session import Session, leaving
from graphc.ir.builder import Var
from graphc.ir.nodes import Graph
from graphc.ir.types import TensorType

# What backward raises that the forward alone need not.
_IMPASSABLE = (DerivativeError, FreedError, ModifiedError)


class DifferentiableFunction:
    """`inputs` (name, tensor in the trace, its variable) to `outputs`; `updates` are new contents
    of inputs (variable, position of the input). Tensors are those of the trace."""

    def __init__(
        self,
        session: Session,
        name: str,
        inputs: Sequence[tuple[str, Tensor, Var]],
        outputs: Sequence[Tensor],
        updates: Sequence[tuple[Var, int]],
        compile_graph: Callable[[Graph], Any],
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
        self._plain: Any = None
        self._pair: ForwardBackward | None = None
        self._derivative: DifferentiableFunction | None = None

    # -- executables, compiled when first needed ---------------------------------------------

    def graph(self, extra: Sequence[Tensor] = (), more: Sequence[tuple[str, Var]] = ()) -> Graph:
        """The graph of outputs and updates, then `extra`, of the inputs and `more`."""
        with leaving(self.session), self.session:
            named = [(name, var) for name, _, var in self.inputs]
            values = [self.session.value_of(tensor) for tensor in self.outputs]
            first = len(values)
            values += [var for var, _ in self.updates]
            values += [self.session.value_of(tensor) for tensor in extra]
            aliases = [(first + i, target) for i, (_, target) in enumerate(self.updates)]
            return self.session.builder.snapshot([*named, *more], values, aliases)

    @property
    def plain(self) -> Any:
        """The executable that leaves nothing for backward."""
        if self._plain is None:
            with TRACE_LOCK.specializing:
                self._plain = self._plain or self.compile_graph(self.graph())
        return self._plain

    @property
    def pair(self) -> ForwardBackward:
        """The forward/backward pair."""
        if self._pair is None:
            with TRACE_LOCK.specializing:
                self._pair = self._pair or self._derived()
        return self._pair

    def _derived(self) -> ForwardBackward:
        from graphc.autodiff.joint import Joint
        from graphc.passes.pipelines import forward_and_backward
        from graphc.runtime.program import remembered

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
        split = remembered(
            "split", joint.graph,
            (options.level, count, joint.cotangents, options.saved_bytes),
            lambda: forward_and_backward(joint, options.level, options.saved_bytes),
        )  # fmt: skip
        return ForwardBackward(self, split, [g is not None for g in gradients], self._influences())

    @property
    def compiled_pair(self) -> ForwardBackward | None:
        """The pair, once it was needed."""
        return self._pair

    def derivative(self) -> DifferentiableFunction:
        """(inputs, cotangents of the active outputs) to the gradients of the wanted inputs; those
        without influence are zeros."""
        if self._derivative is None:
            cotangents, gradients = self._gradients(create_graph=True)
            names = self._free_names(f"seed_{len(self.inputs)}", len(cotangents))
            more = [(n, t, t._value) for n, t in zip(names, cotangents)]
            chosen = [x for x, want in zip(self.inputs, self.wanted) if want]
            with leaving(self.session), self.session:
                filled = [_zeros(x[1]) if g is None else g for x, g in zip(chosen, gradients)]
            self._derivative = DifferentiableFunction(
                self.session, f"{self.name}_backward", [*self.inputs, *more], filled, (),
                self.compile_graph, self.options,
            )  # fmt: skip
        return self._derivative

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

    # -- calling -----------------------------------------------------------------------------

    def __call__(self, tensors: Sequence[Tensor | None], arrays: Sequence[Any]) -> list[Tensor]:
        """The outputs; updates are written into the arrays. `tensors[i]` is what input i is a
        value of on the tape, `arrays[i]` its value. What is recorded is what the trace recorded,
        whatever grad mode is now: the function may set it inside."""
        recording = bool(self.active or self.non_differentiable) and any(
            want and tensor is not None and tensor._requires_grad
            for want, tensor in zip(self.wanted, tensors)
        )
        if recording:
            outputs = self.pair.call(tensors, arrays)
            operands = tuple([t for t in tensors if t is not None and t._requires_grad])
            for i, (function, error) in self.non_differentiable.items():
                mark_non_differentiable(function, operands, outputs[i], error)
        else:
            outputs = [*map(make, self.plain(*arrays), self.types)]
        for i in self.leaves:
            outputs[i]._requires_grad = True
        return outputs


def note_written(error: BaseException, values: Any) -> None:
    """Note on what is raised what native code had written before, if it had: as Executable.run."""
    if len(values):
        error.written = values  # type: ignore[attr-defined]


def written_by(error: BaseException) -> Any:
    """What native code had written when this was raised."""
    return getattr(error, "written", ())


# The call itself keeps what backward needs.
NOTHING: Any = ((), ())


def _zeros(like: Tensor) -> Tensor:
    return filled(0, like.tensor_type.dtype, like.tensor_type.shape)


class ForwardBackward:
    """A forward/backward pair: two executables, and what passes from one to the other."""

    def __init__(
        self, function: DifferentiableFunction, split: Any, holes: list[bool],
        influences: list[list[bool]],
    ):  # fmt: skip
        self.function = function
        self.influences = influences
        self.forward_graph = split.forward
        self.backward_graph = split.backward
        self.saved_inputs = tuple(split.saved_inputs)
        self.saved_bytes = int(split.saved_bytes)
        self.holes = holes  # per wanted input: whether it has a gradient
        self.forward = function.compile_graph(split.forward)
        self._backward: Any = None
        updated = {target for _, target in function.updates}
        # An input that forward changes in place and backward reads as it was.
        self.copied = tuple(i for i in self.saved_inputs if i in updated)
        self.results = [function.outputs[i].tensor_type for i in function.active]

    @property
    def backward(self) -> Any:
        if self._backward is None:
            with TRACE_LOCK.specializing:
                self._backward = self._backward or self.function.compile_graph(self.backward_graph)
        return self._backward

    def call(self, tensors: Sequence[Tensor | None], arrays: Sequence[Any]) -> list[Tensor]:
        function = self.function
        kept = [arrays[i].copy() if i in self.copied else arrays[i] for i in self.saved_inputs]
        values = self.forward(*arrays)
        try:
            count = len(function.outputs)
            outputs = [make(value, type) for value, type in zip(values[:count], function.types)]
            saved = values[count + len(function.updates) :]
            wanted = function.wanted
            operands = tuple([t for t, want in zip(tensors, wanted) if want and t is not None])
            call = ForwardCall(self, tensors, arrays, kept, saved)
            results = tuple([outputs[i] for i in function.active])
            kinds = tuple([x.tensor_type for x in operands])
            record(call, {}, operands, results, Saves(kinds, tuple(self.results), NOTHING))
        except BaseException as error:
            note_written(error, values)
            raise
        return outputs


class ForwardCall:
    """One forward call: the op of its tape node. It holds what backward needs."""

    def __init__(
        self, pair: ForwardBackward, tensors: Sequence[Tensor | None], arrays: Sequence[Any],
        kept: Any, saved: Any,
    ):  # fmt: skip
        self.pair = pair
        self.name = pair.function.name
        self.tensors = tensors
        self.arrays = arrays
        self.values: tuple[Any, ...] | None = (*kept, *saved)
        self.versions = [None if t is None else t._counter[0] for t in tensors]

    def release(self) -> bool:
        """Forget the saved values."""
        self.values = None
        self.tensors = self.arrays = ()
        return True

    def vjp(self, gradients: Any, outputs: Any, *inputs: Any) -> tuple[Any, ...]:
        pair = self.pair
        incoming = gradients if isinstance(gradients, tuple) else (gradients,)
        cotangents = [_zeros_of(t) if g is None else g for t, g in zip(pair.results, incoming)]
        computed = self._gradients(cotangents)
        # As in eager mode: None, not zeros, for what no result that has a gradient depends on.
        behind = [row for row, g in zip(pair.influences, incoming) if g is not None]
        return tuple([g if any(row[i] for row in behind) else None for i, g in enumerate(computed)])

    def _gradients(self, cotangents: list[Tensor]) -> Any:
        pair = self.pair
        if STATE.grad_enabled:
            self._check(range(len(self.tensors)))
            return pair.function.derivative()(
                [*self.tensors, *cotangents],
                [*self.arrays, *[g._array("backward()") for g in cotangents]],
            )
        self._check(i for i in pair.saved_inputs if i not in pair.copied)
        assert self.values is not None
        values = pair.backward(*self.values, *[g._array("backward()") for g in cotangents])
        return self._placed(iter(values))

    def _placed(self, arrays: Any) -> Any:
        for hole in self.pair.holes:
            if not hole:
                yield None
                continue
            array = next(arrays)
            yield make(array, TensorType.of(array))

    def _check(self, positions: Any) -> None:
        for i in positions:
            tensor = self.tensors[i]
            if tensor is not None and tensor._counter[0] != self.versions[i]:
                name, _, _ = self.pair.function.inputs[i]
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: input {name!r} ({tensor.tensor_type}) of the compiled "
                    f"{self.name} is at version {tensor._counter[0]}; expected version "
                    f"{self.versions[i]} instead."
                )


def _zeros_of(type: TensorType) -> Tensor:
    return make(np.zeros(type.shape, type.dtype.numpy), type)
