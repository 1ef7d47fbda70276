"""Which sizes and ints among the arguments of a compiled function differ from call to call.

in : the types of the tensors and the ints that a function was called with, by structure
out: for a new call both with named sizes where they have changed, and what these are in this call
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.tracing.size_rules import LEAST, Rules
from graphc.ir.dims import Dim, Extent, Symbol, dim
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import TensorType

NAMES = "nmkpqrtuvw"
LONGEST = 16
"""Sizes that are remembered of an axis."""
GREATEST = 1 << 31
"""The greatest int argument that is left open: seeds and the like are beyond."""


@dataclass(frozen=True, slots=True)
class SizedArguments:
    """Types of the tensor arguments, some of whose extents are named sizes, the int arguments, some
    of which are, and what these are in the call that was traced."""

    types: tuple[TensorType, ...]
    numbers: tuple[Extent, ...]
    example: Mapping[str, int]

    @property
    def names_of_numbers(self) -> frozenset[str]:
        """The sizes that are ints among the arguments and no axis of a tensor."""
        axes = (extent for type in self.types for extent in type.shape)
        return frozenset(_names(self.numbers) - _names(axes))

    def sizes_of(
        self, types: Sequence[TensorType], numbers: Sequence[int]
    ) -> dict[str, int] | None:
        """The sizes at which these are the types and ints; None where they are of another form."""
        sizes: dict[str, int] = {}
        if not all([_fits(*pair, sizes) for pair in zip(self.numbers, numbers, strict=True)]):
            return None
        for own, other in zip(self.types, types, strict=True):
            if own is other:
                continue
            if own.dtype is not other.dtype or own.rank != other.rank:
                return None
            for extent, size in zip(own.shape, other.shape, strict=True):
                if not _fits(extent, size, sizes):
                    return None
        return sizes


def _names(extents: Iterable[Extent]) -> set[str]:
    return {symbol.name for e in extents if isinstance(e, Dim) for symbol in e.symbols()}


def _fits(extent: Extent, size: int, sizes: dict[str, int]) -> bool:
    if not isinstance(extent, Dim):
        return extent == size
    assert isinstance(extent.symbol, Symbol)
    symbol = extent.symbol
    if size < symbol.least or (symbol.most is not None and size > symbol.most):
        return False
    return sizes.setdefault(symbol.name, size) == size


class SizeHistory:
    """What sizes the tensor arguments of one structure had, and which ints were among them."""

    def __init__(self) -> None:
        self._seen: list[tuple[tuple[TensorType, ...], tuple[int, ...]]] = []
        self._fixed: set[int] = set()

    def note(self, types: Sequence[TensorType], numbers: Sequence[int]) -> None:
        """A call has these types and ints."""
        seen = (tuple(types), tuple(numbers))
        if seen not in self._seen:
            self._seen = [*self._seen[-LONGEST + 1 :], seen]

    def traced(self, sized: SizedArguments, guards: Sequence[SizeGuard]) -> None:
        """A trace had these arguments: an int that it needs to be a certain number is not left open
        again."""
        certain = {guard.decides for guard in guards}
        self._fixed |= {i for i, n in enumerate(sized.numbers) if _names([n]) & certain}

    def sized(
        self, types: Sequence[TensorType], numbers: Sequence[int], all_open: bool, rules: Rules
    ) -> SizedArguments | None:
        """The types and ints with a named size for each axis and int that was another before, or
        that a rule leaves open (or all of them); None where there is none. Those that were always
        equal have the same one, if no rule gives them others."""
        names: dict[Any, Dim] = {}
        taken = {rule.name for rule in rules.values()}
        free = iter([name for name in NAMES if name not in taken])
        example: dict[str, int] = {}
        result = []
        for position, type in enumerate(types):
            shape: list[Any] = list(type.shape)
            for axis, size in enumerate(type.shape):
                past = tuple(seen[position].shape[axis] for seen, _ in self._seen)
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
        ints: list[Extent] = list(numbers)
        for i, number in enumerate(numbers):
            past = tuple(seen[i] for _, seen in self._seen)
            open_ = all_open or any(other != number for other in past)
            if not open_ or i in self._fixed or not LEAST <= number <= GREATEST:
                continue
            key = (None, *past, number)
            if key not in names:
                name = next(free, f"n{len(names)}")
                names[key], example[name] = dim(name, LEAST, GREATEST), number
            ints[i] = names[key]
        return SizedArguments(tuple(result), tuple(ints), example) if example else None
