"""Convolutions in NumPy: padding is skipped, not multiplied as zeros."""

import numpy as np
import pytest

import graphc
from graphc.ops.contract import conv, conv_input_grad, conv_weight_grad
from graphc.ops.interpreter import evaluate

GEOMETRIES = (
    {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": (2, 1), "dilation": (2, 1), "groups": 2},
)


def type_of(array: np.ndarray) -> str:
    return f"f32[{','.join(map(str, array.shape))}]"


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=["plain", "strided"])
def test_padding_is_skipped_where_a_factor_is_not_finite(geometry: dict) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 4, 7, 8)).astype(np.float32)
    w = generator.standard_normal((6, 4 // geometry["groups"], 3, 3)).astype(np.float32)
    w[1, 1, 0, 0], w[2, 0, 2, 1] = np.inf, np.nan
    b = graphc.GraphBuilder("forward")
    forward = b.finish(conv(b.input("x", type_of(x)), b.input("w", type_of(w)), **geometry))
    with np.errstate(invalid="ignore"):
        (eager,) = evaluate(forward, [x, w], reference=False)
        (exact,) = evaluate(forward, [x, w], reference=True)
    np.testing.assert_allclose(eager, exact, atol=1e-4)
    assert np.isfinite(eager[:, 1]).any() and np.isinf(eager[:, 1]).any()
    g = generator.standard_normal(eager.shape).astype(np.float32)
    g[0, 1, 0, 0], g[1, 2, -1, -1] = np.inf, np.nan
    b = graphc.GraphBuilder("backward")
    backward = b.finish(
        conv_weight_grad(
            b.input("x", type_of(x)), b.input("g", type_of(g)), kernel=(3, 3), **geometry
        )
    )
    with np.errstate(invalid="ignore"):
        (eager,) = evaluate(backward, [x, g], reference=False)
        (exact,) = evaluate(backward, [x, g], reference=True)
    np.testing.assert_allclose(eager, exact, atol=1e-4)
    assert np.isfinite(eager[1]).any()


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_gradient_of_no_images_is_empty(stride: int) -> None:
    b = graphc.GraphBuilder("empty")
    g, w = b.input("g", "f32[0,4,3,3]"), b.input("w", "f32[4,2,3,3]")
    size = (2 * stride + 1,) * 2
    geometry = {"stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    graph = b.finish(conv_input_grad(g, w, size=size, **geometry))
    weight = np.ones((4, 2, 3, 3), np.float32)
    (result,) = graphc.compile(graph)(np.zeros((0, 4, 3, 3), np.float32), weight)
    assert result.shape == (0, 2, *size)
