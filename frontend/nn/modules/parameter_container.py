"""Modules that hold parameters, in order or by name. Other values may stand among them; they are
plain attributes."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self, SupportsIndex

from frontend.engine.tensors.dtypes import TORCH_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.checks import pairs
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = ["ParameterList", "ParameterDict"]


def _as_parameter(value: Any) -> Any:
    """A tensor as a Parameter; anything else as it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class _Parameters(Module):
    """What both kinds share: their text, and that they are not called."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{type(self).__name__} should not be called.")

    def _described(self, items: Iterable[tuple[Any, Any]], by_type: bool) -> str:
        lines = []
        for key, value in items:
            text = f"Object of type: {type(value).__name__}"
            if isinstance(value, Tensor):
                kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
                dtype = value.type() if by_type else TORCH_NAMES[value.dtype]
                size = "x".join(map(str, value.shape))
                text = f"{kind} containing: [{dtype} of size {size}]"
            lines.append(f"  ({key}): {text}")
        return "\n".join(lines)


class ParameterList(_Parameters):
    """A list whose parameters are registered, named '0', '1', …. Tensors become Parameters."""

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: SupportsIndex | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)([self[i] for i in range(len(self))[idx]])
        return getattr(self, self._name(idx))

    def __setitem__(self, idx: SupportsIndex, param: Any) -> None:
        setattr(self, self._name(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end, in order. Raises TypeError for a tensor or no iterable."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return self._described(enumerate(self), by_type=False)

    def _name(self, index: SupportsIndex) -> str:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range")
        return str(position % len(self))


class ParameterDict(_Parameters):
    """A dict, by name, whose parameters are registered. Tensors become Parameters. A plain dict is
    taken in the order of its sorted names."""

    def __init__(self, parameters: Any = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _checked(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _checked(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        if key not in self._keys:
            raise KeyError(key)
        delattr(self, key)
        del self._keys[key]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value under a name; `default`, which is added, where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self._keys else default

    def clear(self) -> None:
        """Take out all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take out the value under a name and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out the last (name, value) and return it. Raises KeyError where there is none."""
        if not self._keys:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict with the same value under each name."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping, or of an iterable of (name, value) pairs. Raises TypeError
        and ValueError for anything else, before a value is added."""
        entries = pairs(parameters, "ParameterDict")
        unordered = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        for key, value in sorted(entries, key=lambda pair: pair[0]) if unordered else entries:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return self._described(self.items(), by_type=True)


def _checked(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
        )
    return key
