"""Gradients of values of storage types: moved and cast, and added up in f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc import DType
from graphc.ir.types import COMPILED
from graphc.ops import elementwise as e
from graphc.ops import indexing, movement, reduce


def graph_of(dtype: DType, body: Any) -> graphc.Graph:
    g = graphc.GraphBuilder("stored")
    return g.finish(body(g.input("x", graphc.TensorType(dtype, (3,)))))


def wide(x: Any) -> Any:
    return e.cast(x, dtype=DType.f32)


@pytest.mark.parametrize("dtype", [DType.f16, DType.bf16])
def test_movements_of_halves_have_gradients(dtype: DType) -> None:
    def body(x: Any) -> Any:
        rows = wide(movement.broadcast(x, shape=(2, 3)))
        index = x.context.constant(np.array([0, 0, 2, 1]))
        taken = wide(indexing.take(x, index, axis=0))
        both = wide(movement.concat(x, x, axis=0))
        first = reduce.sum(rows * rows, axes=(0, 1)) + reduce.sum(taken * 2.0, axes=(0,))
        return first + reduce.sum(both * both, axes=(0,))

    joint = graphc.verify(graphc.joint(graph_of(dtype, body)))
    x = np.array([1, 2, 3.5], dtype.numpy)
    want = 8 * x.astype(np.float64) + [4, 2, 2]
    for loss, gradient in (
        graphc.run(joint, x),
        graphc.compile(joint, "none")(x),
        graphc.compile(joint)(x),
    ):
        assert loss.dtype == np.float32 and gradient.dtype == dtype.numpy
        np.testing.assert_array_equal(gradient.astype(np.float64), want)


def test_a_cast_hands_its_gradient_back_in_the_operands_type() -> None:
    joint = graphc.joint(graph_of(DType.bf16, lambda x: reduce.sum(wide(x) * 3.1, axes=(0,))))
    _, gradient = graphc.run(joint, np.ones(3, DType.bf16.numpy))
    assert gradient.dtype == DType.bf16.numpy
    np.testing.assert_array_equal(gradient, np.full(3, 3.1, np.float32).astype(DType.bf16.numpy))


def test_small_integers_have_no_gradient() -> None:
    joint = graphc.joint(graph_of(DType.f32, lambda x: wide(e.cast(x, dtype=DType.u8))))
    _, gradient = graphc.run(joint, np.ones(3, np.float32), np.ones(3, np.float32))
    assert (gradient == 0).all()


def test_arithmetic_refuses_storage_types() -> None:
    for dtype in COMPILED:
        if dtype.is_storage:
            with pytest.raises(graphc.DTypeError, match="add does not take"):
                graph_of(dtype, lambda x: x + x)
