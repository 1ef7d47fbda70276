"""Views and mutation in a trace: what shows what, and what is put in place of what."""

from __future__ import annotations

import weakref
from typing import Any

from frontend.engine.tensors.state import STATE, recording
from frontend.engine.tensors.tensor import FROZEN, Tensor, make
from frontend.engine.tensors.views import IndexedView, View, written_back
from frontend.engine.tracing.layouts import Layouts
from frontend.engine.tracing.regions import Builder, TracedRegion
from graphc.ir.builder import Var
from graphc.ir.registry import lookup


class Mutations:
    """The part of a session that follows views and in-place operations."""

    builder: Builder
    regions: list[TracedRegion]
    layouts: Layouts
    watched: list[Any] | None

    def value(self, tensor: Tensor) -> Var:
        raise NotImplementedError

    def _derives(self, value: Var) -> bool:
        raise NotImplementedError

    def _stopped(self, value: Var) -> Var:
        raise NotImplementedError

    def show_movement(self, result: Tensor, parent: Tensor, op: Any, attributes: Any) -> None:
        """Record that `result` shows `parent` by a movement, where eager mode would not copy it."""
        if op.name == "reshape" and not self.layouts.shares(result, parent, attributes["shape"]):
            return
        self._show(result, View(parent, op, attributes, parent._counter[0], self._records))

    @property
    def _records(self) -> bool:
        return bool(STATE.grad_enabled) or (bool(self.regions) and STATE.grad_enabled is None)

    def show(self, result: Tensor, view: View) -> None:
        value = self.value(view.parent)
        if view.op is None:
            result._value = value
        if view.tracked is not None:
            view.tracked = self._records
        self._show(result, view)

    def _show(self, result: Tensor, view: View) -> None:
        result._counter = view.parent._counter
        result._view = view
        if self.watched is not None:
            self.watched.append(weakref.ref(result))

    def detach(self, result: Tensor, parent: Tensor) -> None:
        self.show(result, View(parent, None, {}, parent._counter[0], None))
        if self.regions:
            result._value = self._stopped(result._value)
            result._view.op = lookup("stop_gradient")

    def _refresh(self, tensor: Tensor, view: View) -> None:
        """Bring a view up to date with what it shows."""
        value = self.value(view.parent)
        if self.regions and tensor._value.context is not self.builder:
            # A view from around a region is refreshed around it, too.
            self.regions[-1].keep_state(tensor)
        is_complex = tensor.tensor_type.dtype.is_complex or view.parent.tensor_type.dtype.is_complex
        if isinstance(view, IndexedView) or (is_complex and view.op is not None):
            with recording(None):
                value = self.value(view.shown(make(value, view.parent.tensor_type)))
        elif view.op is not None:
            value = self.builder.apply(view.op, (value,), view.attributes)[0]
        tensor._value = value if view.tracked else self._stopped(value)
        view.seen = tensor._counter[0]

    def assign(self, target: Tensor, new: Tensor) -> None:
        self._assign(target, new, True)

    def _assign(self, target: Tensor, new: Tensor, derived: bool) -> None:
        """The value of `new` in place of that of `target`, and of what `target` is a view of.
        `derived`: gradients go to `new`, as long as grad mode is on; else to the old value."""
        if target._frozen is not None:
            raise RuntimeError(FROZEN)
        old, value = self.value(target), self.value(new)
        derived = derived and STATE.grad_enabled is not False
        if not derived and self._derives(value):
            value = self.builder.apply(lookup("straight_through"), (old, value), {})[0]
        if self.regions and target._value.context is not self.builder:
            self.regions[-1].keep_state(target)
        if self.regions and derived:
            self.regions[-1].derived_changes.add(id(target))
        view = target._view
        if view is not None:
            with recording(None):
                parent_value = written_back(view, make(value, new.tensor_type))
                self._assign(view.parent, parent_value, derived and view.tracked is not None)
            view.seen = target._counter[0]
        else:
            target._counter[0] += 1
        target._value = value
