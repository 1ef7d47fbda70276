"""What a specialization relies on besides its arguments. Each guard says whether it still holds,
and if not, what changed. `by_epoch`: what it sees changes only where a new epoch begins, so that it
is looked at once in each; the others at every call."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from frontend.tensors.epoch import TRACE_LOCK, HookRegistry, Registry
from frontend.tensors.memory_tracking import offset_in_memory, place_in_memory
from frontend.tensors.tensor import Tensor, added_attributes
from frontend.tracing.sources import MemorySource, Source

PLAIN = (int, float, bool, str, type(None))
_EXACT = {*PLAIN, bytes, complex}
_MISSING = object()
_REGISTRIES = (Registry, HookRegistry)


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, None, or a tuple of such, with nothing added to it by a
    class of its own."""
    kind = type(value)
    if kind in _EXACT:
        return True
    if issubclass(kind, tuple):
        return not kind.__dictoffset__ and all(map(is_plain, tuple.__iter__(value)))
    return issubclass(kind, PLAIN) and kind.__module__ == "numpy"


def same(left: Any, right: Any) -> bool:
    """One object, or plain values that are equal and of one type: NaN is the same as itself, -0.0
    is not 0.0."""
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right) or not is_plain(left):
        return False
    if issubclass(kind, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if issubclass(kind, float):
        return bool(left.hex() == right.hex())
    return repr(left) == repr(right) if kind is complex else bool(left == right)


class ModuleGuard:
    """Attributes of a Module, and what its dicts hold (parameters, submodules, hooks); but for
    attributes and buffers that the function assigns itself."""

    by_epoch = True

    def __init__(self, module: Any, assigned: Collection[str] = ()):
        state = module.__dict__
        self.module = module
        self.assigned = assigned
        self.count = len(state)
        self.names = [name for name in state if name not in assigned]
        self.values = [state[name] for name in self.names]
        self.dict_names = [name for name in state if isinstance(state[name], _REGISTRIES)]
        self.dicts = [state[name] for name in self.dict_names]
        self.sizes = list(map(len, self.dicts))
        self.filled = [(items, _held(items, assigned)) for items in self.dicts if items]

    def holds(self) -> bool:
        state = self.module.__dict__
        if len(state) != self.count:
            return False
        # What was not assigned is the same object: one pass in C for all that is unchanged.
        if not all(map(operator.is_, map(state.get, self.names), self.values)):
            if not all(map(same, map(state.get, self.names), self.values)):
                return False
        if list(map(len, self.dicts)) != self.sizes:
            return False
        return all([_held_alike(now, then, self.assigned) for now, then in self.filled])

    def reason(self) -> str:
        state, kind = self.module.__dict__, type(self.module).__name__
        for name, value in zip(self.names, self.values):
            now = state.get(name, _MISSING)
            if not same(now, value):
                shown = "deleted" if now is _MISSING else repr(now)
                if not is_plain(value):
                    return f"{kind}.{name} is another {type(now).__name__}"
                return f"{kind}.{name} was {value!r}, is {shown}"
        filled = {id(items): then for items, then in self.filled}
        for name, items, size in zip(self.dict_names, self.dicts, self.sizes):
            then = filled.get(id(items), [])
            if len(items) != size or not _held_alike(items, then, self.assigned):
                return f"{kind}.{name} changed: {size} items became {len(items)}"
        return f"attributes of {kind} were added or removed"

    def numbers(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """Its attributes: where they stand, their names, what they were, what they are called."""
        kind = type(self.module).__name__
        for name, value in zip(self.names, self.values):
            yield self.module.__dict__, name, value, f"{kind}.{name}"

    def __str__(self) -> str:
        plain = [(n, v) for n, v in zip(self.names, self.values) if is_plain(v)]
        shown = [(n, v) for n, v in plain if not n.startswith("_")]
        frozen = ", ".join(f"{n}={v!r}" for n, v in shown)
        return f"{type(self.module).__name__}({frozen})"


def _held(items: Any, assigned: Collection[str]) -> list[Any]:
    """The keys, and the values but for those that the function assigns."""
    if not assigned:
        return [*items, *items.values()]
    return [*items, *[None if key in assigned else value for key, value in items.items()]]


def _held_alike(now: Any, then: list[Any], assigned: Collection[str]) -> bool:
    return all(map(operator.is_, _held(now, assigned), then))


def hooks_of(tensor: Any) -> list[Any]:
    """The hooks of a leaf."""
    return [*(tensor._hooks or {}).values(), None, *(tensor._post_hooks or {}).values()]


class TensorsGuard:
    """Types, requires_grad, frozenness and hooks of captured tensors. `names`: of the first of
    them, for reasons."""

    by_epoch = True

    def __init__(self, tensors: Sequence[Tensor], names: Sequence[str] = ()):
        self.tensors = list(tensors)
        self.names = names
        self.types = [tensor.tensor_type for tensor in tensors]
        self.flags = [tensor._requires_grad for tensor in tensors]
        self.frozen = [tensor._frozen is not None for tensor in tensors]
        self.hooks = list(map(hooks_of, tensors))

    def holds(self) -> bool:
        if [tensor._requires_grad for tensor in self.tensors] != self.flags:
            return False
        if [tensor._frozen is not None for tensor in self.tensors] != self.frozen:
            return False
        if list(map(hooks_of, self.tensors)) != self.hooks:
            return False
        # Equal lists of identical types compare without calling their __eq__.
        return [tensor.tensor_type for tensor in self.tensors] == self.types

    def reason(self) -> str:
        described = (*self.names, *["a captured tensor"] * (len(self.tensors) - len(self.names)))
        for name, tensor, kind, flag in zip(described, self.tensors, self.types, self.flags):
            if tensor.tensor_type != kind:
                return f"{name} was {kind}, is {tensor.tensor_type}"
            if tensor._requires_grad != flag:
                return f"requires_grad of {name} was {flag}, is {tensor._requires_grad}"
        if [tensor._frozen is not None for tensor in self.tensors] != self.frozen:
            return "a captured tensor was frozen, or is no longer"
        return "a hook of a captured tensor was registered or removed"

    def __str__(self) -> str:
        return f"{len(self.tensors)} captured tensors"


class ContentGuard:
    """The values of a captured tensor that decides a size: a mask, counts."""

    by_epoch = False

    def __init__(self, tensor: Tensor, array: np.ndarray):
        self.tensor = tensor
        self.then = array.copy()

    def holds(self) -> bool:
        with TRACE_LOCK.tracing:  # in another thread's trace it has no value
            now = self.tensor._value
        return bool(np.array_equal(now, self.then))

    def reason(self) -> str:
        return f"values of a captured tensor {self.tensor.tensor_type} changed, which decide a size"

    def __str__(self) -> str:
        return f"values of a captured tensor {self.tensor.tensor_type}"


class TypesGuard:
    """Types of tensors that the function can reach: it may read the shape alone."""

    by_epoch = True

    def __init__(self, tensors: Sequence[Tensor]):
        self.tensors = list(tensors)
        self.types = [tensor.tensor_type for tensor in tensors]

    def holds(self) -> bool:
        return [tensor.tensor_type for tensor in self.tensors] == self.types

    def reason(self) -> str:
        changed = ((t.tensor_type, k) for t, k in zip(self.tensors, self.types))
        return "; ".join(f"a tensor was {then}, is {now}" for now, then in changed if now != then)

    def __str__(self) -> str:
        return f"types of {len(self.tensors)} tensors in reach"


class IdentityGuard:
    """An argument is the tensor that the function also reads from outside, which `same` finds at a
    call; or it is none of those it reads from there: `others`, and what `sources` find."""

    def __init__(
        self, source: Source, same: Source | None, others: Iterable[Tensor] = (),
        sources: Sequence[Source] = (),
    ):  # fmt: skip
        self.source = source
        self.same = same
        self.others = {id(tensor): tensor for tensor in others}
        self.sources = sources

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        argument = self.source.tensor(arguments)
        if self.same is not None:
            return argument is self.same.tensor(arguments)
        if id(argument) in self.others:
            return False
        return not any([argument is each.tensor(arguments) for each in self.sources])

    def reason(self) -> str:
        what = "was" if self.same is not None else "is"
        return f"an argument {what} a tensor that the function reads from outside"


class HooksGuard:
    """The hooks of an argument that is a leaf."""

    def __init__(self, source: Source, tensor: Tensor):
        self.source = source
        self.hooks = hooks_of(tensor)

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        return hooks_of(self.source.tensor(arguments)) == self.hooks

    def reason(self) -> str:
        return "an argument has other hooks"


class AttributesGuard:
    """What the user put on an argument, beside its value."""

    def __init__(self, source: Source, tensor: Tensor):
        self.source = source
        self.then = added_attributes(tensor)

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        argument: Any = self.source.tensor(arguments)
        now, then = added_attributes(argument), self.then
        return now.keys() == then.keys() and all(same(now[name], then[name]) for name in now)

    def reason(self) -> str:
        return "an attribute of an argument, a tensor, changed"


class LayoutGuard:
    """How an argument lies in memory: whether a reshape of it shares memory. Row-major is so at any
    sizes."""

    def __init__(self, source: Source, array: np.ndarray):
        self.source = source
        self.is_row_major = array.flags.c_contiguous
        self.strides = array.strides

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        argument: Any = self.source.tensor(arguments)
        array = argument._value
        row_major = array.flags.c_contiguous
        return bool(row_major if self.is_row_major else array.strides == self.strides)

    def reason(self) -> str:
        return "an argument lies in memory in another order"


class OffsetGuard:
    """Where in its memory an argument begins."""

    def __init__(self, source: Source, offset: int):
        self.source = source
        self.offset = offset

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        argument: Any = self.source.tensor(arguments)
        return offset_in_memory(argument._value) == self.offset

    def reason(self) -> str:
        return "an argument begins at another place of its memory"


class MemoryGuard:
    """What memory an input lies in, all of which is an input too, and where it begins there."""

    def __init__(self, source: MemorySource):
        self.source = source

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        return place_in_memory(self.source.source.array(arguments)) == self.source.place

    def reason(self) -> str:
        return "an argument lies in other memory"


class GradGuard:
    """Whether the `.grad` of a tensor is None. `owner` is found per call."""

    def __init__(self, owner: Source, was_none: bool):
        self.owner = owner
        self.was_none = was_none

    def holds_for(self, arguments: Sequence[Tensor]) -> bool:
        tensor = self.owner.tensor(arguments)
        return tensor is not None and (tensor._grad is None) == self.was_none

    def reason(self) -> str:
        return f"a .grad was {'None' if self.was_none else 'a tensor'}"
