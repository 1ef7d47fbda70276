"""Halo buffers: kernel positions that no result has are left out, also beside the last column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import named
from graphc.ops import contract
from graphc.ops.interpreter import evaluate
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# x, w, stride, padding, dilation: at the edge a whole kernel stands on padding.
WIDE_PADDING: list[tuple[Shape, Shape, Shape, Shape, Shape]] = [
    ((4, 5, 6, 4), (8, 5, 2, 2), (2, 3), (1, 2), (1, 1)),
    ((20, 6, 3, 6), (17, 6, 3, 2), (1, 3), (0, 2), (1, 1)),
    ((4, 3, 8, 6), (8, 3, 3, 1), (2, 2), (1, 1), (1, 1)),
    ((20, 3, 3, 8), (17, 3, 2, 2), (3, 2), (1, 2), (2, 1)),
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(("x", "w", "stride", "padding", "dilation"), WIDE_PADDING)
def test_windows_that_stand_on_padding_alone(
    x: Shape, w: Shape, stride: Shape, padding: Shape, dilation: Shape, target: str
) -> None:
    """The interpreter checks each access. Lanes behind the last column once asked for such kernel
    positions, ahead of the buffer or of a row of it: the kernel was refused, or summed others."""
    geometry: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation,
                                "groups": 1}  # fmt: skip
    size = tuple(
        (dim + 2 * pad - far * (tap - 1) - 1) // step + 1
        for dim, tap, step, pad, far in zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    )
    g = graphc.GraphBuilder("by_w")
    vx, vc = g.input("x", f"f32{list(x)}"), g.input("c", f"f32{[x[0], w[0], *size]}")
    graph = g.finish(contract.conv_weight_grad(vx, vc, kernel=w[2:], **geometry))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    arrays[1][0, 0, 0, 0] = np.inf  # times padding it would be NaN

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        interpreter.run(lower(kernel, named(target)), [*reads, *writes])

    (result,) = run_plan(plan_graph(graph)[1], tuple(arrays), run_kernel)
    (expected,) = evaluate(graph, tuple(arrays), reference=True)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
