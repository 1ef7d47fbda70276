"""Weights of 4 bits and scales of groups: they are computed where a product reads them, and stored
by nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.target import named
from graphc.errors import AttributeValueError
from graphc.ir.types import DType
from graphc.passes.pipelines import optimize, without_frozen
from graphc.schedule.build import make_plan
from graphc.schedule.plan import kernels

TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")]
SIZES = [(70, 320, 32), (64, 512, 64), (40, 96, 96), (33, 320, 2)]
"""Rows of the weight, its columns, and the size of a group."""
FROZEN = [1, 2, 3]


def product(rows: int, n: int, k: int, group: int) -> graphc.Graph:
    """x wᵀ of a weight [n, k]."""
    b = graphc.GraphBuilder("product")
    x, w = b.input("x", f"f32[{rows},{k}]"), b.input("w", f"u8[{n},{k // 2}]")
    groups = [n, k // group]
    scale, zero = b.input("scale", f"f32{groups}"), b.input("zero", f"u8{groups}")
    wide = ops.dequantize(ops.unpack_bits(w, bits=4), scale, zero)
    return b.finish(ops.matmul(x, ops.transpose(wide, permutation=(1, 0))))


def drawn(rows: int, n: int, k: int, group: int) -> tuple[list[Any], Any]:
    """Operands, and the weight in floats."""
    random = np.random.default_rng(7)
    whole = random.integers(0, 16, (n, k)).astype(np.uint8)
    scale = random.uniform(0.01, 0.1, (n, k // group)).astype(np.float32)
    zero = random.integers(0, 16, (n, k // group)).astype(np.uint8)
    x = random.standard_normal((rows, k)).astype(np.float32)
    moved = whole.astype(np.float32) - np.repeat(zero, group, 1)
    return [x, whole[:, ::2] | whole[:, 1::2] << 4, scale, zero], moved * np.repeat(scale, group, 1)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("rows", [1, 8, 100])
def test_they_are_kept_and_read_packed(rows: int, target: Any) -> None:
    split = without_frozen(product(rows, *SIZES[0]), "exact", FROZEN, 4, preferred_layouts(target))
    assert split is not None
    kept = split.constants.output_types
    assert [type.dtype for type in kept] == [DType.u8, DType.f32, DType.f32]
    assert [type.shape[1] for type in kept] == [160, 10, 10]  # tiles of columns of what it was
    (kernel,) = kernels(make_plan(split.graph))
    assert kernel.recipe == "contract"
    note = lower(kernel, target).note
    if rows != 8:  # of many rows each element is computed once, into a panel
        assert f"vector operand {'in place' if rows == 1 else 'packed'}" in note


@pytest.mark.sampled(5)
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bits_are_those_of_the_floats(rows: int, sizes: Any, native_target: Any) -> None:
    operands, weight = drawn(rows, *sizes)
    b = graphc.GraphBuilder("floats")
    x, w = (b.input(name, graphc.TensorType.of(each)) for name, each in
            zip("xw", (operands[0], weight), strict=True))  # fmt: skip
    floats = b.finish(ops.matmul(x, ops.transpose(w, permutation=(1, 0))))
    (want,) = graphc.compile(floats, target=native_target)(operands[0], weight)
    graph = product(rows, *sizes)
    for level in ("none", "exact"):
        (got,) = graphc.compile(graph, level, target=native_target)(*operands)
        np.testing.assert_array_equal(got, want)
    split = without_frozen(graph, "exact", FROZEN, 4, preferred_layouts(native_target))
    if split is not None:
        kept = graphc.run(split.constants, *operands[1:])
        (got,) = graphc.compile(split.graph, target=native_target)(*operands, *kept)
        np.testing.assert_array_equal(got, want)


def test_what_a_group_shares_is_read_once_for_it() -> None:
    """Scales and zero points ahead of the loop over the bytes of a group, of which each is read
    once for both its integers; the tile leaves registers for them."""
    target = named("x86-64-v4")
    split = without_frozen(product(1, 512, 512, 128), "exact", FROZEN, 4, preferred_layouts(target))
    assert split is not None
    (kernel,) = kernels(make_plan(split.graph))
    text = str(lower(kernel, target))
    assert "tile 1x7x16" in text
    groups, inner = text.split("for %run128")[1].split("for %run2", 1)
    assert groups.count("load x1") == groups.count("load x2") == 7
    body = inner.split("yield")[0]
    assert body.count("load x0") == 7 and body.count("fma") == 14 and "div" not in body


def test_one_that_something_else_reads_is_stored() -> None:
    b = graphc.GraphBuilder("shared")
    x, w, scale = b.input("x", "f32[1,64]"), b.input("w", "u8[64,32]"), b.input("s", "f32[64,2]")
    wide = ops.dequantize(ops.unpack_bits(w, bits=4), scale)
    graph = optimize(b.finish(ops.matmul(x, wide), wide))
    assert len(list(kernels(make_plan(graph)))) == 2


def test_one_that_lies_in_tiles_is_packed_as_others_are() -> None:
    """Its rows, the columns of the product, are two axes of what is stored."""
    n, k, group, tile = 128, 64, 32, 64
    b = graphc.GraphBuilder("tiles")
    x, w = b.input("x", f"f32[1,{k}]"), b.input("w", f"i8[{n // tile},{k},{tile}]")
    scale = b.input("scale", f"f32[{n // tile},{k // group},{tile}]")
    in_rows = [
        ops.reshape(ops.transpose(part, permutation=(0, 2, 1)), shape=(n, size))
        for part, size in ((w, k), (scale, k // group))
    ]
    wide = ops.transpose(ops.dequantize(*in_rows), permutation=(1, 0))
    graph = b.finish(ops.matmul(x, wide))
    split = without_frozen(graph, "exact", [1, 2], 3, preferred_layouts(TARGETS[2]))
    assert split is not None
    assert [type.dtype for type in split.constants.output_types] == [DType.i8, DType.f32]
    random = np.random.default_rng(0)
    stored = random.integers(-127, 128, w.shape).astype(np.int8)
    scales = random.uniform(0.01, 0.1, scale.shape).astype(np.float32)
    row = random.standard_normal((1, k)).astype(np.float32)
    packed = graphc.run(split.constants, stored, scales)
    (want,) = graphc.compile(graph)(row, stored, scales)
    np.testing.assert_array_equal(
        graphc.compile(split.graph)(row, stored, scales, *packed)[0], want
    )


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_integers_share_bytes(bits: int) -> None:
    count = 8 // bits
    whole = np.arange(2 * 6 * count, dtype=np.uint8).reshape(2, -1)
    b = graphc.GraphBuilder("shared_bytes")
    x = b.input("x", f"u8[2,{6 * count}]")
    packed = ops.pack_bits(x, bits=bits)
    graph = b.finish(packed, ops.unpack_bits(packed, bits=bits))
    low = whole % 2**bits
    want = sum(low[:, i::count] << i * bits for i in range(count))
    for level in ("none", "exact"):
        bytes_, back = graphc.compile(graph, level)(whole)
        assert bytes_.dtype == np.uint8
        np.testing.assert_array_equal(bytes_, want)
        np.testing.assert_array_equal(back, low)


@pytest.mark.parametrize(("bits", "more"), [(4, 1), (4, 2), (2, 1)])
def test_upper_bits_in_bytes_of_their_own(bits: int, more: int) -> None:
    whole = np.random.default_rng(0).integers(0, 2 ** (bits + more), (3, 32)).astype(np.uint8)
    b = graphc.GraphBuilder("apart")
    x, y = b.input("x", "u8[3,32]"), b.input("y", "u8[3,32]")
    low, high = ops.pack_bits(x, bits=bits), ops.pack_bits(y, bits=more)
    graph = b.finish(ops.unpack_bits(low, high, bits=bits, high_bits=more))
    np.testing.assert_array_equal(graphc.compile(graph)(whole, whole >> bits)[0], whole)
    with pytest.raises(graphc.ShapeError, match=f"is no {more} bits above {bits} of"):
        ops.unpack_bits(low, low, bits=bits, high_bits=more)


def test_integers_that_do_not_share_bytes_are_refused() -> None:
    b = graphc.GraphBuilder("refused")
    x = b.input("odd", "u8[3]")
    with pytest.raises(graphc.ShapeError, match="is to be a multiple of 2, so many a byte"):
        ops.pack_bits(x, bits=4)
    for op in (ops.pack_bits, ops.unpack_bits):
        with pytest.raises(AttributeValueError, match="of 3 bits do not divide a byte"):
            op(x, bits=3)
    with pytest.raises(graphc.DTypeError, match="does not take i64"):
        ops.unpack_bits(b.input("wide", "i64[4]"), bits=4)
