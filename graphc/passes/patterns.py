"""The pattern language: rewrite rules as data, in text.

    RULES = table(
        ("mul(x, 1)", "x"),                # a number: a constant, also one that is broadcast
        ("where(p, x, x)", "x"),           # a repeated variable: the same value
        ("sub(x, x)", "0", "integer"),     # only where x has an integer dtype
    )

Grammar: `tree = number | true | false | variable | op(tree, ...)`. Ops have no attributes; rules
about attributes are functions (see `graphc.passes.rewrite.Rule`). `0` is not `-0.0`: a number
matches by bits, an integer literal in each number dtype (as +0 in floats), one with a point in
floats alone. An op that commutes matches with its operands in either order.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import graphc.ops  # noqa: F401  (rules are checked against the op table)
from graphc.errors import PassError
from graphc.ir.nodes import Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.passes.rewrite import COMMUTATIVE, Rewriter, Rule, RuleSet
from graphc.records import record


@record
class PatternVariable:
    """Any value; the same value wherever the name stands again."""

    name: str


@record
class Number:
    """A uniform constant."""

    value: int | float | bool


@record
class OpPattern:
    """An op on trees."""

    op: str
    operands: tuple[Tree, ...]


Tree = PatternVariable | Number | OpPattern
Bound = dict[str, Value]

GUARDS: dict[str, Callable[[DType], bool]] = {
    "any": lambda dtype: True,
    "float": lambda dtype: dtype.is_float,
    "f32": lambda dtype: dtype is DType.f32,
    "integer": lambda dtype: dtype.is_integer,
    "exact": lambda dtype: not dtype.is_float,
}


def table(*rows: tuple[str, ...]) -> RuleSet:
    """The rules (before, after) or (before, after, guard on the dtype of x)."""
    return RuleSet(*itertools.chain.from_iterable(_rules(*row) for row in rows))


def _rules(before: str, after: str, guard: str = "any") -> Iterator[Rule]:
    text = f"{before} -> {after}" + (f" [{guard}]" if guard != "any" else "")
    pattern, result = parse(before), parse(after)
    if not isinstance(pattern, OpPattern) or guard not in GUARDS:
        raise PassError(f"rule {text}: needs an op on the left, and a guard of {list(GUARDS)}")
    missing = set(_variables(result)) - set(_variables(pattern))
    if missing or (guard != "any" and "x" not in _variables(pattern)):
        raise PassError(f"rule {text}: {missing or 'x'} does not stand on the left")
    for variant in _variants(pattern):
        yield _rule(text, variant, result, guard)


def _rule(text: str, pattern: OpPattern, result: Tree, guard: str) -> Rule:
    holds = GUARDS[guard]
    ops = [(i, tree.op) for i, tree in enumerate(pattern.operands) if isinstance(tree, OpPattern)]
    numbers = [i for i, tree in enumerate(pattern.operands) if isinstance(tree, Number)]

    def apply(draft: Rewriter, node: Node) -> Node | Value | None:
        # Nearly all tries fail: first what is cheap to see.
        for position, op in ops:
            if draft.node(node.operands[position]).op != op:
                return None
        for position in numbers:
            if draft.scalar(node.operands[position]) is None:
                return None
        bound: Bound = {}
        for tree, operand in zip(pattern.operands, node.operands, strict=True):
            if not _matches(draft, tree, operand, bound):
                return None
        if guard != "any" and not holds(draft.type(bound["x"]).dtype):
            return None
        if isinstance(result, PatternVariable):
            return bound[result.name]
        if isinstance(result, Number):
            return draft.uniform(result.value, node.types[0])
        return _instance(draft, result, bound, node)

    return Rule(pattern.op, apply, text)


def _matches(draft: Rewriter, tree: Tree, value: Value, bound: Bound) -> bool:
    if isinstance(tree, PatternVariable):
        return bound.setdefault(tree.name, value) == value
    if isinstance(tree, Number):
        return is_number(draft.scalar(value), tree.value, draft.type(value).dtype)
    node = draft.node(value)
    if node.op != tree.op:
        return False
    return all(
        _matches(draft, inner, operand, bound)
        for inner, operand in zip(tree.operands, node.operands, strict=True)
    )


def is_number(scalar: Any, number: int | float | bool, dtype: DType) -> bool:
    """True where `scalar`, the value of a constant of `dtype` (None: no such), is the literal."""
    if scalar is None or isinstance(number, bool) != (dtype is DType.bool):
        return False
    if isinstance(number, float) and not dtype.is_float:
        return False
    if not dtype.is_float:
        return bool(scalar == number)
    rounded = float(dtype.numpy.type(number))
    return bool(scalar == rounded) and math.copysign(1, scalar) == math.copysign(1, rounded)


def _instance(draft: Rewriter, tree: OpPattern, bound: Bound, root: Node) -> Node:
    """The node of `tree`. A number takes the type of the other operands, else the
    root's."""
    operand_values: list[Value | None] = []
    for inner in tree.operands:
        if isinstance(inner, PatternVariable):
            operand_values.append(bound[inner.name])
        elif isinstance(inner, OpPattern):
            operand_values.append(draft.value(_instance(draft, inner, bound, root)))
        else:
            operand_values.append(None)
    operand_types = [draft.type(value) for value in operand_values if value is not None]
    type = operand_types[-1] if operand_types else root.types[0]
    operands = [
        draft.uniform(inner.value, type) if value is None and isinstance(inner, Number) else value
        for inner, value in zip(tree.operands, operand_values, strict=True)
    ]
    return draft.make(tree.op, *operands)  # type: ignore[arg-type]


# -- text → trees --------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(?:(?P<number>-?\d+(\.\d+)?)|(?P<name>[a-z_]\w*)|(?P<sign>[(),]))")


def parse(text: str) -> Tree:
    """The tree written in `text`. Raises PassError; an unknown op raises GraphError."""
    tokens: list[str] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise PassError(f"pattern {text!r}: unexpected {text[position:].strip()[0]!r}")
        tokens.append(match[0].strip())
        position = match.end()
    tokens.reverse()
    tree = _parsed(text, tokens)
    if tokens:
        raise PassError(f"pattern {text!r}: unexpected {tokens[-1]!r}")
    return tree


def _parsed(text: str, tokens: list[str]) -> Tree:
    token = tokens.pop() if tokens else "end"
    if token in ("true", "false"):
        return Number(token == "true")
    if token[0] in "-0123456789":
        return Number(float(token) if "." in token else int(token))
    if token in ("(", ")", ",", "end"):
        raise PassError(f"pattern {text!r}: unexpected {token!r}")
    if not tokens or tokens[-1] != "(":
        return PatternVariable(token)
    operands = []
    while tokens.pop() != ")":
        operands.append(_parsed(text, tokens))
        if not tokens or tokens[-1] not in (",", ")"):
            raise PassError(f"pattern {text!r}: expected , or )")
    op = lookup(token)
    if op.kind != "elementwise" or op.parameters:
        raise PassError(f"pattern {text!r}: {token} is no elementwise op without attributes")
    if op.arity != len(operands):
        raise PassError(f"pattern {text!r}: {token} takes {op.arity} operands")
    return OpPattern(token, tuple(operands))


def _variables(tree: Tree) -> Iterator[str]:
    if isinstance(tree, PatternVariable):
        yield tree.name
    elif isinstance(tree, OpPattern):
        for operand in tree.operands:
            yield from _variables(operand)


def _variants(tree: Tree) -> Iterator[Any]:
    """The tree with the operands of commuting ops in each order, equal trees once."""
    if not isinstance(tree, OpPattern):
        yield tree
        return
    orders = [tree.operands]
    if tree.op in COMMUTATIVE and tree.operands[0] != tree.operands[1]:
        orders.append(tree.operands[::-1])
    variants = (
        OpPattern(tree.op, operands)
        for order in orders
        for operands in itertools.product(*(tuple(_variants(operand)) for operand in order))
    )
    yield from {repr(variant): variant for variant in variants}.values()
