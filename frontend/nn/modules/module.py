"""`Module`: a tree of layers that holds parameters, buffers and submodules, and its own state.

What is assigned to an attribute decides where it goes: a Parameter, a Module and (once the name is
registered, or made by `Buffer`) a buffer go to their dictionaries; anything else is a plain
attribute. What else a Module does stands beside this file: walking in `tree.py`, changing in
`conversion.py`, saving in `state_dict.py`, running with hooks in `hooks.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from frontend.engine.tensors.epoch import HookRegistry, Registry, changed
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.checks import class_name, type_name
from frontend.nn.modules.conversion import Conversion

# The hooks of all modules are registered here, as in PyTorch.
from frontend.nn.modules.global_hooks import (  # noqa: F401
    BUFFER_HOOKS,
    MODULE_HOOKS,
    PARAMETER_HOOKS,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from frontend.nn.modules.global_hooks import (
    BUFFER_HOOKS as _global_buffer_registration_hooks,  # noqa: F401
)
from frontend.nn.modules.global_hooks import (
    MODULE_HOOKS as _global_module_registration_hooks,  # noqa: F401
)
from frontend.nn.modules.global_hooks import (
    PARAMETER_HOOKS as _global_parameter_registration_hooks,  # noqa: F401
)
from frontend.nn.modules.hooks import Hooks
from frontend.nn.modules.loading import IncompatibleKeys as _IncompatibleKeys  # noqa: F401
from frontend.nn.modules.own_state import EXTRA_STATE
from frontend.nn.modules.state_dict import StateDict
from frontend.nn.modules.tree import Tree
from frontend.nn.parameter import Buffer, Parameter
from graphc.system import IMPORTING, import_module

__all__ = ["Module"]

_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE  # the name that libraries ask for


class _Slot(NamedTuple):
    """One of the three registries: which values belong in it, and how errors call them."""

    registry: str
    type: Any
    what: str
    wanted: str
    hooks: dict[int, Any]


class Module(Tree, Conversion, StateDict, Hooks):
    """Base of all layers and models. A subclass calls `super().__init__()`, assigns its parts and
    defines `forward`; calling the module runs `forward`, and the hooks around it."""

    training: bool
    call_super_init: bool = False
    """Whether `__init__` hands its arguments on to the next class among the bases."""
    _compiled_call_impl: Any = None
    dump_patches: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            name = type(self).__name__
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            count = len(args) + 1
            raise TypeError(f"{name}.__init__() takes 1 positional argument but {count} were given")
        put = self.__dict__.__setitem__
        for name, make in _STATE.items():
            put(name, make())
        changed()
        if STATE.mode is not None:
            put("_born_in", id(STATE.mode))
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Modules pickled before an attribute existed, or was of its type, get it here."""
        self.__dict__.update(state)
        for name, make in _STATE.items():
            if name not in state:
                self.__dict__[name] = make()
            elif isinstance(state[name], dict) and type(state[name]) is not make:
                self.__dict__[name] = make(state[name])
        changed()

    # -- running -----------------------------------------------------------------------------

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """What the module computes. Every subclass that is called defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        if STATE.below is not None and STATE.mode is None:
            return STATE.below.call(self, args, kwargs)
        return self._call_impl(*args, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Let calls of this module run compiled from now on: `frontend.compile`, which takes the
        arguments, in place. Copies and pickles are not compiled."""
        with IMPORTING:
            from frontend.engine.compiled.compiler import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)

    def _compiled_as(self, options: Any) -> Any:
        """What `frontend.compile` makes of it: a Module."""
        return import_module("frontend._dynamo.eval_frame").OptimizedModule(self, options)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_compiled_call_impl"}

    # -- attributes --------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__  # each registry by its name: a layer's call is half such reads
        registry = attributes.get("_parameters")
        if registry is not None and name in registry:
            return registry[name]
        registry = attributes.get("_modules")
        if registry is not None and name in registry:
            return registry[name]
        registry = attributes.get("_buffers")
        if registry is not None and name in registry:
            return registry[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if STATE.mode is not None:
            self._check_write(name, value)
        if isinstance(value, Parameter):
            self._make_room(_PARAMETERS, name, "parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._make_room(_MODULES, name, "module")
            self._modules[name] = _shown(_MODULES, self, name, value)
        elif isinstance(value, Buffer):
            self._make_room(_BUFFERS, name, "buffer")
            buffer: Any = value
            self.register_buffer(name, buffer, buffer.persistent)
        else:
            self._set_other(name, value)

    def _set_other(self, name: str, value: Any) -> None:
        """Assign what no registry claims by its type: to a name that is registered, or plainly."""
        for slot in _SLOTS:
            registry = self.__dict__.get(slot.registry)
            if registry is not None and name in registry:
                _check_assigned(slot, name, value)
                shown = value is not None or slot is not _PARAMETERS
                registry[name] = _shown(slot, self, name, value) if shown else None
                return
        object.__setattr__(self, name, value)
        changed()

    def _check_write(self, name: str, value: Any) -> None:
        """Raise TraceError in a trace, unless the module was made in that trace, or the value is a
        tensor that each call can assign."""
        mode = STATE.mode
        if mode is None or self.__dict__.get("_born_in") == id(mode):
            return
        # None is no value that a name has which is not there.
        new = value is None and name not in self.__dict__
        is_state = isinstance(value, Tensor) and not isinstance(value, Parameter)
        mode.write_attribute(self, name, _GONE if new else value, is_state)

    def _make_room(self, slot: _Slot, name: str, early: str) -> None:
        """Take the name from wherever it stood before, for a registry to take it."""
        if slot.registry not in self.__dict__:
            raise AttributeError(f"cannot assign {early} before Module.__init__() call")
        for other in _SLOTS:
            if other is not slot:
                self.__dict__[other.registry].pop(name, None)
        self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        self._check_write(name, _GONE)
        for slot in _SLOTS:
            if name in self.__dict__.get(slot.registry, ()):
                del self.__dict__[slot.registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)
        changed()

    def __dir__(self) -> list[str]:
        registered = (name for slot in _SLOTS for name in self.__dict__.get(slot.registry, ()))
        names = {*super().__dir__(), *registered}
        return sorted(name for name in names if not name[:1].isdigit())

    # -- building ----------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`; None reserves the name (`bias=False`).

        Raises KeyError for a bad or taken name, TypeError for anything but a Parameter or None,
        ValueError for one that an operation made.
        """
        self._check_name(_PARAMETERS, name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        # As in PyTorch, None is shown of buffers and modules, not of parameters.
        shown = param is not None
        self._parameters[name] = _shown(_PARAMETERS, self, name, param) if shown else None

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: state that is no parameter. A buffer that is not `persistent` is left out
        of `state_dict`. Raises KeyError for a bad or taken name, TypeError for no tensor."""
        self._check_name(_BUFFERS, name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = _shown(_BUFFERS, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under `name`. Raises KeyError for a bad or taken name, TypeError for anything
        but a Module or None."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{class_name(module)} is not a Module subclass")
        self._check_name(_MODULES, name)
        self._modules[name] = _shown(_MODULES, self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, slot: _Slot, name: str) -> None:
        if slot.registry not in self.__dict__:
            raise AttributeError(f"cannot assign {slot.what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{slot.what} name should be a string. Got {class_name(name)}")
        if "." in name:
            raise KeyError(f'{slot.what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{slot.what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[slot.registry]:
            raise KeyError(f"attribute '{name}' already exists")
        if STATE.mode is not None:
            self._check_write(name, self.__dict__[slot.registry])

    # -- text --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of `repr`; layers define it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        parts = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(child).replace("\n", "\n  ")
            for name, child in self._modules.items()
        ]
        if not children and len(parts) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join([*parts, *children]) + "\n)"


_GONE = object()

# The attributes of every module, in PyTorch's order, and what they start as.
_STATE: dict[str, Any] = {
    "training": lambda: True,
    "_parameters": Registry,
    "_buffers": Registry,
    "_non_persistent_buffers_set": set,
    "_backward_pre_hooks": HookRegistry,
    "_backward_hooks": HookRegistry,
    "_is_full_backward_hook": lambda: None,
    "_forward_hooks": HookRegistry,
    "_forward_hooks_with_kwargs": HookRegistry,
    "_forward_hooks_always_called": HookRegistry,
    "_forward_pre_hooks": HookRegistry,
    "_forward_pre_hooks_with_kwargs": HookRegistry,
    "_state_dict_hooks": HookRegistry,
    "_state_dict_pre_hooks": HookRegistry,
    "_load_state_dict_pre_hooks": HookRegistry,
    "_load_state_dict_post_hooks": HookRegistry,
    "_modules": Registry,
}

_PARAMETERS = _Slot(
    "_parameters", Parameter, "parameter", "parameter '{}' (torch.nn.Parameter", PARAMETER_HOOKS
)
_MODULES = _Slot("_modules", Module, "module", "child module '{}' (torch.nn.Module", MODULE_HOOKS)
_BUFFERS = _Slot(
    "_buffers", Tensor, "buffer", "buffer '{}' (torch.nn.Buffer, torch.Tensor", BUFFER_HOOKS
)
_SLOTS = (_PARAMETERS, _MODULES, _BUFFERS)


def _check_assigned(slot: _Slot, name: str, value: Any) -> None:
    if value is not None and not isinstance(value, slot.type):
        wanted = slot.wanted.format(name)
        raise TypeError(f"cannot assign '{class_name(value)}' as {wanted} or None expected)")


def _shown(slot: _Slot, module: Module, name: str, value: Any) -> Any:
    """What is registered after the registration hooks of all modules saw it."""
    for hook in slot.hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value
