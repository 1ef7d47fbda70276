"""Products with activations in int8: the second form of a linear layer with a QuantizedWeight.

in : an input in floats, a weight whose integers lie in quads
out: what the op `block_matmul` makes of the input's blocks, rounded to integers, and the weight's
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.state import STATE
from frontend.functions.ranges import arange
from frontend.gguf.kinds import Array
from graphc.ir.types import DType
from graphc.ops.nn.block_products import BYTE, QUAD, block_matmul

GREATEST = 127


def in_quads(whole: Array, bits: int) -> Array:
    """Integers of few bits [.., n] in shared bytes [.., n * bits / 8]: of a byte those four, eight,
    … places on, as `block_products` has columns."""
    apart = (whole & np.uint8(2**bits - 1)).reshape(len(whole), -1, BYTE // bits, QUAD)
    places = np.arange(0, BYTE, bits, dtype=np.uint8)[:, None]
    joined: Array = np.bitwise_or.reduce(apart << places, axis=-2)
    return joined.reshape(len(whole), -1)


def out_of_quads(packed: Any, bits: int) -> Any:
    """The other way, of a tensor, in int32."""
    *outer, _ = packed.shape
    apart = packed.to(DType.i32).reshape(*outer, -1, 1, QUAD)
    if bits == BYTE:
        return apart.reshape(*outer, -1)
    places = arange(0, BYTE, bits, dtype=DType.i32).reshape(-1, 1)
    return ((apart >> places) & (2**bits - 1)).reshape(*outer, -1)


def quantized_rows(x: Any, block: int) -> tuple[Any, Any]:
    """Rows [m, k] as int8, and a scale for each block of a row, [m, k / block]: its greatest
    magnitude over 127. Rounding is to even. Of a block of zeros, and of elements that are not
    finite, integers are 0; the scale of the latter is not finite either."""
    apart = x.reshape(x.shape[0], -1, block)
    scale = apart.abs().amax(-1, keepdim=True) / GREATEST
    ratio = apart / scale
    whole = ratio.masked_fill(ratio.isnan(), 0).round().clamp(-GREATEST, GREATEST)
    return whole.to(DType.i8).reshape(x.shape), scale.squeeze(-1)


def block_linear(input: Any, weight: Any, bits: tuple[int, ...], bias: Any) -> Any:
    """`linear` with a QuantizedWeight, whose integers have so many bits, in the input's dtype.
    Raises RuntimeError where a gradient is asked for."""
    rows, columns = weight.shape
    if input.shape[-1] != columns:
        raise RuntimeError(
            f"linear of {list(input.shape)} with a weight {list(weight.shape)}: the last axes are "
            "not the same"
        )
    if STATE.grad_enabled and input.requires_grad:
        raise RuntimeError(
            'a product with activations="int8" rounds them, so it has no gradient: compute under '
            "torch.no_grad(), or load the weight without"
        )
    scale = _floats(weight.scale, weight.scales)
    x, x_scale = quantized_rows(input.reshape(-1, columns).to(DType.f32), columns // scale.shape[0])
    operands = [x, x_scale, _columns(weight.whole), scale]
    if weight.above is not None:
        operands.append(_columns(weight.above))
    if weight.minimum is not None:
        minimum = _floats(weight.minimum, weight.minimums)
        operands.append(minimum if weight.minimums is None else -minimum)
    attributes = {
        "block": columns // scale.shape[0], "zero": weight.zero, "bits": bits[0],
        "high_bits": 0 if weight.above is None else bits[1],
    }  # fmt: skip
    (result,) = CONTEXT.apply(block_matmul, tuple(operands), attributes)
    result = result if bias is None else result + bias.to(DType.f32)
    return result.reshape(*input.shape[:-1], rows).to(input.dtype)


def _columns(part: Any) -> Any:
    """Bytes in tiles [tiles, quads, rows, 4] as [bytes of a row, rows]."""
    return part.permute(1, 3, 0, 2).reshape(part.shape[1] * QUAD, -1)


def _floats(scale: Any, groups: Any) -> Any:
    """Scales, or minimums, in tiles [tiles, blocks, rows] as [blocks, rows]."""
    wide = scale.to(DType.f32)
    if groups is not None:
        tiles, blocks, tile = scale.shape
        wide = wide.unsqueeze(2) * groups.to(DType.f32).reshape(tiles, blocks, -1, tile)
        wide = wide.reshape(groups.shape)
    return wide.permute(1, 0, 2).reshape(wide.shape[1], -1)
