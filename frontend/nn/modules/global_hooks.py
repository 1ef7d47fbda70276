"""Hooks that all Modules share. They run before a module's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.outside.check import Identical
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import Call, Source
from frontend.engine.tensors.epoch import HookRegistry
from frontend.engine.tensors.hooks import RemovableHandle, refuse_hook
from frontend.engine.tensors.state import tracing

MIXED = (
    "Cannot use both regular backward hooks and full backward hooks {where}. Please use only one "
    "of them."
)


class GlobalHooks:
    """One dictionary per kind, from the handle's id to the hook (or True, for what is known of
    hooks of other dictionaries)."""

    def __init__(self) -> None:
        self.backward_pre = HookRegistry()
        self.backward = HookRegistry()
        self.backward_is_full: bool | None = None
        self.forward_pre = HookRegistry()
        self.forward = HookRegistry()
        self.forward_always = HookRegistry()
        self.forward_with_kwargs = HookRegistry()

    def running(self) -> tuple[HookRegistry, ...]:
        """The hooks that run when a module is called, or in backward."""
        return (self.backward_pre, self.backward, self.forward_pre, self.forward)


GLOBAL = GlobalHooks()
PARAMETER_HOOKS = HookRegistry()
BUFFER_HOOKS = HookRegistry()
MODULE_HOOKS = HookRegistry()


class GlobalHooksSource(Source[list[Any]]):
    """The hooks of all Modules."""

    __slots__ = ()

    by_epoch = True

    def read(self, call: Call = ()) -> list[Any]:
        return [hook for hooks in GLOBAL.running() for hook in (*hooks.values(), None)]


def global_hooks_guard() -> Guard:
    """A specialization relies on the hooks of all modules being the same."""
    source = GlobalHooksSource()
    then = source.read()
    count = sum(hook is not None for hook in then)
    why = "a hook of all modules was registered or removed"
    return Guard(source, Identical(then, why, f"{count} hooks of all modules"))


def refuse_in_trace() -> None:
    """Raise TraceError for a hook registered while tracing."""
    if tracing():
        refuse_hook()


def _added(hooks: HookRegistry, hook: Any) -> RemovableHandle:
    refuse_in_trace()
    return RemovableHandle(hooks, hook)


# -- running -------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` runs before the forward of every module; what it returns replaces the
    arguments. Returns a handle that removes it."""
    return _added(GLOBAL.forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)`, or `hook(module, args, kwargs, output)` where `with_kwargs`,
    runs after the forward of every module; what it returns replaces the output. `always_call`: also
    where the forward raises. Returns a handle that removes it."""
    refuse_in_trace()
    extra = [GLOBAL.forward_with_kwargs, GLOBAL.forward_always]
    handle = RemovableHandle(GLOBAL.forward, hook, extra_dict=extra)
    if with_kwargs:
        GLOBAL.forward_with_kwargs[handle.id] = True
    if always_call:
        GLOBAL.forward_always[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` sees the gradients of every module's outputs; what it returns
    replaces them. Returns a handle that removes it."""
    return _added(GLOBAL.backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` sees the gradients of every module's inputs; what it
    returns replaces them. Returns a handle that removes it. Raises RuntimeError where an old
    backward hook of all modules was registered before."""
    return _backward(hook, True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The old form of `register_module_full_backward_hook`: it sees the gradients around the last
    operation only. Returns a handle that removes it. Raises RuntimeError where a full backward hook
    of all modules was registered before."""
    return _backward(hook, False)


def _backward(hook: Any, full: bool) -> RemovableHandle:
    if GLOBAL.backward_is_full is (not full):
        raise RuntimeError(MIXED.format(where="as a global Module hook"))
    handle = _added(GLOBAL.backward, hook)
    GLOBAL.backward_is_full = full
    return handle


# -- registration --------------------------------------------------------------------------------


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, parameter)` runs when any module registers a parameter; what it returns
    is registered instead. Returns a handle that removes it."""
    return _added(PARAMETER_HOOKS, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` runs when any module registers a buffer; what it returns is
    registered instead. Returns a handle that removes it."""
    return _added(BUFFER_HOOKS, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` runs when any module registers a child; what it returns is
    registered instead. Returns a handle that removes it."""
    return _added(MODULE_HOOKS, hook)
