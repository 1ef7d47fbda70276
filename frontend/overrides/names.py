"""What can be taken over, by its names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import DECLARED, names_of, namespace
from frontend.namespace.lazy_names import LAZY
from frontend.overrides.interception import SPACES, is_public, public_functions
from graphc.system import import_module

_NOT_ASKED = (
    "arange", "as_tensor", "asarray", "empty", "empty_strided", "eye", "frombuffer", "from_numpy",
    "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm", "range",
    "tensor", "tril_indices", "triu_indices", "zeros",
)  # fmt: skip


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Functions that make tensors from no tensor: only modes take them over."""
    space = vars(sys.modules["frontend"])
    return {space[name] for name in _NOT_ASKED if name in space}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """By the namespace (a module, or Tensor), the functions that can be taken over."""
    known = set(public_functions()) - get_ignored_functions()
    spaces: list[Any] = [*(sys.modules[name] for name in SPACES), Tensor]
    by_space: dict[Any, list[Callable[..., Any]]] = {}
    for space in spaces:
        members = {**_late_functions(space), **vars(space)}
        values = [value for name, value in members.items() if is_public(name)]
        functions = [value for value in values if isinstance(value, FunctionType)]
        by_space[space] = [value for value in functions if value in known]
    return by_space


def _late_functions(space: Any) -> dict[str, Any]:
    """What a namespace has of modules that were imported late, beside what is written in it."""
    return namespace("torch") if space is sys.modules["frontend"] else {}


def _name_of_late(f: Any) -> str | None:
    """The name in `torch` of a function of such a module."""
    module = getattr(f, "__module__", None)
    for names in names_of(module) if module in LAZY and module in DECLARED else ():
        if names.declaration.function is f:
            return next(iter(names.in_namespace("torch")), None)
    return None


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results `Tensor.__torch_function__` leaves as they are."""
    members: Any = (Tensor._base, Tensor.grad)
    return {member.__get__ for member in members}


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether `func` is a method of Tensor, or the getter or setter of a property."""
    members = [member for base in Tensor.__mro__[:-1] for member in vars(base).values()]
    return func in members or isinstance(getattr(func, "__self__", None), property)


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name by which a function is reached: "torch.relu"; None where it is none of ours."""
    late = _name_of_late(f)
    if late is not None:
        return f"torch.{late}"
    owner = getattr(f, "__self__", None)
    spaces: list[Any] = [*map(import_module, SPACES), Tensor]
    for space in spaces:
        where = "torch.Tensor" if space is Tensor else f"torch{space.__name__[8:]}"
        bases = Tensor.__mro__[:-1] if space is Tensor else (space,)
        for name, value in ((k, v) for base in bases for k, v in vars(base).items()):
            if value is f or value == f:
                return f"{where}.{name}"
            if owner is not None and value is owner:
                return f"{where}.{name}.{f.__name__}"
    return None
