"""Sliding windows in kernels: rows stay rows, so that vectors load neighbours under masks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import named
from graphc.ops import movement, reduce
from graphc.ops.nn import pooling
from graphc.schedule.build import plan_graph

Array = np.ndarray[Any, Any]
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]

# Kernel, stride, padding, dilation, overhang, and the image.
WINDOWS: dict[str, tuple[tuple[int, ...], ...]] = {
    "tiles": ((2, 2), (2, 2), (0, 0), (1, 1), (), (2, 3, 8, 28)),
    "tiles with a rest": ((2, 2), (2, 2), (0, 0), (1, 1), (), (2, 3, 7, 23)),
    "threes": ((3, 3), (3, 3), (0, 0), (1, 1), (), (1, 3, 9, 30)),
    "overlapping": ((3, 3), (2, 2), (1, 1), (1, 1), (), (2, 3, 9, 28)),
    "side by side": ((3, 3), (1, 1), (1, 1), (1, 1), (), (2, 3, 6, 20)),
    "dilated": ((2, 3), (2, 1), (1, 1), (2, 2), (), (2, 3, 8, 20)),
    "overhang": ((3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (2, 3, 8, 20)),
    "large": ((5, 5), (1, 1), (2, 2), (1, 1), (), (1, 2, 7, 18)),
    "a row": ((2,), (2,), (0,), (1,), (), (3, 37)),
    "narrow": ((2, 2), (2, 2), (0, 0), (1, 1), (), (2, 3, 6, 6)),
    "one window left": ((2, 2), (2, 2), (0, 0), (1, 1), (), (2, 3, 4, 18)),
}


def of(name: str) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    kernel, stride, padding, dilation, overhang, shape = WINDOWS[name]
    return {
        "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation,
        "overhang": overhang,
    }, shape  # fmt: skip


def greatest(name: str) -> graphc.Graph:
    geometry, shape = of(name)
    b = graphc.GraphBuilder("windows")
    x = b.input("x", "f32[" + ",".join(map(str, shape)) + "]")
    return b.finish(pooling.max_pool(x, **geometry), pooling.max_pool_indices(x, **geometry))


def images(shape: tuple[int, ...]) -> list[Array]:
    """Of few numbers, with NaN, of -inf alone, of zeros of both signs."""
    random = np.random.default_rng(0)
    few = random.integers(-3, 4, shape).astype(np.float32)
    holes = np.where(random.random(shape) < 0.2, np.float32(np.nan), few)
    zeros = np.where(random.random(shape) < 0.5, np.float32(0), np.float32(-0.0))
    return [few, holes, np.full(shape, -np.inf, np.float32), zeros]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(WINDOWS))
def test_maxima_and_their_places_are_those_of_the_definition(name: str) -> None:
    graph = greatest(name)
    executable = graphc.compile(graph)
    for x in images(of(name)[1]):
        actual, expected = executable(x), graphc.run(graph, x)
        np.testing.assert_array_equal(actual[0], expected[0])
        np.testing.assert_array_equal(actual[1], expected[1])


@pytest.mark.parametrize("name", list(WINDOWS))
def test_the_place_holds_the_maximum(name: str) -> None:
    x = images(of(name)[1])[0]
    result, places = graphc.compile(greatest(name))(x)
    rows = x.reshape(*x.shape[: -len(of(name)[0]["kernel"])], -1)
    flat = np.take_along_axis(rows, places.reshape(*rows.shape[:-1], -1), -1)
    np.testing.assert_array_equal(flat.reshape(result.shape), result)


@pytest.mark.parametrize("name", [name for name in WINDOWS if name != "one window left"])
def test_windows_are_loaded_not_gathered(name: str) -> None:
    """Strides up to 4 by loads and shuffles, padding by masks; no lane divides its position."""
    geometry, shape = of(name)
    b = graphc.GraphBuilder("windows")
    x = b.input("x", "f32[" + ",".join(map(str, shape)) + "]")
    (step,) = plan_graph(b.finish(pooling.max_pool(x, **geometry)))[1].steps
    text = str(lower(step.kernel, named("x86-64-v3")))
    assert "gather" not in text
    assert not re.search(r"x[48] = (div|floordiv|mod|rem) ", text)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", list(WINDOWS))
def test_interpreted_loops_touch_nothing_else(name: str, target: str) -> None:
    """The runner of loops raises where an access leaves its buffer."""
    geometry, shape = of(name)
    b = graphc.GraphBuilder("windows")
    x = b.input("x", "f32[" + ",".join(map(str, shape)) + "]")
    graph = b.finish(pooling.max_pool(x, **geometry))
    (step,) = plan_graph(graph)[1].steps
    content = images(shape)[0]
    (expected,) = graphc.run(graph, content)
    actual = np.zeros(expected.size, np.float32)
    interpreter.run(lower(step.kernel, named(target)), [content.reshape(-1), actual])
    np.testing.assert_array_equal(actual.reshape(expected.shape), expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [8, 13, 16])
def test_elements_a_few_apart(step: int, length: int) -> None:
    shape = (3, length * step - step + 1)
    b = graphc.GraphBuilder("apart")
    x = b.input("x", "f32[" + ",".join(map(str, shape)) + "]")
    graph = b.finish(movement.slice_(x, start=(0, 0), size=(3, length), step=(1, step)) + 1)
    (kernel,) = (one.kernel for one in plan_graph(graph)[1].steps)
    assert ("gather" in str(lower(kernel, named("x86-64-v3")))) == (step > 4)
    content = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(graphc.compile(graph)(content)[0], content[:, ::step] + 1)
    for target in TARGETS:
        result = np.zeros(3 * length, np.float32)
        interpreter.run(lower(kernel, named(target)), [content.reshape(-1), result])
        np.testing.assert_array_equal(result.reshape(3, length), content[:, ::step] + 1)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_positions_of_either_dtype(dtype: str) -> None:
    b = graphc.GraphBuilder("best")
    x = b.input("x", "f32[5,3,9]")
    kind = graphc.DType(dtype)
    positions = [reduce.argmax(x, axes=(axis,), dtype=kind) for axis in (0, 1, 2)]
    content = images((5, 3, 9))[1]
    for axis, result in enumerate(graphc.compile(b.finish(*positions))(content)):
        assert result.dtype == np.dtype(kind.numpy)
        np.testing.assert_array_equal(result, np.argmax(content, axis))


def test_a_sum_of_padding_alone_is_plus_zero() -> None:
    """Taps on padding are left out of a sum, but what a lane starts from is not: -0 becomes +0."""
    b = graphc.GraphBuilder("sums")
    x = b.input("x", "f32[1,8]")
    shape = {"kernel": (3,), "stride": (1,), "padding": (1,)}
    graph = b.finish(pooling.avg_pool(x, **shape))
    (result,) = graphc.compile(graph)(np.full((1, 8), -0.0, np.float32))
    assert not np.signbit(result).any()
