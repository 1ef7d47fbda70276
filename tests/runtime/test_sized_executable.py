"""Graphs of sizes known only at run time: compiled once, at every size the bits of the graph that
was compiled for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.autodiff.joint import joint
from graphc.errors import ArgumentError, GraphError, IndexRangeError, SizeBoundError
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.dims import Extent, dim
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import answered_by
from graphc.ir.types import DType, TensorType
from graphc.ops.generate import iota_like
from graphc.ops.interpreter import evaluate
from graphc.runtime.blocks import LARGER, Blocks
from graphc.runtime.sized_executable import INSTANCES, SizedExecutable
from graphc.schedule.build import plan_graph
from graphc.schedule.dependences import HazardTracker, effects_of, root_buffer_ranges
from graphc.schedule.instances import plan_at
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
N, M = dim("n"), dim("m")


def graph_of(program: Callable[..., Any], *shapes: tuple[Extent, ...]) -> Graph:
    builder = GraphBuilder("sized")
    operands = [
        builder.input(f"x{i}", TensorType(DType.f32, shape))  # type: ignore[arg-type]
        for i, shape in enumerate(shapes)
    ]
    results = program(*operands)
    return builder.finish(*(results if isinstance(results, tuple) else (results,)))


def drawn(graph: Graph, sizes: dict[str, int]) -> list[Array]:
    draw = np.random.default_rng(3)
    types = at_sizes(graph, sizes).input_types
    return [draw.standard_normal(type.shape).astype(type.dtype.numpy) for type in types]


def layers(x: Var, w: Var, c: Var, v: Var) -> Var:
    hidden = ops.matmul(x, w)
    hidden = ops.relu(hidden + ops.broadcast(c, shape=hidden.tensor_type.shape))
    return ops.softmax(ops.matmul(hidden, v), axis=1)


PERCEPTRON = graph_of(layers, (N, 24), (24, 20), (20,), (20, 10))
SIZES = (0, 1, 2, 5, 17, 64, 300)


def same_bits(graph: Graph, sized: Any, sizes: dict[str, int]) -> None:
    arrays = drawn(graph, sizes)
    expected = graphc.compile(at_sizes(graph, sizes), threads=1)(*arrays)
    actual = sized(*arrays)
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape and one.tobytes() == other.tobytes(), sizes


@pytest.mark.sampled(4)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_one_program_for_all_sizes(threads: int) -> None:
    sized = graphc.compile(PERCEPTRON, threads=threads, example={"n": 64})
    assert isinstance(sized, SizedExecutable)
    for n in SIZES:
        same_bits(PERCEPTRON, sized, {"n": n})
    assert sized.programs == 1 and sized.plan.guards == ()


def test_a_gradient_of_a_batch() -> None:
    """The derived backward: sums over the batch, and a mean whose divisor is the size."""

    def loss(x: Var, w: Var, t: Var) -> Var:
        difference = ops.tanh(ops.matmul(x, w)) - t
        return ops.mean(difference * difference, axes=(0, 1))

    forward = graph_of(loss, (N, 12), (12, 7), (N, 7))
    whole = joint(forward, ["x1"])
    sized = graphc.compile(whole, example={"n": 32})
    for n in (1, 2, 31, 32, 513):
        same_bits(whole, sized, {"n": n})


def test_two_sizes_and_shapes_made_of_them() -> None:
    def program(x: Var, y: Var) -> tuple[Var, Var]:
        rows, columns = x.tensor_type.shape
        joined = ops.concat(x, y, axis=0)
        flat = ops.reshape(ops.transpose(x, permutation=(1, 0)), shape=(rows * columns,))
        return ops.sum(joined, axes=(0,)), ops.exp(flat)

    graph = graph_of(program, (N, M), (N, M))
    sized = graphc.compile(graph, example={"n": 8, "m": 6})
    for n, m in [(1, 1), (8, 6), (6, 8), (40, 3), (1, 70)]:
        same_bits(graph, sized, {"n": n, "m": m})


@pytest.mark.parametrize("n", SIZES)
def test_every_instance_of_a_plan_keeps_the_rules(n: int) -> None:
    """Offsets of an instance do not overlap, and each buffer is written before it is read: also by
    running it on poisoned memory."""
    _, plan = plan_graph(PERCEPTRON, example={"n": 64})
    instance = verify_plan(plan_at(plan, {"n": n}))
    arrays = drawn(PERCEPTRON, {"n": n})
    (actual,) = run_plan(instance, tuple(arrays))
    (expected,) = evaluate(at_sizes(PERCEPTRON, {"n": n}), tuple(arrays), reference=True)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_a_loop_over_time_of_any_batch_and_length() -> None:
    def step(h: Var, x: Var, w: Var) -> tuple[Var, Var]:
        new = ops.tanh(ops.matmul(h, w) + x)
        return new, new * 2.0

    inner = GraphBuilder("body")
    types = [TensorType(DType.f32, shape) for shape in ((N, 4), (N, 4), (4, 4))]  # type: ignore[arg-type]
    body = inner.finish(*step(*[inner.input(f"x{i}", type) for i, type in enumerate(types)]))
    graph = graph_of(
        lambda h, xs, w: ops.scan(h, xs, w, carry=1, sequences=1, length=M, body=body),
        (N, 4), (M, N, 4), (4, 4),
    )  # fmt: skip
    sized = graphc.compile(graph, example={"n": 3, "m": 5})
    for n, m in [(3, 5), (1, 1), (2, 9), (7, 0), (16, 3)]:
        same_bits(graph, sized, {"n": n, "m": m})


def test_what_does_not_fit_says_what_and_where() -> None:
    bounded = dim("n", 1, 8)
    graph = graph_of(lambda x, y: x + y, (bounded, 3), (bounded, 3))
    sized = graphc.compile(graph)
    ones = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(sized(ones, ones)[0], 2 * ones)
    nine = np.ones((9, 3), np.float32)
    with pytest.raises(SizeBoundError, match="size n is 9, not in 1 to 8"):
        sized(nine, nine)
    with pytest.raises(ArgumentError, match=r"argument 'x1' is float32\[2, 3\]"):
        sized(ones, ones[:2])
    with pytest.raises(ArgumentError, match="takes 2 arrays"):
        sized(ones)
    with pytest.raises(ArgumentError, match="argument 'x0' is a list"):
        sized([1.0], ones)
    with pytest.raises(SizeBoundError, match="size n is 0"):
        sized.at(n=0)
    hidden = graphc.compile(graph_of(lambda x: x * 2.0, (N * 2,)))
    with pytest.raises(GraphError, match="size n is no axis of an input"):
        hidden(ones[:, 0])
    assert isinstance(hidden, SizedExecutable)
    np.testing.assert_array_equal(hidden.at(n=2)(ones[:, 0])[0], 2 * ones[:, 0])


def test_barriers_stand_where_a_buffer_is_empty_in_the_example_alone() -> None:
    """What overlaps is the same at all sizes: also at those where nothing lies there."""
    size = dim("n", 2)

    def program(x: Var, w: Var) -> Var:
        rest = ops.slice(x, start=(2, 0), size=(size - 2, 64), step=(1, 1))  # type: ignore[operator]
        return ops.matmul(ops.matmul(ops.matmul(rest, w), w), w)

    _, plan = plan_graph(graph_of(program, (size, 64), (64, 64)), example={"n": 2})
    needed = []
    for n in (2, 40):
        instance, hazards = plan_at(plan, {"n": n}), HazardTracker()
        at, barriers = root_buffer_ranges(instance), []
        for effects in [effects_of(step, at) for step in instance.steps]:
            barriers.append(hazards.with_step(None, effects))
            if barriers[-1]:
                hazards.after_barrier()
            hazards.add(None, effects)
        needed.append(barriers)
    assert needed[0] == needed[1] == [False, True, True]


def test_a_guard_that_does_not_hold_makes_another_program() -> None:
    """Whether an index has to be checked is decided for the example, and guarded."""

    def program(x: Var, table: Var) -> Var:
        places = iota_like(x, (N,), 0)
        return ops.broadcast(x, shape=(N,)) + ops.take(table, places, axis=0)

    graph = graph_of(program, (N,), (10,))
    sized = graphc.compile(graph, example={"n": 5})
    assert isinstance(sized, SizedExecutable)
    for n in (5, 10):
        same_bits(graph, sized, {"n": n})
    assert sized.programs == 1
    with pytest.raises(IndexRangeError, match="index 11 is out of bounds for dimension 0"):
        sized(np.zeros(12, np.float32), np.zeros(10, np.float32))
    assert sized.programs == 2
    same_bits(graph, sized, {"n": 7})


def test_a_comparison_answered_by_the_example_is_a_guard() -> None:
    with answered_by({"n": 6}) as answers:
        n = N if N > 4 else N + 1
        graph = graph_of(lambda x: ops.sum(x, axes=(0,)), (n,))
    assert [str(guard) for guard in answers.guards] == ["n > 4"]
    assert answers.guards[0].holds({"n": 5}) and not answers.guards[0].holds({"n": 4})
    assert isinstance(graphc.compile(graph), SizedExecutable)


def test_a_reshape_of_sizes_that_are_equal_in_the_example_alone() -> None:
    with answered_by({"n": 2}) as answers:
        graph = graph_of(lambda x: ops.reshape(x, shape=(3, 4)) * 2.0, (N, 6))
    assert [str(guard) for guard in answers.guards] == ["12 == 6*n"]
    sized = graphc.compile(graph, example={"n": 2})
    same_bits(graph, sized, {"n": 2})


def test_only_the_instance_that_ran_last_keeps_memory() -> None:
    sized = graphc.compile(PERCEPTRON)
    assert isinstance(sized, SizedExecutable)
    for n in (5, 9, 5, 40):
        same_bits(PERCEPTRON, sized, {"n": n})
        held = [each for each in sized._instances.values() if each._frames]
        assert held == [sized.at(n=n)]
    assert sized.at(n=5).graph.input_types[0].shape == (5, 24)


def test_instances_are_bounded() -> None:
    sized = graphc.compile(graph_of(lambda x: x + 1.0, (N,)))
    assert isinstance(sized, SizedExecutable)
    for n in range(INSTANCES + 40):
        assert sized(np.zeros(n, np.float32))[0].sum() == n
    assert len(sized._instances) == INSTANCES and sized.programs == 1


def test_sizes_share_a_block() -> None:
    """A further size takes no memory beside that of the size before, a larger one some more than
    it needs, a much smaller one a block of its own."""
    sized = graphc.compile(PERCEPTRON)
    assert isinstance(sized, SizedExecutable)

    def block(n: int) -> Any:
        same_bits(PERCEPTRON, sized, {"n": n})
        return sized.at(n=n)._frames[-1].memory

    first = block(500)
    assert block(499) is first and block(250) is first
    larger = block(501)
    assert larger is not first and larger.nbytes > 1.2 * sized.at(n=501).memory_bytes
    assert block(505) is larger and block(500) is larger
    assert block(1).nbytes < larger.nbytes / LARGER


def test_a_block_to_spare_is_within_the_limit() -> None:
    blocks = Blocks(most=1100)
    blocks.give(blocks.take(900))
    assert blocks.take(1000).nbytes == 1100
    assert blocks.take(1200).nbytes == 1200
