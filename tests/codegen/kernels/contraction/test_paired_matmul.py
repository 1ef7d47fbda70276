"""Products of f16 and bf16, two at a time: the same bits on every target, with the processor's
instruction and without, also where it would flush sums to zero."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.target import executable, named
from graphc.ir.dims import dim
from graphc.ir.types import DType
from graphc.ops.kinds.numpy_fma import fma32
from graphc.passes.layouts import packed
from graphc.passes.pipelines import optimize
from graphc.passes.split_frozen import split_frozen
from graphc.schedule.plan import KernelSpec
from tests.codegen.kernels.contraction.problems import narrow_product, swapped
from tests.codegen.run_time_extents.kernels import along, compare

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
K_BLOCK = 256
EXTENDED = named("x86-64-v4+bf16")
TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")]
SHAPES = [
    (3, 5, 7),
    (1, 64, 64),
    (1, 301, 50),
    (17, 33, 50),
    (5, 600, 3),
    (2, 1, 2),
    (30, 257, 70),
    (5, 2, 57),
]
SCALES = {
    "normal": (1.0, 1.0), "products underflow": (2.0**-70, 2.0**-70),
    "sums underflow": (2.0**-60, 2.0**-60), "denormal": (2.0**-133, 1.0),
    "at the limit": (2.0**-54, 2.0**-54), "infinite": (2.0**66, 2.0**66),
}  # fmt: skip


@functools.cache
def body(
    dtype: str, shape: tuple[int, int, int], x_turned: bool = False, y_turned: bool = False
) -> graphc.Graph:
    return narrow_product(ops.paired_matmul, (dtype, dtype), shape, (x_turned, y_turned))


def defined(x: Array, y: Array) -> Array:
    """K blocks of pairs, the odd index first, FMAs from +0; an odd K ends with zeros."""
    x, y = (each.astype(np.float32) for each in (x, y))
    if x.shape[1] % 2:
        x, y = np.pad(x, ((0, 0), (0, 1))), np.pad(y, ((0, 1), (0, 0)))
    blocks = []
    for start in range(0, x.shape[1], K_BLOCK):
        total = np.zeros((x.shape[0], y.shape[1]), np.float32)
        for k in range(start, min(start + K_BLOCK, x.shape[1])):
            at = k ^ 1
            factors = np.broadcast_arrays(x[:, at, None], y[None, at], total)
            total = fma32(*factors)
        blocks.append(total)
    if len(blocks) == 1:
        return blocks[0]
    return functools.reduce(np.add, blocks, np.zeros_like(blocks[0]))


def drawn(graph: graphc.Graph, scales: tuple[float, float] = (1.0, 1.0)) -> list[Array]:
    random = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        return [
            (random.standard_normal(type.shape) * scale).astype(type.dtype.numpy)
            for type, scale in zip(graph.input_types, scales, strict=True)
        ]


def same(got: Array, want: Array) -> bool:
    numbers = ~np.isnan(want)
    bits = got.view(np.int32)[numbers] == want.view(np.int32)[numbers]
    return bool((np.isnan(got) == np.isnan(want)).all() and bits.all())


@pytest.mark.sampled(24)
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_layouts_have_the_bits_of_the_definition(
    shape: tuple[int, int, int], scales: tuple[float, float], native_target: Any
) -> None:
    for x_turned, y_turned in ((False, False), (False, True), (True, False), (True, True)):
        graph = body("bf16", shape, x_turned, y_turned)
        x, y = drawn(graph, scales)
        with np.errstate(all="ignore"):
            want = defined(x.T if x_turned else x, y.T if y_turned else y)
        (got,) = graphc.compile(graph, target=native_target)(x, y)
        assert same(got, want), (x_turned, y_turned)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", [*TARGETS, EXTENDED], ids=lambda target: target.name)
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
def test_interpreted_on_every_target(target: Any, scales: tuple[float, float]) -> None:
    graph = body("bf16", (3, 35, 20), y_turned=True)
    x, y = drawn(graph, scales)
    result = np.empty((3, 20), np.float32)
    with np.errstate(all="ignore"):
        run(lower(KernelSpec("contract", graph), target), [x, y, result])
        want = defined(x, y.T)
    assert same(result, want)


@pytest.mark.parametrize("target", [*TARGETS, EXTENDED], ids=lambda target: target.name)
@pytest.mark.parametrize("computed", ["negated", "rounded"])
def test_columns_that_are_computed_where_they_are_read(target: Any, computed: str) -> None:
    """Of [n, 2], whose pairs lie side by side as packed ones do: they are not read as they lie."""
    b = graphc.GraphBuilder("product")
    x = b.input("x", "bf16[1,2]")
    y = b.input("y", "bf16[16,2]" if computed == "negated" else "f32[16,2]")
    wide = -ops.cast(y, dtype=DType.f32) if computed == "negated" else y
    graph = b.finish(ops.paired_matmul(x, swapped(ops.cast(wide, dtype=DType.bf16))))
    arrays = drawn(graph)
    columns = -arrays[1] if computed == "negated" else arrays[1].astype(BF16)
    result = np.empty((1, 16), np.float32)
    run(lower(KernelSpec("contract", graph), target), [*arrays, result])
    assert same(result, defined(arrays[0], columns.T))


def test_a_nan_and_an_infinity_stay_what_they_are(native_target: Any) -> None:
    graph = body("bf16", (9, 40, 33))
    x, y = drawn(graph)
    x[2, 3], x[5, 7], y[3, 4] = np.nan, np.inf, 0
    with np.errstate(all="ignore"):
        want = defined(x, y)
    (got,) = graphc.compile(graph, target=native_target)(x, y)
    assert same(got, want)
    assert np.isnan(got[2]).all()
    assert not np.isfinite(got[5]).any()


@pytest.mark.sampled(4)
def test_zeros_alone_are_zero(native_target: Any) -> None:
    graph = body("bf16", (9, 33, 33))
    x, y = (np.zeros(type.shape, BF16) for type in graph.input_types)
    (got,) = graphc.compile(graph, target=native_target)(x, -y)
    assert same(got, np.zeros((9, 33), np.float32))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_sums_are_within_their_bound(dtype: str, native_target: Any) -> None:
    for shape in SHAPES:
        graph = body(dtype, shape)
        x, y = drawn(graph)
        (got,) = graphc.compile(graph, target=native_target)(x, y)
        assert same(got, defined(x, y))
        wide = [each.astype(np.float64) for each in (x, y)]
        k = shape[1] + 1
        roundings = min(k, K_BLOCK) + math.ceil(k / K_BLOCK)
        bound = roundings * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]))
        assert (np.abs(got - wide[0] @ wide[1]) <= bound).all()


def test_the_instruction_is_used_where_there_is_one() -> None:
    graph = body("bf16", (64, 512, 96), y_turned=True)
    texts = {target.name: str(lower(KernelSpec("contract", graph), target)) for target in
             (EXTENDED, *TARGETS)}  # fmt: skip
    assert "dot_pairs" in texts.pop(EXTENDED.name)
    assert not any("dot_pairs" in text for text in texts.values())


@pytest.mark.skipif(EXTENDED not in executable(), reason="no instruction for pairs of bf16 here")
def test_batches_and_threads_change_no_bit() -> None:
    b = graphc.GraphBuilder("batched")
    x, y = b.input("x", "bf16[3,70,130]"), b.input("y", "bf16[3,130,90]")
    graph = b.finish(ops.paired_matmul(x, y))
    arrays = drawn(graph)
    results = [graphc.compile(graph, target=EXTENDED, threads=n)(*arrays)[0] for n in (1, 2)]
    want = np.stack([defined(*each) for each in zip(*arrays, strict=True)])
    assert all(same(got, want) for got in results)


@pytest.mark.slow
def test_rows_of_any_number() -> None:
    n = dim("n")
    for operands in (
        [(DType.bf16, (n, 35)), (DType.bf16, (35, 33))],
        [(DType.bf16, (3, n)), (DType.bf16, (n, 5))],
        [(DType.f16, (3, 7)), (DType.f16, (7, n))],
    ):
        compare(ops.paired_matmul, operands, along(0, 1, 8, 9, 33), targets=[EXTENDED, *TARGETS])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_gradients_are_rounded_to_the_operands_dtype(dtype: str) -> None:
    b = graphc.GraphBuilder("loss")
    x, y = b.input("x", f"{dtype}[4,6]"), b.input("y", f"{dtype}[6,5]")
    graph = graphc.joint(b.finish(ops.paired_matmul(x, y)), wrt=["x", "y"])
    arrays = drawn(body(dtype, (4, 6, 5)))
    g = np.random.default_rng(5).standard_normal((4, 5)).astype(np.float32)
    kind = arrays[0].dtype
    _, by_x, by_y = graphc.compile(graph)(*arrays, g)
    short = g.astype(kind)
    assert by_x.dtype == by_y.dtype == kind
    assert (by_x == defined(short, arrays[1].T).astype(kind)).all()
    assert (by_y == defined(arrays[0].T, short).astype(kind)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", [named("x86-64-v3"), EXTENDED], ids=lambda target: target.name)
@pytest.mark.parametrize("rows", [1, 20])
def test_weights_that_stay_lie_as_they_are_read(target: Any, rows: int) -> None:
    """Packed once and read where they lie: as pairs with the least magnitudes behind them, and
    element by element for several rows of FMAs; an odd depth and columns that end inside a tile
    too."""
    graph = optimize(body("bf16", (rows, 301, 70)), "exact")
    split = split_frozen(packed(graph, {1}, preferred_layouts(target)), [1], 1)
    assert split is not None
    (kept,) = split.constants.output_types
    assert kept.rank == 4
    assert kept.dtype is DType.bf16
    in_pairs = rows == 1 or target.paired_products
    assert kept.shape[1] == (151 + 1 if in_pairs else 301)
    kernel = lower(KernelSpec("contract", split.graph), target)
    assert f"vector operand {'in place' if in_pairs else 'packed'}" in kernel.note
    for scales in SCALES.values():
        x, y = drawn(body("bf16", (rows, 301, 70)), scales)
        (packed_y,) = graphc.run(split.constants, y)
        with np.errstate(all="ignore"):
            want = defined(x, y)
        if rows == 1:
            result = np.empty((rows, 70), np.float32)
            run(kernel, [x, packed_y, y, result])
            assert same(result, want)
        if target in executable():
            (got,) = graphc.compile(split.graph, target=target)(x, packed_y, y)
            assert same(got, want)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_operands_are_widened_once(target: Any, dtype: str) -> None:
    """Not once for each tile: rows that several tiles of columns read are copied, and columns that
    more than two tiles of rows do."""
    for rows, columns in ((64, "packed"), (3, "in place")):
        graph = body(dtype, (rows, 64, 256))
        kernel = lower(KernelSpec("contract", graph), target)
        assert "broadcast operand packed" in kernel.note
        assert f"vector operand {columns}" in kernel.note
    alone = lower(KernelSpec("contract", body(dtype, (64, 64, 4))), target)
    assert "broadcast operand in place" in alone.note


@pytest.mark.parametrize("turned", [False, True])
def test_behind_the_last_column_of_a_copy_stand_zeros(turned: bool) -> None:
    """What scratch held before may be denormal, and one FMA on that takes as long as a hundred."""
    graph = body("bf16", (256, 64, 21), y_turned=turned)
    kernel = lower(KernelSpec("contract", graph), named("x86-64-v3"))
    stores = [line for line in str(kernel).splitlines() if "store vectors" in line]
    assert stores
    assert not any("mask" in line for line in stores)
