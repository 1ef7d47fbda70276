"""Text → extent: reads what `str` of a `Dim` writes (`2*n + ((n + 3) floordiv 4) - 1`)."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from graphc.errors import ParseError
from graphc.ir.dims import FLOORDIV, Extent

LONGEST = 1000
"""Characters of an extent's text."""
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def as_python(text: str) -> str:
    """An extent's text as an expression of Python."""
    return text.replace(f" {FLOORDIV} ", "//")


def parse_extent(text: str, sizes: Mapping[str, Extent]) -> Extent:
    """The extent written in `text`, with `sizes` for its names. Raises ParseError."""
    if text.isascii() and text.isdigit() and len(text) < LONGEST:
        return int(text)
    if len(text) > LONGEST or not text.isascii():
        raise ParseError(f"an extent is at most {LONGEST} ASCII characters")
    try:
        return _value(ast.parse(as_python(text.strip()), mode="eval").body, sizes)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError) as error:
        raise ParseError(f"{text!r} is no extent: {error}") from None


def _value(node: ast.expr, sizes: Mapping[str, Extent]) -> Extent:
    match node:
        case ast.Constant(value=int(number)) if type(number) is int:
            return number
        case ast.Name(id=name):
            if name not in sizes:
                raise ParseError(f"size {name} is not defined")
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            result: Extent = _OPERATORS[type(sign)](_value(left, sizes), _value(right, sizes))
            return result
    raise ParseError(f"an extent has no {type(node).__name__}")
