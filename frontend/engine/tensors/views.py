"""Views: what shows what, so that a mutation through one of them reaches the others.

Eager tensors share memory, so only the history (the place on the tape) has to follow; in a trace
the value does too (`session.assign`). Both are brought up to date when next looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.tensors.mode import Mode
from frontend.engine.tensors.state import enable_grad
from frontend.engine.tensors.tensor import LEAF_IN_PLACE, Tensor
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.dims import is_symbolic
from graphc.ir.handle import lift
from graphc.ops import elementwise, strided
from graphc.ops import movement as m
from graphc.ops.composite import stop_gradient


class View:
    """A tensor is `op` of `parent` (None: the same elements). `seen` is the version its value was
    made at (in a trace), `known` the version its history was. `tracked` says whether the tape knows
    the view: True; False for one made under no_grad; None for detach(), a view to nobody."""

    __slots__ = ("_former", "_parent", "attributes", "known", "op", "seen", "tracked")

    def __init__(
        self, parent: Tensor, op: Any, attributes: dict[str, Any], seen: int, tracked: bool | None
    ):
        self._parent = parent
        self._former = parent._former
        self.op = op
        self.attributes = attributes
        self.seen = self.known = seen
        self.tracked = tracked

    def shown(self, parent: Tensor) -> Tensor:
        """What the view shows of a parent."""
        (result,) = parent.context.apply(self.op, (parent,), self.attributes)
        return result

    @property
    def parent(self) -> Tensor:
        """What is shown: where its shape was changed in place since, what it was before that."""
        parent = self._parent
        while parent._former is not self._former:
            parent = parent._former
        return parent

    # -- history -----------------------------------------------------------------------------

    def bring_history(self, tensor: Tensor) -> None:
        """Where what `tensor` (this view) shows was changed since: its place on the tape anew."""
        if self.known == tensor._counter[0] or not self.tracked:
            return
        self.known = tensor._counter[0]
        if self.parent.requires_grad:
            self._rederive(tensor)

    def check_writable(self, recording: bool) -> None:
        """Raise RuntimeError where PyTorch forbids an in-place operation on this view with grad
        mode on; `recording` says whether it would be recorded."""
        if self.tracked is None:
            return
        root: Any = self.parent
        while root._view is not None and root._view.tracked is not None:
            root = root._view.parent
        if self.tracked is False and (recording or root._requires_grad):
            raise RuntimeError(
                "A view was created in no_grad mode and is being modified inplace with grad mode "
                "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. "
                "You can clarify your code by moving both the view and the inplace either both "
                "inside the no_grad block (if you don't want the inplace to be tracked) or both "
                "outside (if you want the inplace to be tracked)."
            )
        if root._requires_grad and root._edge is None and root.is_leaf:
            raise RuntimeError(f"a view of {LEAF_IN_PLACE}")
        view: View | None = self if recording else None
        while view is not None and view.tracked:
            if not view.can_write_back:
                raise _irreversible(view)
            view = view.parent._view

    @property
    def can_write_back(self) -> bool:
        """Whether the new value of the parent follows from that of the view."""
        if self.op is m.broadcast:
            return int(np.prod(self.attributes["shape"])) == self.parent.numel()
        if self.op is m.slice_:
            return all(step > 0 for step in self.attributes["step"])
        known = (None, stop_gradient, m.reshape, m.transpose, strided.diagonal)
        return self.op in known or getattr(self.op, "put_back", None) is not None

    def write_history(self, tensor: Tensor, new: Tensor) -> None:
        """`tensor` (this view) took the value and history of `new`: the parent is then made of what
        it was and of `new`, and the view is a view of that."""
        parent: Any = self.parent
        parent_value = written_back(self, new)
        if parent.requires_grad and not parent_value._requires_grad:
            # All of it is overwritten: what made it has a gradient, of zeros.
            everywhere = new.context.constant(np.ones(parent.tensor_type.shape, bool))
            parent_value = elementwise.where(everywhere, parent_value, parent)
        if parent._view is not None and parent._view.tracked:
            parent._view.write_history(parent, parent_value)
        else:
            retains = parent.retains_grad
            parent._edge, parent._requires_grad = parent_value._edge, parent_value._requires_grad
            if retains:
                parent.retain_grad()
        self.known = tensor._counter[0]
        self._rederive(tensor)

    def _rederive(self, tensor: Tensor) -> None:
        retains = tensor.retains_grad
        with enable_grad():
            again = self.shown(self.parent)
        tensor._edge, tensor._requires_grad = again._edge, again._requires_grad
        if retains:
            tensor.retain_grad()


def own(result: Tensor) -> Tensor:
    """`result`, a view of what was made for it alone and nobody has, as a tensor of its own."""
    result._view = None
    return result


TensorMode = Mode[Tensor, View]
"""What a mode under way is: the contract for the tensors and views there are."""


class Positions:
    """In place of a movement, where positions say what is shown. `compute` is as of an op."""

    name = "index"

    def __init__(self, places: np.ndarray | None = None):
        self.places = places

    def compute(self, arrays: Any, attributes: Any) -> tuple[Any]:
        if self.places is None:
            raise RuntimeError("where this view lies in memory depends on data; clone() it first")
        return (arrays[0].reshape(-1)[self.places],)


class IndexedView(View):
    """A view of elements at given positions: `take(parent)` are these, `put(parent, new)` is the
    parent with others there. `places`: where they are, counted row-major, if that is known."""

    __slots__ = ("put", "take")

    def __init__(
        self, parent: Tensor, take: Callable[[Any], Tensor], put: Callable[[Any, Any], Tensor],
        tracked: bool, places: np.ndarray | None = None,
    ):  # fmt: skip
        super().__init__(parent, Positions(places), {}, parent._counter[0], tracked)
        self.take = take
        self.put = put

    def shown(self, parent: Tensor) -> Tensor:
        return self.take(parent)

    @property
    def can_write_back(self) -> bool:
        return True


def written_back(view: View, new: Tensor) -> Tensor:
    """The new value of the view's parent where the view takes the value `new`."""
    if not view.can_write_back:
        raise _irreversible(view)
    shape = view.parent.tensor_type.shape
    if isinstance(view, IndexedView):
        return view.put(view.parent, new)
    if view.op is None or view.op is stop_gradient:
        return new
    if view.op is m.reshape or view.op is m.broadcast:
        return m.reshape(new, shape=shape)
    if view.op is m.transpose:
        inverse = m.inverse_permutation(view.attributes["permutation"])
        return m.transpose(new, permutation=inverse)
    if view.op is m.slice_:
        return _unsliced(view, new, shape)
    if view.op is strided.diagonal:
        return _off_diagonal(view, new, shape)
    put_back: Any = getattr(view.op, "put_back", None)
    whole: Tensor = put_back(new, view.parent)
    return whole


def _irreversible(view: View) -> TraceError:
    return TraceError(
        f"in-place operation on a view made by {view.op.name}, whose elements share memory",
        hint="clone() it first",
        location=user_location(),
    )


def _unsliced(view: View, new: Tensor, shape: tuple[int, ...]) -> Tensor:
    start, size, step = (view.attributes[name] for name in ("start", "size", "step"))
    span = tuple(max((n - 1) * by + 1, 0) for n, by in zip(size, step))
    geometry = {
        "low": start,
        "high": tuple(dim - at - n for dim, at, n in zip(shape, start, span)),
        "interior": tuple(by - 1 if n else 0 for n, by in zip(size, step)),
    }
    placed = m.pad(new, lift(0, new), **geometry)
    inside = new.context.constant(np.ones(() if is_symbolic(size) else size, bool))
    if is_symbolic(size):
        inside = m.broadcast(inside, shape=size)
    mask = m.pad(inside, lift(False, inside), **geometry)
    return elementwise.where(mask, placed, view.parent)


def _off_diagonal(view: View, new: Tensor, shape: tuple[int, ...]) -> Tensor:
    axis1, axis2 = view.attributes["axis1"], view.attributes["axis2"]
    place = {**view.attributes, "rows": shape[axis1], "columns": shape[axis2]}
    inside = new.context.constant(np.ones(new.tensor_type.shape, bool))
    mask = strided.diagonal_embed(inside, lift(False, inside), **place)
    placed = strided.diagonal_embed(new, lift(0, new), **place)
    return elementwise.where(mask, placed, view.parent)
