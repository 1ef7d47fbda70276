"""Long graphs: a chain is cut into kernels of bounded size, whatever can be fused."""

from __future__ import annotations

import numpy as np

import graphc
from graphc import ops
from graphc.schedule.build import Scheduler, plan_graph
from graphc.schedule.fusion import CHAIN_LIMIT
from graphc.schedule.merging import GROUP_LIMIT, TOO_MUCH_WORK, WORK_LIMIT, cost_of
from graphc.schedule.plan import Launch


def test_a_long_chain_becomes_several_kernels() -> None:
    builder = graphc.GraphBuilder("chain")
    x = builder.input("x", "f32[50]")
    value = x
    for step in range(600):
        value = ops.sin(value) + x if step % 3 == 0 else value * 0.99 + x
    graph = builder.finish(value)
    executable = graphc.compile(graph)
    bodies = [step.kernel.body for step in executable.plan.steps if isinstance(step, Launch)]
    assert len(bodies) > 1
    assert max(len(body.nodes) for body in bodies) <= GROUP_LIMIT + CHAIN_LIMIT
    array = np.linspace(-1, 1, 50, dtype=np.float32)
    (expected,) = graphc.run(graph, array)
    np.testing.assert_allclose(executable(array)[0], expected, rtol=1e-5, atol=1e-5)


def test_costly_work_is_cut_earlier() -> None:
    """LLVM takes the longer for an instruction the more of them stand in one block."""
    builder = graphc.GraphBuilder("sines")
    outputs = [ops.sin(builder.input("x", "f32[50]"))]
    for _ in range(39):
        outputs.append(ops.sin(outputs[-1]) * 0.5)
    _, plan = plan_graph(builder.finish(*outputs))
    bodies = [step.kernel.body for step in plan.steps if isinstance(step, Launch)]
    work = [sum(cost_of(body, i) for i in range(len(body.nodes))) for body in bodies]
    assert len(bodies) < 8 and max(work) <= WORK_LIMIT


def test_what_is_costly_alone_takes_cheap_work_with_it() -> None:
    builder = graphc.GraphBuilder("airy")
    x = builder.input("x", "f32[20,50]")
    airy = ops.airy_ai(x)
    graph = builder.finish(airy, airy * 2.0 + x)
    assert cost_of(graph, airy.value.node) > WORK_LIMIT
    fusion = Scheduler(graph).fusion
    assert len(fusion.groups) == 1 and TOO_MUCH_WORK not in str(fusion.refused())
