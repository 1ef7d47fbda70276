"""Integer index expressions with ranges, in a normal form that simplifies itself.

An expression is `constant + Σ coefficient · atom`; an atom is a variable with a known extent or a
floor quotient. `e % c` is written `e - c·(e // c)`, so that reshapes cancel: splitting a flat index
into coordinates and joining them again gives back the flat index. The operators work the same on
these expressions and on NumPy integer arrays, so one index map serves code and reference.

Extents, coefficients and divisors are ints, or sizes known only at run time (`graphc.ir.dims`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from graphc.errors import UndecidedSizeError
from graphc.ir.dims import Dim, Extent, always_le, always_lt, at_least, exact_quotient, fixed
from graphc.ir.undecided import forgets_answers

# Named tuples, all three: expressions live in sets and tables, and tuples are hashed and compared
# without Python code. (A frozenset keeps its hash, so nothing is hashed to its full depth again.)


class Variable(NamedTuple):
    """An integer in [0, extent)."""

    name: str
    extent: Extent


class Quotient(NamedTuple):
    """`dividend // divisor`, rounded down."""

    dividend: Expr
    divisor: Extent


Atom = Variable | Quotient

_NUMBER = re.compile(r"(\d+)")
_NO_TERMS: frozenset[Any] = frozenset()
_made = tuple.__new__
"""`_made(Expr, (constant, terms))` is `Expr(constant, terms)` without a call of Python's: most of
what lowering makes are expressions."""

FINEST = 32
"""The shortest row whose number is told from its columns' (`_without_fine_part`)."""


class Expr(NamedTuple):
    """`constant + Σ coefficient · atom`; `terms` holds each atom once, coefficients nonzero."""

    constant: Extent
    terms: frozenset[tuple[Atom, Extent]] = frozenset()

    def __add__(self, other: Expr | Extent) -> Expr:  # type: ignore[override]
        if not isinstance(other, Expr):
            return self if other == 0 else _made(Expr, (self.constant + other, self.terms))
        if not other.terms:
            return _made(Expr, (self.constant + other.constant, self.terms))
        if not self.terms:
            return _made(Expr, (self.constant + other.constant, other.terms))
        return _combine(self.constant + other.constant, (*self.terms, *other.terms))

    def __radd__(self, other: Extent) -> Expr:
        return self + other

    def __neg__(self) -> Expr:
        return self * -1

    def __sub__(self, other: Expr | Extent) -> Expr:
        if not isinstance(other, Expr) or not other.terms:
            return self + -other
        away = [(atom, -c) for atom, c in other.terms]
        return _combine(self.constant - other.constant, (*self.terms, *away))

    def __rsub__(self, other: Extent) -> Expr:
        return -self + other

    def __mul__(self, factor: Extent) -> Expr:  # type: ignore[override]
        if factor == 1:
            return self
        if factor == 0 or not self.terms:
            return _made(Expr, (self.constant * factor, _NO_TERMS))
        terms = frozenset([(atom, c * factor) for atom, c in self.terms])
        return _made(Expr, (self.constant * factor, terms))

    def __rmul__(self, factor: Extent) -> Expr:  # type: ignore[override]
        return self * factor

    def __floordiv__(self, divisor: Extent) -> Expr:
        return _floordiv(self, divisor)

    def __mod__(self, divisor: Extent) -> Expr:
        return _modulo(self, divisor)

    def bounds(self) -> tuple[Extent, Extent]:
        """Least and greatest value, both inclusive (never too narrow; may be too wide), where no
        variable's extent is 0: where one is, nobody asks for an element. Raises UndecidedSizeError
        where they depend on the sign of a size."""
        return _bounds(self)

    def within(self, low: Extent, high: Extent) -> bool:
        """True where low <= self < high is certain."""
        return self.at_least(low) and self.below(high)

    def at_least(self, low: Extent) -> bool:
        """True where low <= self is certain."""
        try:
            return always_le(low, _bounds(self)[0])
        except UndecidedSizeError:
            return False

    def below(self, high: Extent) -> bool:
        """True where self < high is certain."""
        try:
            return always_lt(_bounds(self)[1], high)
        except UndecidedSizeError:
            return False

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def number(self) -> int:
        """The constant. Raises UndecidedSizeError for one that is known only at run time."""
        return fixed(self.constant)

    def variables(self) -> frozenset[Variable]:
        """Every variable, also inside quotients."""
        return _variables(self)

    def coefficient(self, variable: Variable) -> Extent | None:
        """The coefficient of `variable` where the expression is affine in it, else None."""
        result: Extent = 0
        for atom, coefficient in self.terms:
            if atom == variable:
                result = coefficient
            elif isinstance(atom, Quotient) and variable in atom.dividend.variables():
                return None
        return result

    def substitute(self, mapping: Mapping[Variable, Expr]) -> Expr:
        result = Expr(self.constant)
        for atom, coefficient in self.terms:
            if isinstance(atom, Variable):
                replacement = mapping.get(atom)
                term = of(atom) if replacement is None else replacement
            else:
                term = atom.dividend.substitute(mapping) // atom.divisor
            result = result + term * coefficient
        return result

    def __str__(self) -> str:
        texts = [_term_text(atom, c) for atom, c in sorted(self.terms, key=_order)]
        if self.constant != 0 or not texts:
            texts.append(str(self.constant))
        return " + ".join(texts)


def of(value: Variable | Extent | Expr) -> Expr:
    """A variable or number as an expression; an expression as it is."""
    if not isinstance(value, Variable):
        return value if isinstance(value, Expr) else _made(Expr, (value, _NO_TERMS))
    # A variable of extent 1 is always 0: unit dimensions vanish from every index.
    terms = frozenset(((value, 1),)) if value.extent != 1 else _NO_TERMS
    return _made(Expr, (0, terms))


def flatten(index: Iterable[Expr], shape: Iterable[Extent]) -> Expr:
    """The row-major flat position of a coordinate."""
    parts = list(zip(index, shape, strict=True))
    constant: Extent = 0
    step: Extent = 1
    terms: list[tuple[Atom, Extent]] = []
    for coordinate, dim in reversed(parts):
        constant += step * coordinate.constant
        terms += [(atom, step * c) for atom, c in coordinate.terms]
        step *= dim
    return _combine(constant, terms)


def _order(term: tuple[Atom, Extent]) -> tuple[Any, ...]:
    """Greatest coefficients first, then by name, the numbers in names by value: names are numbered
    as variables are made, and how many were made before must not matter."""
    atom, coefficient = term
    parts = _NUMBER.split(str(atom))
    named = (int(part) if i % 2 else part for i, part in enumerate(parts))
    if isinstance(coefficient, Dim):  # behind the numbers
        return math.inf, *named, str(coefficient)
    return -abs(coefficient), *named, coefficient


def _term_text(atom: Atom, coefficient: Extent) -> str:
    if isinstance(atom, Variable):
        text = atom.name
    else:
        text = f"({atom.dividend})//{_factor(atom.divisor)}"
    return text if coefficient == 1 else f"{_factor(coefficient)}*{text}"


def _factor(extent: Extent) -> str:
    return f"({extent})" if isinstance(extent, Dim) else str(extent)


def _combine(constant: Extent, terms: Iterable[tuple[Atom, Extent]]) -> Expr:
    total: dict[Atom, Extent] = {}
    for atom, coefficient in terms:
        total[atom] = total.get(atom, 0) + coefficient
    if 0 in total.values():
        return _made(Expr, (constant, frozenset([(a, c) for a, c in total.items() if c != 0])))
    return _made(Expr, (constant, frozenset(total.items())))


def _is_fixed(expr: Expr) -> bool:
    """Whether constant and coefficients are numbers."""
    if type(expr.constant) is not int:
        return False
    return all([type(coefficient) is int for _, coefficient in expr.terms])


@forgets_answers
@lru_cache(maxsize=65536)
def _floordiv(expr: Expr, divisor: Extent) -> Expr:
    if divisor == 1:
        return expr
    if not isinstance(divisor, int) or not _is_fixed(expr):
        return _symbolic_floordiv(expr, divisor)
    outside = Expr(
        expr.constant // divisor,
        frozenset((atom, c // divisor) for atom, c in expr.terms if c % divisor == 0),
    )
    rest = Expr(
        expr.constant % divisor,
        frozenset((atom, c) for atom, c in expr.terms if c % divisor),
    )
    least, greatest = rest.bounds()
    if least // divisor == greatest // divisor:
        return outside + least // divisor
    common = math.gcd(divisor, *(c for _, c in rest.terms))
    if common > 1:
        # (g·a + r) // (g·b) = (a + r // g) // b, since 0 <= r % g < g adds nothing.
        reduced = Expr(
            rest.constant // common, frozenset((atom, c // common) for atom, c in rest.terms)
        )
        return outside + reduced // (divisor // common)
    coarse = _without_fine_part(rest, divisor)
    if coarse is not None:
        return outside + coarse
    if len(rest.terms) == 1:
        ((atom, coefficient),) = rest.terms
        if isinstance(atom, Quotient) and coefficient == 1:
            # (q // m + c) // d = (q + c·m) // (m·d)
            moved = atom.dividend + rest.constant * atom.divisor
            return outside + moved // (atom.divisor * divisor)
    return outside + _quotient(rest, divisor)


def _symbolic_floordiv(expr: Expr, divisor: Extent) -> Expr:
    """As `_floordiv` where sizes take part: terms that are multiples are taken out. What divides is
    taken to be 1 at least: where a size is 0 nobody asks for an element."""
    outside: list[tuple[Atom, Extent]] = []
    rest: list[tuple[Atom, Extent]] = []
    for atom, coefficient in expr.terms:
        whole = exact_quotient(coefficient, divisor)
        if whole is None:
            rest.append((atom, coefficient))
        else:
            outside.append((atom, whole))
    whole, over = exact_quotient(expr.constant, divisor), expr.constant
    if whole is not None:
        over = 0
    elif isinstance(divisor, int) and isinstance(expr.constant % divisor, int):
        whole, over = expr.constant // divisor, expr.constant % divisor
    left = _combine(over, rest)
    quotients = Expr(0 if whole is None else whole, frozenset(outside))
    return quotients if left.within(0, divisor) else quotients + _quotient(left, divisor)


@forgets_answers
@lru_cache(maxsize=65536)
def _modulo(expr: Expr, divisor: Extent) -> Expr:
    return expr - expr // divisor * divisor


def resolved(expr: Expr) -> Expr:
    """The same, with the numbers of rows told from flat positions however short the rows are."""
    result = Expr(expr.constant)
    for atom, coefficient in expr.terms:
        term = Expr(0, frozenset(((atom, 1),)))
        if isinstance(atom, Quotient):
            dividend, divisor = resolved(atom.dividend), atom.divisor
            coarse = None
            if isinstance(divisor, int) and _is_fixed(dividend):
                coarse = _without_fine_part(dividend, divisor, 1)
            term = dividend // divisor if coarse is None else coarse
        result = result + term * coefficient
    return result


def _without_fine_part(expr: Expr, divisor: int, finest: int = FINEST) -> Expr | None:
    """(g·a + r) // (g·b) = a // b where 0 <= r < g: the row of a flat position does not depend on
    the column. None where there is no such r, or g is below `finest`.

    Not where r is no more than the lanes of a vector, but for `resolved`. Whether lanes end at the
    end of a row of an image is for the tile of a convolution to decide: known here, it would let
    LLVM share loads between the windows of a tile, which takes more registers than there are.
    """
    terms = sorted(expr.terms, key=_order)
    for count in range(1, len(terms)):
        step = math.gcd(divisor, *(c for _, c in terms[:count]))
        fine = Expr(expr.constant % step, frozenset(terms[count:]))
        if step >= finest and fine.within(0, step):
            a = Expr(expr.constant // step, frozenset((t, c // step) for t, c in terms[:count]))
            return a // (divisor // step)
    return None


def _quotient(dividend: Expr, divisor: Extent) -> Expr:
    try:
        least, greatest = dividend.bounds()
    except UndecidedSizeError:  # of the sign of a coefficient: no number is all of it
        return Expr(0, frozenset(((Quotient(dividend, divisor), 1),)))
    if isinstance(least, int) and isinstance(greatest, int) and isinstance(divisor, int):
        if least // divisor == greatest // divisor:
            return Expr(least // divisor)
    return Expr(0, frozenset(((Quotient(dividend, divisor), 1),)))


@forgets_answers
@lru_cache(maxsize=65536)
def _bounds(expr: Expr) -> tuple[Extent, Extent]:
    # Which is taken first may decide how wide the bounds are: not the order of a set.
    falling = [
        term for term in expr.terms if isinstance(term[0], Quotient) and always_lt(term[1], 0)
    ]
    for atom, coefficient in sorted(falling, key=_order) if len(falling) > 1 else falling:
        assert isinstance(atom, Quotient)
        # k·(q - d·(q // d)) is k·(q % d), which lies in [0, k·(d - 1)].
        factor = exact_quotient(-coefficient, atom.divisor)
        if factor is None:
            continue
        remainder = (atom.dividend - Expr(0, frozenset(((atom, atom.divisor),)))) * factor
        left = expr - remainder
        if len(left.terms) < len(expr.terms):
            least, greatest = left.bounds()
            return least, greatest + factor * (atom.divisor - 1)
    least = greatest = expr.constant
    for atom, coefficient in expr.terms:
        low, high = _atom_bounds(atom)
        if coefficient >= 0:
            least, greatest = least + coefficient * low, greatest + coefficient * high
        else:
            least, greatest = least + coefficient * high, greatest + coefficient * low
    return least, greatest


def _atom_bounds(atom: Atom) -> tuple[Extent, Extent]:
    if isinstance(atom, Quotient):
        least, greatest = atom.dividend.bounds()
        if isinstance(atom.divisor, int):
            return least // atom.divisor, greatest // atom.divisor
        if always_lt(0, atom.divisor):  # the line of a position of a plane is one of its lines
            greatest = greatest // atom.divisor
        return 0 if least >= 0 else least, greatest
    extent = atom.extent
    return 0, at_least(extent - 1, 0)


@forgets_answers
@lru_cache(maxsize=65536)
def _variables(expr: Expr) -> frozenset[Variable]:
    variables: set[Variable] = set()
    for atom, _ in expr.terms:
        if isinstance(atom, Variable):
            variables.add(atom)
        else:
            variables |= atom.dividend.variables()
    return frozenset(variables)
