"""Index expressions: the simplifier keeps integer arithmetic, and bounds hold every value."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.ir.types import row_major_strides
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of, resolved
from graphc.schedule.access import coordinates, unflatten

EXTENTS = (1, 2, 3, 5)
VARIABLES = tuple(Variable(f"v{extent}", extent) for extent in EXTENTS)
POINTS = list(itertools.product(*map(range, EXTENTS)))

Pair = tuple[Expr, Callable[[tuple[int, ...]], int]]


def leaf(choice: int) -> Pair:
    if choice < len(VARIABLES):
        return of(VARIABLES[choice]), lambda point: point[choice]
    number = choice - len(VARIABLES) - 6
    return of(number), lambda point: number


def combined(parts: tuple[str, Pair, Pair, int]) -> Pair:
    kind, (left, by_left), (right, by_right), number = parts
    match kind:
        case "add":
            return left + right, lambda p: by_left(p) + by_right(p)
        case "sub":
            return left - right, lambda p: by_left(p) - by_right(p)
        case "scale":
            return left * (number - 3), lambda p: by_left(p) * (number - 3)
        case "div":
            return left // number, lambda p: by_left(p) // number
        case "mod":
            return left % number, lambda p: by_left(p) % number
        case "shift":
            return 7 - left, lambda p: 7 - by_left(p)
        case _:
            return left + number, lambda p: by_left(p) + number


PAIRS: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, len(VARIABLES) + 12).map(leaf),
    lambda inner: st.tuples(
        st.sampled_from(["add", "sub", "scale", "div", "mod", "shift", "plus"]),
        inner, inner, st.integers(1, 12),
    ).map(combined),
    max_leaves=8,
)  # fmt: skip


def value_at(expr: Expr, point: tuple[int, ...]) -> int:
    done = expr.substitute(
        {variable: of(value) for variable, value in zip(VARIABLES, point, strict=True)}
    )
    assert done.is_constant
    return done.constant


@settings(max_examples=250, deadline=None, derandomize=True)
@given(PAIRS)
def test_an_expression_is_what_integers_give(pair: Pair) -> None:
    expr, direct = pair
    low, high = expr.bounds()
    values = [direct(point) for point in POINTS]
    assert [value_at(expr, point) for point in POINTS] == values, str(expr)
    assert [value_at(resolved(expr), point) for point in POINTS] == values, str(resolved(expr))
    assert low <= min(values) and max(values) <= high, f"{expr} in {low}..{high}"
    assert expr.within(min(values), max(values) + 1) or (low, high) != (min(values), max(values))
    assert not expr.within(min(values) + 1, max(values) + 1)
    assert not expr.within(min(values), max(values))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(PAIRS, PAIRS, st.integers(0, 3))
def test_substitution(pair: Pair, replacement: Pair, number: int) -> None:
    """Where the replacement stays in the variable's range, it is the variable's value."""
    (expr, direct), (inner, by_inner) = pair, replacement
    extent = EXTENTS[number]
    inside = inner % extent
    mixed = expr.substitute({VARIABLES[number]: inside})
    for point in POINTS[::3]:
        moved = list(point)
        moved[number] = by_inner(point) % extent
        assert value_at(mixed, point) == direct(tuple(moved)), f"{expr} with {inside} -> {mixed}"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(PAIRS)
def test_coefficients(pair: Pair) -> None:
    """An affine coefficient is the step of the value along the variable."""
    expr, direct = pair
    for number, extent in enumerate(EXTENTS):
        coefficient = expr.coefficient(VARIABLES[number])
        if coefficient is None or extent == 1:
            continue
        for point in POINTS[::5]:
            if point[number] + 1 == extent:
                continue
            following = list(point)
            following[number] += 1
            assert direct(tuple(following)) - direct(point) == coefficient, str(expr)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 5), (1, 7, 1, 2), (6,), ()])
def test_splitting_a_flat_index_and_joining_it_again_cancels(shape: tuple[int, ...]) -> None:
    index = coordinates(shape)
    flat = flatten(index, shape)
    assert flat.terms == frozenset(
        (Variable(f"d{axis}", dim), stride)
        for axis, (dim, stride) in enumerate(zip(shape, row_major_strides(shape), strict=True))
        if dim > 1
    )
    assert unflatten(flat, shape) == index
    total = 1
    for dim in shape:
        total *= dim
    position = of(Variable("p", max(total, 1)))
    assert flatten(unflatten(position, shape), shape) == position


@pytest.mark.parametrize("shift", [0, 1, 8, 16, 24, 133])
def test_a_shifted_flat_index_cancels_too(shift: int) -> None:
    """A vector further right in a tile: its address is as simple as the first one's, or it would be
    gathered element by element."""
    row, column = of(Variable("k", 32)), of(Variable("n", 16)) * 16 + of(Variable("lane", 8))
    flat = row * 400 + column + shift
    assert flatten(unflatten(flat, (32, 16, 5, 5)), (32, 16, 5, 5)) == flat
    inner = unflatten(column + shift, (16, 5, 5))
    assert flatten((row, *inner), (32, 16, 5, 5)) == flat


def test_unit_variables_vanish() -> None:
    assert of(Variable("one", 1)) == Expr(0)


def test_nested_quotients_merge() -> None:
    n = of(Variable("n", 1000))
    assert str((n // 4) // 5) == "(n)//20"
    assert str((4 * n + 3) // 4) == "n"
    assert str((n % 8) // 8) == "0"
    assert (n % 8).bounds() == (0, 7)
    assert str(2 * n + 1) == "2*n + 1"


def test_lanes_within_a_row_have_one_row_number() -> None:
    """(8·a + lane) // 64 is a // 8, told only where it is asked for."""
    a, lane = Variable("a", 100), Variable("lane", 8)
    row = (of(a) * 8 + of(lane)) // 64
    assert row.coefficient(lane) is None
    assert resolved(row) == of(a) // 8
    assert resolved(row * 64 + of(lane)).coefficient(lane) == 1
    across = (of(a) * 8 + of(lane)) // 12
    assert resolved(across).coefficient(lane) is None
    assert resolved((across + of(a)) // 7) == (across + of(a)) // 7
