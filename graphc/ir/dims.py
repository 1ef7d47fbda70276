"""Extents that are known only when a program runs: integer polynomials in named sizes.

An extent is an int or a `Dim`: `constant + Σ coefficient · monomial`, a monomial being a product of
symbols and of floor quotients of such polynomials. There is one normal form, so equal extents
compare equal, and arithmetic that cancels to a number gives an int. What bounds of the symbols
decide is decided; a comparison they leave open raises UndecidedSizeError, so that no code takes one
of two ways by accident. Code that may take the careful way asks `always_le` and `always_lt`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from keyword import iskeyword
from typing import Any, Protocol, TypeVar

from graphc.errors import SizeBoundError, UndecidedSizeError
from graphc.ir.dim_terms import ordered_terms, same_terms, term_text
from graphc.ir.size_floats import SizeFloat
from graphc.ir.undecided import Undecided, is_number, number_of, tell_apart, undecided
from graphc.records import record

__all__ = ["Dim", "DimQuotient", "Extent", "SizeOperations", "Symbol", "always_le", "always_lt",
           "at_least", "at_most", "bounds_of", "ceil_div", "common_divisor", "dim", "evaluate",
           "exact_quotient", "fixed", "greatest", "is_single", "is_symbolic", "known_number",
           "known_numbers", "least", "lowered", "number_times_size", "ordered_terms", "rank",
           "remainder", "symbol_of", "symbols_in"]  # fmt: skip

T = TypeVar("T")


@record
class Symbol:
    """A size with a name, in [least, most]; `most` None where nothing bounds it."""

    name: str
    least: int = 0
    most: int | None = None

    def check(self, size: int) -> None:
        """Raise SizeBoundError for a size out of the bounds."""
        if size < self.least or (self.most is not None and size > self.most):
            most = "" if self.most is None else f" to {self.most}"
            raise SizeBoundError(
                f"size {self.name} is {size}, not in {self.least}{most or ' upward'}"
            )

    def __str__(self) -> str:
        return self.name


@record
class DimQuotient:
    """`dividend // divisor`, rounded down, where that is no polynomial."""

    dividend: Dim
    divisor: Extent

    def __str__(self) -> str:
        divisor = f"({self.divisor})" if isinstance(self.divisor, Dim) else self.divisor
        return f"(({self.dividend}) floordiv {divisor})"


Factor = Symbol | DimQuotient
Monomial = tuple[Factor, ...]  # in the order of their texts, each as often as its power
Bound = int | float  # or an infinity


@record
class Dim(Undecided):
    """`constant + Σ coefficient · monomial`, with at least one monomial; see `dim`."""

    constant: int
    terms: frozenset[tuple[Monomial, int]]

    # -- arithmetic --------------------------------------------------------------------------

    def __add__(self, other: Extent) -> Extent:
        if is_number(other):
            return Dim(self.constant + other, self.terms)
        if isinstance(other, Dim):
            return _sum(self.constant + other.constant, (*self.terms, *other.terms))
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, other: Extent) -> Extent:
        return self + -other if isinstance(other, Dim) or is_number(other) else NotImplemented

    def __rsub__(self, other: int) -> Extent:
        return -self + other

    def __mul__(self, other: Extent) -> Extent:
        if is_number(other):
            return _sum(self.constant * other, [(m, c * other) for m, c in self.terms])
        if isinstance(other, Dim):
            terms = [
                (_product(a, b), c * d) for a, c in _with_unit(self) for b, d in _with_unit(other)
            ]
            return _sum(0, terms)
        return NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Extent) -> Extent:
        known = isinstance(divisor, Dim) or is_number(divisor)
        return _floordiv(self, divisor) if known else NotImplemented

    def __rfloordiv__(self, dividend: int) -> Extent:
        return _floordiv(dividend, self)

    def __mod__(self, divisor: Extent) -> Extent:
        known = isinstance(divisor, Dim) or is_number(divisor)
        return self - self // divisor * divisor if known else NotImplemented

    def __rmod__(self, dividend: int) -> Extent:
        return dividend - dividend // self * self

    def __divmod__(self, divisor: Extent) -> tuple[Extent, Extent]:
        quotient = self // divisor
        return quotient, self - quotient * divisor

    def __rdivmod__(self, dividend: int) -> tuple[Extent, Extent]:
        quotient = dividend // self
        return quotient, dividend - quotient * self

    # -- questions ---------------------------------------------------------------------------

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that this is and nothing else; None for all others."""
        symbol, factor = self.multiple
        return symbol if factor == 1 else None

    @property
    def multiple(self) -> tuple[Symbol | None, int]:
        """The symbol and the number that this is the product of; None and 0 for all others."""
        if self.constant or len(self.terms) != 1:
            return None, 0
        ((monomial, coefficient),) = self.terms
        only = monomial[0] if len(monomial) == 1 else None
        return (only, coefficient) if isinstance(only, Symbol) else (None, 0)

    def bounds(self) -> tuple[Bound, Bound]:
        """Least and greatest value, both inclusive (never too narrow; may be too wide)."""
        return _bounds(self)

    def symbols(self) -> frozenset[Symbol]:
        """Every symbol, also inside quotients."""
        return frozenset().union(*(_symbols(factor) for m, _ in self.terms for factor in m))

    def __eq__(self, other: object) -> bool:
        known = isinstance(other, Dim) or is_number(other)
        return same_terms(self, other) or (tell_apart(self, other) if known else NotImplemented)

    def __lt__(self, other: Extent) -> bool:
        return _decided(self, "<", other, always_lt(self, other), always_le(other, self))

    def __le__(self, other: Extent) -> bool:
        return _decided(self, "<=", other, always_le(self, other), always_lt(other, self))

    def __gt__(self, other: Extent) -> bool:
        return _decided(self, ">", other, always_lt(other, self), always_le(self, other))

    def __ge__(self, other: Extent) -> bool:
        return _decided(self, ">=", other, always_le(other, self), always_lt(self, other))

    def __truediv__(self, other: Any) -> Any:
        return SizeFloat("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return SizeFloat("div", other, self)

    def __index__(self) -> int:
        return int(number_of(self))

    __int__ = __index__

    def at(self, sizes: Mapping[str, int]) -> int:
        return evaluate(self, sizes)

    def __bool__(self) -> bool:
        low, high = self.bounds()
        return _decided(self, "!=", 0, low > 0 or high < 0, low == high == 0)

    def __str__(self) -> str:
        texts = [term_text(m, c) for m, c in ordered_terms(self)]
        if self.constant:
            texts.append(str(self.constant))
        return " + ".join(texts).replace("+ -", "- ")

    __repr__ = __str__


Extent = int | Dim
FLOORDIV = "floordiv"
"""How texts write a floor quotient (`//` begins a comment there)."""


def dim(name: str, least: int = 0, most: int | None = None) -> Dim:
    """The size `name`, in [least, most]. Raises SizeBoundError for what is no name."""
    taken = iskeyword(name) or name == FLOORDIV
    if taken or not (name.isidentifier() and name.isascii() and name[0] != "_"):
        raise SizeBoundError(f"{name!r} is no name of a size")
    return Dim(0, frozenset((((Symbol(name, least, most),), 1),)))


def is_symbolic(extents: Iterable[Extent]) -> bool:
    """Whether any of them is known only when the program runs."""
    return any(isinstance(extent, Dim) for extent in extents)


def fixed(extent: Extent) -> int:
    """The extent as an int, for code that is written out for one size. Raises UndecidedSizeError
    for one that is known only at run time."""
    if isinstance(extent, int):
        return extent
    raise UndecidedSizeError(f"the size {extent} has to be a number here")


def known_number(extent: object) -> int | None:
    """An extent, or what is computed of some, where it is a number; None where it is known only at
    run time, or is none."""
    return extent if isinstance(extent, int) else None


def number_and_size(extent: Extent) -> tuple[int, Extent]:
    """Two parts whose sum the extent is: a number, and what has none."""
    number = extent.constant if isinstance(extent, Dim) else extent
    return number, extent - number


def known_numbers(*extents: object) -> tuple[int, ...] | None:
    """All of them, where all are numbers; see `known_number`."""
    numbers = [extent for extent in extents if isinstance(extent, int)]
    return tuple(numbers) if len(numbers) == len(extents) else None


def number_times_size(extent: Extent) -> tuple[int, Extent]:
    """Two factors of which the extent is the product: itself, and 1 as a number or as a size."""
    return (extent, 1) if isinstance(extent, int) else (1, extent)


def rank(extent: Extent) -> tuple[int, int, str]:
    """Sorts numbers by value, sizes known only at run time behind them by their texts."""
    return (0, extent, "") if isinstance(extent, int) else (1, 0, str(extent))


def symbol_of(extent: Extent) -> Symbol | None:
    """The symbol that the extent is and nothing else; None for all others."""
    return extent.symbol if isinstance(extent, Dim) else None


def symbols_in(*extents: Extent) -> frozenset[Symbol]:
    """Every symbol among the extents, also inside quotients."""
    return frozenset().union(*[each.symbols() for each in extents if isinstance(each, Dim)])


def at_least(extent: Extent, least: int) -> Extent:
    """The extent of a variable that stands for any position: `least` where it is a number below
    that, so that the variable does not vanish from index expressions."""
    return max(extent, least) if isinstance(extent, int) else extent


def at_most(extent: object, most: int) -> int:
    """`most`, or an extent or what is computed of some, where it is a number below that."""
    return min(extent, most) if isinstance(extent, int) else most


def least(*extents: Extent) -> Extent | None:
    """The one that at no size is more than another; None where it depends on the size which."""
    return next((one for one in extents if all(always_le(one, each) for each in extents)), None)


def greatest(*extents: Extent) -> Extent | None:
    """The one that at no size is less than another; None where it depends on the size which."""
    return next((one for one in extents if all(always_le(each, one) for each in extents)), None)


def is_single(extent: Extent) -> bool:
    """Whether it is at most one at every size: a variable below it stands for one position."""
    return always_le(extent, 1)


def common_divisor(extent: Extent, number: int) -> int:
    """The greatest divisor of a number that is known to divide the extent at every size."""
    parts = _with_unit(extent) if isinstance(extent, Dim) else [((), extent)]
    return math.gcd(number, *(coefficient for _, coefficient in parts))


def ceil_div(extent: Extent, divisor: int) -> Extent:
    """`extent` divided by `divisor`, rounded up."""
    return (extent + (divisor - 1)) // divisor


def remainder(extent: Extent, size: int) -> int:
    """What tiles of a size leave of an extent, for code that is written out for it. Raises
    UndecidedSizeError where that is known only at run time."""
    return fixed(extent % size)


def exact_quotient(dividend: Extent, divisor: Extent) -> Extent | None:
    """The polynomial that times `divisor` is `dividend`, where it is found; None elsewhere. The
    divisor is taken not to be 0."""
    by, scale = _single_term(divisor)
    if by is None:
        return 1 if dividend == divisor else 0 if dividend == 0 else None
    terms = _with_unit(dividend) if isinstance(dividend, Dim) else [((), dividend)]
    parts = []
    for monomial, coefficient in terms:
        left = _quotient_of(monomial, by)
        if coefficient == 0:
            continue
        if left is None or coefficient % scale:
            return None
        parts.append((left, coefficient // scale))
    return _sum(0, parts)


def bounds_of(extent: Extent) -> tuple[Bound, Bound]:
    """Least and greatest value, both inclusive; those of a number are the number."""
    return (extent, extent) if isinstance(extent, int) else extent.bounds()


def always_le(a: Extent, b: Extent) -> bool:
    """Whether a <= b for all sizes within their bounds. False where it is not known, too."""
    difference = b - a
    return (difference if isinstance(difference, int) else difference.bounds()[0]) >= 0


def always_lt(a: Extent, b: Extent) -> bool:
    """Whether a < b for all sizes within their bounds. False where it is not known, too."""
    difference = b - a
    return (difference if isinstance(difference, int) else difference.bounds()[0]) > 0


def evaluate(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The extent where each symbol has the size of its name. Raises KeyError for one without."""
    if isinstance(extent, int):
        return extent
    return extent.constant + sum(
        coefficient * math.prod(_value(factor, sizes) for factor in monomial)
        for monomial, coefficient in extent.terms
    )


class SizeOperations(Protocol[T]):
    """What extents are computed by where there are no numbers yet: operations of a kernel, text."""

    def number(self, value: int) -> T: ...

    def symbol(self, symbol: Symbol) -> T: ...

    def add(self, x: T, y: T) -> T: ...

    def mul(self, x: T, y: T) -> T: ...

    def floordiv(self, x: T, y: T, may_be_negative: bool) -> T:
        """Rounded down; `y` is above 0, `x` may be below."""


def lowered(extent: Extent, to: SizeOperations[T]) -> T:
    """The extent as these operations compute it: its number first, then term by term in the order
    of their texts, in each the factors ahead of the coefficient."""
    if isinstance(extent, int):
        return to.number(extent)
    total = to.number(extent.constant) if extent.constant else None
    for monomial, coefficient in ordered_terms(extent):
        factors = [_lowered_factor(factor, to) for factor in monomial]
        if coefficient != 1:
            factors.append(to.number(coefficient))
        term = reduce(to.mul, factors)
        total = term if total is None else to.add(total, term)
    assert total is not None, "an extent that is no number has terms"
    return total


def _lowered_factor(factor: Factor, to: SizeOperations[T]) -> T:
    if isinstance(factor, Symbol):
        return to.symbol(factor)
    x, y = lowered(factor.dividend, to), lowered(factor.divisor, to)
    return to.floordiv(x, y, not always_le(0, factor.dividend))


def _value(factor: Factor, sizes: Mapping[str, int]) -> int:
    if isinstance(factor, Symbol):
        return sizes[factor.name]
    return evaluate(factor.dividend, sizes) // evaluate(factor.divisor, sizes)


# -- normal form ------------------------------------------------------------------------------


def _sum(constant: int, terms: Iterable[tuple[Monomial, int]]) -> Extent:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        if monomial:
            total[monomial] = total.get(monomial, 0) + coefficient
        else:
            constant += coefficient
    left = frozenset([(m, c) for m, c in total.items() if c])
    return Dim(constant, left) if left else constant


def _with_unit(extent: Dim) -> list[tuple[Monomial, int]]:
    """The terms, the constant as one of the empty monomial."""
    return [*extent.terms, ((), extent.constant)]


def _product(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted((*a, *b), key=str))


def _quotient_of(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial that times `divisor` is `monomial`, if there is one."""
    left = list(monomial)
    for factor in divisor:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


@lru_cache(maxsize=65536)
def _floordiv(dividend: Extent, divisor: Extent) -> Extent:
    if not always_lt(0, divisor):
        raise UndecidedSizeError(f"a division by {divisor}, which may be 0 or below")
    terms = _with_unit(dividend) if isinstance(dividend, Dim) else [((), dividend)]
    by, scale = _single_term(divisor)
    outside: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for monomial, coefficient in terms:
        left = None if by is None else _quotient_of(monomial, by)
        if left is None:
            rest.append((monomial, coefficient))
            continue
        whole, over = divmod(coefficient, scale)
        # A constant is split; of a term with symbols, only whole multiples are taken out.
        if over and left:
            rest.append((monomial, coefficient))
            continue
        outside.append((left, whole))
        rest.append((monomial, over))
    inner = _sum(0, rest)
    if always_le(0, inner) and always_lt(inner, divisor):
        return _sum(0, outside)
    if isinstance(inner, int):  # below 0, or of a divisor that may be less
        inner = Dim(inner, frozenset())
    return _sum(0, [*outside, ((DimQuotient(inner, divisor),), 1)])


def _single_term(divisor: Extent) -> tuple[Monomial | None, int]:
    """The monomial and coefficient of a divisor that is one term; None where it is more."""
    if isinstance(divisor, int):
        return (), divisor
    if divisor.constant or len(divisor.terms) != 1:
        return None, 1
    ((monomial, coefficient),) = divisor.terms
    return monomial, coefficient


# -- bounds -----------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def _bounds(extent: Dim) -> tuple[Bound, Bound]:
    for monomial, coefficient in ordered_terms(extent):
        # k·(q - d·(q // d)) is k·(q % d), which lies between 0 and k·(d - 1).
        quotient = monomial[0] if len(monomial) == 1 else None
        if not isinstance(quotient, DimQuotient) or not isinstance(quotient.divisor, int):
            continue
        factor, over = divmod(-coefficient, quotient.divisor)
        if not factor or over:
            continue
        own = Dim(0, frozenset(((monomial, quotient.divisor),)))
        left = extent - (quotient.dividend - own) * factor
        count = len(left.terms) if isinstance(left, Dim) else 0
        if count < len(extent.terms):
            low, high = bounds_of(left)
            reach = factor * (quotient.divisor - 1)
            return low + min(reach, 0), high + max(reach, 0)
    low = high = extent.constant
    for monomial, coefficient in extent.terms:
        least, greatest = _monomial_bounds(monomial)
        ends = [_times(coefficient, least), _times(coefficient, greatest)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _monomial_bounds(monomial: Monomial) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    for factor in monomial:
        least, greatest = _factor_bounds(factor)
        ends = [_times(a, b) for a in (low, high) for b in (least, greatest)]
        low, high = min(ends), max(ends)
    return low, high


def _factor_bounds(factor: Factor) -> tuple[Bound, Bound]:
    if isinstance(factor, Symbol):
        return factor.least, math.inf if factor.most is None else factor.most
    low, high = factor.dividend.bounds()
    if isinstance(factor.divisor, int):
        return _divided(low, factor.divisor), _divided(high, factor.divisor)
    # The divisor is at least 1, so a quotient is no further from 0 than its dividend.
    return (0 if low >= 0 else low), (high if high >= 0 else -1)


def _divided(bound: Bound, divisor: int) -> Bound:
    return bound // divisor if isinstance(bound, int) else bound


def _times(a: Bound, b: Bound) -> Bound:
    return a * b if a and b else 0


def _decided(left: Dim, sign: str, right: Extent, yes: bool, no: bool) -> bool:
    return yes if yes != no else undecided(left, sign, right)


def _symbols(factor: Factor) -> frozenset[Symbol]:
    if isinstance(factor, Symbol):
        return frozenset((factor,))
    inner = factor.dividend.symbols()
    return inner | factor.divisor.symbols() if isinstance(factor.divisor, Dim) else inner
