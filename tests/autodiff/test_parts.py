"""Gradients of several slices of one value: one concatenation, and the same from every sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.ir.size_guards import answered_by
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops.movement import slice_
from tests.fuzz.op_sizes import Case, opened

Array = np.ndarray[Any, Any]
Spans = list[tuple[int, int]]


def gradient_ops(spans: Spans, *, whole: bool = False) -> tuple[graphc.Graph, list[str]]:
    """The joint graph of a sum of squares of slices x[:, start:end], and its ops."""
    g = graphc.GraphBuilder("slices")
    x = g.input("x", "f32[3,6]")
    parts = [slice_(x, start=(0, a), size=(3, b - a), step=(1, 1)) for a, b in spans]
    outputs = [e.mul(part, part) for part in parts] + ([e.exp(x)] if whole else [])
    joint = graphc.joint(g.finish(*outputs))
    return joint, [node.op for node in joint.nodes]


def test_gradient_of_a_split_is_one_concatenation() -> None:
    _, ops = gradient_ops([(0, 2), (2, 4), (4, 6)])
    assert ops.count("concat") == 1 and "pad" not in ops


def test_gradient_has_zeros_where_no_slice_lies() -> None:
    joint, ops = gradient_ops([(4, 5), (1, 2)])
    assert ops.count("concat") == 1 and "pad" not in ops
    x = np.arange(18, dtype=np.float32).reshape(3, 6)
    *_, gradient = graphc.run(joint, x, np.ones((3, 1), np.float32), np.ones((3, 1), np.float32))
    wanted = np.where(np.isin(np.arange(6), (1, 4)), 2 * x, 0)
    assert np.array_equal(gradient, wanted)


def test_slices_that_overlap_are_added() -> None:
    joint, ops = gradient_ops([(0, 4), (2, 6)])
    assert ops.count("pad") == 2 and "concat" not in ops
    x = np.arange(18, dtype=np.float32).reshape(3, 6)
    *_, gradient = graphc.run(joint, x, np.ones((3, 4), np.float32), np.ones((3, 4), np.float32))
    assert np.array_equal(gradient, 2 * x * np.array([1, 1, 2, 2, 1, 1]))


def test_single_slice_is_padded() -> None:
    _, ops = gradient_ops([(1, 3)])
    assert ops.count("pad") == 1 and "concat" not in ops


def test_value_that_is_read_whole_too_gets_one_sum() -> None:
    _, ops = gradient_ops([(0, 3), (3, 6)], whole=True)
    # Each of the two squares adds the gradients of its operands.
    assert ops.count("concat") == 1 and ops.count("add") == 2 + 1 and "pad" not in ops


def weighted(case: str, x: Any, factors: Any) -> Any:
    """The gradient of x of a sum over its parts, weighted by -0.0 and others."""
    if case == "split":
        total = sum((part * factors).sum() for part in x.split(2, dim=1))
    elif case == "unbind":
        total = sum((part * factors[:, 0]).sum() for part in x.unbind(1))
    elif case == "slices of a slice":
        left = (x * 2)[:, :4]
        total = (left[:, :2] * factors).sum() + (left[:, 2:] * factors).sum()
    else:
        total = sum((x[i, 2:5] * factors[i, 0]).sum() for i in range(3))
    return torch.autograd.grad(total, x)[0]


@pytest.mark.parametrize("case", ["split", "unbind", "slices of a slice", "rows"])
def test_eager_and_compiled_gradients_have_the_same_bits(case: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    tensor = torch.tensor(x, requires_grad=True)
    factors = torch.tensor(np.array([[-0.0, 1.5], [np.inf, -2.0], [0.0, np.nan]], np.float32))
    eager = weighted(case, tensor, factors).numpy()
    compiled = torch.compile(lambda x, factors: weighted(case, x, factors))(tensor, factors).numpy()
    assert eager.tobytes() == compiled.tobytes()
    if case == "split":
        assert np.signbit(eager[0, [0, 2, 4]]).all()  # -0: no zero was added


@pytest.mark.parametrize("step", [1, 2, -1, -2])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_gradient_of_a_slice_whose_size_is_0_in_the_example(n: int, step: int) -> None:
    """Half of the elements of f32[n], so none where n is 1."""
    g = graphc.GraphBuilder("slices")
    with answered_by({"n": n}) as answers:
        x = g.input("x", TensorType(DType.f32, (dim("n", 1),)))
        count = x.shape[0] // 2
        first = 0 if step > 0 else x.shape[0] - 1
        graph = g.finish(e.exp(slice_(x, start=(first,), size=(count,), step=(step,))))
        joint = graphc.verify(graphc.joint(graph))
    assert joint.output_types[1] == graph.input_types[0]
    assert all(guard.holds({"n": n}) for guard in answers.guards)
    zeros, ones = np.zeros(n, np.float32), np.ones(n // 2, np.float32)
    *_, gradient = graphc.run(at_sizes(joint, {"n": n}), zeros, ones)
    taken = np.zeros(n, np.float32)
    taken[::step][: n // 2] = 1
    assert np.array_equal(gradient, taken)


def test_a_gradient_whose_extents_are_the_operands_in_the_example() -> None:
    """Of a grouped convolution's weight: 3 * (n // 3) channels are n where n is 3."""
    graph, _ = opened(Case("conv_weight_grad", 2, 3, (3,)))
    with answered_by({"n": 3}) as answers:
        joint = graphc.verify(graphc.joint(graph))
    assert joint.output_types[1:] == graph.input_types
    assert not all(guard.holds({"n": 4}) for guard in answers.guards)
    known, alone = at_sizes(joint, {"n": 3}), graphc.joint(at_sizes(graph, {"n": 3}))
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(t.shape).astype(np.float32) for t in alone.input_types]
    for x, y in zip(graphc.run(known, *arrays), graphc.run(alone, *arrays), strict=True):
        assert x.tobytes() == y.tobytes()
