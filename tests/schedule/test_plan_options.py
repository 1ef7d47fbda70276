"""Options that switch off a part of scheduling, to measure what it gains: the results stay."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
from graphc.ops.elementwise import exp, relu
from graphc.ops.reduce import sum as reduce_sum
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch


def layers() -> graphc.Graph:
    g = graphc.GraphBuilder("layers")
    x = g.input("x", "f32[8,16]")
    for number in range(4):
        x = relu(exp(x @ g.input(f"w{number}", "f32[16,16]")) - 1)
    return g.finish(reduce_sum(x, axes=(0,)))


def arrays() -> list[Any]:
    rng = np.random.default_rng(3)
    graph = layers()
    return [0.1 * rng.standard_normal(type.shape, np.float32) for type in graph.input_types]


def test_without_planned_memory_nothing_shares_a_place() -> None:
    _, planned = plan_graph(layers())
    _, apart = plan_graph(layers(), plan_memory=False)
    places = [buffer for buffer in apart.buffers if buffer.place == "arena"]
    assert apart.arena_bytes == sum(-(-buffer.type.nbytes // 64) * 64 for buffer in places)
    assert planned.arena_bytes < apart.arena_bytes
    assert planned.steps == apart.steps


def test_without_fusion_the_passes_still_run() -> None:
    _, fused = plan_graph(layers())
    optimised, alone = plan_graph(layers(), fusion=False)
    assert optimised == plan_graph(layers())[0]
    assert len(alone.steps) > len(fused.steps)
    assert all(isinstance(step, Launch) for step in alone.steps)


def test_the_bits_stay() -> None:
    expected = graphc.compile(layers())(*arrays())
    for options in ({"fusion": False}, {"plan_memory": False}):
        actual = graphc.compile(layers(), **options)(*arrays())
        assert [one.tobytes() for one in actual] == [one.tobytes() for one in expected]
