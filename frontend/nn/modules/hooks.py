"""Running a Module with the hooks around it, and registering them.

The order is PyTorch's: hooks of all modules before a module's own, pre-hooks before forward, then
forward hooks; backward hooks sit between those and the forward, on the tape.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.backward_hooks import (
    BackwardHook,
    run_hook,
    run_old_hook,
    warn_of_old_hooks,
)
from frontend.nn.modules.global_hooks import GLOBAL, MIXED, global_hooks_guard, refuse_in_trace

_GLOBAL_FORWARD, _GLOBAL_FORWARD_PRE = GLOBAL.forward, GLOBAL.forward_pre
_GLOBAL_BACKWARD, _GLOBAL_BACKWARD_PRE = GLOBAL.backward, GLOBAL.backward_pre


class Hooks:
    """Members of Module that concern calling it. Every registration returns a handle; its
    `remove()`, or the end of a `with` block around it, takes the hook off."""

    if TYPE_CHECKING:
        forward: Callable[..., Any]
        named_modules: Callable[[], Iterator[tuple[str, Any]]]
        _backward_pre_hooks: OrderedDict[int, Any]
        _backward_hooks: OrderedDict[int, Any]
        _is_full_backward_hook: bool | None
        _forward_hooks: OrderedDict[int, Any]
        _forward_hooks_with_kwargs: OrderedDict[int, Any]
        _forward_hooks_always_called: OrderedDict[int, Any]
        _forward_pre_hooks: OrderedDict[int, Any]
        _forward_pre_hooks_with_kwargs: OrderedDict[int, Any]

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        mode = STATE.mode
        if mode is not None:
            with mode.module(self):
                mode.guard(global_hooks_guard, global_hooks_guard)
                return self._call_with_hooks(args, kwargs)
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _GLOBAL_FORWARD
            or _GLOBAL_FORWARD_PRE
            or _GLOBAL_BACKWARD
            or _GLOBAL_BACKWARD_PRE
        ):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = _Call(self, args, kwargs)
        try:
            return call.run()
        except Exception:
            call.run_always_called()
            raise

    # -- forward -----------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before forward. What it returns replaces the arguments: a tuple
        all of them, anything else the only one. With `with_kwargs` it is `hook(module, args,
        kwargs)` and returns both. `prepend`: before the hooks that are there."""
        hooks, named = self._forward_pre_hooks, self._forward_pre_hooks_with_kwargs
        handle = RemovableHandle(hooks, hook, extra_dict=named)
        _note(handle, hook)
        if with_kwargs:
            named[handle.id] = True
        return _placed(hooks, handle, prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)`, or `hook(module, args, kwargs, output)` where
        `with_kwargs`, runs after forward. What it returns replaces the output. `prepend`: before
        the hooks that are there. `always_call`: also where the forward or a hook raises."""
        named, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        handle = RemovableHandle(self._forward_hooks, hook, extra_dict=[named, always])
        _note(handle, hook)
        if with_kwargs:
            named[handle.id] = True
        if always_call:
            always[handle.id] = True
        return _placed(self._forward_hooks, handle, prepend)

    # -- backward ----------------------------------------------------------------------------

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` runs when the gradients of the outputs are known. What it
        returns replaces them. `prepend`: before the hooks that are there."""
        refuse_in_trace()
        handle = RemovableHandle(self._backward_pre_hooks, hook)
        return _placed(self._backward_pre_hooks, handle, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of the inputs are known;
        grad_input has None for arguments without one. What it returns replaces them. `prepend`:
        before the hooks that are there.

        The module's inputs and outputs become views that must not be changed in place. Raises
        RuntimeError on a module with old backward hooks.
        """
        handle = self._register_backward(hook, True)
        return _placed(self._backward_hooks, handle, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The old form of `register_full_backward_hook`: `grad_input` and `grad_output` are those
        of the last operation in forward, so of a composite module it misses most. Raises
        RuntimeError on a module with full backward hooks."""
        return self._register_backward(hook, False)

    def _register_backward(self, hook: Any, full: bool) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(MIXED.format(where="on a single Module"))
        refuse_in_trace()
        self._is_full_backward_hook = full
        return RemovableHandle(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """The full and the old backward hooks, those of all modules first."""
        full: list[Any] = []
        old: list[Any] = []
        shared = full if GLOBAL.backward_is_full else old
        shared += GLOBAL.backward.values()
        own = full if self._is_full_backward_hook else old
        own += self._backward_hooks.values()
        return full, old

    def _get_backward_pre_hooks(self) -> list[Any]:
        """The backward pre-hooks, those of all modules first."""
        return [*GLOBAL.backward_pre.values(), *self._backward_pre_hooks.values()]


def _note(handle: RemovableHandle, hook: Any) -> None:
    """A hook that runs around forward was registered."""
    if STATE.mode is not None:
        STATE.mode.register_hook(handle, hook)


def _placed(
    hooks: OrderedDict[int, Any], handle: RemovableHandle, prepend: bool
) -> RemovableHandle:
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class _Call:
    """One call of a module that has hooks."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.called: set[int] = set()  # ids of hooks with always_call that ran

    def run(self) -> Any:
        module = self.module
        self._run_pre_hooks()
        full, old = module._get_backward_hooks()
        before = module._get_backward_pre_hooks()
        for hook in (*full, *old, *before):
            if STATE.mode is not None:
                STATE.mode.follow(hook)
        backward = BackwardHook(module, full, before) if full or before else None
        if backward is not None:
            self.args = backward.setup_input_hook(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        self._run_forward_hooks()
        if backward is not None:
            self.result = self._with_backward(backward)
        if old:
            self._attach_old(old)
        return self.result

    def _run_pre_hooks(self) -> None:
        module = self.module
        for number, hook in [*GLOBAL.forward_pre.items(), *module._forward_pre_hooks.items()]:
            if number not in module._forward_pre_hooks_with_kwargs:
                returned = run_hook(hook, module, self.args)
                if returned is not None:
                    self.args = returned if isinstance(returned, tuple) else (returned,)
                continue
            returned = run_hook(hook, module, self.args, self.kwargs)
            if returned is None:
                continue
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but "
                    f"got {returned}."
                )
            self.args, self.kwargs = returned

    def _run_forward_hooks(self) -> None:
        own = self.module
        for number, hook in [*GLOBAL.forward.items(), *own._forward_hooks.items()]:
            if number in own._forward_hooks_always_called or number in GLOBAL.forward_always:
                self.called.add(number)
            self._run_forward_hook(number, hook)

    def _run_forward_hook(self, number: int, hook: Any) -> None:
        own = self.module
        if number in own._forward_hooks_with_kwargs or number in GLOBAL.forward_with_kwargs:
            returned = run_hook(hook, own, self.args, self.kwargs, self.result)
        else:
            returned = run_hook(hook, own, self.args, self.result)
        if returned is not None:
            self.result = returned

    def run_always_called(self) -> None:
        """After an exception: the hooks registered with `always_call` that did not run. What they
        raise is said in a warning; the exception under way is the one that counts."""
        own = self.module
        kinds = (
            (GLOBAL.forward, GLOBAL.forward_always, "global module forward hook"),
            (own._forward_hooks, own._forward_hooks_always_called, "module forward hook"),
        )
        for hooks, always, what in kinds:
            for number, hook in list(hooks.items()):
                if number not in always or number in self.called:
                    continue
                try:
                    self._run_forward_hook(number, hook)
                except Exception as error:
                    warnings.warn(
                        f"{what} with ``always_call=True`` raised an exception that was silenced "
                        f"as another error was raised in forward: {error}",
                        stacklevel=4,
                    )

    # -- backward ----------------------------------------------------------------------------

    def _with_backward(self, backward: BackwardHook) -> Any:
        if not isinstance(self.result, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(self.result)}",
                stacklevel=6,
            )
        return backward.setup_output_hook(self.result)

    def _attach_old(self, hooks: list[Any]) -> None:
        """Hooks of the old kind go on the node of the first tensor among the results."""
        first = self.result
        while not isinstance(first, Tensor):
            if isinstance(first, dict):
                first = next(value for value in first.values() if isinstance(value, Tensor))
            else:
                first = first[0]
        node = first.grad_fn
        if node is None:
            return
        for hook in hooks:
            node.register_hook(functools.partial(run_old_hook, hook, self.module))
        warn_of_old_hooks(self.args, self.result, node)
