"""Which sizes and numbers among the arguments of a compiled function differ from call to call.

in : the types of the tensors, the ints and the floats that a function was called with, by structure
out: for a new call all of them with names where they have changed, and what these are in this call
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from frontend.engine.outside.check import same, value_text
from frontend.engine.outside.source import PlaceSource
from frontend.engine.sizes.size_rules import LEAST, Rules
from frontend.engine.tensors.tree import NUMBERS
from graphc.ir.dims import Dim, Symbol, dim, evaluate
from graphc.ir.size_floats import SizeFloat, float_argument, names_in
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import TensorType
from graphc.records import record, replace

NAMES = "nmkpqrtuvw"
MOST_FACTOR = 64
"""Of what a size is left open in multiples of: so many a network halves and doubles a map to."""
LONGEST = 16
"""Sizes that are remembered of an axis."""
LEAST_INT, GREATEST_INT = 1, 1 << 31
"""Between what bounds an int argument is left open: 0 and what is negative have code of their own,
as what is divided by an int, or is as many, has other cases there; seeds and the like are beyond.
"""


class OutsideNumber(NamedTuple):
    """A number outside of a function that is left open: an int from `least` on. Those that are one
    number now and have the same `group` have one name."""

    place: PlaceSource
    least: int = LEAST_INT
    group: Any = None


@record
class SizedArguments:
    """Types of the tensor arguments, some of whose extents are named sizes, the ints and floats
    among the arguments, some of which have names, and what these are in the call that was traced.
    """

    types: tuple[TensorType, ...]
    numbers: tuple[Any, ...]
    example: Mapping[str, Any]
    places: tuple[tuple[PlaceSource, Any], ...] = ()
    """Numbers outside of the function that are left open, and what stands for them."""
    stay_open: bool = False
    """Whether a use as a key raises TypeError, as PyTorch's sizes do, and does not make a number of
    a size: libraries compute anew then what they would keep."""

    @property
    def names_of_numbers(self) -> frozenset[str]:
        """Names of numbers that are no axis of a tensor."""
        axes = (extent for type in self.types for extent in type.shape)
        outside = (symbol for _, symbol in self.places)
        return frozenset(_names([*self.numbers, *outside]) - _names(axes))

    def sizes_of(
        self, types: Sequence[TensorType], numbers: Sequence[Any]
    ) -> dict[str, Any] | None:
        """The sizes and numbers, by name, at which these are the types and numbers, with those that
        stand outside now; None where they are of another form."""
        sizes: dict[str, Any] = {}
        if not all([fits(symbol, place.read(), sizes) for place, symbol in self.places]):
            return None
        if not all([fits(*pair, sizes) for pair in zip(self.numbers, numbers, strict=True)]):
            return None
        for own, other in zip(self.types, types, strict=True):
            if own is other:
                continue
            if own.dtype is not other.dtype or own.rank != other.rank:
                return None
            for extent, size in zip(own.shape, other.shape, strict=True):
                if not fits(extent, size, sizes):
                    return None
        return sizes

    def in_multiples(self, pairs: Sequence[tuple[Any, Any]]) -> SizedArguments | None:
        """The same where sizes are multiples of what is left open (`32*height`), so that the last
        of these pairs that is one size in the example is one as it is written. None where no factor
        up to `MOST_FACTOR` makes that of any."""
        axes: list[Any] = [extent for type in self.types for extent in type.shape]
        dims = [extent for extent in axes if isinstance(extent, Dim)]
        symbols = {each.name: each for extent in dims for each in extent.symbols()}
        own = {name: dim(each.name, each.least, each.most) for name, each in symbols.items()}
        for left, right in reversed(pairs):
            names = _names([left, right])
            if not names or names & self.names_of_numbers or names - self.example.keys():
                continue
            if evaluate(left, self.example) != evaluate(right, self.example):
                continue
            for factor in range(2, MOST_FACTOR + 1):
                multiples = {n: _multiple(symbols[n], factor, self.example[n]) for n in names}
                if None in multiples.values():
                    continue
                if evaluate(left, multiples) == evaluate(right, multiples):
                    return self._with({**own, **multiples}, dict.fromkeys(names, factor))
        return None

    def _with(self, extents: Mapping[str, Any], factors: Mapping[str, int]) -> SizedArguments:
        """The same where other extents stand for the names."""
        types = [
            type.with_shape(tuple(evaluate(extent, extents) for extent in type.shape))
            for type in self.types
        ]
        example = {name: n // factors[name] if name in factors else n
                   for name, n in self.example.items()}  # fmt: skip
        return replace(self, types=tuple(types), example=example)


def _multiple(symbol: Symbol, factor: int, size: int) -> Any:
    """`factor` times a size of this name, for a size that is now `size`; None where it is none."""
    if size % factor or size // factor < LEAST:
        return None
    least = max(LEAST, -(-symbol.least // factor))
    return factor * dim(symbol.name, least, symbol.most and symbol.most // factor)


def _names(extents: Iterable[Any]) -> set[str]:
    return {name for extent in extents for name in names_in(extent)}


def fits(extent: Any, size: Any, sizes: dict[str, Any]) -> bool:
    """Whether a size or number is what stands for it, where names stand for these sizes; one that
    `sizes` does not have yet it has from then on."""
    if type(extent) is SizeFloat:
        return isinstance(size, float) and same(sizes.setdefault(extent.left, size), size)
    if not isinstance(extent, Dim):
        return same(extent, size)
    if type(size) is not int:
        return False
    symbol, factor = extent.multiple
    assert symbol is not None
    size, rest = divmod(size, factor)
    if rest or size < symbol.least or (symbol.most is not None and size > symbol.most):
        return False
    return sizes.setdefault(symbol.name, size) == size


class SizeHistory:
    """What sizes the tensor arguments of one structure had, and which numbers were among them."""

    def __init__(self) -> None:
        self._seen: list[tuple[tuple[TensorType, ...], tuple[Any, ...]]] = []
        self._fixed: set[int] = set()

    def note(self, types: Sequence[TensorType], numbers: Sequence[Any]) -> None:
        """A call has these types and numbers."""
        seen = (tuple(types), tuple(numbers))
        if seen not in self._seen:
            self._seen = [*self._seen[-LONGEST + 1 :], seen]

    def traced(self, sized: SizedArguments, guards: Sequence[SizeGuard]) -> set[str]:
        """A trace had these arguments: a number that it needs to be a certain one is not left open
        again: their names. (What asks whether an int is 1, as a size of 1 broadcasts, needs no
        other.)"""
        certain = {name for guard in guards for name in guard.decides}
        certain -= {name for name in certain if same(sized.example[name], LEAST_INT)}
        self._fixed |= {i for i, n in enumerate(sized.numbers) if _names([n]) & certain}
        return certain

    def sized(
        self, types: Sequence[TensorType], numbers: Sequence[Any], all_open: bool, rules: Rules,
        places: Iterable[OutsideNumber] = (),
    ) -> SizedArguments | None:  # fmt: skip
        """The types and numbers with a name for each axis and number that was another before, or
        that a rule leaves open (or all of them), and for what stands in `places`; None where there
        is none. Those that were always equal have the same one, if no rule gives them others."""
        names: dict[Any, Any] = {}
        taken = {rule.name for rule in rules.values()}
        free = iter([name for name in NAMES if name not in taken])
        example: dict[str, Any] = {}
        result = []
        for position, type in enumerate(types):
            shape: list[Any] = list(type.shape)
            for axis, size in enumerate(type.shape):
                past = tuple(seen[position].shape[axis] for seen, _ in self._seen)
                rule = rules.get((position, axis))
                open_ = all_open or rule is not None or any(other != size for other in past)
                if size < LEAST or not open_ or (rule is not None and rule.static):
                    continue
                key: Any = (rule, *past, size) if rule is None or rule.name is None else rule.name
                known = names.get(key)
                if known is None:
                    name = key if isinstance(key, str) else next(free, f"n{len(example)}")
                    least, most = (LEAST, None) if rule is None else (rule.least, rule.most)
                    known = names[key] = dim(name, max(least, LEAST), most)
                    example[name] = size
                shape[axis] = known
            result.append(type.with_shape(tuple(shape)))
        opened: list[Any] = list(numbers)
        for i, number in enumerate(numbers):
            past = tuple(seen[i] for _, seen in self._seen)
            open_ = all_open or not all(same(other, number) for other in past)
            if not open_ or i in self._fixed or not can_be_open(number):
                continue
            key = (None, *past, number) if isinstance(number, int) else i
            if key not in names:
                name = next(free, f"n{len(example)}")
                names[key], example[name] = _number(name, number), number
            opened[i] = names[key]
        outside = []
        for place, least, group in places:
            if can_be_open(number := place.read(), least):
                key = (id(place) if group is None else group, value_text(number), least)
                if key not in names:
                    name = next(free, f"n{len(example)}")
                    names[key], example[name] = _number(name, number, least), number
                outside.append((place, names[key]))
        if not example:
            return None
        return SizedArguments(tuple(result), tuple(opened), example, tuple(outside))


def can_be_open(number: Any, least: int = LEAST_INT) -> bool:
    """Whether a number can be left open, where ints are from `least` on."""
    if type(number) is int:
        return least <= number <= GREATEST_INT
    return type(number) in NUMBERS


def _number(name: str, number: Any, least: int = LEAST_INT) -> Any:
    """What stands for a number."""
    is_float = isinstance(number, float)
    return float_argument(name) if is_float else dim(name, least, GREATEST_INT)
