"""What sort of thing a value is, found without running code of the user's: `getattr` and
`isinstance` may."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from types import (
    BuiltinMethodType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from frontend.engine.tensors.tensor import Tensor

OURS = {"frontend", "graphc", "numpy"}
LIBRARY = {*OURS, "builtins", *sys.stdlib_module_names} - {"__main__"}

SELF = {("forward",), ("__call__",)}
"""What runs of a function or Module that is called, as paths."""

CACHED = type(functools.lru_cache(len))
BOUND = (BuiltinMethodType, MethodWrapperType)
"""Methods of Python's classes, bound to an object: `d.get`."""
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
NAMING = (operator.attrgetter, operator.methodcaller)
"""They read attributes whose names they were given."""
CONTEXT = ContextVar
DESCRIPTORS: dict[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools.partialmethod: ("func",),
}
"""Attributes of a class that run functions when they are read of an object."""

_NOT_RUN = {
    "__init__", "__new__", "__del__", "__init_subclass__", "__class_getitem__", "__set_name__",
    "__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "__getstate__",
    "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__copy__", "__deepcopy__",
    "__subclasshook__", "__instancecheck__", "__subclasscheck__", "__sizeof__", "__dir__",
    "__class__", "__dict__", "__weakref__", "__doc__", "__module__",
}  # fmt: skip
_NAMED = (FunctionType, MethodType, BuiltinMethodType, type)
_GENERATES = {"__dataclass_fields__", "__attrs_attrs__"}
STANDS_FOR = "_stands_for"
"""The attribute of what is in the place of a function while a trace is under way."""
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")


def package(module: str) -> str:
    """The package of a module's name."""
    return module.partition(".")[0]


def module_of(kind: type) -> str:
    """The name of the module that a class is from. (Functions have it as an attribute each.)"""
    name = vars(kind).get("__module__")
    return name if isinstance(name, str) else "builtins"


def package_of(kind: type) -> str:
    """The package that a class is from."""
    return package(module_of(kind))


def name_of_module(module: ModuleType) -> str:
    """The name of a module; ours keep theirs where they are installed as another package."""
    spec = vars(module).get("__spec__")
    return spec.name if spec is not None and package(spec.name) in OURS else module.__name__


def is_nn_module(kind: type) -> bool:
    """Whether objects of a class are Modules, of a neural network."""
    return any("named_modules" in vars(each) for each in kind.__mro__)


def state_of(value: Any) -> dict[str, Any] | None:
    """The attributes an object has of its own; None where it can have none."""
    try:
        name = "_instance_state" if issubclass(type(value), Tensor) else "__dict__"
        state = object.__getattribute__(value, name)
    except (AttributeError, TypeError):
        return None
    return state if isinstance(state, dict) else None


def outside_trace(value: Any) -> Any:
    """What stands where `value` does while no trace is under way (tracing.effects)."""
    return (state_of(value) or {}).get(STANDS_FOR, value)


def special_methods(kind: type) -> Iterator[str]:
    """The special methods that a class of the user's defines, but for those that make objects and
    texts of them, and comparisons that were generated, of all fields."""
    generated = COMPARISONS if _GENERATES & vars(kind).keys() else ()
    for name, member in vars(kind).items():
        if not (name.startswith("__") and name.endswith("__")) or name in _NOT_RUN:
            continue
        code = getattr(member, "__code__", None)
        if name in generated and (code is None or code.co_filename.startswith("<")):
            continue
        if callable(member) or type(member) in DESCRIPTORS:
            yield name


def computes_by_attributes(kind: type) -> bool:
    """Whether methods of a class of ours compute by plain attributes of their object, which anybody
    may give others (a distribution's parameters, a scale): the class says so by `_computes_by`."""
    return getattr(kind, "_computes_by", None) is not None


def computed_by(kind: type, name: str, state: Collection[str]) -> Collection[str]:
    """Which of an object's attributes, those of `state`, what is named of its class computes by:
    what the class has in `_computes_by` for it, or all; none if it is of another class."""
    if not computes_by_attributes(kind) or name.startswith("__") or not hasattr(kind, name):
        return ()
    declared: Mapping[str, Collection[str]] = kind._computes_by  # type: ignore[attr-defined]
    return declared.get(name, state)


def holds_items(kind: type) -> bool:
    """Whether a class of a library is a container: what its methods give is what it holds."""
    return issubclass(kind, Mapping | Sequence | Set) or any(
        name in vars(each) for each in kind.__mro__ for name in ("__getattr__", "__getitem__")
    )


def is_generator(value: Any) -> bool:
    """Whether a value draws random numbers that are not the frontend's."""
    kinds = [("random", "Random"), ("numpy.random", "Generator"), ("numpy.random", "RandomState")]
    known = [vars(sys.modules[m])[name] for m, name in kinds if m in sys.modules]
    return issubclass(type(value), tuple(known))


def generator_state(value: Any) -> Any:
    """What a generator's next numbers follow from, comparable."""
    if hasattr(value, "getstate"):
        return value.getstate()
    return repr(value.get_state() if hasattr(value, "get_state") else value.bit_generator.state)


def file_of(module: str) -> str:
    """Where a module was loaded from, "" where nobody knows."""
    return (state_of(sys.modules.get(module)) or {}).get("__file__") or ""


def is_installed(module: str, file: str = "") -> bool:
    """Whether a module (a function's, in this file) is of a package that was installed: it is not
    followed."""
    return package(module) not in LIBRARY and "-packages" in (file or file_of(module))


def is_namespace(value: Any) -> bool:
    return issubclass(type(value), ModuleType)


def forward_of(function: Any) -> Any:
    """What runs when a function, Module or other object is called."""
    if inspect.getattr_static(function, "forward", None) is not None:
        return function.forward
    call = inspect.getattr_static(type(function), "__call__", None)
    return MethodType(call, function) if isinstance(call, FunctionType) else function


def runs_eagerly(function: Any) -> bool:
    """Whether `compiler.disable` marked what runs."""
    runs = forward_of(function)
    return issubclass(type(runs), _NAMED) and getattr(runs, "_runs_eagerly", False)


def name_in(function: Any) -> str | None:
    """The name of a function, None of other objects that can be called."""
    if issubclass(type(function), _NAMED):
        return str(function.__name__)
    name = (state_of(function) or {}).get("__name__")
    return name if isinstance(name, str) else None


def sets_plainly(kind: type) -> bool:
    """Whether assigning an attribute of an object of this class puts it into its dict, or is what
    Modules do, and runs nothing of the user's."""
    having = next(each for each in kind.__mro__ if "__setattr__" in vars(each))
    is_of_c = type(vars(having)["__setattr__"]) is WrapperDescriptorType
    return is_of_c if package_of(having) in LIBRARY - OURS else package_of(having) in OURS
