"""Products of narrow operands as `op_sizes` and `eager_ops` draw ops of the table: a few ops in a
row, on graph handles and on eager tensors alike, with sample operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc import ops
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops.kinds.op import Sample, SampleDrawer
from graphc.ops.nn.attention import attention
from graphc.ops.nn.quantization import spread_blocks
from graphc.ops.paired_convolution import conv_of_halves

HALF = {"bf16": DType.bf16, "f16": DType.f16}


@dataclass(frozen=True)
class Program:
    """Ops in a row: `define(*handles, **attributes)`, and what it is drawn with."""

    name: str
    define: Callable[..., Any]
    samples: Callable[[SampleDrawer], list[Sample]]


def swapped(x: Any) -> Any:
    return ops.transpose(x, permutation=(1, 0))


def wide(x: Any) -> Any:
    return ops.cast(x, dtype=DType.f32)


def unsigned(m: SampleDrawer, *shape: int) -> Any:
    return m.integers(256, *shape).astype(np.uint8)


# -- floats of 16 bits -----------------------------------------------------------------------------


def _linear_of_halves(x: Any, w: Any, b: Any) -> Any:
    """As `linear` of bf16 or f16 is: the bias behind the sums, then one rounding."""
    total = ops.paired_matmul(x, swapped(w))
    return ops.cast(total + broadcast_to(wide(b), total.shape), dtype=x.dtype)


def _convolution_of_halves(x: Any, w: Any, **how: Any) -> Any:
    return ops.cast(conv_of_halves(x, w, **how), dtype=x.dtype)


def _attention_of_halves(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    out, _ = attention(wide(q), wide(k), wide(v), scale=0.5, causal=causal)
    return ops.cast(out, dtype=q.dtype)


def halves(half: str) -> list[Program]:
    dtype = HALF[half].numpy

    def cast(sample: Sample) -> Sample:
        return Sample(tuple([x.astype(dtype) for x in sample.operands]), sample.attributes)

    def convolutions(m: SampleDrawer) -> list[Sample]:
        how = {"padding": (1, 1), "dilation": (1, 1)}
        return [
            m(m.normal(2, 4, 5, 6), m.normal(8, 4, 3, 3), stride=(1, 1), groups=1, **how),
            m(m.normal(2, 4, 7, 9), m.normal(10, 2, 3, 3), stride=(2, 2), groups=2, **how),
            m(m.normal(2, 3, 5, 7), m.normal(4, 3, 3, 3), stride=(1, 1), groups=1, **how),
        ]

    return [
        Program(f"linear of {half}", _linear_of_halves, lambda m: [
            cast(m(m.normal(3, 17), m.normal(5, 17), m.normal(5))),
            cast(m(m.normal(1, 300), m.normal(33, 300), m.normal(33))),
        ]),
        Program(f"convolution of {half}", _convolution_of_halves,
                lambda m: [cast(sample) for sample in convolutions(m)]),
        Program(f"attention of {half}", _attention_of_halves, lambda m: [
            cast(m(m.normal(2, 5, 8), m.normal(2, 7, 8), m.normal(2, 7, 6), causal=causal))
            for causal in (False, True)
        ]),
    ]  # fmt: skip


# -- bytes -----------------------------------------------------------------------------------------


def _dynamic_linear(x: Any, w: Any, scale: Any) -> Any:
    """Rows quantized as they come, an exact product, and both scales."""
    most = ops.max(ops.abs(x), axes=(1,))
    step = ops.reshape(most, shape=(x.shape[0], 1)) * (1 / 127) + 1e-6
    rows = ops.quantize(x, step, low=-127, high=127, dtype=DType.i8)
    total = wide(ops.int_matmul(rows, swapped(w)))
    return total * broadcast_to(step, total.shape) * broadcast_to(scale, total.shape)


def _linear_of_blocks(x: Any, low: Any, scale: Any, *, bits: int, zero: int) -> Any:
    """Rows quantized by blocks of 32, as `linear` has it for GGUF's weights and int8."""
    rows, depth = x.shape
    apart = ops.reshape(x, shape=(rows, depth // 32, 32))
    step = ops.max(ops.abs(apart), axes=(2,)) * (1 / 127) + 1e-6
    whole = ops.quantize(x, step, low=-127, high=127, dtype=DType.i8)
    return ops.block_matmul(whole, step, low, wide(scale), block=32, bits=bits, zero=zero)


def _static_convolution(x: Any, w: Any, scale: Any, **how: Any) -> Any:
    """Bytes in and out, as between the layers of a converted model."""
    zero = ops.cast(broadcast_to(lift(99, wide(scale)), ()), dtype=x.dtype)
    total = wide(ops.int_conv(x, w, zero, **how))
    return ops.quantize(total, scale, low=0, high=255, dtype=DType.u8)


def _rounded_linear(x: Any, w: Any, scale: Any) -> Any:
    """As training with rounded weights has it."""
    return x @ swapped(ops.fake_quantize(w, scale, low=-128, high=127))


def _bytes_convolved(m: SampleDrawer) -> list[Sample]:
    how = {"padding": (1, 1), "dilation": (1, 1), "stride": (1, 1)}
    scale = np.float32(90.0)
    return [
        m(unsigned(m, 2, 16, 5, 6), m.bytes(8, 16, 3, 3), scale, groups=1, **how),
        m(unsigned(m, 2, 3, 5, 6), m.bytes(4, 3, 3, 3), scale, groups=1, **how),
        m(unsigned(m, 2, 4, 5, 6), m.bytes(4, 1, 3, 3), scale, groups=4, **how),
    ]


BYTES = [
    Program("dynamic linear", _dynamic_linear, lambda m: [
        m(m.normal(3, 33), m.bytes(20, 33), m.positive(20)),
        m(m.normal(1, 64), m.bytes(70, 64), m.positive(70)),
    ]),
    Program("linear of blocks", _linear_of_blocks, lambda m: [
        m(m.normal(3, 64), unsigned(m, 64, 20), m.positive(2, 20).astype(np.float16), bits=8,
          zero=128),
        m(m.normal(1, 96), unsigned(m, 48, 70), m.positive(3, 70).astype(np.float16), bits=4,
          zero=8),
    ]),
    Program("static convolution", _static_convolution, _bytes_convolved),
    Program("rounded linear", _rounded_linear, lambda m: [
        m(m.normal(3, 17), m.normal(5, 17), m.positive(5, 1) * 0.02),
    ]),
]  # fmt: skip


# -- weights that are dequantized ------------------------------------------------------------------


def _weights_of_8_bits(x: Any, w: Any, *scales: Any) -> Any:
    return x @ swapped(ops.dequantize(w, *scales))


def _weights_of_4_bits(x: Any, w: Any, *scales: Any) -> Any:
    return x @ swapped(ops.dequantize(ops.unpack_bits(w, bits=4), *scales))


def _blocks(
    x: Any, whole: Any, scale: Any, *more: Any, bits: tuple[int, ...], offset: int,
    grouped: bool, least: bool,
) -> Any:  # fmt: skip
    """A weight as GGUF has it: low and upper bits apart, f16 scales times integers of groups, and
    least numbers in the same form."""
    rest = list(more)
    if len(bits) == 2:
        whole = ops.unpack_bits(whole, rest.pop(0), bits=bits[0], high_bits=bits[1])
    elif bits[0] != 8:
        whole = ops.unpack_bits(whole, bits=bits[0])

    def numbers(scale: Any) -> Any:
        plain = wide(scale)
        if not grouped:
            return spread_blocks(plain, whole.shape)
        groups = wide(rest.pop(0))
        return spread_blocks(spread_blocks(plain, groups.shape) * groups, whole.shape)

    floats = (wide(whole) - float(offset)) * numbers(scale)
    if least:
        below = rest.pop(0)
        floats = floats - numbers(below) if grouped else floats + numbers(below)
    return x @ swapped(floats)


def _few_bits(m: SampleDrawer) -> list[Sample]:
    scales = m.positive(6, 2) * 0.02
    return [
        m(m.normal(3, 64), unsigned(m, 6, 32), scales),
        m(m.normal(3, 64), unsigned(m, 6, 32), scales, unsigned(m, 6, 2) & 15),
        m(m.normal(1, 64), unsigned(m, 70, 32), m.positive(70, 1), unsigned(m, 70, 1) & 15),
    ]


def _of_gguf(m: SampleDrawer) -> list[Sample]:
    """Q8_0, Q4_0, Q5_1, Q6_K and Q4_K: [rows, 64] or [rows, 256]."""
    x, long = m.normal(3, 64), m.normal(3, 256)
    scale, least = ((m.positive(6, 2) * 0.01).astype(np.float16) for _ in range(2))
    one, low = ((m.positive(6, 1) * 0.01).astype(np.float16) for _ in range(2))
    plain: dict[str, Any] = {"grouped": False, "least": False, "offset": 0}
    of_groups = unsigned(m, 6, 8) & 63
    return [
        m(x, m.bytes(6, 64), scale, **{**plain, "bits": (8,)}),
        m(x, unsigned(m, 6, 32), scale, **{**plain, "bits": (4,), "offset": 8}),
        m(x, unsigned(m, 6, 32), scale, unsigned(m, 6, 8), least,
          **{**plain, "bits": (4, 1), "least": True}),
        m(long, unsigned(m, 6, 128), one, unsigned(m, 6, 64), m.bytes(6, 16),
          **{**plain, "bits": (4, 2), "offset": 32, "grouped": True}),
        m(long, unsigned(m, 6, 128), one, of_groups, low, of_groups[::-1],
          bits=(4,), offset=0, grouped=True, least=True),
    ]  # fmt: skip


WEIGHTS = [
    Program("weights of 8 bits", _weights_of_8_bits, lambda m: [
        m(m.normal(3, 33), m.bytes(20, 33), m.positive()),
        m(m.normal(3, 33), m.bytes(20, 33), m.positive(20, 1)),
        m(m.normal(1, 64), unsigned(m, 70, 64), m.positive(70, 4), unsigned(m, 70, 4)),
    ]),
    Program("weights of 4 bits", _weights_of_4_bits, _few_bits),
    Program("weights of GGUF", _blocks, _of_gguf),
]  # fmt: skip

PROGRAMS = {each.name: each for each in (*halves("bf16"), *halves("f16"), *BYTES, *WEIGHTS)}
