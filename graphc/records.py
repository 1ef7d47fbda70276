"""Classes that are records: fields by name, made at once, compared by what they hold.

in : a class whose annotations are its fields, `@record` above it
out: the same with `__init__`, `__repr__`, `__eq__`, `__hash__`; frozen, and with slots, unless told
     otherwise

They mean what those of `dataclasses` mean. That module writes each method as text and has Python
compile it, at each import: half a millisecond a class, and the compiler has 350 of them, so that
they were most of what loading it takes. Here what is compiled once, for all classes with as many
fields, is a template, of which a class's methods are copies with its own names.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, TypeVar, dataclass_transform, overload

_T = TypeVar("_T")
_set = object.__setattr__


class Field:
    """One field of a record: its name, and what `field` was told."""

    __slots__ = ("compare", "default", "factory", "hash", "init", "name", "repr")

    def __init__(
        self, default: Any, factory: Any, init: bool, shown: bool, compare: bool, hashed: bool
    ):
        self.name = ""
        self.default, self.factory, self.init = default, factory, init
        self.repr, self.compare, self.hash = shown, compare, hashed


class _Made:
    """The default of an argument that each call makes."""

    __slots__ = ("factory",)

    def __init__(self, factory: Callable[[], Any]):
        self.factory = factory


_NONE = object()


def field(
    *, default: Any = _NONE, default_factory: Any = _NONE, init: bool = True, repr: bool = True,
    compare: bool = True, hash: bool | None = None,
) -> Any:  # fmt: skip
    """What stands for a field's default: its value, or what makes one for each object. `init`:
    whether it is an argument; `repr`, `compare`, `hash`: whether the text, `==`, and the hash tell
    of it (`hash`: as `compare` where it is None)."""
    return Field(default, default_factory, init, repr, compare, compare if hash is None else hash)


@overload
def record(cls: type[_T], /) -> type[_T]: ...
@overload
def record(
    *, frozen: bool = ..., slots: bool = ..., eq: bool = ..., weakref_slot: bool = ...
) -> Callable[[type[_T]], type[_T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(
    cls: type[_T] | None = None, /, *, frozen: bool = True, slots: bool = True, eq: bool = True,
    weakref_slot: bool = False,
) -> Any:  # fmt: skip
    """The class with the methods of a record. `eq=False`: compared by identity. TypeError for a
    field without a default behind one that has one, ValueError for a default that all would share
    and may change."""
    if cls is None:
        return functools.partial(
            _record, frozen=frozen, slots=slots, eq=eq, weakref_slot=weakref_slot
        )
    return _record(cls, frozen, slots, eq, weakref_slot)


def fields(kind: Any) -> tuple[Field, ...]:
    """Those of a record or a class of records, in order; TypeError for what is none."""
    if not is_record(kind):
        raise TypeError(f"{kind!r} is no record")
    known: tuple[Field, ...] = kind.__record_fields__
    return known


def is_record(kind: Any) -> bool:
    """Whether this is a record, or a class of them."""
    return hasattr(kind, "__record_fields__")


def replace(instance: _T, /, **changes: Any) -> _T:
    """A record like this one but for these fields."""
    for each in fields(instance):
        if each.init and each.name not in changes:
            changes[each.name] = getattr(instance, each.name)
    return instance.__class__(**changes)


def as_dict(instance: Any) -> dict[str, Any]:
    """The fields of a record by name, and of records that are fields, or in tuples of them."""
    return {each.name: _plain(getattr(instance, each.name)) for each in fields(instance)}


def _plain(value: Any) -> Any:
    if type(value) is tuple:
        return tuple([_plain(each) for each in value])
    return as_dict(value) if is_record(value) else value


def _record(cls: type, frozen: bool, slots: bool, eq: bool, weakref_slot: bool) -> type:
    own = list(_own_fields(cls))
    by_name = {
        each.name: each
        for base in reversed(cls.__mro__[1:])
        for each in vars(base).get("__record_fields__", ())
    }
    by_name |= {each.name: each for each in own}
    every = tuple(by_name.values())
    members = {
        "__record_fields__": every,
        "__match_args__": tuple([each.name for each in every if each.init]),
        "__init__": _init(cls, every, frozen),
        "__repr__": _repr,
    }
    if eq:
        members["__eq__"] = _compared(cls, "eq", [each.name for each in every if each.compare])
        hashed = [each.name for each in every if each.hash]
        members["__hash__"] = _compared(cls, "hash", hashed) if frozen else None
    if frozen:
        members |= {"__setattr__": _refused, "__delattr__": _refused}
        members |= {"__getstate__": _state, "__setstate__": _set_state} if slots else {}
    # What the class has itself stays. (One with `__eq__` has None for its hash, by Python.)
    members = {name: each for name, each in members.items() if cls.__dict__.get(name) is None}
    names = [each.name for each in own]
    if slots:
        return _slotted(cls, names, members, weakref_slot)
    for name in names:
        if isinstance(cls.__dict__.get(name), Field):
            delattr(cls, name)
    for name, value in members.items():
        setattr(cls, name, value)
    return cls


def _slotted(cls: type, names: list[str], members: dict[str, Any], weakref_slot: bool) -> type:
    """Another class with these members and with slots, where the defaults would stand otherwise."""
    inherited = {name for base in cls.__mro__[1:-1] for name in vars(base).get("__slots__", ())}
    without = {*names, "__dict__", "__weakref__"}
    body = {name: value for name, value in cls.__dict__.items() if name not in without}
    body["__slots__"] = tuple([name for name in names if name not in inherited])
    if weakref_slot:
        body["__slots__"] += ("__weakref__",)
    slotted = type(cls)(cls.__name__, cls.__bases__, body | members)
    slotted.__qualname__ = cls.__qualname__
    return slotted


def _own_fields(cls: type) -> Iterator[Field]:
    """Those that the class itself declares."""
    for name, annotation in cls.__annotations__.items():
        if str(annotation).startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, _NONE)
        if not isinstance(default, Field):
            default = field(default=default)
        if default.default.__class__.__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name} is one object for all: use default_factory")
        default.name = name
        yield default


def _init(cls: type, every: tuple[Field, ...], frozen: bool) -> FunctionType:
    """Its arguments are the fields, in order."""
    kinds = ["" if each.init else "set" for each in every]
    defaults: list[Any] = []
    for i, each in enumerate(every):
        if each.factory is not _NONE:
            kinds[i] = "made"
            defaults.append(_Made(each.factory))
        elif each.default is not _NONE and each.init:
            defaults.append(each.default)
        elif each.init and defaults:
            raise TypeError(f"{cls.__name__}.{each.name} has no default, but one before it has")
    code = _init_of(tuple(kinds), frozen, hasattr(cls, "__post_init__"))
    values = {f"v{i}": each.default for i, each in enumerate(every)}
    return _function(cls, code, [each.name for each in every], values, tuple(defaults))


def _compared(cls: type, method: str, names: list[str]) -> FunctionType:
    """`__eq__` or `__hash__` of these fields."""
    return _function(cls, _comparing(method, len(names)), names)


def _function(
    cls: type, template: CodeType, names: list[str],
    values: Mapping[str, Any] = MappingProxyType({}), defaults: tuple[Any, ...] = (),
) -> FunctionType:  # fmt: skip
    """A template's code with names of fields for a0, a1, …, and with these constants."""
    by_place = {f"a{i}": name for i, name in enumerate(names)}
    consts = {**by_place, **values}
    code = template.replace(
        co_names=tuple([by_place.get(name, name) for name in template.co_names]),
        co_varnames=tuple([by_place.get(name, name) for name in template.co_varnames]),
        co_consts=tuple([consts.get(each, each) for each in template.co_consts]),
        co_qualname=f"{cls.__qualname__}.{template.co_name}",
    )
    function = FunctionType(code, globals(), template.co_name, defaults)
    function.__module__ = cls.__module__
    return function


@functools.cache
def _init_of(kinds: tuple[str, ...], frozen: bool, has_post_init: bool) -> CodeType:
    """Of fields of these kinds; "v0", "v1", … are the values of those that are no arguments."""
    values = {"": "a{0}", "made": "a{0}.factory() if a{0}.__class__ is _Made else a{0}"}
    values["set"] = "'v{0}'"
    arguments = ["self", *[f"a{i}" for i, kind in enumerate(kinds) if kind != "set"]]
    sets = "_set(self, 'a{0}', {1})" if frozen else "self.a{0} = {1}"
    lines = [sets.format(i, values[kind].format(i)) for i, kind in enumerate(kinds)]
    lines.append("self.__post_init__()" if has_post_init else "pass")
    return _compiled("__init__", ", ".join(arguments), "; ".join(lines))


@functools.cache
def _comparing(method: str, count: int) -> CodeType:
    own, others = (
        "(" + "".join([f"{which}.a{i}, " for i in range(count)]) + ")"
        for which in ("self", "other")
    )
    if method == "hash":
        return _compiled("__hash__", "self", f"return hash({own})")
    equal = f"return {own} == {others} if other.__class__ is self.__class__ else NotImplemented"
    return _compiled("__eq__", "self, other", equal)


def _compiled(name: str, arguments: str, body: str) -> CodeType:
    scope: dict[str, Any] = {}
    exec(compile(f"def {name}({arguments}): {body}", __file__, "exec"), scope)
    code: CodeType = scope[name].__code__
    return code


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refused(self: Any, name: str, *value: Any) -> None:
    raise AttributeError(f"cannot change field {name!r} of a {type(self).__name__}: it is frozen")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        _set(self, each.name, value)
