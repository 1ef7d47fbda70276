"""How many registers a vector of an elementwise loop fills.

In: a nest. Out: a factor for its lanes. A transcendental function or a random number is a chain of
twenty operations or more, each of which waits for the one before it, and a processor looks ahead by
about as many: too few chains run side by side to fill its units. A vector of several registers is
split by LLVM operation by operation, which puts its chains side by side in the code. The bits of a
result do not depend on it.
"""

from __future__ import annotations

import functools
from typing import Any

from graphc.codegen.elements.algebra import LoopAlgebra
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.outer_blocks import MOST_REGISTERS
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Let, walk
from graphc.ir.dims import Extent
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.generate import Generate

CHAIN = 10
"""Operations of an op from which on it counts as a long chain."""
LEAST_VECTORS = 8
"""Whole vectors of a loop from which on a masked rest costs little."""


def registers(nest: LoopNest) -> int:
    """Registers a vector of the innermost loop should fill: a power of two up to MOST_REGISTERS,
    1 where no op is a long chain, or one that is is computed in f64."""
    if not nest.loops or nest.lanes < nest.problem.lanes:
        return 1
    lengths = [chain_length(nest.body, node) for node in nest.body.nodes]
    if max(lengths) < CHAIN or min(lengths) < 0 or not _is_streaming(nest):
        return 1
    count = MOST_REGISTERS
    while count > 1 and not _fits(nest.inner.variable.extent, count * nest.lanes):
        count //= 2
    return count


def _fits(extent: Extent, lanes: int) -> bool:
    """Whether a masked rest behind whole vectors costs little, or there is none."""
    cut = LoopCut(extent, lanes)
    return cut.least_whole >= (1 if cut.rest == 0 else LEAST_VECTORS)


def _is_streaming(nest: LoopNest) -> bool:
    """Whether the innermost loop only reads neighbours, or the same element for all, unguarded."""
    inner = nest.inner.variable
    for read in nest.reads():
        linear = nest.problem.linear(read)
        moves = inner in linear.variables()
        if moves and (read.reduced or read.guarded or linear.coefficient(inner) != 1):
            return False
    return True


def chain_length(body: Graph, node: Node) -> int:
    """Operations of a node that is computed for each element; -1 for a long chain in f64."""
    if node.op in (INPUT, CONSTANT) or all(type.numel == 1 for type in node.types):
        return 0
    op = lookup(node.op)
    if isinstance(op, Generate):
        return op.cost
    if not isinstance(op, Elementwise):
        return 0
    dtypes = tuple(body.type_of(operand).dtype for operand in node.operands)
    return operations(node.op, dtypes, node.attributes)


@functools.cache
def operations(op: str, dtypes: tuple[DType, ...], attributes: tuple[Any, ...]) -> int:
    """Operations an elementwise op is made of; -1 where it takes twice the registers because it
    computes f32 in f64, or all there are for a function of f64."""
    builder = LoopBuilder("operations")
    operands = [
        builder.load(builder.buffer(f"x{i}", dtype, 1, "read"), 0) for i, dtype in enumerate(dtypes)
    ]
    lookup(op).scalar(LoopAlgebra(builder), *operands, **dict(attributes))
    lets = [one for one in walk(tuple(builder.block.statements)) if isinstance(one, Let)]
    wide = any(one.result.type.dtype is DType.f64 for one in lets)
    return -1 if wide and (DType.f64 not in dtypes or len(lets) >= CHAIN) else len(lets)
