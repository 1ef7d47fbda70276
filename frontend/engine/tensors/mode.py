"""What an op on tensors asks of the mode under way: the contract between tensors and a trace.

`STATE.mode` is None while ops compute at once (eager mode). Else it is what ops go to instead: a
`tracing.session.Session`, which records a graph, a `BatchMode`, whose tensors are batches, or a
`FakeMode`, which infers types only. The rest
of the frontend knows a mode by this Protocol alone, and no method hands out a part of the mode
(its builder, its guards): what is asked of those is asked here.

Nothing here is called in eager mode: code asks `STATE.mode` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from frontend.engine.tensors.hooks import RemovableHandle
    from graphc.ir.nodes import Location
    from graphc.ir.types import DType, TensorType

TensorT = TypeVar("TensorT")
"""What tensors are: a `Tensor`, which asks the mode, and so is built on this."""
ViewT = TypeVar("ViewT", contravariant=True)
"""How one of them shows another: a `View`."""


class Sweep(Protocol[TensorT]):
    """A run of `backward()` in a mode."""

    def reach(
        self, ends: Iterable[TensorT], targets: Iterable[TensorT], create_graph: bool
    ) -> None:
        """It comes to these ends of the tape, for the gradients of `targets`. Raises TraceError for
        what it would have to find behind those from outside."""

    def gradient_of(self, location: Location | None) -> AbstractContextManager[None]:
        """Ops inside are gradients of what stems from there."""

    def pass_on(self, gradients: list[tuple[TensorT, TensorT]], retain_graph: bool) -> None:
        """Gradients of tensors with a `history` go on into that, after each call."""


class UnwatchedSweep:
    """A sweep that the mode need not be told of."""

    def reach(self, ends: Iterable[Any], targets: Iterable[Any], create_graph: bool) -> None:
        pass

    def gradient_of(self, location: Location | None) -> AbstractContextManager[None]:
        return nullcontext()

    def pass_on(self, gradients: list[tuple[Any, Any]], retain_graph: bool) -> None:
        pass


class Mode(Protocol[TensorT, ViewT]):
    """What ops go to instead of computing. See the module. A Protocol of any tensors and views:
    these ask the mode, so it is they that are built on it."""

    prepared: dict[Any, Any] | None
    """What is known of ops in this mode (see `eager.prepared`); None: what eager mode knows."""

    records: bool
    """Whether ops make a graph, bodies of loops and branches (`tracing.bodies`) among them; else
    types alone."""

    @property
    def in_region(self) -> bool:
        """Whether the body of a loop or branch is under way."""

    @property
    def open_sizes(self) -> bool:
        """Whether sizes may be symbols."""

    # -- ops and values ----------------------------------------------------------------------

    def emit(
        self, op: Any, operands: tuple[TensorT, ...], attributes: dict[str, Any],
        types: tuple[TensorType, ...], view: bool = False,
    ) -> tuple[TensorT, ...]:  # fmt: skip
        """The results of `op`, of these types; the attributes are canonical. `view`: eager mode
        would show the first operand's memory."""

    def constant(self, value: Any, type: TensorType) -> TensorT:
        """An array of this type, or a number repeated to its shape."""

    def value(self, tensor: TensorT) -> Any:
        """The `_value` that a tensor has now: for another tensor that does not follow changes."""

    def known(
        self, tensor: TensorT, what: str = "a trace", guarded: bool = False
    ) -> np.ndarray | None:
        """The value of a tensor that depends on nothing from outside; None for any other. With
        `guarded` it may depend on captured tensors of bools and integers, of at most 64 KiB each,
        whose values are guarded from here on. Raises TraceError for a tensor of another trace,
        which `what` met."""

    # -- views and changes in place ----------------------------------------------------------

    def capture(self, tensor: Any) -> bool:
        """Whether a tensor is from outside; one that is has a state of its own from here on."""

    def view(self, result: TensorT, parent: TensorT) -> bool:
        """Whether eager mode gives `result`, `parent` in another shape, as a view, without a copy:
        then it is one from here on."""

    def show(self, result: TensorT, view: ViewT) -> None:
        """Make `result` a view, followed by the tape where it would be now."""

    def detach(self, result: TensorT, parent: TensorT) -> None:
        """Make `result` show `parent` without its gradient."""

    def assign(self, target: TensorT, new: TensorT) -> None:
        """The value of `new` in place of that of `target`, and of what `target` is a view of."""

    def memory_order(self, tensor: TensorT) -> list[int] | None:
        """Its axes from the outermost in the memory of eager mode; None where the elements follow
        each other there."""

    def memory(self, tensor: TensorT, whole: bool) -> tuple[TensorT, int]:
        """A tensor that is no view and where it begins in its memory, in elements. With `whole` the
        tensor is all of that memory, in a row, where there is more than the tensor's own; raises
        TraceError where gradients would come to it."""

    # -- gradients ---------------------------------------------------------------------------

    def read_flag(self, tensor: Any) -> None:
        """Whether a tensor requires gradients is asked."""

    def read_grad(self, tensor: Any) -> Any:
        """`.grad` of a tensor."""

    def write_grad(self, tensor: Any) -> None:
        """`.grad` of a tensor is about to be set: what it was before no longer matters."""

    def history(self, tensor: Any, needed: bool = False) -> Any:
        """The edge of the tape that a tensor from outside has there; None for a leaf, and what is
        made inside. Where it is `needed` and there is one, raises TraceError."""

    def backward(self, accumulates: bool) -> AbstractContextManager[Sweep[TensorT]]:
        """A sweep of gradients runs inside; `accumulates`: into `.grad` of leaves."""

    # -- what comes from outside -------------------------------------------------------------

    def number(self, mapping: Any, key: Any, index: int | None, dtype: DType) -> TensorT:
        """The number `mapping[key]` (or `mapping[key][index]`), read anew at each call: 0-d."""

    def guard(self, key: Any, make: Callable[[], Any], kept: Sequence[Any] = ()) -> Any:
        """The guard of that key: `make()`, once. Should the trace, or its first call, fail, the
        containers `kept` hold again what they do."""

    def write_attribute(self, owner: Any, name: str, value: Any, is_state: bool) -> None:
        """An attribute of a Module or optimizer is about to be assigned another value. Raises
        TraceError where calls would not repeat that."""

    # -- hooks, Modules, optimizers ------------------------------------------------------------

    def register_hook(self, handle: RemovableHandle, hook: Any) -> None:
        """A hook that runs around forward was registered."""

    def follow(self, value: Any) -> None:
        """A hook or Module is going to run: rely on what its code reads by name, on attributes."""

    def run_hook(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """`hook(*args)`. Raises TraceError where the hook keeps a tensor of the trace."""

    def module(self, module: Any) -> AbstractContextManager[None]:
        """A Module runs inside: rely on its attributes and hooks, and name its ops."""

    def update(self) -> AbstractContextManager[None]:
        """An optimizer's step runs inside."""

    def begin_parameter(self, parameter: Any) -> None:
        """Ops from here on update this parameter, until the step ends or comes to another."""
