"""Affine quantization: NumPy's integers, straight-through gradients, per tensor, channel, group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.types import DType

Array = np.ndarray[Any, Any]
SCALES = {"tensor": (), "row": (6, 1), "column": (1, 8), "group": (6, 2), "one": (1, 1)}


def spread(x: Array, shape: tuple[int, ...]) -> Array:
    for axis, dim in enumerate(shape):
        x = np.repeat(x, dim // x.shape[axis], axis) if x.ndim else x
    return np.broadcast_to(x, shape)


def drawn(scale: tuple[int, ...]) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(2)
    x = random.standard_normal((6, 8)).astype(np.float32) * 4
    scales = random.uniform(0.02, 0.1, scale).astype(np.float32)
    return x, np.asarray(scales), np.asarray(random.integers(-9, 9, scale), np.int32)


def text(array: Array) -> str:
    return str(graphc.TensorType.of(array))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("low_high", [(-128, 127, DType.i8), (0, 255, DType.u8), (-8, 7, DType.i8)],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_integers_are_those_of_numpy(
    scale: tuple[int, ...], low_high: tuple[int, int, DType]
) -> None:
    low, high, dtype = low_high
    arrays = drawn(scale)
    x, scales, zeros = arrays
    b = graphc.GraphBuilder("q")
    inputs = [b.input(name, text(each)) for name, each in zip("xsz", arrays, strict=True)]
    q = ops.quantize(*inputs, low=low, high=high, dtype=dtype)
    graph = b.finish(
        q, ops.dequantize(q, *inputs[1:]), ops.fake_quantize(*inputs, low=low, high=high)
    )
    wide, offsets = spread(scales, x.shape), spread(zeros, x.shape).astype(np.float32)
    inverse = spread(1 / scales, x.shape)
    want = np.clip(np.rint(x * inverse + offsets), low, high)
    fake = np.clip(np.rint(x * inverse) + offsets, low, high)
    assert 0 < np.mean(want == low) < 0.9
    for level in ("none", "exact"):
        got, back, faked = graphc.compile(graph, level)(*arrays)
        assert got.dtype == dtype.numpy
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(back, (want - offsets) * wide)
        np.testing.assert_array_equal(faked, (fake - offsets) * wide)


def test_the_gradient_goes_straight_through_and_ends_outside() -> None:
    b = graphc.GraphBuilder("fake")
    x, scale, zero = b.input("x", "f32[5]"), b.input("s", "f32[1]"), b.input("z", "i32[1]")
    graph = b.finish(ops.fake_quantize(x, scale, zero, low=0, high=10))
    joint = graphc.joint(graph, wrt=["x"])
    values = np.array([-0.6, -0.4, 3.0, 9.4, 9.6], np.float32)
    g = np.arange(1, 6, dtype=np.float32)
    one, none = np.ones(1, np.float32), np.zeros(1, np.int32)
    _, by_x = graphc.compile(joint)(values, one, none, g)
    assert by_x.tolist() == [0, 2, 3, 4, 5]
    _, by_x = graphc.compile(joint)(values, one, none + 1, g)
    assert by_x.tolist() == [1, 2, 3, 4, 0]


def test_what_does_not_fit_is_refused() -> None:
    b = graphc.GraphBuilder("q")
    x, q = b.input("x", "f32[6,8]"), b.input("q", "i8[6,8]")
    scale, whole = b.input("s", "f32[1,1]"), b.input("i", "i32[1,1]")
    with pytest.raises(ShapeError, match="does not divide"):
        ops.dequantize(q, b.input("s1", "f32[6,3]"))
    with pytest.raises(ShapeError, match="not of rank 2"):
        ops.dequantize(q, b.input("s2", "f32[6]"))
    with pytest.raises(DTypeError, match="scales are f32"):
        ops.dequantize(q, whole)
    with pytest.raises(DTypeError, match="takes integers"):
        ops.dequantize(x, scale)
    with pytest.raises(DTypeError, match="floats of one dtype"):
        ops.quantize(q, scale, low=0, high=1, dtype=DType.i8)
    with pytest.raises(DTypeError, match="is none of"):
        ops.quantize(x, scale, low=0, high=1, dtype=DType.f32)
    with pytest.raises(AttributeValueError, match="no range"):
        ops.quantize(x, scale, low=1, high=0, dtype=DType.i8)
