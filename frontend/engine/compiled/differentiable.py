"""Traced functions as differentiable, compiled functions of tensors.

Called with gradients wanted a `DifferentiableFunction` runs a forward graph, and leaves one node on
the tape whose backward is a second graph: a forward/backward pair. What passes between the two is
chosen by `partition`. Its `derivative()` extends the same trace and is again a
DifferentiableFunction, so any order of gradients works, and whatever the function cut off from the
tape (detach, no_grad) stays cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from frontend.engine.compiled.traced_function import GraphPair, TracedFunction
from frontend.engine.eager.gradients.non_differentiable import mark_non_differentiable
from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.pairs import made_of
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.dims import evaluate
from graphc.ir.instances import type_at
from graphc.ir.types import TensorType


class DifferentiableFunction:
    """A traced function at certain `sizes`, none where all are numbers. `note` gets each executable
    that it comes to run."""

    def __init__(
        self, traced: TracedFunction, sizes: Mapping[str, int], note: Callable[[Any], None]
    ):
        self.traced = traced
        self.sizes = sizes
        self.note = note
        self.types = [type_at(type, sizes) for type in traced.types]
        self._plain: Any = None
        self._pair: ForwardBackward | None = None
        self._derivative: DifferentiableFunction | None = None

    def at(self, sizes: Mapping[str, int], note: Callable[[Any], None]) -> DifferentiableFunction:
        """The same traced function at other sizes."""
        return DifferentiableFunction(self.traced, sizes, note)

    @property
    def plain(self) -> Any:
        """The executable that leaves nothing for backward."""
        if self._plain is None:
            with TRACE_LOCK.specializing:
                if self._plain is None:
                    executable = self.traced.plain(self.sizes)
                    self.note(executable)
                    self._plain = executable
        return self._plain

    @property
    def pair(self) -> ForwardBackward:
        """The forward/backward pair."""
        if self._pair is None:
            with TRACE_LOCK.specializing:
                if self._pair is None:
                    self._pair = ForwardBackward(self, self.traced.split(self.sizes))
        return self._pair

    @property
    def saved_bytes(self) -> int | None:
        """The bytes that pass from forward to backward, once the pair was needed."""
        return None if self._pair is None else self._pair.saved_bytes

    def derivative(self) -> DifferentiableFunction:
        """The derivative of the traced function at the same sizes."""
        if self._derivative is None:
            with TRACE_LOCK.specializing:
                if self._derivative is None:
                    traced = self.traced.derivative(self.sizes)
                    self._derivative = DifferentiableFunction(traced, self.sizes, self.note)
        return self._derivative

    def prepare(self, tensors: Sequence[Tensor | None]) -> None:
        """Make what a call on these tensors takes."""
        _ = self.pair if self._records(tensors) else self.plain

    def _records(self, tensors: Sequence[Tensor | None]) -> bool:
        """Whether a call leaves something for backward."""
        traced = self.traced
        return bool(traced.active or traced.non_differentiable) and any(
            want and tensor is not None and tensor._requires_grad
            for want, tensor in zip(traced.wanted, tensors)
        )

    # -- calling -----------------------------------------------------------------------------

    def _end_inside(self, outputs: Sequence[Tensor]) -> None:
        """Outputs that depend on no input that requires gradients, but on leaves that are made in
        the function: they require gradients, as in eager mode."""
        kinds = tuple([output.tensor_type for output in outputs])
        record(LeavesInside(self.traced.name), {}, (), tuple(outputs), Saves((), kinds, NOTHING))

    def __call__(self, tensors: Sequence[Tensor | None], arrays: Sequence[Any]) -> list[Tensor]:
        """The outputs; updates are written into the arrays. `tensors[i]` is what input i is a
        value of on the tape, `arrays[i]` its value. What is recorded is what the trace recorded,
        whatever grad mode is now: the function may set it inside."""
        traced = self.traced
        outputs: list[Tensor] = []
        values: Any = ()
        try:
            if self._records(tensors):
                outputs = self.pair.call(tensors, arrays)
                operands = tuple([t for t in tensors if t is not None and t._requires_grad])
                for i, (function, reason) in traced.non_differentiable.items():
                    mark_non_differentiable(function, operands, outputs[i], reason)
            else:
                values = run(self.plain, [*arrays])
                outputs = [*map(made_of, values, self.types)]
                if traced.active and not any(traced.wanted):
                    self._end_inside([outputs[i] for i in traced.active])
            for i in traced.leaves:
                outputs[i]._requires_grad = True
            return outputs
        except BaseException as error:
            note_written(error, outputs or values)
            raise


class LeavesInside:
    """The op of a tape node before which there are leaves alone that a call has made: nobody else
    has them, and the gradients that come to them are gone with them."""

    def __init__(self, name: str):
        self.name = name

    def vjp(self, gradients: Any, outputs: Any, *inputs: Any) -> tuple[Any, ...]:
        return ()


def run(executable: Any, arrays: list[Any]) -> Any:
    """A call on a list of arrays, which is used up; timed where a profiler is on: of what has
    several native parts each by itself."""
    observer = STATE.observer
    if observer is None or hasattr(executable, "parts"):
        return executable.run(arrays)
    return observer.run(executable, arrays)


def note_written(error: BaseException, values: Any) -> None:
    """Note on what is raised what native code had written before, if it had: as Executable.run."""
    if len(values) and not written_by(error):
        error.written = values  # type: ignore[attr-defined]


def written_by(error: BaseException) -> Any:
    """What native code had written when this was raised."""
    return getattr(error, "written", ())


# The call itself keeps what backward needs.
NOTHING: Any = ((), ())


class ForwardBackward:
    """A forward/backward pair at certain sizes: two executables, and what passes from one to the
    other."""

    def __init__(self, function: DifferentiableFunction, split: GraphPair):
        self.function = function
        self.split = split
        self.saved_bytes = evaluate(split.saved_bytes, function.sizes)
        self.forward = split.forward(function.sizes)
        function.note(self.forward)
        self._backward: Any = None
        self.results = [function.types[i] for i in function.traced.active]
        self._saves: Saves | None = None  # of the last call
        self.influenced = [any(column) for column in zip(*split.influences)]
        """Of the operands that are wanted, whether any result depends on one."""

    @property
    def backward(self) -> Any:
        if self._backward is None:
            with TRACE_LOCK.specializing:
                if self._backward is None:
                    executable = self.split.backward(self.function.sizes)
                    self.function.note(executable)
                    self._backward = executable
        return self._backward

    def call(self, tensors: Sequence[Tensor | None], arrays: Sequence[Any]) -> list[Tensor]:
        function, traced, copied = self.function, self.function.traced, self.split.copied
        kept = [arrays[i].copy() if i in copied else arrays[i] for i in self.split.saved_inputs]
        values: Any = ()
        try:
            values = run(self.forward, [*arrays])
            count = len(traced.outputs)
            outputs = [*map(made_of, values[:count], function.types)]
            saved = values[count + len(traced.updates) :]
            wanted = traced.wanted
            operands = tuple([t for t, want in zip(tensors, wanted) if want and t is not None])
            results = tuple([outputs[i] for i in traced.active])
            kinds = tuple([x.tensor_type for x in operands])
            call = ForwardCall(self, tensors, arrays, kept, saved, kinds)
            saves = self._saves
            if saves is None or saves.types != kinds:
                saves = self._saves = Saves(kinds, tuple(self.results), NOTHING)
                saves.rules = None
            record(call, {}, operands, results, saves)
            return outputs
        except BaseException as error:
            note_written(error, values)
            raise


class ForwardCall:
    """One forward call: the op of its tape node. It holds what backward needs."""

    def __init__(
        self, pair: ForwardBackward, tensors: Sequence[Tensor | None], arrays: Sequence[Any],
        kept: Any, saved: Any, types: tuple[TensorType, ...],
    ):  # fmt: skip
        self.pair = pair
        self.name = pair.function.traced.name
        self.tensors = tensors
        self.arrays = arrays
        self.values: tuple[Any, ...] | None = (*kept, *saved)
        self.types = types  # of the operands, and of their gradients
        self.versions = [None if t is None else t._counter[0] for t in tensors]
        self.places: Sequence[Any] | None = None
        """Where backward is to write the gradient of each operand, None for anywhere."""

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
        influenced = pair.influenced
        if any([g is None for g in incoming]):
            rows = [row for row, g in zip(pair.split.influences, incoming) if g is not None]
            influenced = [any([row[i] for row in rows]) for i in range(len(influenced))]
        return tuple([g if is_behind else None for g, is_behind in zip(computed, influenced)])

    def _gradients(self, cotangents: list[Tensor]) -> Any:
        pair = self.pair
        if STATE.grad_enabled:
            self._check(range(len(self.tensors)))
            return pair.function.derivative()(
                [*self.tensors, *cotangents],
                [*self.arrays, *[g._array("backward()") for g in cotangents]],
            )
        self._check(i for i in pair.split.saved_inputs if i not in pair.split.copied)
        assert self.values is not None
        incoming = [g._array("backward()") for g in cotangents]
        arrays = [*self.values, *incoming]
        holes, places = pair.split.holes, self.places
        if places is None or len(places) != len(holes) or STATE.observer is not None:
            values = run(pair.backward, arrays)
        else:
            values = pair.backward.run(arrays, [x for x, hole in zip(places, holes) if hole])
        return self._tensors(iter(values))

    def _tensors(self, arrays: Iterator[Any]) -> list[Tensor | None]:
        """The gradients of all operands: None where backward computes none."""
        gradients: list[Tensor | None] = []
        for hole, type in zip(self.pair.split.holes, self.types, strict=True):
            gradients.append(made_of(next(arrays), type) if hole else None)
        return gradients

    def _check(self, positions: Any) -> None:
        for i in positions:
            tensor = self.tensors[i]
            if tensor is not None and tensor._counter[0] != self.versions[i]:
                name, _, _ = self.pair.function.traced.inputs[i]
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: input {name!r} ({tensor.tensor_type}) of the compiled "
                    f"{self.name} is at version {tensor._counter[0]}; expected version "
                    f"{self.versions[i]} instead."
                )


def _zeros_of(type: TensorType) -> Tensor:
    return make(np.zeros(type.shape, type.dtype.numpy), type)
