"""Numbers of loops: folded where they are known, operations of the kernel elsewhere, the same
numbers either way."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Let, LoopValue, walk
from graphc.codegen.loop_ir.numbers import Number, Numbers, is_known, known_range
from graphc.ir.dims import Dim, Symbol, dim
from graphc.ir.types import DType

AT = 12
N = dim("n", AT)
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "div": lambda x, y: x // y, "floordiv": lambda x, y: x // y, "bits": lambda x, y: x & y,
    "minimum": min, "maximum": max,
}  # fmt: skip
FORMS = ("number", "size", "value")


def formed(b: LoopBuilder, number: int, form: str) -> Number:
    """A number as it is, as a polynomial that is it where n is AT, or computed by the kernel."""
    if form == "number":
        return number
    size = N + (number - AT)
    return size if form == "size" else b.add(b.numbers.value(size), b.const(DType.i64, 0))


def evaluated(make: Callable[[LoopBuilder, Numbers], Number]) -> tuple[int, list[str], bool]:
    """The number where n is AT, the operations that the kernel makes, whether it is known."""
    b = LoopBuilder("kernel")
    assert isinstance(N, Dim) and isinstance(N.symbol, Symbol)
    b.declare_sizes([N.symbol])
    out = b.buffer("out", DType.i64, 1, "write")
    number = make(b, b.numbers)
    known = is_known(number)
    b.store(out, b.index(), b.numbers.value(number))
    kernel = b.finish(1)
    result = np.zeros(1, np.int64)
    interpreter.run(kernel, [result], sizes={"n": AT})
    return int(result[0]), [s.opcode for s in walk(kernel.body) if isinstance(s, Let)], known


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_same_number_in_every_form(name: str) -> None:
    for pair in ((7, 3), (24, 8), (5, 9), (6, 6)):
        for forms in itertools.product(FORMS, FORMS):
            number, _, known = evaluated(functools.partial(computed, name, pair, forms))
            assert number == OPERATIONS[name](*pair), (name, pair, forms)
            assert known or forms != ("number", "number"), "numbers are folded"
            assert not known or "value" not in forms


def computed(
    name: str, pair: tuple[int, int], forms: tuple[str, ...], b: LoopBuilder, n: Numbers
) -> Number:
    x, y = (formed(b, number, form) for number, form in zip(pair, forms))
    result: Number = getattr(n, name)(x, y)
    return result


def test_polynomials_of_sizes_are_folded_where_bounds_say_what_comes_out() -> None:
    _, operations, known = evaluated(lambda b, n: n.minimum(n.add(n.mul(N, 3), 2), N))
    assert known and not {"minimum", "mul", "add"} & set(operations)
    number, operations, known = evaluated(lambda b, n: n.minimum(N, 20))
    assert not known and operations.count("minimum") == 1 and number == AT
    number, _, known = evaluated(lambda b, n: n.minimum(n.div(N, 5), 2))
    assert number == 2 and known, "n is 12 or more"


def test_where_tiles_of_a_range_end() -> None:
    for forms in itertools.product(FORMS, FORMS):
        for first, size, end, behind in ((8, 4, 12, 12), (8, 8, 12, 12), (0, 8, 12, 8)):

            def ends(b: LoopBuilder, n: Numbers) -> Number:
                return n.tile_end(formed(b, first, forms[0]), size, formed(b, end, forms[1]))  # noqa: B023

            assert evaluated(ends)[0] == behind, (first, size, end, forms)
    b = LoopBuilder("kernel")
    b.declare_sizes([N.symbol])  # type: ignore[union-attr,list-item]
    start = b.numbers.value(N)
    before = len(b.block.statements)
    b.numbers.tile_end(start, 4, 4 * N)
    added = [each.opcode for each in b.block.statements[before:] if isinstance(each, Let)]
    assert "minimum" not in added, "all are whole"


def test_whether_a_number_is_0_is_asked_where_that_is_not_known() -> None:
    b = LoopBuilder("kernel")
    b.declare_sizes([N.symbol])  # type: ignore[union-attr,list-item]
    assert b.numbers.nonzero(3) is None and b.numbers.nonzero(N) is None, "n is 12 or more"
    assert b.numbers.nonzero(N % 5) is not None and b.numbers.nonzero(b.numbers.value(N))
    for number in (0, 3):
        for form in FORMS:
            held = evaluated(lambda b, n: as_number(b, n.nonzero(formed(b, number, form))))[0]  # noqa: B023
            assert held == (number > 0), (number, form)


def as_number(b: LoopBuilder, test: LoopValue | None) -> LoopValue:
    return b.const(DType.i64, 1) if test is None else b.convert(test, DType.i64)


def test_a_range_of_numbers_is_known() -> None:
    assert known_range(2, 5) == range(2, 5)
    assert known_range(0, N) is None
    b = LoopBuilder("kernel")
    assert known_range(b.const(DType.i64, 0), 4) is None


def test_an_offset_of_numbers() -> None:
    b = LoopBuilder("kernel")
    b.declare_sizes([N.symbol])  # type: ignore[union-attr,list-item]
    value = b.numbers.value(N)
    assert str(b.numbers.index((2, 5), (1, 3))) == "13"
    assert str(b.numbers.index((value, 4), (3, 1))) == "4*n + 3"
    assert len(b.numbers.index((value, N), (2, N)).terms) == 2, "each a product of the kernel"


def test_loops_take_numbers_of_every_form() -> None:
    for form in FORMS:
        b = LoopBuilder("kernel")
        b.declare_sizes([N.symbol])  # type: ignore[union-attr,list-item]
        out = b.buffer("out", DType.i64, AT, "readwrite")
        with b.loop(formed(b, 2, form), formed(b, 5, form)) as loop:
            b.store(out, b.index(0, loop.variable), loop.variable)
        result = np.full(AT, -1, np.int64)
        interpreter.run(b.finish(1), [result], sizes={"n": AT})
        assert result.tolist()[2:5] == [2, 3, 4] and (result[5:] == -1).all()
