"""Convolutions whose taps are listed: chosen on small planes, right on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.codegen.kernels.contraction.problem.windows import windows_of
from graphc.codegen.kernels.contraction.recipe import lower_contract
from graphc.codegen.kernels.contraction.strategies.tap_list_conv import TapListConvPlan
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import named
from graphc.ir.handle import broadcast_to
from graphc.ops import contract
from graphc.ops import elementwise as e
from graphc.ops.interpreter import evaluate
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Priced = Callable[..., Any]

PLAIN = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}


def reasons(graph: graphc.Graph, target: str = "x86-64-v3") -> list[str]:
    """How each kernel around a contraction is cut."""
    _, plan = plan_graph(graph)
    kernels = [step.kernel for step in plan.steps if isinstance(step, Launch)]
    return [
        lower_contract("k", kernel.body, named(target)).note
        for kernel in kernels if kernel.recipe == "contract"
    ]  # fmt: skip


def drawn(seed: int, shape: Shape, dtype: str = "f32") -> Array:
    content = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(content, graphc.DType[dtype].numpy)


def convolutions(
    x: Shape, w: Shape, dtype: str = "f32", **geometry: Any
) -> tuple[graphc.Graph, list[Array]]:
    """A graph of a convolution and both its gradients, and arrays for it."""
    g = graphc.GraphBuilder("convolutions")
    geometry = {**PLAIN, **geometry}
    vx, vw = g.input("x", f"{dtype}{list(x)}"), g.input("w", f"{dtype}{list(w)}")
    out = contract.conv(vx, vw, **geometry)
    vc = g.input("c", str(out.type))
    by_x = contract.conv_input_grad(vc, vw, size=x[2:], **geometry)
    by_w = contract.conv_weight_grad(vx, vc, kernel=w[2:], **geometry)
    graph = g.finish(out, by_x, by_w)
    return graph, [drawn(i, type.shape, dtype) for i, type in enumerate(graph.input_types)]


def of_size(images: int, channels: int, outputs: int, size: int) -> tuple[graphc.Graph, Any]:
    return convolutions((images, channels, size, size), (outputs, channels, 3, 3))


def check(graph: graphc.Graph, arrays: list[Array], result: tuple[Array, ...]) -> None:
    """Against the definition as index expressions, on the same numbers in another precision."""
    wide = [array.astype(np.longdouble).astype(np.float64) for array in arrays]
    exact = evaluate(widened(graph), tuple(wide), reference=True)
    for actual, wanted in zip(result, exact, strict=True):
        tolerance = 1e-4 if actual.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=tolerance)


def widened(graph: graphc.Graph) -> graphc.Graph:
    return graphc.parse(str(graph).replace("f32", "f64"))


def test_small_planes_of_many_images_have_their_taps_listed() -> None:
    forward, by_x, by_w = reasons(of_size(16, 512, 512, 4)[0])
    assert "lanes along images" in forward and "lanes along images" in by_x
    assert "lanes along channels" in by_w


@pytest.mark.parametrize(("images", "size"), [(1, 4), (4, 4), (16, 32)])
def test_few_images_and_large_planes_are_not(images: int, size: int) -> None:
    texts = reasons(of_size(images, 64, 64, size)[0])
    assert not any("lanes along images" in text for text in texts)


@st.composite
def geometries(draw: Any) -> tuple[Shape, Shape, dict[str, Any]]:
    """Shapes of x and w and a geometry in which at least one window fits."""
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    inner, outer = draw(st.integers(1, 5)), draw(st.sampled_from([1, 3, 8, 17]))
    axes = draw(st.sampled_from([1, 2, 2, 2]))
    addresses = (st.integers(1, 3), st.integers(0, 2), st.integers(1, 2), st.integers(1, 3))
    stride, padding, dilation, kernel = (
        tuple(draw(each) for _ in range(axes)) for each in addresses
    )
    size = tuple(
        draw(st.integers(max(1, d * (k - 1) + 1 - 2 * pad), 6))
        for pad, d, k in zip(padding, dilation, kernel)
    )
    images = draw(st.sampled_from([8, 9, 16, 20]))
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (images, inner * groups, *size), (outer * groups, inner, *kernel), geometry


@pytest.mark.slow
@settings(deadline=None, derandomize=True, database=None, max_examples=20)
@given(case=geometries(), dtype=st.sampled_from(["f32", "f32", "f64"]))
def test_drawn_convolutions(
    priced: Priced, case: tuple[Shape, Shape, dict[str, Any]], dtype: str
) -> None:
    x, w, geometry = case
    graph, arrays = convolutions(x, w, dtype, **geometry)
    with priced(TapListConvPlan):
        check(graph, arrays, graphc.compile(graph)(*arrays))


def test_windows_along_three_axes(priced: Priced) -> None:
    three = {"stride": (2,) * 3, "padding": (1,) * 3, "dilation": (1,) * 3, "groups": 2}
    graph, arrays = convolutions((11, 6, 5, 5, 5), (14, 3, 3, 3, 3), **three)
    with priced(TapListConvPlan):
        assert "lanes along images" in reasons(graph)[0]
        check(graph, arrays, graphc.compile(graph)(*arrays))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("channels", [5, 28, 29, 70])
def test_the_bits_are_those_of_any_other_strategy(priced: Priced, channels: int) -> None:
    """One K block, exactly one, one more, three; NaN and infinities beside padding."""
    graph, arrays = of_size(16, channels, 19, 4)
    arrays[0][3, 0, 0, 0], arrays[0][5, 1, 3, 3] = np.inf, np.nan
    arrays[1][2, 0, 2, 2], arrays[1][4, 1, 0, 1] = np.nan, -np.inf
    with priced(TapListConvPlan):
        actual = graphc.compile(graph)(*arrays)
    with priced(TapListConvPlan, cost=1e30):
        wanted = graphc.compile(graph)(*arrays)
    assert [a.tobytes() for a in actual] == [a.tobytes() for a in wanted]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_loops_interpreted(priced: Priced, target: str) -> None:
    graph, arrays = convolutions((16, 2, 3, 3), (7, 2, 3, 3), stride=(2, 1))

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        interpreter.run(lower(kernel, named(target)), [*reads, *writes])

    with priced(TapListConvPlan):
        _, plan = plan_graph(graph)
        check(graph, arrays, run_plan(plan, tuple(arrays), run_kernel))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bias_activation_and_residual(priced: Priced, threads: int) -> None:
    g = graphc.GraphBuilder("layer")
    x, w = g.input("x", "f32[17,6,4,5]"), g.input("w", "f32[20,6,3,3]")
    b, r = g.input("b", "f32[1,20,1,1]"), g.input("r", "f32[17,20,4,5]")
    before = contract.conv(x, w, **PLAIN)
    before = before + broadcast_to(b, before.shape)
    graph = g.finish(before, e.relu(before) + r)
    arrays = [drawn(i, type.shape) for i, type in enumerate(graph.input_types)]
    with priced(TapListConvPlan):
        actual = graphc.compile(graph, threads=threads)(*arrays)
    wanted = graphc.compile(graph, "none", threads=1)(*arrays)
    assert [a.tobytes() for a in actual] == [a.tobytes() for a in wanted]


def test_what_is_no_convolution_has_no_windows() -> None:
    g = graphc.GraphBuilder("product")
    x, w = g.input("x", "f32[16,8,9]"), g.input("w", "f32[16,9,7]")
    view = ContractionView(g.finish(x @ w))
    assert windows_of(view, False) is None and windows_of(view, True) is None
