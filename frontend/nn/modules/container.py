"""Modules that hold modules in order."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Self, SupportsIndex

from frontend.nn.modules.module import Module

__all__ = ["Sequential", "ModuleList"]


class _Ordered(Module):
    """Children named '0', '1', …, with a list's reading methods."""

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
        self._set(children)

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
        """Put a module before position `index`; those behind move on by one."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        children = list(self._modules.values())
        children.insert(index, module)
        self._set(children)
        return self

    def _set(self, children: list[Any]) -> None:
        self._modules.clear()
        for child in children:
            self.add_module(str(len(self)), child)

    def _sliced(self, children: list[tuple[str, Any]]) -> Self:
        return type(self)(*(child for _, child in children))

    def _position(self, index: SupportsIndex) -> int:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return position % len(self)


class Sequential(_Ordered):
    """Runs its modules one after the other. Takes modules, or one OrderedDict of named modules;
    a slice keeps the names."""

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

    def _sliced(self, children: list[tuple[str, Any]]) -> Self:
        return type(self)(OrderedDict(children))


class ModuleList(_Ordered):
    """A list whose modules are registered. It has no `forward`: the owner calls its items."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

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
