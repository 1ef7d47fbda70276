"""What must hold of a value that lives outside of a compiled function. Where it lives is a `Source`
(source.py).

in : the value that stands there now
out: whether the program that a trace gave still serves; if not, what changed
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from frontend.engine.outside.constants import Constants
from frontend.engine.outside.source import MISSING, MemberSource, PlaceSource, Source
from frontend.engine.tensors.epoch import HookRegistry, Registry
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import TensorType

T_contra = TypeVar("T_contra", contravariant=True)

PLAIN = (int, float, bool, str, type(None))
_EXACT = {*PLAIN, bytes, complex}
_REGISTRIES = (Registry, HookRegistry)


def is_plain(value: object) -> bool:
    """Whether a value is a number, a text, None, or a tuple of such, with nothing added to it by a
    class of its own."""
    kind = type(value)
    if kind in _EXACT:
        return True
    if issubclass(kind, tuple):
        return not kind.__dictoffset__ and all(map(is_plain, tuple.__iter__(value)))  # type: ignore[arg-type]
    return issubclass(kind, PLAIN) and kind.__module__ == "numpy"


def _has_nothing(value: object) -> bool:
    """Whether it is a tuple without a number or text in it."""
    return isinstance(value, tuple) and all(map(_has_nothing, tuple.__iter__(value)))


def same(left: object, right: object) -> bool:
    """One object, or plain values that are equal and of one type: NaN is the same as itself, -0.0
    is not 0.0."""
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right) or not is_plain(left):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left.hex() == right.hex()
    return repr(left) == repr(right) if kind is complex else bool(left == right)


def value_text(value: object, then: object = None) -> str:
    """A value in a reason."""
    if is_plain(value):
        return repr(value)
    return f"{'another' if type(value) is type(then) else 'a'} {type(value).__name__}"


class ValueCheck(Generic[T_contra]):
    """`holds(now)` says whether a value serves, `reason(label, now)` why it does not, `text(label)`
    what the trace froze of it, in as many lines."""

    __slots__ = ()

    def holds(self, now: T_contra) -> bool:
        raise NotImplementedError

    def reason(self, label: str, now: T_contra) -> str:
        raise NotImplementedError

    def text(self, label: str) -> str:
        return ""

    def numbers(self, source: Source[T_contra]) -> Iterable[tuple[PlaceSource, object]]:
        """Places of what was read there, where numbers may stand, and what that was."""
        return ()

    def renewed(self, now: T_contra) -> ValueCheck[T_contra]:
        """The same, asked of what stands there now."""
        raise NotImplementedError

    def code(self, now: str, constants: Constants) -> str:
        """An expression for `holds(now)`."""
        return f"{constants.of(self.holds)}({now})"


class Same(ValueCheck[object]):
    """The same object, or a plain value that is equal and of the same type."""

    __slots__ = ("then",)

    def __init__(self, then: object):
        self.then = then

    def holds(self, now: object) -> bool:
        return same(now, self.then)

    def reason(self, label: str, now: object) -> str:
        if now is MISSING:
            return f"{label} was deleted"
        return f"{label} was {value_text(self.then)}, is {value_text(now, self.then)}"

    def text(self, label: str) -> str:
        told = is_plain(self.then) and not _has_nothing(self.then)
        return f"{label}={self.then!r}" if told else ""

    def numbers(self, source: Source[object]) -> Iterable[tuple[PlaceSource, object]]:
        return ((source, self.then),) if isinstance(source, PlaceSource) else ()


class SameNumber(Same):
    """A number that a graph is for."""

    __slots__ = ()

    def reason(self, label: str, now: object) -> str:
        return f"{label} was {self.then!r}, is {now!r}"

    def text(self, label: str) -> str:
        return f"{label}={self.then!r}"

    def numbers(self, source: Source[object]) -> Iterable[tuple[PlaceSource, object]]:
        return ()


class Told(ValueCheck[T_contra]):
    """A check whose reason is `why` and whose text `told`, whatever the value is."""

    __slots__ = ("then", "told", "why")

    def __init__(self, then: T_contra, why: str, told: str = ""):
        self.then = then
        self.why = why
        self.told = told

    def reason(self, label: str, now: T_contra) -> str:
        return self.why

    def text(self, label: str) -> str:
        return self.told

    def renewed(self, now: T_contra) -> ValueCheck[T_contra]:
        return type(self)(now, self.why, self.told)


class Equals(Told[object]):
    """An equal value, of a class whose `==` says all."""

    __slots__ = ()

    def holds(self, now: object) -> bool:
        return bool(now == self.then)

    def code(self, now: str, constants: Constants) -> str:
        return f"{now} == {constants.of(self.then)}"


class Is(Told[object]):
    """One object."""

    __slots__ = ()

    def holds(self, now: object) -> bool:
        return now is self.then

    def code(self, now: str, constants: Constants) -> str:
        return f"{now} is {constants.of(self.then)}"


class Identical(Told[Sequence[object]]):
    """The same objects, as many and in this order."""

    __slots__ = ()

    def holds(self, now: Sequence[object]) -> bool:
        return len(now) == len(self.then) and all(map(operator.is_, now, self.then))


class SameItems(Told[object]):
    """A dict with the same under the same names."""

    __slots__ = ()

    def holds(self, now: object) -> bool:
        then = self.then
        if not isinstance(now, dict) or not isinstance(then, dict):
            return False
        return now.keys() == then.keys() and all(same(now[name], then[name]) for name in now)


# -- tensors ---------------------------------------------------------------------------------------


def hooks_of(tensor: Tensor) -> list[object]:
    """The hooks of a leaf."""
    return [*(tensor._hooks or {}).values(), None, *(tensor._post_hooks or {}).values()]


class Flags(ValueCheck[Sequence[Tensor]]):
    """Types, requires_grad, frozenness and hooks of captured tensors. `names`: of the first of
    them, for reasons."""

    __slots__ = ("flags", "frozen", "hooks", "names", "types")

    def __init__(self, tensors: Sequence[Tensor], names: Sequence[str] = ()):
        self.names = names
        self.types = [tensor.tensor_type for tensor in tensors]
        self.flags = [tensor._requires_grad for tensor in tensors]
        self.frozen = [tensor._frozen is not None for tensor in tensors]
        self.hooks = list(map(hooks_of, tensors))

    def holds(self, now: Sequence[Tensor]) -> bool:
        if [tensor._requires_grad for tensor in now] != self.flags:
            return False
        if [tensor._frozen is not None for tensor in now] != self.frozen:
            return False
        if list(map(hooks_of, now)) != self.hooks:
            return False
        # Equal lists of identical types compare without calling their __eq__.
        return [tensor.tensor_type for tensor in now] == self.types

    def reason(self, label: str, now: Sequence[Tensor]) -> str:
        described = (*self.names, *["a captured tensor"] * (len(now) - len(self.names)))
        for name, tensor, kind, flag in zip(described, now, self.types, self.flags):
            if tensor.tensor_type != kind:
                return f"{name} was {kind}, is {tensor.tensor_type}"
            if tensor._requires_grad != flag:
                return f"requires_grad of {name} was {flag}, is {tensor._requires_grad}"
        if [tensor._frozen is not None for tensor in now] != self.frozen:
            return "a captured tensor was frozen, or is no longer"
        return "a hook of a captured tensor was registered or removed"

    def text(self, label: str) -> str:
        return f"{len(self.types)} captured tensors" if self.types else ""


class Types(ValueCheck[Sequence[Tensor]]):
    """Types of tensors that the function can reach: it may read the shape alone."""

    __slots__ = ("types",)

    def __init__(self, tensors: Sequence[Tensor]):
        self.types = [tensor.tensor_type for tensor in tensors]

    def holds(self, now: Sequence[Tensor]) -> bool:
        return [tensor.tensor_type for tensor in now] == self.types

    def reason(self, label: str, now: Sequence[Tensor]) -> str:
        changed = ((tensor.tensor_type, then) for tensor, then in zip(now, self.types))
        return "; ".join(f"a tensor was {then}, is {now}" for now, then in changed if now != then)

    def text(self, label: str) -> str:
        return f"types of {len(self.types)} tensors in reach" if self.types else ""


class TypeAndFlag(ValueCheck[object]):
    """A tensor of a type, that requires gradients or not."""

    __slots__ = ("flag", "type")

    def __init__(self, tensor: Tensor):
        self.type: TensorType = tensor.tensor_type
        self.flag = tensor._requires_grad

    def holds(self, now: object) -> bool:
        if not isinstance(now, Tensor) or now._frozen is not None:
            return False
        return now.tensor_type == self.type and now._requires_grad == self.flag

    def reason(self, label: str, now: object) -> str:
        text = str(now.tensor_type) if isinstance(now, Tensor) else repr(now)
        return f"{label} was a tensor {self.type}, is {text}"


class Values(ValueCheck[np.ndarray]):
    """The values that decide a size: a mask, counts."""

    __slots__ = ("then",)

    def __init__(self, array: np.ndarray):
        self.then = array.copy()

    def holds(self, now: np.ndarray) -> bool:
        return bool(np.array_equal(now, self.then))

    def reason(self, label: str, now: np.ndarray) -> str:
        return f"{label} changed, which decide a size"

    def text(self, label: str) -> str:
        return label


class One(ValueCheck[tuple[object, ...]]):
    """Two tensors are one: an argument, and what the function also reads from outside."""

    __slots__ = ()

    def holds(self, now: tuple[object, ...]) -> bool:
        return now[0] is now[1]

    def reason(self, label: str, now: tuple[object, ...]) -> str:
        return f"{label} was a tensor that the function reads from outside"


class Apart(ValueCheck[tuple[object, ...]]):
    """The first tensor is none of the others, nor of those that are there for as long as the
    program."""

    __slots__ = ("others",)

    def __init__(self, others: Iterable[Tensor] = ()):
        self.others = {id(tensor): tensor for tensor in others}

    def holds(self, now: tuple[object, ...]) -> bool:
        first = now[0]
        if id(first) in self.others:
            return False
        return not any([first is other for other in now[1:]])

    def reason(self, label: str, now: tuple[object, ...]) -> str:
        return f"{label} is a tensor that the function reads from outside"


# -- Modules ---------------------------------------------------------------------------------------


class ModuleMembers(ValueCheck[dict[str, object]]):
    """Attributes of a Module, and what its dicts hold (parameters, submodules, hooks); but for
    attributes and buffers that the function assigns itself."""

    __slots__ = ("assigned", "count", "dict_names", "dicts", "filled", "names", "sizes", "values")

    def __init__(self, state: dict[str, object], assigned: Collection[str] = ()):
        self.assigned = assigned
        self.count = len(state)
        self.names = [name for name in state if name not in assigned]
        self.values = [state[name] for name in self.names]
        held = {n: value for n, value in state.items() if isinstance(value, _REGISTRIES)}
        self.dict_names = list(held)
        self.dicts = list(held.values())
        self.sizes = list(map(len, self.dicts))
        self.filled = [(items, _held(items, assigned)) for items in self.dicts if items]

    def renewed(self, now: dict[str, object]) -> ModuleMembers:
        return ModuleMembers(now, self.assigned)

    def holds(self, now: dict[str, object]) -> bool:
        if len(now) != self.count:
            return False
        # What was not assigned is the same object: one pass in C for all that is unchanged.
        if not all(map(operator.is_, map(now.get, self.names), self.values)):
            if not all(map(same, map(now.get, self.names), self.values)):
                return False
        if list(map(len, self.dicts)) != self.sizes:
            return False
        return all([_held_alike(items, then, self.assigned) for items, then in self.filled])

    def reason(self, label: str, now: dict[str, object]) -> str:
        for name, value in zip(self.names, self.values):
            new = now.get(name, MISSING)
            if not same(new, value):
                if not is_plain(value):
                    return f"{label}.{name} is another {type(new).__name__}"
                return f"{label}.{name} was {value!r}, is {new!r}"
        filled = {id(items): then for items, then in self.filled}
        for name, items, size in zip(self.dict_names, self.dicts, self.sizes):
            then = filled.get(id(items), [])
            if len(items) != size or not _held_alike(items, then, self.assigned):
                return f"{label}.{name} changed: {size} items became {len(items)}"
        return f"attributes of {label} were added or removed"

    def text(self, label: str) -> str:
        plain = [(n, v) for n, v in zip(self.names, self.values) if is_plain(v)]
        frozen = ", ".join(f"{n}={v!r}" for n, v in plain if not n.startswith("_"))
        return f"{label}({frozen})"

    def numbers(self, source: Source[dict[str, object]]) -> Iterator[tuple[PlaceSource, object]]:
        state = source.read(())
        for name, value in zip(self.names, self.values):
            yield MemberSource(state, name, f"{source.label}.{name}"), value  # type: ignore[arg-type]


def _held(items: dict[object, object], assigned: Collection[object]) -> list[object]:
    """The keys, and the values but for those that the function assigns."""
    if not assigned:
        return [*items, *items.values()]
    return [*items, *[None if key in assigned else value for key, value in items.items()]]


def _held_alike(
    now: dict[object, object], then: list[object], assigned: Collection[object]
) -> bool:
    return all(map(operator.is_, _held(now, assigned), then))
