"""A contraction's operands as arrays, for the runner of nests.

In: a kernel's body around one contraction, its inputs. Out: `Products`, and the results that its op
says they have, each role's coordinates as one axis.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

import numpy as np

from graphc.codegen.nests.runner import Products
from graphc.codegen.recipes.contraction.k_blocks import cut
from graphc.codegen.recipes.contraction.view import ContractionView
from graphc.ir.nodes import Graph
from graphc.ir.types import Shape
from graphc.ops.interpreter import evaluate
from graphc.ops.kinds.movement import Case, guards_hold, take_where

Array = np.ndarray[Any, Any]


def products_of(body: Graph, swapped: bool, arrays: tuple[Array, ...]) -> Products:
    """The operands in their roles; `swapped`: as in a ContractionView. The body's extents are
    numbers."""
    view = ContractionView(body, swapped)
    space = view.op.space(view.types, **view.attributes)
    operands = evaluate(
        Graph(body.name, body.nodes, tuple(view.node.operands), ()), arrays, reference=True
    )

    def operand(rule: Any, results: Shape) -> tuple[Array, Array]:
        b, at, k = (
            _unflattened(part, i, 3) for i, part in enumerate((space.batch, results, space.k))
        )
        case: Case = rule(b, at, k, view.types, **view.attributes)
        shape = tuple(math.prod(part) for part in (space.batch, results, space.k))
        held = np.broadcast_to(guards_hold(case.guards, shape), shape)
        index = [np.broadcast_to(item, shape) for item in case.index]
        return take_where(operands[case.operand], tuple(index), held), held

    left, right = operand(view.op.left, space.m), operand(view.op.right, space.n)
    broadcast, vectors = (right, left) if swapped else (left, right)
    return Products(broadcast[0], vectors[0], broadcast[1], vectors[1], _blocks(space.k))


def results_of(body: Graph, swapped: bool, arrays: tuple[Array, ...]) -> Array:
    """What the op gives by its reference, as [batch, rows, columns]."""
    view = ContractionView(body, swapped)
    space = view.op.space(view.types, **view.attributes)
    (result,) = evaluate(Graph(body.name, body.nodes, (view.anchor,), ()), arrays, reference=True)
    b, m, n = (_unflattened(part, i, 3) for i, part in enumerate((space.batch, space.m, space.n)))
    shape = tuple(math.prod(part) for part in (space.batch, space.m, space.n))
    index = view.op.out(b, m, n, view.types, **view.attributes)
    listed: Array = result[tuple(np.broadcast_to(item, shape) for item in index)].reshape(shape)
    return listed.swapaxes(1, 2) if swapped else listed


def _unflattened(extents: Shape, axis: int, rank: int) -> tuple[Array, ...]:
    """The coordinates of all positions, along one of `rank` axes."""
    shape = [1] * rank
    shape[axis] = -1
    flat = np.arange(math.prod(extents)).reshape(shape)
    return tuple(np.unravel_index(flat, extents)) if extents else ()


def _blocks(k: Shape) -> tuple[int, ...]:
    """Where K blocks begin, and where the last one ends."""
    axis, step = cut(k)
    inner = math.prod(k[axis + 1 :])
    steps = (
        [min(step, k[axis] - at) * inner for at in range(0, k[axis], max(step, 1))] if k else [1]
    )
    return tuple(accumulate(steps * math.prod(k[:axis]), initial=0))
