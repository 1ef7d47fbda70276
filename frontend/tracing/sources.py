"""Where the inputs of a traced graph come from at each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.tensors.memory_tracking import whole_array
from frontend.tensors.tensor import Tensor
from graphc.ir.types import DType


class Source:
    """`tensor(arguments)` is the tensor an input is bound to, `array(arguments)` its value."""

    __slots__ = ()

    def tensor(self, arguments: Sequence[Tensor]) -> Tensor | None:
        return None

    def array(self, arguments: Sequence[Tensor]) -> np.ndarray:
        bound = self.tensor(arguments)
        assert bound is not None
        return bound._array("a compiled call")


class ArgumentSource(Source):
    """The tensor at a position of the flattened arguments."""

    __slots__ = ("position",)

    def __init__(self, position: int):
        self.position = position

    def tensor(self, arguments: Sequence[Tensor]) -> Tensor:
        return arguments[self.position]


class CapturedSource(Source):
    """A tensor met in the trace; its array is read anew at each call."""

    __slots__ = ("captured",)

    def __init__(self, captured: Tensor):
        self.captured = captured

    def tensor(self, arguments: Sequence[Tensor]) -> Tensor:
        return self.captured


class GradSource(Source):
    """The `.grad` of a tensor: of `owner` in the trace, at a call of what `source` gives."""

    __slots__ = ("owner", "source")

    def __init__(self, owner: Tensor, source: Source):
        self.owner = owner
        self.source = source

    def tensor(self, arguments: Sequence[Tensor]) -> Tensor:
        owner: Any = self.source.tensor(arguments)
        grad: Tensor = owner._grad
        return grad


class MemorySource(Source):
    """All of the memory that the array of another input lies in, in a row. `place`: how many
    elements it has, and where that array begins."""

    __slots__ = ("place", "source")

    def __init__(self, source: Source, place: tuple[int, int]):
        self.source = source
        self.place = place

    def array(self, arguments: Sequence[Tensor]) -> np.ndarray:
        return whole_array(self.source.array(arguments)).reshape(-1)


class NumberSource(Source):
    """A number that Python computes for each call, which hands it over (tracing.call_numbers)."""

    __slots__ = ()


class HostSource(Source):
    """A Python number in a dict, a learning rate say; with `index`, one in a tuple there."""

    __slots__ = ("cell", "index", "key", "mapping", "value")

    def __init__(self, mapping: Any, key: Any, index: int | None, dtype: DType):
        self.mapping = mapping
        self.key = key
        self.index = index
        self.value = mapping[key] if index is None else mapping[key][index]
        self.cell = np.array(self.value, dtype.numpy)

    def array(self, arguments: Sequence[Tensor]) -> np.ndarray:
        value = self.mapping[self.key]
        if self.index is not None:
            value = value[self.index]
        if value is not self.value:
            self.cell[...] = self.value = value
        return self.cell
