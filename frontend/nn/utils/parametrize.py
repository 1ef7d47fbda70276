"""`torch.nn.utils.parametrize`: a parameter that is computed from others.

The module's class is replaced by a subclass with a property of the parameter's name; what it is
computed from stands in `module.parametrizations[name]`, under PyTorch's names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.container import ModuleDict, ModuleList
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_CACHE: list[dict[Any, Tensor]] = []
"""The values of parametrized tensors inside of `cached` blocks, one for each that is open."""


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once."""
    _CACHE.append(_CACHE[-1] if _CACHE else {})
    try:
        yield
    finally:
        _CACHE.pop()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to `original`, or to `original0`,
    `original1`, … where the first one's `right_inverse` gave several."""

    def __init__(self, modules: Any, original: Tensor, unsafe: bool = False):
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is not None:
                    with contextlib.suppress(
                        NotImplementedError
                    ):  # it has none for what it is set to
                        new = inverse(new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, list | tuple):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors "
                f"(list, tuple...). Got {type(new).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(new)
        for name, value in zip(self._names(), [new] if self.is_tensor else new):
            self._put(name, original, value)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _put(self, name: str, like: Tensor, value: Tensor) -> None:
        if not isinstance(like, Parameter):
            self.register_buffer(name, value)
        elif value is like:
            self.register_parameter(name, like)
        else:
            self.register_parameter(name, Parameter(value.detach(), like.requires_grad))

    def right_inverse(self, value: Tensor) -> None:
        """Set what is kept so that the parametrized tensor is `value`."""
        new: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            for name, each in zip(self._names(), [new] if self.is_tensor else new):
                getattr(self, name).data = each

    def forward(self) -> Any:
        first, *rest = list(self)
        value = first(*[getattr(self, name) for name in self._names()])
        for module in rest:
            value = module(value)
        return value


def _property(name: str) -> property:
    def get(self: Any) -> Tensor:
        if not _CACHE:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _CACHE[-1]:
            _CACHE[-1][key] = self.parametrizations[name]()
        return _CACHE[-1][key]

    def set_(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_)


def _setattr(self: Any, name: str, value: Any) -> None:
    """A parametrized name goes through its property, before a Module looks at what the value is."""
    if isinstance(getattr(type(self), name, None), property) and is_parametrized(self, name):
        object.__setattr__(self, name, value)
    else:
        Module.__setattr__(self, name, value)


def _inject(module: Module) -> None:
    kind = type(module)
    members = {"__setattr__": _setattr, "_parametrized_class": kind}
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)
    module.parametrizations = ModuleDict()


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have `module.tensor_name` computed by `parametrization`, after those it has. Without
    `right_inverse` the tensor is taken as what it is computed from. Raises ValueError where the
    module has no such parameter or buffer, or (unless `unsafe`) shape or dtype would change."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    original = module._parameters.get(tensor_name)
    original = module._buffers.get(tensor_name) if original is None else original
    if original is None:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    parametrizations = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        with no_grad():
            _check(parametrizations(), original, tensor_name)
    if not is_parametrized(module):
        _inject(module)
    delattr(module, tensor_name)
    module.parametrizations[tensor_name] = parametrizations
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    """As in PyTorch what is kept stays as it is, so that the parametrized tensor changes."""
    parametrizations: Any = module.parametrizations[name]
    if not unsafe:
        with no_grad():
            value = getattr(module, name)
            new = parametrization(value)
            _check(new, value, name)
            inverse = getattr(parametrization, "right_inverse", None)
            if inverse is not None:
                with contextlib.suppress(NotImplementedError):
                    _check(inverse(new), value, name)
    parametrizations.append(parametrization)
    parametrizations.unsafe |= unsafe


def _check(new: Any, original: Tensor, name: str) -> None:
    if not isinstance(new, Tensor):
        raise ValueError(
            f"A parametrization must return a tensor. Got {type(new).__name__} for '{name}'."
        )
    for what in ("dtype", "shape"):
        if getattr(new, what) != getattr(original, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"`unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(original, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(new, what)}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has a parametrized tensor, of this name."""
    parametrizations = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """A plain tensor again: with the value the parametrizations gave, or (not
    `leave_parametrized`) that of `original`. Raises ValueError where it is not parametrized, or
    there are several originals."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations: Any = module.parametrizations[tensor_name]
    original = getattr(parametrizations, parametrizations._names()[0])
    if not leave_parametrized and not parametrizations.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized"
            " in terms of a sequence of tensors."
        )
    with no_grad():
        value = getattr(module, tensor_name) if leave_parametrized else original
    kind: Any = type(module)
    delattr(kind, tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        module.__class__ = kind._parametrized_class
        del module.parametrizations
    if not isinstance(original, Parameter):
        module.register_buffer(tensor_name, value)
    elif parametrizations.is_tensor:
        original.data = value
        module.register_parameter(tensor_name, original)
    else:
        module.register_parameter(tensor_name, Parameter(value.detach(), original.requires_grad))
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class the module had before it was parametrized."""
    return getattr(type(module), "_parametrized_class", type(module))


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """The parametrizations of one module, and what they are computed from, for another too."""
    if not is_parametrized(from_module):
        return to_module
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        for each in source._names():
            setattr(target, each, getattr(source, each))
    return to_module
