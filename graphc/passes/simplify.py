"""Algebraic simplification.

in : a graph
out: the graph with fewer and cheaper elementwise ops, casts and reductions

Every rule keeps each bit of the result, for -0, NaN, infinities, denormals and integers that wrap;
only the payload and sign of a NaN may differ. So `x + 0` stays in floats (-0 + 0 is +0), as does
`x * 0`, and x + -0.0 goes. The test of this file runs every rule on such values.
"""

from __future__ import annotations

import math

import numpy as np

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import UNSIGNED, DType
from graphc.passes.patterns import table
from graphc.passes.rewrite import Rewriter, rewrite, rule


def simplify(graph: Graph) -> Graph:
    """Apply algebraic identities until none applies.

    %1 = constant f32[] [1.0]              =>   %1 = neg(%x) : f32[2]
    %2 = broadcast(%1) shape=[2] : f32[2]
    %3 = mul(%x, %2) : f32[2]
    %4 = neg(%3) : f32[2]
    """
    return rewrite(graph, RULES)


ARITHMETIC = table(
    ("add(x, -0.0)", "x", "float"),
    ("add(x, 0)", "x", "integer"),
    ("add(x, neg(y))", "sub(x, y)"),
    ("sub(x, 0)", "x"),
    ("sub(0, x)", "neg(x)", "integer"),
    ("sub(-0.0, x)", "neg(x)", "float"),
    ("sub(x, neg(y))", "add(x, y)"),
    ("sub(x, x)", "0", "integer"),
    ("neg(neg(x))", "x"),
    ("neg(sub(x, y))", "sub(y, x)", "integer"),
    ("mul(x, 1)", "x"),
    ("mul(x, -1)", "neg(x)"),
    ("mul(x, 0)", "0", "integer"),
    ("mul(neg(x), neg(y))", "mul(x, y)"),
    ("div(x, 1)", "x"),
    ("div(x, -1)", "neg(x)"),
    ("div(neg(x), neg(y))", "div(x, y)"),
    ("floordiv(x, 1)", "x", "integer"),
    ("mod(x, 1)", "0", "integer"),
    ("pow(x, 0)", "1"),
    ("pow(x, 1)", "x"),
    # Only f32, whose pow is that of f64, rounded. In f64 one result in a thousand would differ.
    ("pow(x, 2)", "mul(x, x)", "f32"),
    ("pow(x, -1)", "div(1, x)", "f32"),
)

IDEMPOTENT = table(
    ("abs(abs(x))", "abs(x)"),
    ("abs(neg(x))", "abs(x)"),
    ("relu(relu(x))", "relu(x)"),
    ("relu(abs(x))", "abs(x)", "float"),  # the least integer is its own abs
    ("sign(sign(x))", "sign(x)"),
    ("maximum(x, x)", "x"),
    ("minimum(x, x)", "x"),
    *(
        (f"{outer}({inner}(x))", f"{inner}(x)")
        for outer in ("floor", "ceil", "round")
        for inner in ("floor", "ceil", "round")
    ),
)

LOGIC = table(
    ("where(p, x, x)", "x"),
    ("where(true, x, y)", "x"),
    ("where(false, x, y)", "y"),
    ("where(logical_not(p), x, y)", "where(p, y, x)"),
    ("where(p, where(p, x, y), z)", "where(p, x, z)"),
    ("where(p, x, where(p, y, z))", "where(p, x, z)"),
    ("where(p, true, false)", "p"),
    ("where(p, false, true)", "logical_not(p)"),
    ("logical_not(logical_not(x))", "x"),
    ("logical_not(eq(x, y))", "ne(x, y)"),
    ("logical_not(ne(x, y))", "eq(x, y)"),
    ("logical_not(lt(x, y))", "ge(x, y)", "integer"),  # both are false of NaN
    ("logical_not(le(x, y))", "gt(x, y)", "integer"),
    ("logical_not(gt(x, y))", "le(x, y)", "integer"),
    ("logical_not(ge(x, y))", "lt(x, y)", "integer"),
    ("logical_and(x, x)", "x"),
    ("logical_and(x, true)", "x"),
    ("logical_and(x, false)", "false"),
    ("logical_or(x, x)", "x"),
    ("logical_or(x, true)", "true"),
    ("logical_or(x, false)", "x"),
    ("logical_xor(x, x)", "false"),
    ("logical_xor(x, false)", "x"),
    ("logical_xor(x, true)", "logical_not(x)"),
    ("eq(x, true)", "x"),
    ("eq(x, false)", "logical_not(x)"),
    ("ne(x, false)", "x"),
    ("ne(x, true)", "logical_not(x)"),
    ("eq(x, x)", "true", "exact"),
    ("le(x, x)", "true", "exact"),
    ("ge(x, x)", "true", "exact"),
    ("ne(x, x)", "false", "exact"),
    ("lt(x, x)", "false"),
    ("gt(x, x)", "false"),
)

# Every value of the key is a value of these.
_INTEGERS = (DType.i32, DType.i64)
_FLOATS = (DType.f32, DType.f64)
WIDER = {
    DType.bool: frozenset(DType),
    DType.i32: frozenset({DType.i32, DType.i64, DType.f64}),
    DType.i64: frozenset({DType.i64}),
    DType.f32: frozenset({DType.f32, DType.f64}),
    DType.f64: frozenset({DType.f64}),
    DType.f16: frozenset({DType.f16, *_FLOATS}),
    DType.bf16: frozenset({DType.bf16, *_FLOATS}),
    DType.u8: frozenset(
        {DType.u8, DType.i16, *UNSIGNED, DType.f16, DType.bf16, *_INTEGERS, *_FLOATS}
    ),
    DType.i8: frozenset({DType.i8, DType.i16, DType.f16, DType.bf16, *_INTEGERS, *_FLOATS}),
    DType.i16: frozenset({DType.i16, *_INTEGERS, *_FLOATS}),
    DType.u16: frozenset({*UNSIGNED, *_INTEGERS, *_FLOATS}),
    DType.u32: frozenset({DType.u32, DType.u64, DType.i64}),
    DType.u64: frozenset({DType.u64}),
}


@rule("cast")
def _cast(draft: Rewriter, node: Node) -> Node | Value | None:
    """cast to the own dtype => x; cast(cast(x)) => cast(x) where the inner one loses nothing."""
    (operand,) = node.operands
    if draft.type(operand) == node.types[0]:
        return operand
    inner = draft.made_by(operand, "cast")
    if inner is None or inner.types[0].dtype not in WIDER[draft.type(inner.operands[0]).dtype]:
        return None
    return draft.make("cast", inner.operands[0], dtype=node.types[0].dtype)


@rule("cast")
def _cast_of_movement(draft: Rewriter, node: Node) -> Node | None:
    """cast(move(cast(x))) => move(x) where the inner cast loses nothing and the outer one undoes
    it: narrow floats between the functions of a gradient."""
    move = draft.node(node.operands[0])
    if move.op in (INPUT, CONSTANT) or lookup(move.op).kind != "movement" or len(move.operands) > 1:
        return None
    inner = draft.made_by(move.operands[0], "cast")
    if inner is None:
        return None
    (x,), wide = inner.operands, inner.types[0].dtype
    source = draft.type(x).dtype
    if source is not node.types[0].dtype or wide not in WIDER[source]:
        return None
    return draft.make(move.op, x, **parameters(move))


@rule("div")
def _divide_by_power_of_two(draft: Rewriter, node: Node) -> Node | None:
    """x / 2ᵏ => x * 2⁻ᵏ: both round the same real number, as long as 2⁻ᵏ is a normal number."""
    x, divisor = node.operands
    number = draft.scalar(divisor)
    if number is None or not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return None
    limits = np.finfo(node.types[0].dtype.numpy)
    if abs(number) < 1 / float(limits.max) or abs(number) > 1 / float(limits.tiny):
        return None
    return draft.make("mul", x, draft.uniform(1 / number, node.types[0]))


@rule("sum", "prod", "max", "min", "any", "all")
def _reduce_nothing(draft: Rewriter, node: Node) -> Node | None:
    """A reduction over no axes, or axes of size 1 => reshape. A sum of floats adds +0, and so turns
    -0 into +0."""
    type = draft.type(node.operands[0])
    if node.op == "sum" and type.dtype.is_float:
        return None
    if any(type.shape[axis] != 1 for axis in node.attribute("axes")):
        return None
    return draft.make("reshape", node.operands[0], shape=node.types[0].shape)


@rule("argmax", "argmin")
def _only_position(draft: Rewriter, node: Node) -> Value | None:
    """The best of one element is at 0."""
    (axis,) = node.attribute("axes")
    if draft.shape(node.operands[0])[axis] != 1:
        return None
    return draft.uniform(0, node.types[0])


RULES = (
    ARITHMETIC + IDEMPOTENT + LOGIC + _cast + _cast_of_movement + _divide_by_power_of_two
    + _reduce_nothing + _only_position
)  # fmt: skip
