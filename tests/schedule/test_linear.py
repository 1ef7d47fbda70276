"""Planning is about linear in the size of the graph, by the number of calls from each file; and no
recursion runs into its limit. Times would tell more of the machine than of the code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphc
from graphc import ops
from graphc.ir.copying import copy_graph
from graphc.schedule.build import plan_graph
from graphc.schedule.dependences import Effects, HazardTracker
from tests.counted_calls import calls

MOST = 2.4
"""How much more work twice the graph may be."""
FEW = 0.01
"""The part of all calls by which a file may be over: the last kernel of a chain may be another."""


def chain(count: int) -> graphc.Graph:
    g = graphc.GraphBuilder("chain")
    x = value = g.input("x", "f32[50]")
    for step in range(count):
        value = ops.sin(value) if step % 2 else value + x
    return g.finish(value)


def summed_inputs(count: int) -> graphc.Graph:
    g = graphc.GraphBuilder("inputs")
    first, *rest = [g.input(f"x{i}", "f32[50]") for i in range(count)]
    for x in rest:
        first = first + x
    return g.finish(first)


def many_outputs(count: int) -> graphc.Graph:
    g = graphc.GraphBuilder("outputs")
    x = g.input("x", "f32[50]")
    return g.finish(*[ops.sin(x * float(i + 1)) for i in range(count)])


def layers(count: int) -> graphc.Graph:
    g = graphc.GraphBuilder("layers")
    value = g.input("x", "f32[4,8]")
    for i in range(count):
        value = ops.tanh(ops.matmul(value, g.input(f"w{i}", "f32[8,8]")))
    return g.finish(value)


def training(count: int) -> graphc.Graph:
    """Layers, their gradients, and each weight updated in place."""
    forward = layers(count)
    g = graphc.GraphBuilder("loss")
    inputs = [g.input(name, t) for name, t in zip(forward.input_names, forward.input_types)]
    values = copy_graph(forward, inputs, g.copied)
    loss = g.finish(ops.sum(values[forward.outputs[0]], axes=(0, 1)))
    joint = graphc.joint(loss, list(range(1, count + 1)))
    g = graphc.GraphBuilder("step")
    inputs = [g.input(name, t) for name, t in zip(joint.input_names, joint.input_types)]
    values = copy_graph(joint, inputs, g.copied)
    loss_value, *gradients = (values[v] for v in joint.outputs)
    updated = [w - d * 0.1 for w, d in zip(inputs[1:], gradients)]
    aliases = [(i, i) for i in range(1, count + 1)]
    return g.finish(loss_value, *updated, aliases=aliases)


def derived_chain(count: int) -> graphc.Graph:
    graph = chain(count)
    return graphc.joint(graph)


GRAPHS: dict[str, tuple[Callable[[int], graphc.Graph], int]] = {
    "chain": (chain, 400), "derived chain": (derived_chain, 250),
    "sum of inputs": (summed_inputs, 200), "outputs": (many_outputs, 100),
    "layers": (layers, 80), "training": (training, 30),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", GRAPHS)
def test_twice_the_graph_is_twice_the_work(name: str) -> None:
    make, count = GRAPHS[name]
    plan_graph(make(3))  # what is computed once per process
    once, twice = (calls(lambda n=n: plan_graph(make(n))) for n in (count, 2 * count))
    few = FEW * sum(twice.values())
    grown = {file: (once[file], n) for file, n in twice.items() if n > MOST * once[file] + few}
    assert not grown
    assert sum(twice.values()) <= MOST * sum(once.values())


@pytest.mark.slow
def test_a_graph_of_8000_nodes_meets_no_recursion_limit() -> None:
    graph = chain(8_000)
    optimized, plan = plan_graph(graph)
    assert len(optimized.nodes) > 8_000 and plan.steps
    assert len(graphc.joint(graph).nodes) > 16_000


def test_steps_of_one_thread_are_not_compared_with_each_other() -> None:
    def tracked(count: int) -> None:
        tracker = HazardTracker()
        for i in range(count):
            step = Effects([("arena", i, i + 1)], [("arena", i + 1, i + 2)])
            assert not tracker.with_step(0, step)
            tracker.add(0, step)
        assert tracker.with_step(1, step)

    once, twice = (sum(calls(lambda n=n: tracked(n)).values()) for n in (300, 600))
    assert twice <= MOST * once
