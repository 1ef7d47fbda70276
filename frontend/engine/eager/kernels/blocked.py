"""Functions of many steps (erfinv, lgamma, …) of large tensors: native code, block by block.

in : an elementwise op of one operand, and an array
out: its result, by a kernel of a fixed number of elements, so that one serves all shapes

NumPy passes over the whole array for each step of a polynomial: 25 times slower, and the memory of
many such arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.kernels.native_ops import native_op
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.op import Array

COST = 60
"""Of an op (in additions) from which on NumPy is too slow."""
LEAST = 1 << 14
"""Elements of an operand that is worth it: native code has to be loaded."""


def block_length(count: int) -> int:
    """Elements of a block, for so many in all: of a weight more, so that calls cost little."""
    return 1 << 12 if count < 1 << 18 else 1 << 14


def runs_in_blocks(op: Any, types: tuple[TensorType, ...]) -> bool:
    """Whether an op on operands of these types should."""
    return (
        isinstance(op, Elementwise)
        and op.cost >= COST
        and op.check_rule is None
        and len(types) == 1
        and types[0].dtype in (DType.f32, DType.f64)
        and is_large(types[0])
    )


def is_large(type: TensorType) -> bool:
    """Whether there are that many elements; not where a trace leaves it open."""
    return all(isinstance(size, int) for size in type.shape) and type.numel >= LEAST


class BlockedOp:
    """The op as a function of one array."""

    def __init__(self, op: Any, type: TensorType, attributes: dict[str, Any]):
        self.block = block_length(type.numel)
        self.native = native_op(op, (TensorType(type.dtype, (self.block,)),), attributes)

    def __call__(self, array: Array) -> Array:
        block = self.block
        flat = np.ascontiguousarray(array).reshape(-1)
        result = np.empty_like(flat)
        whole = len(flat) - len(flat) % block
        for start in range(0, whole, block):
            result[start : start + block] = self.native.call(flat[start : start + block])
        if whole < len(flat):
            last = np.zeros(block, flat.dtype)
            last[: len(flat) - whole] = flat[whole:]
            result[whole:] = self.native.call(last)[: len(flat) - whole]
        return result.reshape(array.shape)
