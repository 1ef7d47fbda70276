"""Trees of additions of products, as one product each.

in : a graph in which products of equal shapes are added as a binary tree (the gradients of a
     weight, of which each share of a batch has one)
out: the graph with one `tree_matmul` of all their operands, one behind another along k

Each product is a chain of the new one's sum, and the chains are added as the products were: every
bit stays. Of the products no one is stored any more, so it pays where they are larger than what is
put together; and from four on, since of two the second is computed and added in one kernel as well.
"""

from __future__ import annotations

from graphc.ir.dims import symbols_in
from graphc.ir.nodes import Node, Value
from graphc.passes.rewrite import Rewriter, rule
from graphc.records import record

LEAST, MOST = 4, 64
"""Chains of a product: from how many on it is worth a copy of operands, and how many are written
out in a kernel at most."""


@record
class _Chains:
    """Some chains that lie side by side: the operands of a product, and how many it has."""

    left: Value
    right: Value
    chains: int = 1


@rule("add")
def _tree_of_products(draft: Rewriter, node: Node) -> Node | None:
    """add(add(a @ b, c @ d), add(e @ f, g @ h)) => tree_matmul([a c e g], [b d f h]) chains=4."""
    first, second = (_parts(draft, operand) for operand in node.operands)
    parts, chains = first + second, 2 * _count(first)
    if _count(first) != _count(second) or not LEAST <= chains <= MOST:
        return None
    shapes = [(*draft.shape(part.left), draft.shape(part.right)[1]) for part in parts]
    if len({(m, k // part.chains, n) for (m, k, n), part in zip(shapes, parts, strict=True)}) != 1:
        return None
    m, n, depth = shapes[0][0], shapes[0][2], sum(k for _, k, _ in shapes)
    copied = depth * (m + n)
    if symbols_in(m, n, depth) or not 0 < copied <= m * n:
        return None
    left = _joined(draft, [part.left for part in parts], 1)
    right = _joined(draft, [part.right for part in parts], 0)
    return draft.make("tree_matmul", left, right, chains=chains)


def _count(parts: list[_Chains]) -> int:
    return sum(part.chains for part in parts)


def _parts(draft: Rewriter, value: Value, most: int = MOST // 2) -> list[_Chains]:
    """The products that a value is the tree of, at most so many, where nothing else reads one of
    their sums; none where it is no such tree."""
    node = draft.node(value)
    if not draft.used_once(value):
        return []
    if node.op not in ("add", "matmul", "tree_matmul") or node.types[0].rank != 2:
        return []
    left, right = node.operands
    if node.op != "add":
        return [_Chains(left, right, node.attribute("chains") if node.op == "tree_matmul" else 1)]
    first = _parts(draft, left, most // 2) if most > 1 else []
    second = _parts(draft, right, most // 2) if first else []
    return first + second if _count(first) == _count(second) else []


def _joined(draft: Rewriter, matrices: list[Value], axis: int) -> Value:
    """Matrices one behind another along an axis; where all are transposes, one of them."""
    turned = [draft.made_by(each, "transpose") for each in matrices]
    if None not in turned:
        inside = [each.operands[0] for each in turned if each is not None]
        return draft.emit("transpose", _joined(draft, inside, 1 - axis), permutation=(1, 0))
    operands: list[Value] = []
    for matrix in matrices:
        inner = draft.made_by(matrix, "concat")
        whole = inner is None or inner.attribute("axis") != axis
        operands += [matrix] if inner is None or whole else inner.operands
    return draft.emit("concat", *operands, axis=axis)


RULES = _tree_of_products
