"""A new elementwise op is one declaration and one sample input: the one in CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import frontend
import graphc
from graphc.autodiff.numeric import numeric_gradients
from graphc.ir.registry import unregister
from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.op import FLOATS, SampleDrawer


@pytest.fixture
def softsign() -> Iterator[Any]:
    # -- declaration
    from graphc import ops
    from graphc.ops.elementwise import elementwise
    from graphc.ops.kinds.op import FLOATS

    softsign = elementwise(
        "softsign",
        lambda s, x: s.div(x, s.add(s.abs(x), s.constant(1, x))),
        vjp=lambda g, out, x: (g * (1 - ops.abs(out)) * (1 - ops.abs(out)),),
        dtypes=FLOATS,
        cost=10,
        ulps=2,
        samples=lambda m: [m(m.normal(3, 5))],
    )
    # -- end
    yield softsign
    unregister("softsign")


def test_it_works_everywhere(softsign: Any) -> None:
    (sample,) = softsign.samples(SampleDrawer())
    x = sample.operands[0]
    expected = x / (1 + np.abs(x))

    # Eager, with the tape.
    tensor = frontend.tensor(x, requires_grad=True)
    result = softsign(tensor)
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-15)
    result.sum().backward()

    # Traced and printed; read back.
    graph = frontend.trace(lambda t: softsign(t) * 2.0, tensor.detach())
    assert "softsign" in str(graph) and graphc.parse(str(graph)) == graph

    # Differentiated: the numeric gradient is the derived one and the tape's.
    (numeric,) = numeric_gradients(
        lambda a: softsign.run((a,), {}), [x], [np.ones_like(x)], wrt=[0]
    )
    joint = graphc.joint(graph)
    derived = graphc.run(joint, x, np.full_like(x, 0.5))[1]
    np.testing.assert_allclose(derived, numeric, rtol=1e-8)
    np.testing.assert_allclose(tensor.grad.numpy(), numeric, rtol=1e-8)

    # Compiled, alone and fused, forward and backward.
    for level in ("none", "exact"):
        for dtype, tolerance in ((np.float64, 1e-15), (np.float32, 1e-6)):
            leaf = frontend.tensor(x.astype(dtype))
            typed = frontend.trace(lambda t: softsign(t) * 2.0, leaf)
            compiled = graphc.compile(typed, level)
            np.testing.assert_allclose(compiled(leaf.numpy())[0], expected * 2, rtol=tolerance)
    both = graphc.compile(joint)(x, np.full_like(x, 0.5))
    np.testing.assert_allclose(both[1], numeric, rtol=1e-8)


def test_zeros_of_both_signs_are_two_attributes() -> None:
    """0.0 == -0.0, but kernels and shared nodes must not mix them up."""
    scaled = elementwise(
        "scaled", lambda s, x, *, by: s.mul(x, s.constant(by, x)), dtypes=FLOATS, samples=None
    )
    try:
        for order in ((0.0, -0.0), (-0.0, 0.0)):
            g = graphc.GraphBuilder("signs")
            x = g.input("x", "f32[3]")
            graph = g.finish(*(scaled(x, by=by) for by in order))
            assert graphc.parse(str(graph)) == graph
            for level in ("none", "exact"):
                results = graphc.compile(graph, level)(np.ones(3, np.float32))
                signs = [bool(np.signbit(result[0])) for result in results]
                assert signs == [bool(np.signbit(by)) for by in order]
    finally:
        unregister("scaled")
