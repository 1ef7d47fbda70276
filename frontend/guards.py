"""What a compiled entry relies on besides its arguments. Each guard says whether it still holds,
and if not, what changed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from frontend.sources import Source
from frontend.tensor import Tensor

PLAIN = (int, float, bool, str, type(None))
_MISSING = object()


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, None, or a tuple of such."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN)


def same(left: Any, right: Any) -> bool:
    """Equal and of one type (NaN is the same as itself)."""
    return left is right or (type(left) is type(right) and bool(left == right))


class ModuleGuard:
    """Plain attributes of a Module, and what its dicts hold (parameters, submodules, hooks)."""

    marked = True

    def __init__(self, module: Any):
        state = module.__dict__
        self.module = module
        self.count = len(state)
        self.names = [name for name, value in state.items() if is_plain(value)]
        self.values = [state[name] for name in self.names]
        dicts = self.dict_names = [n for n, value in state.items() if isinstance(value, dict)]
        self.dicts = [state[name] for name in dicts]
        self.sizes = list(map(len, self.dicts))
        self.filled = [(items, list(items.values())) for items in self.dicts if items]
        self._all_names = [*self.names, *dicts]
        self._all_values = [*self.values, *self.dicts]

    def holds(self) -> bool:
        state = self.module.__dict__
        if len(state) != self.count:
            return False
        # What was not assigned is the same object: one pass in C for all that is unchanged.
        if not all(map(operator.is_, map(state.get, self._all_names), self._all_values)):
            if not all(map(same, map(state.get, self.names), self.values)):
                return False
        if list(map(len, self.dicts)) != self.sizes:
            return False
        return all([all(map(operator.is_, now.values(), then)) for now, then in self.filled])

    def reason(self) -> str:
        state, kind = self.module.__dict__, type(self.module).__name__
        for name, value in zip(self.names, self.values):
            now = state.get(name, _MISSING)
            if not same(now, value):
                shown = "deleted" if now is _MISSING else repr(now)
                return f"{kind}.{name} was {value!r}, is {shown}"
        filled = {id(items): then for items, then in self.filled}
        for name, items, size in zip(self.dict_names, self.dicts, self.sizes):
            then = filled.get(id(items), [])
            if len(items) != size or not all(map(operator.is_, items.values(), then)):
                return f"{kind}.{name} changed: {size} items became {len(items)}"
        return f"attributes of {kind} were added or removed"

    def __str__(self) -> str:
        shown = [(n, v) for n, v in zip(self.names, self.values) if not n.startswith("_")]
        frozen = ", ".join(f"{n}={v!r}" for n, v in shown)
        return f"{type(self.module).__name__}({frozen})"


class ItemGuard:
    """One item of a dict: an optimizer's option, a global, the content of a closure cell."""

    marked = False

    def __init__(self, mapping: Any, key: Any, what: str):
        self.mapping = mapping
        self.key = key
        self.value = mapping[key]
        self.what = what

    def holds(self) -> bool:
        now = self.mapping.get(self.key, _MISSING)
        return now is self.value or same(now, self.value)

    def reason(self) -> str:
        now = self.mapping.get(self.key, "deleted")
        return f"{self.what} {self.key!r} was {self.value!r}, is {now!r}"

    def __str__(self) -> str:
        return f"{self.what} {self.key}={self.value!r}"


class ZeroGuard:
    """Whether a number in a dict (or in a tuple there) is 0."""

    marked = False

    def __init__(self, mapping: Any, key: Any, index: int | None):
        self.mapping = mapping
        self.key = key
        self.index = index
        self.value = self._value()

    def _value(self) -> Any:
        found = self.mapping.get(self.key, 0)
        return found if self.index is None else found[self.index]

    def holds(self) -> bool:
        return bool(self._value()) == bool(self.value)

    def reason(self) -> str:
        return f"option {self.key!r} was {self.value!r}, is {self._value()!r}"

    def __str__(self) -> str:
        return f"option {self.key} is {'not ' if self.value else ''}0"


class CellGuard:
    """The plain content of a closure cell."""

    marked = False

    def __init__(self, name: str, cell: Any):
        self.name = name
        self.cell = cell
        self.value = cell.cell_contents

    def holds(self) -> bool:
        return same(self.cell.cell_contents, self.value)

    def reason(self) -> str:
        return f"variable {self.name!r} was {self.value!r}, is {self.cell.cell_contents!r}"

    def __str__(self) -> str:
        return f"variable {self.name}={self.value!r}"


class TensorsGuard:
    """Types, requires_grad and frozenness of captured tensors."""

    marked = True

    def __init__(self, tensors: Sequence[Tensor]):
        self.tensors = list(tensors)
        self.types = [tensor.tensor_type for tensor in tensors]
        self.flags = [tensor._requires_grad for tensor in tensors]
        self.frozen = [tensor._frozen is not None for tensor in tensors]

    def holds(self) -> bool:
        if [tensor._requires_grad for tensor in self.tensors] != self.flags:
            return False
        if [tensor._frozen is not None for tensor in self.tensors] != self.frozen:
            return False
        # Equal lists of identical types compare without calling their __eq__.
        return [tensor.tensor_type for tensor in self.tensors] == self.types

    def reason(self) -> str:
        for tensor, kind, flag in zip(self.tensors, self.types, self.flags):
            if tensor.tensor_type != kind:
                return f"a captured tensor was {kind}, is {tensor.tensor_type}"
            if tensor._requires_grad != flag:
                return f"requires_grad of a captured {kind} was {flag}"
        if [tensor._frozen is not None for tensor in self.tensors] != self.frozen:
            return "a captured tensor was frozen, or is no longer"
        return "captured tensors changed"

    def __str__(self) -> str:
        return f"{len(self.tensors)} captured tensors"


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


def variable_guards(function: Any) -> list[Any]:
    """Guards on the plain globals and closure cells that a function's code names."""
    from frontend.naming import _named

    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    found: list[Any] = [
        ItemGuard(function.__globals__, name, "global")
        for name in sorted(_named(code))
        if name in function.__globals__ and is_plain(function.__globals__[name])
    ]
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            plain = is_plain(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
        if plain:
            found.append(CellGuard(name, cell))
    return found
