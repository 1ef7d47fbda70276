"""Index expressions: whatever the normal form does, the numbers are those of plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.ops.index import Expr, Variable, flatten, of

EXTENTS = {"a": 7, "b": 5, "c": 3, "d": 1}
VARIABLES = {name: Variable(name, extent) for name, extent in EXTENTS.items()}

Formula = tuple[Any, ...]
formulas: st.SearchStrategy[Formula] = st.recursive(
    st.one_of(
        st.sampled_from([("variable", name) for name in EXTENTS]),
        st.integers(-20, 20).map(lambda n: ("number", n)),
    ),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["+", "-"]), inner, inner),
        st.tuples(st.just("*"), inner, st.integers(-6, 6)),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.integers(1, 12)),
    ),
    max_leaves=8,
)


def calculated(formula: Formula, leaf: Callable[[str], Any]) -> Any:
    """The formula in ordinary arithmetic over whatever `leaf` gives."""
    match formula:
        case ("variable", name):
            return leaf(name)
        case ("number", number):
            return number
        case (sign, left, right):
            x = calculated(left, leaf)
            y = right if isinstance(right, int) else calculated(right, leaf)
            return {
                "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "//": lambda: x // y,
                "%": lambda: x % y,
            }[sign]()  # fmt: skip
    raise AssertionError(formula)


def expression(formula: Formula) -> Expr:
    found = calculated(formula, lambda name: of(VARIABLES[name]))
    return found if isinstance(found, Expr) else of(found)


GRID = dict(zip(EXTENTS, np.indices(tuple(EXTENTS.values())), strict=True))


def evaluated(expr: Expr) -> np.ndarray:
    """The expression at every point, by substitution."""
    values = np.empty(tuple(EXTENTS.values()), np.int64)
    for point in np.ndindex(*values.shape):
        mapping = {v: of(n) for v, n in zip(VARIABLES.values(), point, strict=True)}
        number = expr.substitute(mapping)
        assert number.is_constant
        values[point] = number.constant
    return values


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(formulas)
def test_values_and_bounds_are_those_of_plain_arithmetic(formula: Formula) -> None:
    expr = expression(formula)
    wanted = np.broadcast_to(calculated(formula, GRID.__getitem__), tuple(EXTENTS.values()))
    np.testing.assert_array_equal(evaluated(expr), wanted)
    least, greatest = expr.bounds()
    assert least <= wanted.min() and wanted.max() <= greatest
    assert expr.within(least, greatest + 1) and not expr.within(least, greatest)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(formulas, st.sampled_from(["a", "b", "c"]))
def test_coefficients_are_slopes(formula: Formula, name: str) -> None:
    expr = expression(formula)
    slope = expr.coefficient(VARIABLES[name])
    if slope is not None:
        values = evaluated(expr)
        axis = list(EXTENTS).index(name)
        assert (np.diff(values, axis=axis) == slope).all()
    if VARIABLES[name] not in expr.variables():
        assert slope == 0


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(formulas, formulas)
def test_substituting_expressions_is_composition(outer: Formula, inner: Formula) -> None:
    """Put (inner mod 7) for `a`."""
    replacement = expression(("%", inner, 7))
    found = evaluated(expression(outer).substitute({VARIABLES["a"]: replacement}))
    inside = np.broadcast_to(calculated(("%", inner, 7), GRID.__getitem__), found.shape)
    wanted = calculated(outer, lambda name: inside if name == "a" else GRID[name])
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_splitting_and_joining_a_flat_index_cancels(shape: list[int]) -> None:
    flat = of(Variable("flat", int(np.prod(shape))))
    index, rest = [], flat
    for dim in reversed(shape[1:]):
        index.append(rest % dim)
        rest = rest // dim
    assert flatten(reversed([*index, rest]), shape) == flat


def test_equal_forms_are_equal_expressions() -> None:
    a, b = of(VARIABLES["a"]), of(VARIABLES["b"])
    assert a + b == b + a and hash(a + b) == hash(b + a)
    assert (a * 6 + b) // 6 == a and (a * 6 + b) % 6 == b
    assert (a * 4) // 6 == (a * 2) // 3
    assert a // 7 == of(0) and a % 7 == a
    assert a // 2 // 3 == a // 6
    assert a - a == of(0) and of(VARIABLES["d"]) == of(0)
    assert str(a * 2 + b // 2 + 3) == "2*a + (b)//2 + 3"


@pytest.mark.parametrize("extent", [2, 5, 12])
def test_a_remainder_is_bounded_by_its_divisor(extent: int) -> None:
    v = of(Variable("v", 1000))
    assert (v % extent).bounds() == (0, extent - 1)
    assert (v % extent * 3 + 1).bounds() == (1, 3 * extent - 2)
