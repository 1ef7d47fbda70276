"""A contraction's operands as arrays, for the runner of nests.

In: a kernel's body around one contraction, its values. Out: `Products`, results of the op with each
role's coordinates as one axis; and both sides of a comparison, by the nest and as the values are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.problem.k_blocks import cut
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.nests.runner import Array, Products, run_nest
from graphc.codegen.target import Target
from graphc.ir.nodes import Graph, Value
from graphc.ir.types import Shape
from graphc.ops.kinds.movement import Case, guards_hold, take_where
from graphc.ops.nn.block_products import add_block, block_matmul, integers_of, parts_of


def contract_by_nest(
    body: Graph, target: Target, sizes: Mapping[str, int], at: Graph, values: Mapping[Value, Array]
) -> tuple[Array, Array] | None:
    """What the nest of such a kernel makes of the op's operands, and what the op has, by roles;
    None where it has no results. `at`: the body at these sizes, which has these values."""
    lanes = lanes_for(body, target)
    if not next(problems(body, lanes)).has_results:
        return None
    plan = choose(body, lanes, target)
    view = plan.problem.view
    products = products_of(at, view.swapped, tuple(values[v] for v in view.node.operands))
    results = run_nest(plan.nest(), products, sizes, parts=2)
    return results, by_roles(at, view.swapped, values[view.anchor])


def products_of(body: Graph, swapped: bool, operands: tuple[Array, ...]) -> Products:
    """The products of the op's `operands` in their roles; `swapped`: as in a ContractionView. The
    body's extents are numbers."""
    view = ContractionView(body, swapped)
    if view.op is block_matmul:
        return _of_blocks(operands, view.attributes)
    space = view.op.space(view.types, **view.attributes)

    def operand(rule: Any, results: Shape) -> tuple[Array, Array]:
        roles = (space.batch, results, space.k)
        b, at, k = (_unflattened(extents, axis) for axis, extents in enumerate(roles))
        shape = tuple(math.prod(extents) for extents in roles)
        case: Case = rule(b, at, k, view.types, **view.attributes)
        held = np.broadcast_to(guards_hold(case.guards, shape), shape)
        index = [np.broadcast_to(item, shape) for item in case.index]
        return take_where(operands[case.operand], tuple(index), held), held

    left, right = operand(view.op.left, space.m), operand(view.op.right, space.n)
    broadcast, vectors = (right, left) if swapped else (left, right)
    blocks = _blocks_of_chains(space.k, view.chains)
    return Products(
        broadcast[0], vectors[0], broadcast[1], vectors[1], blocks, chains=view.chains
    )  # fmt: skip


def _of_blocks(operands: tuple[Array, ...], attributes: dict[str, Any]) -> Products:
    """Those of integers in blocks that have scales."""
    x, x_scale, low, scale, high, minimum = parts_of(operands, attributes)
    columns = integers_of(low, high, attributes).T[None]
    rows, block = x.astype(np.int32)[None], attributes["block"]
    wholes = rows[0].reshape(len(x), scale.shape[0], block).sum(axis=2)

    def scaled(total: Array, sums: Array, b: int, at: tuple[Array, ...]) -> Array:
        _, m, n = at
        of_b = None if minimum is None else minimum[b][n]
        return add_block(total, sums, wholes[m, b], x_scale[m, b], scale[b][n], of_b)

    has_row, has_column = (np.ones(each.shape, bool) for each in (rows, columns))
    blocks = tuple(range(0, x.shape[1] + 1, block))
    return Products(rows, columns, has_row, has_column, blocks, scaled, scale.dtype)


def by_roles(body: Graph, swapped: bool, result: Array) -> Array:
    """A result of the op as [batch, rows, columns]."""
    view = ContractionView(body, swapped)
    space = view.op.space(view.types, **view.attributes)
    roles = (space.batch, space.m, space.n)
    b, m, n = (_unflattened(extents, axis) for axis, extents in enumerate(roles))
    shape = tuple(math.prod(extents) for extents in roles)
    index = view.op.out(b, m, n, view.types, **view.attributes)
    whole = result.reshape(body.type_of(view.anchor).shape)
    listed = np.asarray(whole[tuple(np.broadcast_to(item, shape) for item in index)])
    return listed.reshape(shape).swapaxes(1, 2) if swapped else listed.reshape(shape)


def _unflattened(extents: Shape, axis: int) -> tuple[Array, ...]:
    """The coordinates of all positions, along one axis of three."""
    shape = [1, 1, 1]
    shape[axis] = -1
    flat = np.arange(math.prod(extents)).reshape(shape)
    return tuple(np.unravel_index(flat, extents)) if extents else ()


def k_blocks(k: Shape) -> tuple[int, ...]:
    """Where K blocks begin, and where the last one ends."""
    axis, step = cut(k)
    extent, inner = (k[axis] if k else 1), math.prod(k[axis + 1 :])
    steps = [min(step, extent - at) * inner for at in range(0, extent, max(step, 1))]
    return tuple(accumulate(steps * math.prod(k[:axis]), initial=0))


def _blocks_of_chains(k: Shape, chains: int) -> tuple[int, ...]:
    """The same, where each of so many parts of k is cut into blocks of its own."""
    if chains == 1:
        return k_blocks(k)
    (depth,) = k
    blocks = k_blocks((depth // chains,))[:-1]
    starts = range(0, depth, max(depth // chains, 1))
    return (*(start + at for start in starts for at in blocks), depth)
