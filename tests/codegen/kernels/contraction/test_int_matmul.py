"""Products of bytes: exact integers modulo 2^32, the same on every target, with the processor's
instructions and without."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.target import executable, named
from graphc.errors import DTypeError
from graphc.ir.dims import dim
from graphc.ir.types import DType
from graphc.ops.movement import transpose
from graphc.ops.nn.int_convolution import int_conv
from graphc.passes.layouts import described, packed
from graphc.passes.pipelines import optimize
from graphc.passes.split_frozen import split_frozen
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch
from tests.codegen.kernels.contraction.problems import narrow_product
from tests.codegen.run_time_extents.kernels import along, compare

Array = np.ndarray[Any, Any]
VNNI = named("x86-64-v4+vnni")
TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")]
SHAPES = [(3, 5, 7), (1, 64, 64), (1, 301, 50), (17, 33, 50), (5, 600, 3), (2, 1, 2), (30, 258, 70)]


@functools.cache
def body(
    dtype: str, shape: tuple[int, int, int], x_turned: bool = False, y_turned: bool = False
) -> graphc.Graph:
    return narrow_product(ops.int_matmul, (dtype, "i8"), shape, (x_turned, y_turned))


def drawn(graph: graphc.Graph, extreme: bool = False) -> list[Array]:
    """Bytes; `extreme`: the greatest magnitudes alone, where products that saturate are wrong."""
    random, arrays = np.random.default_rng(3), []
    for type in graph.input_types:
        limits = np.iinfo(type.dtype.numpy)
        if extreme:
            array = random.choice([limits.min, limits.max], type.shape, p=[0.1, 0.9])
        else:
            array = random.integers(limits.min, limits.max + 1, type.shape)
        arrays.append(array.astype(type.dtype.numpy))
    return arrays


def defined(x: Array, y: Array) -> Array:
    """Exact, then modulo 2^32."""
    return (x.astype(np.int64) @ y.astype(np.int64)).astype(np.int32)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_layouts_are_exact(shape: tuple[int, int, int], dtype: str, native_target: Any) -> None:
    for x_turned, y_turned in ((False, False), (False, True), (True, False), (True, True)):
        graph = body(dtype, shape, x_turned, y_turned)
        for extreme in (False, True):
            x, y = drawn(graph, extreme)
            want = defined(x.T if x_turned else x, y.T if y_turned else y)
            (got,) = graphc.compile(graph, target=native_target)(x, y)
            np.testing.assert_array_equal(got, want, err_msg=str((x_turned, y_turned)), strict=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", [*TARGETS, VNNI], ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_interpreted_on_every_target(target: Any, dtype: str) -> None:
    for turned in (False, True):
        graph = body(dtype, (3, 35, 20), turned, not turned)
        x, y = drawn(graph, extreme=turned)
        result = np.empty((3, 20), np.int32)
        run(lower(KernelSpec("contract", graph), target), [x, y, result])
        np.testing.assert_array_equal(result, defined(x.T if turned else x, y if turned else y.T))


def test_sums_wrap(native_target: Any) -> None:
    """From 65,794 products of u8 with i8 on they can: 255 · 128 · 65,794 is more than 2^31."""
    graph = body("u8", (1, 65_794, 4))
    x, y = np.full((1, 65_794), 255, np.uint8), np.full((65_794, 4), -128, np.int8)
    exact = -255 * 128 * 65_794
    assert exact + 255 * 128 >= -(2**31) > exact
    (got,) = graphc.compile(graph, target=native_target)(x, y)
    assert got.tolist() == [[exact + 2**32] * 4]
    assert graphc.run(graph, x, y)[0].tolist() == got.tolist()


def test_the_instructions_are_used_where_there_are_any() -> None:
    graph = body("i8", (64, 512, 96), y_turned=True)
    for target in (*TARGETS, VNNI):
        used = "dot_quads" in str(lower(KernelSpec("contract", graph), target))
        assert used == target.triple.startswith("x86"), target.name


def test_what_saturates_is_not_used() -> None:
    from graphc.codegen.llvm.jit import kernel_texts

    graph = body("i8", (4, 64, 32))
    kernel = lower(KernelSpec("contract", graph), VNNI)
    text = "\n".join(kernel_texts(kernel, VNNI)[1])
    assert "vpdpbusd.512" in text
    assert "vpdpbusds" not in text
    assert "maddubs" not in text


def test_batches_and_threads_change_nothing() -> None:
    b = graphc.GraphBuilder("batched")
    x, y = b.input("x", "i8[3,70,130]"), b.input("y", "i8[3,130,90]")
    graph = b.finish(ops.int_matmul(x, y))
    arrays = drawn(graph)
    want = np.stack([defined(*each) for each in zip(*arrays, strict=True)])
    for threads in (1, 2):
        (got,) = graphc.compile(graph, threads=threads)(*arrays)
        np.testing.assert_array_equal(got, want)


def test_rows_of_any_number() -> None:
    n = dim("n")
    for operands in (
        [(DType.i8, (n, 35)), (DType.i8, (35, 33))],
        [(DType.u8, (3, n)), (DType.i8, (n, 5))],
    ):
        compare(ops.int_matmul, operands, along(0, 1, 8, 9, 33), targets=[VNNI, *TARGETS])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", [named("x86-64-v3"), VNNI], ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("rows", [1, 20])
def test_weights_that_stay_lie_as_quads(target: Any, rows: int, dtype: str) -> None:
    """Packed once, with what sums begin at behind them, and read where they lie; a depth that is no
    multiple of four and columns that end inside a tile too."""
    graph = optimize(body(dtype, (rows, 301, 70)), "exact")
    tiled = packed(graph, {1}, preferred_layouts(target))
    split = split_frozen(tiled, [1], 1)
    assert split is not None
    assert "is packed as" in described(tiled)[0]
    (kept,) = split.constants.output_types
    assert kept.dtype is DType.i8
    assert kept.shape[1] == 76 + 1
    kernel = lower(KernelSpec("contract", split.graph), target)
    assert "vector operand in place" in kernel.note
    for extreme in (False, True):
        x, y = drawn(body(dtype, (rows, 301, 70)), extreme)
        (packed_y,) = graphc.run(split.constants, y)
        result = np.empty((rows, 70), np.int32)
        if rows == 1:
            run(kernel, [x, packed_y, y, result])
            np.testing.assert_array_equal(result, defined(x, y))
        if target in executable():
            (got,) = graphc.compile(split.graph, target=target)(x, packed_y, y)
            np.testing.assert_array_equal(got, defined(x, y))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("target", [*TARGETS, VNNI], ids=lambda target: target.name)
@pytest.mark.parametrize("channels", [24, 32, 64])
def test_windows_of_rows_of_channels(target: Any, channels: int) -> None:
    """The channels of a tap are one run of memory, also where the tap falls on padding; a block of
    groups that is part of such a run is read as it lies."""
    b = graphc.GraphBuilder("windows")
    x = b.input("x", f"u8[1,3,4,{channels}]")
    w, zero = b.input("w", f"i8[20,{channels},3,3]"), b.input("zero", "u8[]")
    planes = transpose(x, permutation=(0, 3, 1, 2))
    geometry = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = b.finish(int_conv(planes, w, zero, **geometry))
    whole = optimize(graph)
    (product,) = [
        step.kernel for step in plan_graph(whole)[1].steps
        if isinstance(step, Launch) and step.kernel.recipe == "contract"
    ]  # fmt: skip
    kernel = lower(product, target)
    if channels != 24 and "quads" in kernel.note:
        assert "gather x0" not in str(kernel)
    arrays = drawn(graph)
    (want,) = graphc.run(graph, *arrays)
    if target in executable():
        (got,) = graphc.compile(graph, target=target)(*arrays)
        np.testing.assert_array_equal(got, want)


def test_operands_of_other_types_are_refused() -> None:
    b = graphc.GraphBuilder("product")
    x, y, z = b.input("x", "i8[3,4]"), b.input("y", "u8[4,5]"), b.input("z", "i32[3,4]")
    with pytest.raises(DTypeError, match="int_matmul"):
        ops.int_matmul(x, y)
    with pytest.raises(DTypeError, match="int_matmul"):
        ops.int_matmul(z, y)
