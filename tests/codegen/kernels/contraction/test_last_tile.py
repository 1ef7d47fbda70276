"""The last tile of rows: whole where few rows are computed twice, and never where that shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.codegen.kernels.contraction.strategies import register_tile
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm.jit import llvm_text
from graphc.codegen.program import link
from graphc.codegen.target import named
from graphc.ops.contract import conv, conv_input_grad
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch


def image_graph(stride: int) -> graphc.Graph:
    """A convolution to 64 channels, or, of stride 2, its gradient by 128 channels of the image."""
    g = graphc.GraphBuilder("image")
    geometry: Any = {"stride": (stride, stride), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    if stride == 1:
        x, w = g.input("x", "f32[2,3,32,32]"), g.input("w", "f32[64,3,3,3]")
        return g.finish(conv(x, w, **geometry))
    y, w = g.input("y", "f32[2,16,8,8]"), g.input("w", "f32[16,128,3,3]")
    return g.finish(conv_input_grad(y, w, size=(16, 16), **geometry))


def sum_graph() -> graphc.Graph:
    """A convolution that is added to what its result takes the place of."""
    g = graphc.GraphBuilder("sum")
    total = g.input("t", "f32[2,64,32,32]")
    x, w = g.input("x", "f32[2,3,32,32]"), g.input("w", "f32[64,3,3,3]")
    geometry: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    return g.finish(total + conv(x, w, **geometry), aliases=((0, 0),))


def text_of(graph: graphc.Graph, target: str) -> str:
    _, plan = plan_graph(graph)
    (step,) = [step for step in plan.steps if isinstance(step, Launch)]
    return llvm_text(lower(step.kernel, named(target)), named(target))


@pytest.fixture
def low_tiles(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has last tiles be lower ones."""

    def switch() -> None:
        monkeypatch.setattr(register_tile, "RECOMPUTED", 10**9)
        monkeypatch.setattr(link, "_native", {})

    return switch


@pytest.mark.parametrize("stride", [1, 2])
def test_a_lower_tile_has_no_code(stride: int, low_tiles: Any) -> None:
    short = text_of(image_graph(stride), "x86-64-v4")
    low_tiles()
    assert len(short) < 0.75 * len(text_of(image_graph(stride), "x86-64-v4"))


@pytest.mark.parametrize("stride", [1, 2])
def test_rows_computed_twice_have_the_same_bits(stride: int, low_tiles: Any) -> None:
    graph, random = image_graph(stride), np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape, np.float32) for t in graph.input_types]
    arrays[0][0, 1, 2, 3] = np.nan  # tiles that are computed again
    (first,) = graphc.compile(graph, threads=1)(*arrays)
    (threads,) = graphc.compile(graph, threads=2)(*arrays)
    low_tiles()
    (other,) = graphc.compile(graph, threads=1)(*arrays)
    assert first.tobytes() == other.tobytes() == threads.tobytes()


def test_a_result_that_reads_what_it_replaces_has_a_lower_tile(
    low_tiles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(sum_graph(), "x86-64-v4")
    with monkeypatch.context() as patch:
        patch.setattr(ContractionView, "epilogue_reads", False)
        assert text != text_of(sum_graph(), "x86-64-v4")
    low_tiles()
    assert text == text_of(sum_graph(), "x86-64-v4")
