"""How products and convolutions like their operands stored, for the pass that chooses layouts.

In: a target. Out: a function from a product's or convolution's node and the types of its operands
to the tiles of one of them, as the cost model of contractions cuts it; and what convolutions gain
by Winograd's sums.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.cost.tiles import most_columns
from graphc.codegen.kernels.contraction.cost.tilings import tilings
from graphc.codegen.kernels.contraction.operands.k_groups import PAIRS
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.blocked import BlockedPlan
from graphc.codegen.kernels.contraction.strategies.direct_conv import DirectConvPlan
from graphc.codegen.kernels.contraction.strategies.gemv import GemvPlan
from graphc.codegen.kernels.contraction.strategies.grouped import GroupedPlan
from graphc.codegen.kernels.contraction.strategies.table import StrategyPlan, choose
from graphc.codegen.kernels.contraction.strategies.unblocked import UnblockedPlan
from graphc.codegen.kernels.winograd.gain import expected_gain
from graphc.codegen.target import Target
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph, Node
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType, TensorType
from graphc.ops.contract import conv, int_matmul, matmul, paired_matmul
from graphc.ops.kinds.contract import Contract
from graphc.ops.movement import transpose
from graphc.passes.layouts import Stored
from graphc.passes.winograd import Candidate
from graphc.records import record

SMALL = 4096
"""Bytes up to which an operand is read as fast where it lies: it is in one page and in L1."""
GAIN = 1.05
"""Times as fast as with its weight where it lies a convolution is to be, by the model."""

_IN_GROUPS = {"paired_matmul": paired_matmul, "int_matmul": int_matmul}


@record
class TargetPreferences:
    """What passes ask a target's cost models. Without `layouts` all stay as they are."""

    target: Target
    layouts: bool = True

    def __call__(
        self, node: Node, types: tuple[TensorType, ...], position: int, reads: int = 1, /
    ) -> Stored | None:
        if not self.layouts or 0 in (types[0].numel, types[1].numel):
            return None
        if not (types[0].dtype.is_float or node.op == "int_matmul"):
            return None
        if types[position].nbytes <= SMALL:
            return None
        if node.op == "matmul":
            stored = _tile_of_product(self.target, types, position)
            if stored is None or types[0].shape[-2] != 1:
                return stored
            return stored._replace(vectors=min(stored.vectors, most_columns(self.target, reads)))
        if node.op in _IN_GROUPS:
            return _tile_of_groups(self.target, types, _IN_GROUPS[node.op])
        return _tile_of_convolution(self.target, types, node.attributes)

    def winograd_gain(self, case: Candidate, /) -> float:
        return expected_gain(case, self.target)


def preferred_layouts(target: Target, layouts: bool = True) -> TargetPreferences:
    """What products and convolutions prefer on `target`."""
    return TargetPreferences(target, layouts)


@functools.lru_cache(maxsize=1024)
def _tile_of_product(target: Target, types: tuple[TensorType, ...], position: int) -> Stored | None:
    """The tiles in which the operand is read; None where it is broadcast. One row reads it as fast
    as memory is, which takes it in one run."""
    plan = _plan(_body(types), target)
    by_vectors = 0 if plan.problem.view.swapped else 1
    if position != by_vectors:
        return None
    if isinstance(plan, GemvPlan):
        return _tile_of_row(plan, target)
    if plan.problem.rows == 1:
        return None
    return _tile_of_rows(plan)


def _tile_of_rows(plan: StrategyPlan) -> Stored | None:
    """That of several rows, element by element."""
    if isinstance(plan, BlockedPlan):
        return Stored(plan.tile.vectors, plan.lanes)
    if isinstance(plan, UnblockedPlan):
        return Stored(plan.tiling.tile.vectors, plan.tiling.lanes)
    return None


def _tile_of_row(plan: GemvPlan, target: Target) -> Stored | None:
    tilings_of_row = (each for each in tilings(plan.problem, target, math.inf) if each.is_flat)
    return next((Stored(each.tile.vectors, each.lanes) for each in tilings_of_row), None)


@functools.lru_cache(maxsize=1024)
def _tile_of_groups(target: Target, types: tuple[TensorType, ...], op: Contract) -> Stored | None:
    """The tiles in which a matrix is read as pairs of bf16, or quads of bytes; those of several
    rows that no instruction multiplies as such, element by element."""
    y, body = types[1], _body(types, op=op)
    if y.rank != 2 or symbols_of(body):
        return None
    plan = _plan(body, target)
    if isinstance(plan, GroupedPlan):
        return Stored(plan.tile.vectors, plan.lanes, plan.group.size)
    if isinstance(plan, GemvPlan):
        of_row = _tile_of_row(plan, target) if y.dtype is DType.bf16 else None
        return None if of_row is None else of_row._replace(together=PAIRS.size)
    return None if plan.problem.view.swapped else _tile_of_rows(plan)


@functools.lru_cache(maxsize=1024)
def _tile_of_convolution(
    target: Target, types: tuple[TensorType, ...], attributes: tuple[tuple[str, Any], ...]
) -> Stored | None:
    """The tiles in which the weight is read where its output channels lie side by side; None where
    that is no faster."""
    geometry = dict(attributes)
    if geometry["groups"] != 1:
        return None
    body = _body(types, geometry, transposed=True)
    _, swapped = problems(body, lanes_for(body, target))
    if swapped.open & Coordinates.ROWS:
        # Of a small plane, as it may be at run time, packing would take longer than all else.
        limit = _plan(_body(types, geometry), target).cost
        plans = [*UnblockedPlan.candidates(swapped, target, limit)]
        return _tile_of_rows(min(plans, key=lambda each: each.cost)) if plans else None
    packed = next(DirectConvPlan.candidates(swapped, target), None)
    if packed is None or packed.cost * GAIN > _plan(_body(types, geometry), target).cost:
        return None
    return Stored(packed.tile.vectors, packed.lanes)


def _plan(body: Graph, target: Target) -> StrategyPlan:
    return choose(body, lanes_for(body, target), target)


def _body(
    types: tuple[TensorType, ...], geometry: dict[str, Any] | None = None, transposed: bool = False,
    op: Contract = matmul,
) -> Graph:  # fmt: skip
    """A product, or with a `geometry` a convolution. `transposed`: its weight is stored with output
    channels last."""
    builder = GraphBuilder("contraction")
    x, y = types
    if transposed:
        y = TensorType(y.dtype, (*y.shape[1:], y.shape[0]))
    left, right = builder.input("x", x), builder.input("y", y)
    if transposed:
        right = transpose(right, permutation=(y.rank - 1, *range(y.rank - 1)))
    result = op(left, right) if geometry is None else conv(left, right, **geometry)
    return builder.finish(result)
