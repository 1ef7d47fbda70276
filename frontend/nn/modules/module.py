"""`Module`: a tree of layers that holds parameters, buffers and submodules, and its own state.

What is assigned to an attribute decides where it goes: a Parameter, a Module and (once the name is
registered) a buffer go to their ordered dictionaries; anything else is a plain attribute.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from frontend import tracer
from frontend.nn.checks import class_name, type_name
from frontend.nn.modules.state_dict import IncompatibleKeys, load_into, state_of
from frontend.nn.parameter import Parameter
from frontend.state import STATE
from frontend.tensor import Tensor

__all__ = ["Module"]


class _Slot(NamedTuple):
    """One of the three registries: which values belong in it, and how errors call them."""

    registry: str
    type: type
    what: str
    wanted: str
    early: str


class Module:
    """Base of all layers and models. A subclass calls `super().__init__()`, assigns its parts and
    defines `forward`; calling the module runs `forward`."""

    training: bool

    def __init__(self) -> None:
        put = self.__dict__.__setitem__
        put("training", True)
        put("_parameters", OrderedDict())
        put("_buffers", OrderedDict())
        put("_non_persistent_buffers_set", set())
        put("_modules", OrderedDict())
        if STATE.session is not None:
            put("_born_in", id(STATE.session))

    # -- running -----------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes. Every subclass that is called defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        tracer.note_module(self)
        return self.forward(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call_impl(*args, **kwargs)

    # -- attributes --------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        for slot in _SLOTS:
            registry = attributes.get(slot.registry)
            if registry is not None and name in registry:
                return registry[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_write(name, value)
        for slot in _SLOTS[:2]:
            if isinstance(value, slot.type):
                self._assign(slot, name, value)
                return
        for slot in _SLOTS:
            registry = self.__dict__.get(slot.registry)
            if registry is not None and name in registry:
                _check_assigned(slot, name, value)
                registry[name] = value
                return
        object.__setattr__(self, name, value)

    def _check_write(self, name: str, value: Any) -> None:
        """Raise TraceError in a trace, unless the module was made in that trace."""
        if STATE.session is not None and self.__dict__.get("_born_in") != id(STATE.session):
            tracer.check_attribute_write(self, name, value)

    def _assign(self, slot: _Slot, name: str, value: Any) -> None:
        """Register a parameter or module, taking the name from wherever it stood before."""
        if slot.registry not in self.__dict__:
            raise AttributeError(f"cannot assign {slot.early} before Module.__init__() call")
        for other in _SLOTS:
            if other is not slot:
                self.__dict__[other.registry].pop(name, None)
        self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)
        self.__dict__[slot.registry][name] = value

    def __delattr__(self, name: str) -> None:
        self._check_write(name, None)
        for slot in _SLOTS:
            if name in self.__dict__.get(slot.registry, ()):
                del self.__dict__[slot.registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        registered = (name for slot in _SLOTS for name in self.__dict__.get(slot.registry, ()))
        names = {*super().__dir__(), *registered}
        return sorted(name for name in names if not name[:1].isdigit())

    # -- building ----------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under `name`; None reserves the name (`bias=False`).

        Raises KeyError for a bad or taken name, TypeError for anything but a Parameter or None.
        """
        self._check_name(_PARAMETERS, name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_name(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(f"cannot assign non-leaf Tensor to parameter '{name}'")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: state that is no parameter. A buffer that is not `persistent` is left out
        of `state_dict`. Raises KeyError for a bad or taken name, TypeError for no tensor."""
        self._check_name(_BUFFERS, name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
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
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, slot: _Slot, name: str) -> None:
        if slot.registry not in self.__dict__:
            raise AttributeError(f"cannot assign {slot.early} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{slot.what} name should be a string. Got {type_name(name)}")
        if "." in name:
            raise KeyError(f'{slot.what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{slot.what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[slot.registry]:
            raise KeyError(f"attribute '{name}' already exists")

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path ("" is this one). Raises AttributeError."""
        found: Any = self
        for name in target.split(".") if target else ():
            found = _part(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        found = _part(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = _part(owner, name)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    # -- walking -----------------------------------------------------------------------------

    def _named_members(
        self,
        members: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Dotted name and value of what `members(module)` lists, over this module or its tree;
        None is left out, and a value met before too (where `remove_duplicate`)."""
        seen: set[int] = set()
        walk = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in walk if recurse else [(prefix, self)]:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Dotted name and parameter, each parameter once."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once: what an optimizer takes."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Dotted name and buffer, each buffer once."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (value for _, value in self.named_buffers(recurse=recurse))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Name and module of the direct children, each module once."""
        seen: set[int] = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Dotted path and module, this one first, parents before children."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every module, children before their parent (weight initialisation)."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- changing ----------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and below: it decides what Dropout does."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let autograd collect gradients of all parameters, or freeze them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or set them to zero in place."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach() * 0

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """Replace the data of parameters and their gradients, and the buffers, by `fn` of it."""
        for child in self.children():
            child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            parameter.data = fn(parameter.data)
            if parameter.grad is not None:
                parameter.grad.data = fn(parameter.grad.data)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, dtype: Any) -> Self:
        """Convert floating-point parameters and buffers to a floating-point dtype, in place.
        Raises TypeError for any other dtype."""
        from frontend.creation import zeros

        if not zeros((), dtype=dtype).is_floating_point():
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={dtype}"
            )
        return self._apply(lambda x: x.to(dtype) if x.is_floating_point() else x)

    def float(self) -> Self:
        return self._apply(lambda x: x.float() if x.is_floating_point() else x)

    def double(self) -> Self:
        return self._apply(lambda x: x.double() if x.is_floating_point() else x)

    # -- saving ------------------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> OrderedDict[str, Any]:
        """Parameters and persistent buffers by dotted name: detached references, not copies
        (`keep_vars` gives the tensors themselves)."""
        return state_of(self, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> IncompatibleKeys:
        """Copy values by name into parameters and buffers.

        Names on one side only are returned as `missing_keys` and `unexpected_keys`, or, with
        `strict`, are errors. All errors (shapes too) stand in one RuntimeError, raised before
        anything is copied. Raises TypeError where `state_dict` is no mapping.
        """
        return load_into(self, state_dict, strict)

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


_PARAMETERS = _Slot(
    "_parameters", Parameter, "parameter", "parameter '{}' (torch.nn.Parameter", "parameters"
)
_MODULES = _Slot("_modules", Module, "module", "child module '{}' (torch.nn.Module", "module")
_BUFFERS = _Slot(
    "_buffers", Tensor, "buffer", "buffer '{}' (torch.nn.Buffer, torch.Tensor", "buffer"
)
_SLOTS = (_PARAMETERS, _MODULES, _BUFFERS)


def _check_assigned(slot: _Slot, name: str, value: Any) -> None:
    if value is not None and not isinstance(value, slot.type):
        wanted = slot.wanted.format(name)
        raise TypeError(f"cannot assign '{type_name(value)}' as {wanted} or None expected)")


def _part(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
