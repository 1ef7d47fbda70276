"""A mode in which a tensor stands for a batch of them: `vmap`'s.

in : a function of examples, and batches for its arguments
out: what it gives, as batches, by ops on whole batches (graphc.ops.batching)

Inside, a tensor has the type of one example, and as its value the tensor around that holds all of
them, or the one value that is the same for all. An op goes on with those in the mode around, a
trace or another batch as well as eager mode, which records them too: so there are two tapes, that
of the examples, on which gradients inside run, and that of the batches, which those outside follow.

What examples cannot do together ends the mode by `BatchingError`: reading a value, random numbers,
changes of tensors from outside, gradients that are added to `.grad`. Whoever began it then goes
through the examples one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

import numpy as np

from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.mode import UnwatchedSweep
from frontend.engine.tensors.state import STATE, keeping_graphs, recording, swap_mode
from frontend.engine.tensors.symbolic_numbers import outermost_first
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tensors.views import TensorMode, View, written_back
from graphc.errors import GraphError, note_errors
from graphc.ir.dims import Extent
from graphc.ir.own_frames import reached_user
from graphc.ir.types import DType, TensorType
from graphc.ops.batching import batched, is_defined, one_by_one
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.op import Op


class BatchingError(Exception):
    """The examples of a batch have to go one by one."""


class Examples:
    """The value of a tensor inside: `tensor`, around, with the examples along axis 0 if it
    `varies`; else it is the same for all."""

    __slots__ = ("mode", "tensor", "varies")

    def __init__(self, mode: BatchMode, tensor: Tensor, varies: bool):
        self.mode = mode
        self.tensor = tensor
        self.varies = varies


class BatchMode:
    """See the module. `size`: how many examples there are."""

    prepared: dict[Any, Any] | None = None
    records = True
    in_region = False

    def __init__(self, size: Extent):
        self.size = size
        self.around: TensorMode | None = STATE.mode
        self.refusal: BatchingError | None = None
        self._given: dict[int, Tensor] = {}  # the arguments of the function, by id
        if self.around is not None:
            self.prepared = self.around.prepared

    @property
    def open_sizes(self) -> bool:
        return self.around is not None and self.around.open_sizes

    def run(self, function: Callable[..., Any], arguments: Iterable[Any]) -> Any:
        """`function(*arguments)`, whose tensors are examples. Raises BatchingError where they have
        to go one by one, also if `function` has caught that."""
        errors: list[GraphError] = []
        failure: Exception | None = None
        before = note_errors(errors)
        mode: TensorMode = self
        try:
            swap_mode(mode)
            result = function(*arguments)
        except Exception as error:
            failure = error
        finally:
            swap_mode(self.around)
            note_errors(before)
        refused = next((e for e in errors if e.is_refusal and reached_user(e)), None)
        if self.refusal is None and refused is not None:
            self.refusal = BatchingError(str(refused))
        if self.refusal is not None:
            raise self.refusal from failure
        if before is not None:  # a trace around has to know of those that code may catch
            before += errors
        if failure is not None:
            raise failure
        return result

    def batch(self, tensor: Tensor) -> Tensor:
        """The examples that `tensor` holds along axis 0, as one inside."""
        type = tensor.tensor_type.with_shape(tensor.tensor_type.shape[1:])
        inside = make(Examples(self, tensor, True), type)
        inside._requires_grad = tensor.requires_grad
        self._given[id(inside)] = inside
        return inside

    def result(self, tensor: Tensor) -> tuple[Tensor, bool]:
        """What a result of the function is around, and whether it has examples along axis 0."""
        with self._inside():
            return self._taken(tensor)

    def whole(self, tensor: Tensor) -> Tensor:
        """A result of the function for all examples, along axis 0."""
        inner, varies = self.result(tensor)
        return inner if varies else inner.expand(self.size, *inner.shape).clone()

    def refuse(self, what: str) -> NoReturn:
        """Raise BatchingError, for good."""
        self.refusal = BatchingError(what)
        raise self.refusal

    @contextmanager
    def _inside(self) -> Iterator[None]:
        mode: TensorMode = self
        before = swap_mode(mode)
        try:
            yield
        finally:
            swap_mode(before)

    @contextmanager
    def _outside(self) -> Iterator[None]:
        before = swap_mode(self.around)
        try:
            yield
        finally:
            swap_mode(before)

    # -- ops and values ----------------------------------------------------------------------

    def emit(
        self, op: Any, operands: tuple[Tensor, ...], attributes: dict[str, Any],
        types: tuple[TensorType, ...], view: bool = False,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        if not isinstance(op, Op):
            self.refuse(f"{op.name}, which Python computes")
        if isinstance(op, Host):
            self.check_custom_gradient(operands)
        taken = [self._taken(x) for x in operands]
        varies = [each for _, each in taken]
        tensors = tuple([tensor for tensor, _ in taken])
        with self._outside():
            batches = self._batches(op, tensors, varies, attributes)
        if batches is None and isinstance(op, Composite):
            defined = op.define(*operands, **attributes)
            return defined if isinstance(defined, tuple) else (defined,)
        results = tuple(
            [make(Examples(self, x, any(varies)), type) for x, type in zip(batches or (), types)]
        )
        if view:
            first = operands[0]
            seen, tracked = first._counter[0], bool(STATE.grad_enabled)
            self.show(results[0], View(first, op, attributes, seen, tracked))
        return results

    def _batches(
        self, op: Op, tensors: tuple[Tensor, ...], varies: list[bool], attributes: dict[str, Any]
    ) -> tuple[Tensor, ...] | None:
        """The results of an op for all examples; None for a composite that has to go by its
        definition."""
        if not any(varies):
            return Tensor.context.apply(op, tensors, attributes)
        results = batched(op, tensors, varies, attributes, self.size)
        recorded = bool(STATE.grad_enabled) and any([x.requires_grad for x in tensors])
        if results is not None or is_defined(op, recorded):
            return results
        if not isinstance(self.size, int) or not self.size:
            self.refuse(f"{op.name}, which has no rule for batches of any size")
        return one_by_one(op, tensors, varies, attributes, self.size)

    def check_custom_gradient(self, operands: Iterable[Tensor]) -> None:
        """What is computed of these is recorded with a gradient rule of its own, by whoever calls:
        gradients from outside would miss it."""
        if STATE.grad_enabled and any([self._taken(x)[0].requires_grad for x in operands]):
            self.refuse("a gradient rule that is no op's")

    def _taken(self, tensor: Tensor) -> tuple[Tensor, bool]:
        """What an operand is around, and whether it varies."""
        value = self.value(tensor)
        if isinstance(value, Examples) and value.mode is self:
            return value.tensor, value.varies
        return tensor, False

    def value(self, tensor: Tensor) -> Any:
        view = tensor._view
        if type(tensor._value) is Examples and view is not None:
            if view.seen != tensor._counter[0]:
                self._refresh(tensor, view)
        return tensor._value

    def _refresh(self, tensor: Tensor, view: View) -> None:
        """Bring a view up to date with what it shows."""
        parent = make(self.value(view.parent), view.parent.tensor_type)
        with recording(view.tracked is True):
            tensor._value = parent._value if view.op is None else view.shown(parent)._value
        if view.tracked is None:
            tensor._value = self._detached(tensor._value)
        view.seen = tensor._counter[0]

    def _detached(self, value: Any) -> Any:
        if not isinstance(value, Examples):
            return value
        with self._outside():
            return Examples(self, value.tensor.detach(), value.varies)

    def constant(self, value: Any, type: TensorType) -> Tensor:
        if self.around is not None:
            with self._outside():
                tensor = self.around.constant(value, type)
        elif isinstance(value, np.ndarray):
            tensor = make(value, type)
        else:
            with np.errstate(all="ignore"):  # a number that a half type has not is infinite there
                one = np.asarray(value).astype(type.dtype.numpy)
            tensor = make(np.broadcast_to(one, type.shape), type)
        return make(Examples(self, tensor, False), type)

    def known(
        self, tensor: Tensor, what: str = "a trace", guarded: bool = False
    ) -> np.ndarray | None:
        inner, varies = self._taken(tensor)
        if varies:
            self.refuse(f"{what} needs a value, which differs between examples")
        if self.around is not None:
            with self._outside():
                return self.around.known(inner, what, guarded)
        return inner._value if isinstance(inner._value, np.ndarray) else None

    # -- views and changes in place ----------------------------------------------------------

    def capture(self, tensor: Any) -> bool:
        if not self._is_inside(tensor):
            self.refuse("a tensor from outside is changed")
        return False

    def view(self, result: Tensor, parent: Tensor) -> bool:
        return result._view is not None

    def show(self, result: Tensor, view: View) -> None:
        if view.op is None:
            result._value = self.value(view.parent)
        result._counter = view.parent._counter
        result._view = view

    def detach(self, result: Tensor, parent: Tensor) -> None:
        self.show(result, View(parent, None, {}, parent._counter[0], None))
        result._value = self._detached(self._held(result._value, parent))

    def _is_inside(self, tensor: Tensor) -> bool:
        """Whether a tensor is of this mode."""
        value = tensor._value
        return isinstance(value, Examples) and value.mode is self

    def _outer(self, tensor: Tensor) -> Tensor:
        """What a tensor is around: one from outside that same."""
        value: Any = tensor._value
        return value.tensor if self._is_inside(tensor) else tensor

    def _held(self, value: Any, tensor: Tensor) -> Examples:
        """The value of a tensor that may be from outside, as one inside."""
        if isinstance(value, Examples) and value.mode is self:
            return value
        return Examples(self, tensor, False)

    def assign(self, target: Tensor, new: Tensor) -> None:
        root = target
        while root._view is not None:
            root = root._view.parent
        if not self._is_inside(root) or id(root) in self._given:
            self.refuse("a tensor from outside is changed")
        value = self._held(self.value(new), new)
        if STATE.grad_enabled is False:
            value = self._detached(value)
        self._assign(target, value, new.tensor_type)

    def _assign(self, target: Tensor, value: Examples, type: TensorType) -> None:
        view = target._view
        if view is None:
            count_write(target._counter)
        else:
            whole = written_back(view, make(value, type))
            self._assign(view.parent, whole._value, whole.tensor_type)
            view.seen = target._counter[0]
        target._value = value

    def memory_order(self, tensor: Tensor) -> list[int] | None:
        value = tensor._value
        if self.around is not None and not self._is_inside(tensor):
            return self.around.memory_order(tensor)
        row_major = not isinstance(value, np.ndarray) or value.flags.c_contiguous
        return None if row_major else outermost_first(value.strides)

    def memory(self, tensor: Tensor, whole: bool) -> tuple[Tensor, int]:
        self.refuse("how a tensor lies in memory is asked")

    # -- gradients ---------------------------------------------------------------------------

    def read_flag(self, tensor: Any) -> None:
        if self.around is not None:
            self.around.read_flag(self._outer(tensor))

    def read_grad(self, tensor: Any) -> Any:
        if self.around is not None and not self._is_inside(tensor):
            return self.around.read_grad(tensor)
        return tensor._grad

    def write_grad(self, tensor: Any) -> None:
        self.refuse("`.grad` is written")

    def history(self, tensor: Any, needed: bool = False) -> Any:
        outer = self._outer(tensor)
        if outer is tensor:
            return None if self.around is None else self.around.history(tensor, needed)
        if id(tensor) not in self._given:
            return None
        with self._outside():
            history = None if outer.is_leaf else outer
        if history is not None and needed:
            self.refuse("the history of an example is asked")
        return history

    def backward(self, accumulates: bool) -> AbstractContextManager[UnwatchedSweep]:
        if accumulates:
            self.refuse("backward() adds to `.grad`")
        return nullcontext(UnwatchedSweep())

    # -- what comes from outside: the mode around knows it ------------------------------------

    def number(self, mapping: Any, key: Any, index: int | None, dtype: DType) -> Tensor:
        self.refuse("an optimizer steps")

    def guard(self, key: Any, make: Callable[[], Any], kept: Sequence[Any] = ()) -> Any:
        return make() if self.around is None else self.around.guard(key, make, kept)

    def write_attribute(self, owner: Any, name: str, value: Any, is_state: bool) -> None:
        self.refuse(f"the attribute {name!r} is assigned")

    # -- hooks, Modules, optimizers ------------------------------------------------------------

    def register_hook(self, handle: RemovableHandle, hook: Any) -> None:
        if self.around is not None:
            self.around.register_hook(handle, hook)

    def follow(self, value: Any) -> None:
        if self.around is not None:
            self.around.follow(value)

    def run_hook(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return hook(*args) if self.around is None else self.around.run_hook(hook, args)

    def module(self, module: Any) -> AbstractContextManager[None]:
        return nullcontext() if self.around is None else self.around.module(module)

    def update(self) -> AbstractContextManager[None]:
        self.refuse("an optimizer steps")

    def begin_parameter(self, parameter: Any) -> None:
        pass


def over_rows(
    function: Callable[..., Sequence[Tensor]], batches: Sequence[Tensor], at_once: int
) -> list[list[Tensor]]:
    """What `function` gives for the rows of batches of one size: parts of the results, by result;
    those of so many rows are computed at once, where they can be."""
    parts: list[Sequence[Tensor]] = []
    count = batches[0].shape[0]
    for start in range(0, count, at_once):
        chunk = [batch[start : start + at_once] for batch in batches]
        size = chunk[0].shape[0]
        mode = BatchMode(size)
        with keeping_graphs(start + size < count):
            try:
                results = mode.run(function, map(mode.batch, chunk))
                parts.append([mode.whole(x) for x in results])
                continue
            except BatchingError:
                pass
        for row in range(size):
            with keeping_graphs(start + row + 1 < count):
                results = function(*[batch[row] for batch in chunk])
                parts.append([x.unsqueeze(0) for x in results])
    return [list(column) for column in zip(*parts)]
