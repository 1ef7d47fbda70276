"""Modules that hold modules, in order or by name."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import Any, Self, SupportsIndex

from frontend.nn.checks import pairs
from frontend.nn.modules.module import Module

# Where PyTorch has them.
from frontend.nn.modules.parameter_container import ParameterDict, ParameterList  # noqa: F401

__all__ = ["Sequential", "ModuleList", "ModuleDict"]


class _Ordered(Module):
    """Children named '0', '1', …, with a list's methods."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        children = list(self._modules.items())
        if isinstance(index, slice):
            return self._sliced(children[index])
        return children[self._position(index)][1]

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        setattr(self, list(self._modules)[self._position(index)], module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        children = list(self._modules.values())
        del children[index if isinstance(index, slice) else self._position(index)]
        self._renumber(children)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end, in order."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, "
                f"but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self | None:
        """Put a module before position `index`; those behind move on by one. Raises IndexError
        outside of the list, AssertionError for no module."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        children = list(self._modules.values())
        children.insert(index, module)
        self._renumber(children)
        return self

    def pop(self, key: SupportsIndex | slice) -> Any:
        """Take out the module at a position, or a slice, and return it."""
        module = self[key]
        del self[key]
        return module

    def _renumber(self, children: list[Any]) -> None:
        self._check_write("_modules", None)
        self._modules.clear()
        self._modules.update((str(i), child) for i, child in enumerate(children))

    def _sliced(self, children: list[tuple[str, Any]]) -> Self:
        return type(self)(*(child for _, child in children))

    def _position(self, index: SupportsIndex) -> int:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return position % len(self)


class Sequential(_Ordered):
    """Runs its modules one after the other. Takes modules, or one OrderedDict of named modules;
    a slice keeps the names. `a + b` and `a * 2` hold the same modules in a new Sequential."""

    def __init__(self, *args: Any):
        super().__init__()
        named = isinstance(args[0], OrderedDict) if len(args) == 1 else False
        children = args[0].items() if named else ((str(i), m) for i, m in enumerate(args))
        for name, module in children:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __add__(self, other: Any) -> Sequential:
        return Sequential(*self, *_summand(other))

    def __iadd__(self, other: Any) -> Self:
        return self.extend(_summand(other))

    def __mul__(self, other: Any) -> Sequential:
        return Sequential(*list(self) * self._factor(other))

    __rmul__ = __mul__

    def __imul__(self, other: Any) -> Self:
        return self.extend(list(self) * (self._factor(other) - 1))

    def _factor(self, other: Any) -> int:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return other

    def _sliced(self, children: list[tuple[str, Any]]) -> Self:
        return type(self)(OrderedDict(children))


def _summand(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


class ModuleList(_Ordered):
    """A list whose modules are registered. It has no `forward`: the owner calls its items."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`; those behind move on by one. Raises IndexError
        outside of the list, AssertionError for no module."""
        super().insert(index, module)

    def _sliced(self, children: list[tuple[str, Any]]) -> Self:
        return type(self)(child for _, child in children)

    def __repr__(self) -> str:
        lines, start = [], 0
        for text, run in groupby(map(repr, self)):
            count = len(list(run))
            span = f"({start}-{start + count - 1}): {count} x " if count > 1 else f"({start}): "
            lines.append("  " + (span + text).replace("\n", "\n  "))
            start += count
        inner = "\n".join(lines)
        return f"{self._get_name()}(\n{inner}\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """A dict, by name, whose modules are registered. It has no `forward`: the owner calls its
    items."""

    def __init__(self, modules: Any = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self._check_write("_modules", None)
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take out all modules."""
        self._check_write("_modules", None)
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take out the module under a name and return it. Raises KeyError."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        return self._modules.keys()

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping, or of an iterable of (name, module) pairs. Raises TypeError
        and ValueError for anything else, before a module is added."""
        for name, module in pairs(modules, type(self).__name__):
            self[name] = module
