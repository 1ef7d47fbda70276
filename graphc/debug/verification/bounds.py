"""How far the result of an op by NumPy may be from that of its kernel, on the same operands.

in : a node, its operands and its result
out: a bound, absolute, for each element or for all; None for what is not compared

| op | bound |
|---|---|
| functions | twice the units in the last place that the op declares: each side may be off by them |
| sum, products that are summed | 2 n u Σ abs(terms), for n terms and the unit roundoff u |
| prod | 2 n u of the result |
| logcumsumexp | 16 n units of the greatest magnitude |
| loops and branches | none: what is in them is compared where they are planned |
| all else | 0: integers, movements, comparisons, what is rounded once, sums in a stated order |
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.ir.nodes import Node
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import TensorType
from graphc.ops.kinds.contract import Contract

Array = np.ndarray[Any, Any]


def numpy_bound(node: Node, operands: tuple[Array, ...], result: Array) -> Any:
    """The bound for one result of a node; not bits but numbers are meant by 0."""
    op = lookup(node.op)
    if op.kind == "region":
        return None
    zero = np.zeros(())
    if result.dtype.kind != "f":
        return zero
    if op.kind == "elementwise":
        # One step of the denormal range besides: docs/arithmetic.md.
        return _spacing(result) * (2 * op.ulps) + _least(result) if op.ulps else zero
    unit = float(np.finfo(result.dtype).eps) / 2
    if isinstance(op, Contract) and not op.in_order:
        types = tuple(TensorType.of(array) for array in operands)
        terms = math.prod(op.space(types, **dict(node.attributes)).k)
        magnitudes = op.compute(tuple(map(np.abs, operands)), parameters(node))[0]
        return 2 * terms * unit * magnitudes + _least(result)
    terms = operands[0].size // max(result.size, 1) if operands else 1
    if node.op == "sum":
        (magnitudes,) = op.compute((np.abs(operands[0]),), parameters(node))
        return 2 * terms * unit * magnitudes
    if node.op == "prod":
        return 4 * terms * unit * np.abs(result) + _least(result)
    if node.op == "logcumsumexp":
        return 32 * max(operands[0].shape) * unit * np.abs(result).max(initial=0)
    return zero


def _spacing(array: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.spacing(np.abs(array)))


def _least(array: Array) -> float:
    """The least normal number: what underflows on one side may be there on the other."""
    return float(np.finfo(array.dtype).smallest_normal)
