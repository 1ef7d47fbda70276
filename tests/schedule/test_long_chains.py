"""Long graphs: a chain is cut into kernels of bounded size, whatever can be fused."""

from __future__ import annotations

import numpy as np

import graphc
from graphc import ops
from graphc.schedule.fusion import CHAIN_LIMIT
from graphc.schedule.merging import GROUP_LIMIT
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
