"""The matrix product of integers in blocks along k, each block with scales: sums are exact within a
block, and the blocks are added in order, in floats.

Integers of few bits share bytes with those four indices of k further on: of a byte row 4·i + p, of
`bits` each, those from the lowest up are at k = 4·(8 / bits · i + j) + p, for j = 0, 1, …. So four
neighbours along k are always four neighbouring bytes, and a shift and a mask away from what
instructions for quads of bytes multiply.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops.kinds.contract import Contract, Space
from graphc.ops.kinds.movement import Case
from graphc.ops.kinds.numpy_fma import fma32
from graphc.ops.kinds.op import FLOATS, Array, Arrays, SampleDrawer, Types

QUAD = 4
"""Neighbours along k that are neighbours in memory."""
BYTE = 8
PARTS = (1, 2, 4, 8)
"""How many bits of a byte an integer may take."""
LONGEST = 64
"""The longest block: its sums of i8 times u8 are whole numbers below 2^24, which f32 has all."""


def _shape(types: Types, *, block: int, zero: int = 0, bits: int = 8, high_bits: int = 0) -> Shape:
    x, x_scale, low, scale, *others = types
    if any(type.rank != 2 for type in types) or any(
        type(extent) is not int for each in types for extent in each.shape[-1:]
    ):
        raise ShapeError(f"block_matmul of {', '.join(map(str, types))}: takes matrices")
    rows, depth = x.shape
    columns = low.shape[1]
    blocks = depth // block if isinstance(depth, int) else 0
    if blocks < 1 or depth % block:
        raise ShapeError(
            f"block_matmul of {x}: its rows are no blocks of {block}",
            hint="the last axis is a number, a multiple of `block` and not 0",
        )
    expected = [(rows, blocks), (packed_rows(depth, bits), columns), (blocks, columns)]
    if high_bits:
        expected.append((packed_rows(depth, high_bits), columns))
    if len(others) > int(high_bits > 0):
        expected.append((blocks, columns))
    for each, shape in zip((x_scale, low, scale, *others), expected, strict=True):
        if each.shape != shape:
            raise ShapeError(
                f"block_matmul of {x} with {low}, blocks of {block}: expected "
                f"{each.with_shape(shape)}, got {each}"
            )
    return rows, columns


def _check_attributes(block: int, zero: int, bits: int, high_bits: int) -> None:
    if not QUAD <= block <= LONGEST or block % QUAD:
        raise AttributeValueError(
            f"block_matmul: a block of {block}", hint=f"a multiple of {QUAD} up to {LONGEST}"
        )
    if bits not in PARTS or high_bits not in (0, *PARTS) or bits + high_bits > BYTE:
        raise AttributeValueError(f"block_matmul: {bits} and {high_bits} bits make no byte")
    if not 0 <= zero < 2**BYTE:
        raise AttributeValueError(f"block_matmul: the zero point {zero} is no u8")


def packed_rows(depth: int, bits: int) -> int:
    """Bytes that so many integers of a column take. Raises ShapeError where they fill none."""
    together = QUAD * (BYTE // bits)
    if depth % together:
        raise ShapeError(
            f"{depth} integers of {bits} bits are no multiple of the {together} that share bytes"
        )
    return depth * bits // BYTE


def pack_columns(whole: Array, bits: int) -> Array:
    """Integers u8 [k, n] in shared bytes, u8 [k · bits / 8, n]: their lowest bits."""
    depth, columns = whole.shape
    parts = BYTE // bits
    rows = packed_rows(depth, bits)
    apart = whole.reshape(rows // QUAD, parts, QUAD, columns) & np.uint8(2**bits - 1)
    places = np.arange(0, BYTE, bits, dtype=np.uint8)[:, None, None]
    joined: Array = np.bitwise_or.reduce(apart << places, axis=1)
    return joined.reshape(rows, columns)


def unpacked_columns(packed: Array, bits: int) -> Array:
    """The other way."""
    rows, columns = packed.shape
    apart = packed.reshape(rows // QUAD, 1, QUAD, columns)
    places = np.arange(0, BYTE, bits, dtype=np.uint8)[:, None, None]
    whole: Array = (apart >> places) & np.uint8(2**bits - 1)
    return whole.reshape(rows * (BYTE // bits), columns)


def integers_of(low: Array, high: Array | None, attributes: dict[str, Any]) -> Array:
    """The integers of the right operand, less their zero point: i32 [k, n]."""
    whole = unpacked_columns(low, attributes["bits"])
    if high is not None:
        whole = whole | unpacked_columns(high, attributes["high_bits"]) << attributes["bits"]
    return whole.astype(np.int32) - np.int32(attributes["zero"])


def fused(x: Array, y: Array, total: Array) -> Array:
    """x·y + total, rounded once in f32; of f64, which has no fast FMA in NumPy, twice."""
    x, y, total = np.broadcast_arrays(x, y, total)
    if total.dtype == np.float32:
        return fma32(x, y, total)
    result: Array = x * y + total
    return result


def add_block(
    total: Array, sums: Array, whole: Array, x_scale: Array, scale: Array, minimum: Array | None
) -> Array:
    """The totals with one block more: its exact `sums`, and those of the left operand, `whole`."""
    term = sums.astype(total.dtype) * scale
    if minimum is not None:
        term = fused(minimum, whole.astype(total.dtype), term)
    return fused(term, x_scale, total)


def parts_of(operands: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Left operand, its scales, low bits, scales, high bits, minimums; None for what is missing."""
    *first, low, scale = operands[:4]
    others = list(operands[4:])
    high = others.pop(0) if attributes["high_bits"] else None
    return (*first, low, scale, high, others[0] if others else None)


def _product(*arrays: Array, **attributes: Any) -> Array:
    x, x_scale, low, scale, high, minimum = parts_of(arrays, attributes)
    block, numbers = attributes["block"], integers_of(low, high, attributes)
    total = np.zeros((x.shape[0], low.shape[1]), scale.dtype)
    for b in range(scale.shape[0]):
        k = slice(b * block, (b + 1) * block)
        # BLAS multiplies no integers; of floats all sums are whole numbers below 2^24.
        left = x[:, k].astype(np.float32)
        sums, whole = left @ numbers[k].astype(np.float32), left.sum(axis=1, keepdims=True)
        of_b = None if minimum is None else minimum[b]
        total = add_block(total, sums, whole, x_scale[:, b, None], scale[b], of_b)
    return total


class BlockProduct(Contract):
    """block_matmul(x, x_scale, low, scale, [high], [minimum]): with blocks b of `block` indices,

        out[m, n] = Σ_b (scale[b, n] · Σ_k x[m, k] · w[k, n] + minimum[b, n] · Σ_k x[m, k])
                        · x_scale[m, b]

    `x` is i8 [m, k], w = low + high · 2^bits - zero. The sums over k are exact. What stands in
    parentheses is the product of the first sum and the scale, rounded, and one FMA with the minimum
    where there is one; blocks are added in order, each by one FMA, from +0. Scales and minimums are
    all f32 or all f64, as the result is.
    """

    in_order = True

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        _check_attributes(**attributes)
        high = int(attributes["high_bits"] > 0)
        if len(types) - high not in (4, 5):
            self.expect(types, 4 + high)
        self.expect_dtype(types[0], (DType.i8,), 0)
        self.expect_dtype(types[3], FLOATS, 3)
        of_floats = [1, 3, *range(4 + high, len(types))]
        for position in range(1, len(types)):
            allowed = (types[3].dtype,) if position in of_floats else (DType.u8,)
            self.expect_dtype(types[position], allowed, position)
        return (TensorType(types[3].dtype, self.shape_rule(types, **attributes)),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (self.compute_rule(*arrays, **attributes),)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        x, x_scale, low, scale, high, minimum = parts_of(arrays, attributes)
        self.infer(tuple(map(TensorType.of, arrays)), attributes)
        numbers, (blocks, columns) = integers_of(low, high, attributes), scale.shape
        apart = x.astype(np.int64).reshape(len(x), blocks, attributes["block"])
        sums = np.einsum("mbk,bkn->mbn", apart, numbers.reshape(*apart.shape[1:], columns))
        terms = sums * scale
        if minimum is not None:
            terms = terms + apart.sum(axis=2)[..., None] * minimum
        return (np.asarray((terms * x_scale[..., None]).sum(axis=1), scale.dtype),)


def packed_index(k: Any, bits: int) -> Any:
    """The row of bytes that has the integer at k."""
    return k // (QUAD * (BYTE // bits)) * QUAD + k % QUAD


def _samples(m: SampleDrawer) -> list[Any]:
    def one(
        rows: int, columns: int, blocks: int, block: int, minimum: bool = False, **others: int
    ) -> Any:
        attributes: dict[str, Any] = {"block": block, **others}
        depth = block * blocks

        def packed(bits: int) -> Array:
            return m.integers(256, packed_rows(depth, bits), columns).astype(np.uint8)

        high, bits = attributes.get("high_bits", 0), attributes.get("bits", 8)
        operands = [m.bytes(rows, depth), m.positive(rows, blocks), packed(bits),
                    m.normal(blocks, columns)]  # fmt: skip
        operands += [packed(high)] if high else []
        operands += [m.normal(blocks, columns)] if minimum else []
        return m(*operands, **attributes)

    return [
        one(3, 5, 2, 32, zero=128), one(1, 70, 3, 32, bits=4, zero=8),
        one(2, 17, 2, 16, bits=4, high_bits=2, zero=32), one(5, 33, 1, 32, True, bits=4),
        one(1, 3, 2, 16, True, bits=2), one(4, 20, 3, 32, True, bits=4, high_bits=1),
        one(7, 64, 4, 4, zero=3), one(0, 5, 1, 8), one(2, 0, 1, 8), one(1, 1, 9, 64),
    ]  # fmt: skip


block_matmul = BlockProduct(
    "block_matmul",
    _shape,
    space=lambda types, **_: Space((), types[0].shape[:1], types[2].shape[1:], types[0].shape[1:]),
    left=lambda b, m, k, types, **_: Case(0, (*m, *k)),
    right=lambda b, n, k, types, bits, **_: Case(2, (packed_index(k[0], bits), *n)),
    out=lambda b, m, n, types, **_: (*m, *n),
    compute=_product,
    dtypes=(DType.i8, DType.u8, *FLOATS),
    vjp=None,
    samples=_samples,
    exempt={"gradient": "its operands are rounded to integers, which have none"},
)
