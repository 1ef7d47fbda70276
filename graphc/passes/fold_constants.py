"""Constant folding, of exactly rounded ops only.

in : a graph
out: the graph with ops on constants replaced by their results

One NumPy result may stand for the native one only where both must be the same bits: movements,
and elementwise ops that are exactly rounded. `exp` of a constant stays.

A constant with the same number everywhere is kept as a broadcast of a 0-d constant: it costs
no memory traffic, and rules see its number. Nothing that large arrays cost less to compute
than to load (a broadcast, an iota) is folded into one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import GraphError
from graphc.ir.nodes import CONSTANT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.symbols import has_symbols
from graphc.passes.rewrite import ANY_OP, Rewriter, Rule, RuleSet, rewrite, rule

# Elements of a result. A result no larger than the constants it is made of is always allowed.
SIZE_LIMIT = 4096
# Elements of a generated constant (iota): computing one costs less than loading it.
GENERATE_LIMIT = 16

# Declared without error, but not by exact rounding of one operation, for floats.
ROUNDED_TWICE = frozenset({"floordiv", "mod"})
# NumPy leaves it to the machine which of -0 and +0 these give.
SIGN_OF_ZERO = frozenset({"minimum", "maximum", "relu", "clamp"})

Array = np.ndarray[Any, Any]


def fold_constants(graph: Graph) -> Graph:
    """Compute exactly rounded ops on constants.

        %1 = constant f32[2] [1.0, 2.0]        =>   %1 = constant f32[2] [-1.0, -2.0]
        %2 = neg(%1) : f32[2]                       %2 = add(%x, %1) : f32[2]
        %3 = add(%x, %2) : f32[2]

    An op whose check of its operands' content fails (a division of integers by zero) is left to
    run time.
    """
    return rewrite(graph, RULES)


@rule(CONSTANT)
def _splat(draft: Rewriter, node: Node) -> Node | None:
    constant = node.attribute("value")
    if not constant.type.shape or constant.scalar is None:
        return None
    scalar = draft.value(draft.make_constant(constant.array.flat[0]))
    return draft.make("broadcast", scalar, shape=constant.type.shape)


def _fold(draft: Rewriter, node: Node) -> Node | Value | None:
    if node.op in (CONSTANT, "broadcast") or node.regions or not _is_exact(draft, node):
        return None
    if any(type.is_symbolic for type in node.types):
        return None
    if not node.operands:
        return _folded(draft, node, []) if node.types[0].numel <= GENERATE_LIMIT else None
    if lookup(node.op).kind == "elementwise":
        scalars = [_scalar_array(draft, operand) for operand in node.operands]
        if all(scalar is not None for scalar in scalars):
            return _folded(draft, node, scalars)
    stored = [draft.made_by(operand, CONSTANT) for operand in node.operands]
    available = sum(constant.types[0].numel for constant in stored if constant is not None)
    if not available or node.types[0].numel > max(SIZE_LIMIT, available):
        return None
    arrays = [_array(draft, operand) for operand in node.operands]
    return None if any(array is None for array in arrays) else _folded(draft, node, arrays)


def _is_exact(draft: Rewriter, node: Node) -> bool:
    op = lookup(node.op)
    if op.kind == "movement":
        return True
    if op.kind == "elementwise":
        floats = draft.type(node.operands[0]).dtype.is_float
        return op.ulps == 0 and not (floats and node.op in ROUNDED_TWICE)
    return op.kind == "generate" and not node.operands


def _folded(draft: Rewriter, node: Node, arrays: list[Any]) -> Node | Value | None:
    """The result on `arrays` as a constant; on 0-d ones broadcast to the type of the node."""
    if has_symbols(node):
        return None
    try:
        (result,) = lookup(node.op).run(tuple(arrays), dict(node.attributes))
    except GraphError:
        return None
    if node.op in SIGN_OF_ZERO and result.dtype.kind == "f" and not result.all():
        return None
    constant = draft.make_constant(result)
    if constant.types == node.types:
        return constant
    return draft.make("broadcast", draft.value(constant), shape=node.types[0].shape)


def _scalar_array(draft: Rewriter, value: Value) -> Array | None:
    scalar = draft.scalar(value)
    return None if scalar is None else np.asarray(scalar, draft.type(value).dtype.numpy)


def _array(draft: Rewriter, value: Value) -> Array | None:
    """The array of a constant, or of a broadcast one."""
    constant = draft.made_by(value, CONSTANT)
    if constant is not None:
        array: Array = constant.attribute("value").array
        return array
    scalar = _scalar_array(draft, value)
    return None if scalar is None else np.broadcast_to(scalar, draft.shape(value))


RULES = _splat + RuleSet(Rule(ANY_OP, _fold, "fold"))
