"""Which sizes of the arguments of a compiled function differ from call to call.

in : the types of the tensors that a function was called with, by structure
out: for a new call the types with named sizes where they have changed, and the numbers of this call
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir.dims import Dim, Extent, Symbol, dim
from graphc.ir.types import TensorType

LEAST = 2
"""The least size that is left open: code that tells 0 and 1 from others is traced for those."""
NAMES = "nmkpqrtuvw"
LONGEST = 16
"""Sizes that are remembered of an axis."""


@dataclass(frozen=True, slots=True)
class SizedArguments:
    """Types of the tensor arguments, some of whose extents are named sizes, and what these are in
    the call that was traced."""

    types: tuple[TensorType, ...]
    example: Mapping[str, int]

    def sizes_of(self, types: Sequence[TensorType]) -> dict[str, int] | None:
        """The sizes at which these are the types; None where they are of another form."""
        sizes: dict[str, int] = {}
        for own, other in zip(self.types, types, strict=True):
            if own is other:
                continue
            if own.dtype is not other.dtype or own.rank != other.rank:
                return None
            for extent, size in zip(own.shape, other.shape, strict=True):
                if not _fits(extent, size, sizes):
                    return None
        return sizes


def _fits(extent: Extent, size: int, sizes: dict[str, int]) -> bool:
    if not isinstance(extent, Dim):
        return extent == size
    assert isinstance(extent.symbol, Symbol)
    return size >= extent.symbol.least and sizes.setdefault(extent.symbol.name, size) == size


class SizeHistory:
    """What sizes the tensor arguments of one structure had."""

    def __init__(self) -> None:
        self._seen: list[tuple[TensorType, ...]] = []

    def note(self, types: Sequence[TensorType]) -> None:
        """A call has these types."""
        if tuple(types) not in self._seen:
            self._seen = [*self._seen[-LONGEST + 1 :], tuple(types)]

    def sized(self, types: Sequence[TensorType], always: Any = False) -> SizedArguments | None:
        """The types with a named size for each axis that had others before, or that is `always`
        left open (a test of an axis, or True for all); None where there is none. Axes that always
        had equal sizes have the same one."""
        names: dict[tuple[int, ...], Dim] = {}
        example: dict[str, int] = {}
        result = []
        for position, type in enumerate(types):
            shape: list[Any] = list(type.shape)
            for axis, size in enumerate(type.shape):
                past = tuple(seen[position].shape[axis] for seen in self._seen)
                open_ = always is True or (callable(always) and always((position, axis)))
                if size < LEAST or not (open_ or any(other != size for other in past)):
                    continue
                known = names.get((*past, size))
                if known is None:
                    name = NAMES[len(names)] if len(names) < len(NAMES) else f"n{len(names)}"
                    known = names[*past, size] = dim(name, LEAST)
                    example[name] = size
                shape[axis] = known
            result.append(type.with_shape(tuple(shape)))
        return SizedArguments(tuple(result), example) if example else None
