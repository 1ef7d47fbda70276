"""Convolutions with vectors along output channels: products with padding are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc.codegen.kernels.contraction.problem.lines import lines_of
from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.codegen.kernels.contraction.recipe import lower_contract
from graphc.codegen.kernels.contraction.strategies.direct_conv import DirectConvPlan
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import named
from graphc.ops import contract
from graphc.ops.interpreter import evaluate
from graphc.ops.movement import transpose
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Priced = Callable[..., Any]
Shape = tuple[int, ...]


def convolution(
    x: Shape, w: Shape, dtype: str = "f32", groups: int = 1, gradient: Shape = (), **geometry: Shape
) -> tuple[graphc.Graph, list[Array]]:
    """A convolution, or its gradient by an input of the size `gradient`, whose weight is stored
    with the results' channels last; and arrays for it."""
    g = graphc.GraphBuilder("convolution")
    axes = (*(axis for axis in range(len(w)) if axis != bool(gradient)), int(bool(gradient)))
    stored = g.input("w", f"{dtype}{[w[axis] for axis in axes]}")
    weight = transpose(stored, permutation=tuple(int(i) for i in np.argsort(axes)))
    vx = g.input("x", f"{dtype}{list(x)}")
    same = {name: (value,) * (len(x) - 2) for name, value in (("stride", 1), ("dilation", 1),
            ("padding", 1))}  # fmt: skip
    options: Any = {**same, **geometry, "groups": groups}
    if gradient:
        graph = g.finish(contract.conv_input_grad(vx, weight, size=gradient, **options))
    else:
        graph = g.finish(contract.conv(vx, weight, **options))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.input_types]
    return graph, arrays


def contraction(graph: graphc.Graph) -> graphc.Graph:
    """The body of the kernel around the contraction."""
    kernels = [step.kernel for step in plan_graph(graph)[1].steps if isinstance(step, Launch)]
    return next(kernel.body for kernel in kernels if kernel.recipe == "contract")


def reason(graph: graphc.Graph) -> str:
    return lower_contract("k", contraction(graph), named("x86-64-v3")).note


def check(graph: graphc.Graph, arrays: list[Array], actual: Array) -> None:
    """Against the definition as index expressions, on the same numbers in another precision."""
    wide = tuple(array.astype(np.float64) for array in arrays)
    exact = evaluate(graphc.parse(str(graph).replace("f32", "f64")), wide, reference=True)[0]
    np.testing.assert_allclose(actual, exact, rtol=0, atol=1e-4 if actual.itemsize == 4 else 1e-11)


def test_small_planes_are_computed_directly() -> None:
    assert "direct conv" in reason(convolution((1, 64, 4, 4), (96, 64, 3, 3))[0])
    assert "direct conv" in reason(convolution((1, 64, 8, 8), (96, 64, 3, 3))[0])
    assert "direct conv" not in reason(convolution((1, 64, 56, 56), (96, 64, 3, 3))[0])
    without = convolution((1, 64, 4, 4), (96, 64, 3, 3), padding=(0, 0))[0]
    assert "direct conv" not in reason(without), "nothing is skipped"


def test_segments_of_a_line_have_the_same_taps() -> None:
    view = ContractionView(contraction(convolution((1, 4, 5, 14), (8, 4, 3, 3))[0]), swapped=True)
    lines = lines_of(view, 4)
    assert lines is not None and lines.count == 5 and lines.tiles == 4
    segments = [(part.first, part.rows, part.count) for part in lines.segments]
    assert segments == [(0, 4, 1), (4, 4, 2), (12, 2, 1)]
    assert lines.segments[0].exists[0] == (False, True, True)
    assert lines.products == (3 * 5 - 2) * (3 * 14 - 2)


@st.composite
def geometries(draw: Any) -> dict[str, Any]:
    """A convolution in which at least one window fits, or such a gradient."""
    groups, inner = draw(st.sampled_from([1, 1, 2])), draw(st.integers(1, 5))
    outer, axes = draw(st.sampled_from([2, 8, 17, 40])), draw(st.sampled_from([1, 2, 2, 3]))
    each = (st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 3))
    stride, padding, dilation, kernel = (tuple(draw(one) for _ in range(axes)) for one in each)
    size = tuple(
        draw(st.integers(max(1, d * (k - 1) + 1 - 2 * pad), 9 if axes < 3 else 5))
        for pad, d, k in zip(padding, dilation, kernel)
    )
    result = tuple(
        (dim + 2 * pad - d * (k - 1) - 1) // step + 1
        for dim, pad, d, k, step in zip(size, padding, dilation, kernel, stride)
    )
    is_gradient = draw(st.booleans())
    rows, columns = (inner, outer) if is_gradient else (outer, inner)
    channels = rows * groups if is_gradient else columns * groups
    return {
        "x": (draw(st.integers(1, 2)), channels, *(result if is_gradient else size)),
        "w": (rows * groups, columns, *kernel), "gradient": size if is_gradient else (),
        "groups": groups, "stride": stride, "padding": padding, "dilation": dilation,
    }  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, derandomize=True, database=None, max_examples=30)
@given(case=geometries(), dtype=st.sampled_from(["f32", "f32", "f64"]))
def test_drawn_convolutions(priced: Priced, case: dict[str, Any], dtype: str) -> None:
    graph, arrays = convolution(dtype=dtype, **case)
    with priced(DirectConvPlan):
        (result,) = graphc.compile(graph)(*arrays)
    check(graph, arrays, result)


def test_a_line_without_taps_reads_nothing(priced: Priced) -> None:
    """Of the three lines only the middle one lies on the plane: its reads must not be hoisted."""
    graph, arrays = convolution((1, 1, 1, 1), (17, 1, 1, 1))
    with priced(DirectConvPlan):
        assert "direct conv" in reason(graph)
        (result,) = graphc.compile(graph)(*arrays)
    check(graph, arrays, result)
    assert not result[0, :, 0].any() and not result[0, :, 2].any()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("channels", [5, 28, 29, 70])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_bits_are_those_of_any_other_strategy(
    priced: Priced, channels: int, threads: int
) -> None:
    """One K block, exactly one, one more, three; NaN and infinities beside padding."""
    graph, arrays = convolution((2, channels, 4, 7), (50, channels, 3, 3))
    arrays[1][0, 0, 0, 0], arrays[1][1, 1, 3, 3] = np.inf, np.nan
    arrays[0][2, 0, 2, 2], arrays[0][4, 1, 0, 1] = np.nan, -np.inf
    with priced(DirectConvPlan):
        (actual,) = graphc.compile(graph, threads=threads)(*arrays)
    with priced(DirectConvPlan, cost=1e30):
        (wanted,) = graphc.compile(graph, threads=threads)(*arrays)
    assert actual.tobytes() == wanted.tobytes()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_loops_interpreted(priced: Priced, target: str) -> None:
    graph, arrays = convolution((1, 2, 3, 5), (21, 2, 3, 3), stride=(2, 1))

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        interpreter.run(lower(kernel, named(target)), [*reads, *writes])

    with priced(DirectConvPlan):
        _, plan = plan_graph(graph)
        (result,) = run_plan(plan, tuple(arrays), run_kernel)
    check(graph, arrays, result)
