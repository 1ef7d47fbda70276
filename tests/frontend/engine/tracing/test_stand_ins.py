"""What open sizes and numbers show of themselves: their types are those of numbers, and what asks
for a text has the number of the call."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.tensors.symbolic_numbers import SymInt
from graphc.ir.size_floats import SizeFloat, float_argument

NAMED = {"4x3": 2.0, "8x3": 3.0, "4": 5.0, "12": 7.0}
EXPRESSIONS = (
    "2 if type(k) is int else 3", "2 if type(x.shape[0]) is int else 3",
    "2 if int is type(k) else 3", "2 if type(k) is type(4) else 3",
    "2 if issubclass(type(k), int) else 3", "2 if type(r) is not float else 3",
    "{int: 2, float: 3}[type(k)] + {int: 2, float: 3}[type(r)]", "2 if type(k) == int else 3",
    "2 if type(k) in (int, bool) else 3", "len(type(k).__name__ + repr(type(r)))",
    "type(k)(3.7)", "2 if isinstance(5, type(k)) else 3",
    "NAMED.get(f'{x.shape[0]}x{x.shape[1]}', 1.0)", "NAMED.get(str(k), 1.0)", "float('%d' % k)",
    "len('%s' % (k,)) + len(str(r))", "float(repr(k))", "float('{:>5}'.format(k))",
    "len(str(tuple(x.shape)))", "(k & 6) + (k | 1) - (k ^ 3) + (k << 1) + (3 & k) + ~k",
    "k.bit_length() + k.numerator + k.conjugate()", "round(k, -1) + round(k, 2)",
    "float(np.array([k, 2]).sum())", "x.new_tensor([k, 2]).sum()",
)  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_they_show_what_numbers_show(expression: str) -> None:
    space = {"NAMED": NAMED, "np": np, "__name__": "users"}
    exec(f"def function(x, k, r):\n    return x * ({expression})", space)
    function: Any = space["function"]
    compiled = torch.compile(function)
    for k in (4, 8, 12, 4):
        x = torch.ones(k, 3)
        assert torch.equal(compiled(x, k, k / 8), function(x, k, k / 8)), k


def test_types_that_are_compared_otherwise_keep_sizes_open() -> None:
    def function(x: Any) -> Any:
        return x * {int: 2, float: 3}[type(x.shape[0])]

    compiled = torch.compile(function)
    for rows in (4, 8, 12, 5):
        assert compiled(torch.ones(rows, 2))[0, 0].item() == 2
    assert len(compiled._history.lines) == 2 and not compiled._history.notes


def test_what_made_a_number_is_told() -> None:
    compiled = torch.compile(lambda x: x * len(f"{x.shape[0]}"))
    for rows in (8, 12):
        compiled(torch.ones(rows))
    assert "by its text" in compiled.explain()
    compiled = torch.compile(lambda x, k: x * (2 if type(k) is int else 3))
    for k in (2, 3):
        compiled(torch.ones(1), k)
    assert "compares a type() by `is`" in compiled._history.notes[0]


def test_the_log_says_the_numbers() -> None:
    said: list[str] = []

    def function(x: Any) -> Any:
        said.append(f"{x.shape[0]}")
        return x * 2

    compiled = torch.compile(function)
    for rows in (4, 8):
        compiled(torch.ones(rows))
    assert said == ["4", "8"]


def test_our_own_code_tells_them_from_numbers() -> None:
    """Only code of the user's is shown the other class."""
    space = {"SymInt": SymInt, "SizeFloat": SizeFloat, "__name__": "graphc.test"}
    code = compile(
        "(SymInt == int, int in (SymInt, SizeFloat), {int: 1}.get(SymInt))", "own.py", "eval"
    )
    assert eval(code, space) == (False, False, None)
    as_key: dict[type, int] = {int: 1, float: 2}
    assert operator.eq(SymInt, int) and as_key[SymInt] == 1
    assert as_key[type(float_argument("r"))] == 2
