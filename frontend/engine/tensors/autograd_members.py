"""What a tensor is to the tape: its gradient, its history, its hooks."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

from frontend.engine.tensors.epoch import HookRegistry, changed
from frontend.engine.tensors.hooks import RemovableHandle, refuse_hook
from frontend.engine.tensors.host_values import HostValues
from frontend.engine.tensors.state import STATE, check_custom_gradient
from graphc.errors import ShapeError


class Elided:
    """Stands in `.grad` where a compiled step left no gradient behind."""


class AutogradMembers(HostValues):
    """Members of Tensor that concern differentiation."""

    # Class attributes with the common values, so that making a tensor sets only three.
    _edge: Any = None  # (tape node, result index) of what made it
    _requires_grad: bool = False
    _grad: Any = None
    _frozen: bool | None = None  # where it is frozen, whether it required gradients before
    _view: Any = None  # the View it is of another tensor
    _former: Any = None  # where its shape was changed in place, what it was before
    _accumulator: Any = None  # weak reference to the leaf's AccumulateGrad
    _hooks: Any = None  # of a leaf: called with its gradient
    _post_hooks: Any = None  # of a leaf: called after its gradient was added up
    _counter: list[Any]  # the version, shared among views, and maybe its `memory_tracking.Memory`

    if TYPE_CHECKING:
        _value: Any

        def type(self, dtype: Any = None) -> Any: ...

    @property
    def requires_grad(self) -> bool:
        if self._view is not None:
            self._view.bring_history(self)
        if STATE.mode is not None:
            STATE.mode.read_flag(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._edge is not None and not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if value and self._frozen is not None:
            raise RuntimeError("a frozen tensor cannot require gradients; unfreeze() it first")
        if value and not self.dtype.is_float:
            raise RuntimeError("Only Tensors of floating point dtype can require gradients")
        if STATE.mode is not None:
            STATE.mode.capture(self)
        self._requires_grad = bool(value)
        changed()

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        mode = STATE.mode
        if mode is not None and mode.history(self) is not None:
            return False
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Any:
        """The tape node that made the tensor; None for a leaf. Raises TraceError in a trace for one
        that was computed outside."""
        if self._view is not None:
            self._view.bring_history(self)
        if STATE.mode is not None and self._edge is None:
            STATE.mode.history(self, needed=True)
        return None if self._edge is None else self._edge[0].shown()

    @property
    def _base(self) -> Any:
        """The tensor this one is a view of, through all views between; None for no view. A change
        of its own shape makes none."""
        root, at = None, self
        while (view := at._view) is not None and view.tracked is not None:
            root, at = (root if view.parent is at._former else view.parent), view.parent
        return root

    def _is_view(self) -> bool:
        return self._base is not None

    @property
    def output_nr(self) -> int:
        return 0 if self._edge is None else self._edge[1]

    @property
    def grad(self) -> Any:
        mode = STATE.mode
        grad = self._grad if mode is None else mode.read_grad(self)
        if grad is None and self._edge is not None and self._requires_grad:
            _warn_of_non_leaf(self)
        if grad.__class__ is Elided:
            raise RuntimeError(
                "this gradient was not kept: the training step was compiled with keep_grads=False"
            )
        return grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, AutogradMembers):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type "
                    f"{type(value).__name__!r}"
                )
            kind = value.tensor_type
            if kind is not self.tensor_type and kind != self.tensor_type:
                raise ShapeError(
                    f"attempting to assign a gradient of type {kind} to a tensor of "
                    f"type {self.tensor_type}. Please ensure that the gradient and the tensor have "
                    "the same shape and dtype."
                )
        if STATE.mode is not None:
            STATE.mode.write_grad(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def _version(self) -> int:
        return self._counter[0]

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in `.grad`."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if STATE.mode is not None and self._edge is None:
            STATE.mode.history(self, needed=True)
        if self._edge is not None:
            node, index = self._edge
            node.retained = {**(node.retained or {}), index: weakref.ref(self)}

    @property
    def retains_grad(self) -> bool:
        """Whether the gradient of this non-leaf is kept in `.grad`."""
        node = self.grad_fn
        retaining = None if node is None else (node.retained or {}).get(self._edge[1])
        return retaining is not None and retaining() is self

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """`hook(tensor)` runs after a gradient was added to the `.grad` of this leaf. Returns a
        handle whose `remove()` takes the hook off."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._edge is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        self._check_hook()
        if self._post_hooks is None:
            self._post_hooks = HookRegistry()
        return RemovableHandle(self._post_hooks, hook)

    def register_hook(self, hook: Any) -> Any:
        """`hook(grad)` sees the gradient of this tensor, and may return another in its place.
        Returns a handle whose `remove()` takes the hook off."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        check_custom_gradient((self,))
        if self._edge is None:
            self._check_hook()
            if self._hooks is None:
                self._hooks = HookRegistry()
            return RemovableHandle(self._hooks, hook)
        node, index = self._edge
        if node.hooks is None:
            node.hooks = {}
        return RemovableHandle(node.hooks.setdefault(index, {}), hook)

    def _check_hook(self) -> None:
        """Raise TraceError for a hook of a leaf from outside of the trace under way."""
        if STATE.mode is not None and STATE.mode.capture(self):
            refuse_hook()


def _warn_of_non_leaf(tensor: AutogradMembers) -> None:
    """PyTorch's warning on reading a gradient that is not kept."""
    node, index = tensor._edge
    if index not in (node.retained or {}):
        import warnings

        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
            ".grad attribute won't be populated during autograd.backward(). If you indeed want "
            "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
            "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
            "the leaf Tensor instead.",
            stacklevel=3,
        )
