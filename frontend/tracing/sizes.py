"""Which sizes of the arguments of a compiled function differ from call to call.

in : the types of the tensors that a function was called with, by structure
out: for a new call the types with named sizes where they have changed, and the numbers of this call
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.tracing.size_rules import LEAST, Rules
from graphc.ir.dims import Dim, Extent, Symbol, dim
from graphc.ir.types import TensorType

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
    symbol = extent.symbol
    if size < symbol.least or (symbol.most is not None and size > symbol.most):
        return False
    return sizes.setdefault(symbol.name, size) == size


class SizeHistory:
    """What sizes the tensor arguments of one structure had."""

    def __init__(self) -> None:
        self._seen: list[tuple[TensorType, ...]] = []

    def note(self, types: Sequence[TensorType]) -> None:
        """A call has these types."""
        if tuple(types) not in self._seen:
            self._seen = [*self._seen[-LONGEST + 1 :], tuple(types)]

    def sized(
        self, types: Sequence[TensorType], all_open: bool, rules: Rules
    ) -> SizedArguments | None:
        """The types with a named size for each axis that had others before, or that a rule leaves
        open (or all of them); None where there is none. Axes that always had equal sizes have the
        same one, if no rule gives them others."""
        names: dict[Any, Dim] = {}
        taken = {rule.name for rule in rules.values()}
        free = iter([name for name in NAMES if name not in taken])
        example: dict[str, int] = {}
        result = []
        for position, type in enumerate(types):
            shape: list[Any] = list(type.shape)
            for axis, size in enumerate(type.shape):
                past = tuple(seen[position].shape[axis] for seen in self._seen)
                rule = rules.get((position, axis))
                open_ = all_open or rule is not None or any(other != size for other in past)
                if size < LEAST or not open_ or (rule is not None and rule.static):
                    continue
                key = (rule, *past, size) if rule is None or rule.name is None else rule.name
                known = names.get(key)
                if known is None:
                    name = key if isinstance(key, str) else next(free, f"n{len(names)}")
                    least, most = (LEAST, None) if rule is None else (rule.least, rule.most)
                    known = names[key] = dim(name, max(least, LEAST), most)
                    example[name] = size
                shape[axis] = known
            result.append(type.with_shape(tuple(shape)))
        return SizedArguments(tuple(result), example) if example else None
