"""Forward and backward as two graphs: together they are the joint graph, and little is saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.autodiff.joint import Joint, derive_joint
from graphc.autodiff.partition import Partition, extract, partition
from graphc.errors import MemoryLimitError
from graphc.ops import composite, contract, indexing, reduce
from graphc.ops import elementwise as e
from graphc.ops.nn import losses, normalization, pooling
from graphc.records import replace

Array = np.ndarray[Any, Any]


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def labels(high: int, *shape: int) -> Array:
    return np.random.default_rng(0).integers(0, high, shape)


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, target: Any) -> Any:
    hidden = e.relu(x @ w1 + b1)
    return losses.cross_entropy(hidden @ w2 + b2, target)


def convnet(x: Any, w: Any, dense: Any) -> Any:
    flat = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    image = e.relu(contract.conv(x, w, **flat))
    small = pooling.max_pool(image, kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1))
    rows = graphc.ops.reshape(small, shape=(small.shape[0], dense.shape[0]))
    return rows @ dense


def normed(x: Any, w: Any, b: Any, m: Any) -> Any:
    return e.tanh(normalization.layer_norm(x, w, b) @ m), composite.gelu(x)


def embedded(table: Any, rows: Any, w: Any) -> Any:
    return composite.softmax(indexing.take(table, rows, axis=0) @ w, axis=1)


NETS: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "mlp": (mlp, [normal(1, 6, 5), normal(2, 5, 7), normal(3, 7), normal(4, 7, 4), normal(5, 4),
                  labels(4, 6)]),
    "convnet": (convnet, [normal(1, 2, 3, 6, 6), normal(2, 4, 3, 3, 3), normal(3, 36, 5)]),
    "normed": (normed, [normal(1, 6, 8), normal(2, 8), normal(3, 8), normal(4, 8, 3)]),
    "embedded": (embedded, [normal(1, 9, 4), labels(9, 6), normal(2, 4, 5)]),
}  # fmt: skip


def optimized(joint: Joint, level: str = "exact") -> Joint:
    return replace(joint, graph=graphc.optimize(joint.graph, level))


def joint_of(name: str, *, level: str | None = None) -> tuple[Joint, int, list[Array]]:
    """The joint graph, how many outputs are the forward's, and all arrays it takes."""
    function, arrays = NETS[name]
    g = graphc.GraphBuilder(name)
    out = function(*(g.input(f"x{i}", str(graphc.TensorType.of(a))) for i, a in enumerate(arrays)))
    outputs = out if isinstance(out, tuple) else (out,)
    joint = derive_joint(g.finish(*outputs))
    if level is not None:
        joint = optimized(joint, level)
    cotangents = [
        normal(20 + i, *type.shape) for i, type in enumerate(joint.graph.input_types[len(arrays) :])
    ]
    return joint, len(outputs), [*arrays, *cotangents]


def run_split(split: Partition, outputs: int, arrays: list[Array], run: Any) -> tuple[Array, ...]:
    """Forward, then backward with what forward saved."""
    count = len(split.forward.inputs)
    primal, cotangents = arrays[:count], arrays[count:]
    results = run(split.forward, *primal)
    taken = [primal[i] for i in split.saved_inputs]
    gradients = run(split.backward, *taken, *results[outputs:], *cotangents)
    return (*results[:outputs], *gradients)


@pytest.mark.parametrize("level", [None, "exact"])
@pytest.mark.parametrize("name", NETS)
def test_forward_and_backward_are_the_joint_graph(name: str, level: str | None) -> None:
    joint, outputs, arrays = joint_of(name, level=level)
    split = partition(joint)
    graphc.verify(split.forward)
    graphc.verify(split.backward)
    expected = graphc.run(joint.graph, *arrays)
    for actual, wanted in zip(run_split(split, outputs, arrays, graphc.run), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NETS)
def test_compiled_halves_are_the_compiled_joint_graph(name: str) -> None:
    """Recomputation in backward gives the bits that forward computed."""
    joint, outputs, arrays = joint_of(name)

    def run(graph: graphc.Graph, *values: Array) -> tuple[Array, ...]:
        return graphc.compile(graph)(*values)

    expected = run(joint.graph, *arrays)
    for actual, wanted in zip(
        run_split(partition(joint), outputs, arrays, run), expected, strict=True
    ):
        np.testing.assert_array_equal(actual, wanted)


def saved_types(split: Partition, outputs: int) -> list[str]:
    return [str(type) for type in split.forward.output_types[outputs:]]


def saved_ops(split: Partition, outputs: int) -> list[str]:
    forward = split.forward
    return [forward.nodes[value.node].op for value in forward.outputs[outputs:]]


def test_a_relu_net_saves_one_value_per_layer() -> None:
    """Not the pre-activation next to the activation."""
    g = graphc.GraphBuilder("net")
    x, w1, w2, w3 = (g.input(n, "f32[16,16]") for n in ("x", "w1", "w2", "w3"))
    joint = optimized(derive_joint(g.finish(e.relu(e.relu(x @ w1) @ w2) @ w3)))
    split = partition(joint)
    assert saved_types(split, 1) == ["f32[16,16]"] * 2
    assert {joint.graph.input_names[i] for i in split.saved_inputs} == {"x", "w1", "w2", "w3"}


def test_a_pooling_saves_where_its_maxima_are_not_its_image() -> None:
    """The number of a tap for each window: four taps of a byte, or one number of four bytes."""
    g = graphc.GraphBuilder("net")
    x, w, v = g.input("x", "f32[4,16]"), g.input("w", "f32[16,144]"), g.input("v", "f32[36,5]")
    image = graphc.ops.reshape(x @ w, shape=(4, 1, 12, 12))
    window = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    small = graphc.ops.reshape(pooling.max_pool(image, **window), shape=(4, 36))
    joint = optimized(derive_joint(g.finish(small @ v)))
    split = partition(joint)
    *_, places, pooled = sorted(split.forward.output_types[1:], key=lambda type: type.nbytes)
    assert {places.nbytes, pooled.nbytes} == {4 * 36 * 4}
    assert "f32[4,1,12,12]" not in saved_types(split, 1)


def chain(*ops: Callable[[Any], Any]) -> Joint:
    """The joint graph of elementwise ops on a product, none of them the result."""
    g = graphc.GraphBuilder("chain")
    x, w, v = (g.input(name, "f32[16,16]") for name in "xwv")
    value = x @ w
    for op in ops:
        value = op(value)
    return optimized(derive_joint(g.finish(value @ v)))


def test_cheap_chains_are_computed_again_from_one_value() -> None:
    """Three squares: one value is saved, whatever the rules read."""
    split = partition(chain(*[lambda x: x * x] * 3))
    assert saved_types(split, 1) == ["f32[16,16]"]
    assert split.saved_bytes == 16 * 16 * 4


def test_exponentials_are_saved_not_computed_again() -> None:
    """One costs more than to store and load its result."""
    split = partition(chain(e.exp, e.sigmoid, e.tanh))
    assert len(saved_types(split, 1)) == 3
    assert not {"exp", "sigmoid", "tanh"} & {node.op for node in split.backward.nodes}


def test_with_a_budget_more_is_computed_again() -> None:
    joint = chain(e.exp, e.sigmoid, e.tanh)
    one = 16 * 16 * 4
    saved = [partition(joint, budget).saved_bytes for budget in (3 * one, 2 * one, one, 0)]
    assert saved == [3 * one, 2 * one, one, 0]
    assert "matmul" in [node.op for node in partition(joint, one).backward.nodes]


@pytest.mark.parametrize("name", NETS)
def test_a_budget_of_nothing_gives_the_same_gradients(name: str) -> None:
    """All is computed again from the inputs, to the same bits."""
    joint, outputs, arrays = joint_of(name)
    split = partition(joint, 0)
    assert split.saved_bytes == 0 and saved_types(split, outputs) == []

    def run(graph: graphc.Graph, *values: Array) -> tuple[Array, ...]:
        return graphc.compile(graph)(*values)

    expected = run(joint.graph, *arrays)
    for actual, wanted in zip(run_split(split, outputs, arrays, run), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_the_error_of_a_budget_that_is_too_small_tells_the_least() -> None:
    """An input that forward overwrites has to be saved."""
    g = graphc.GraphBuilder("updated")
    x, w = g.input("x", "f32[5]"), g.input("w", "f32[5]")
    joint = derive_joint(g.finish(x * w, w + 1, aliases=[(1, 1)]), ["x"])
    with pytest.raises(MemoryLimitError, match=r"saves at least 20 bytes.*saved_bytes is 19"):
        partition(joint, 19)
    assert partition(joint, 20).saved_bytes == 20


def test_what_is_computed_again_stands_where_it_is_needed() -> None:
    """Not all at the beginning of backward, where all of it would lie in memory at once."""
    g = graphc.GraphBuilder("two")
    x = g.input("x", "f32[4]")
    first, second = e.exp(x), e.sin(x)
    left, right = e.neg(second), e.sqrt(first)
    graph = g.finish(left, right)
    late = {left.value.node, right.value.node}
    part = extract(graph, "late", [x.value], list(graph.outputs), late=late)
    assert [node.op for node in part.nodes] == ["input", "sin", "neg", "exp", "sqrt"]


def test_inputs_are_not_copied_into_saved_values() -> None:
    g = graphc.GraphBuilder("inputs")
    x, y = g.input("x", "f32[16]"), g.input("y", "f32[16]")
    split = partition(derive_joint(g.finish(x * y * x)))
    assert saved_types(split, 1) == [] and split.saved_inputs == (0, 1)


def test_what_nothing_needs_is_not_saved() -> None:
    g = graphc.GraphBuilder("linear")
    x, w = g.input("x", "f32[4,4]"), g.input("w", "f32[4,4]")
    split = partition(derive_joint(g.finish(e.neg(x @ w) + x), ["w"]))
    assert saved_types(split, 1) == [] and split.saved_inputs == (0,)


def test_a_small_statistic_is_preferred_to_a_large_value() -> None:
    """What is broadcast back is saved before it is broadcast."""
    g = graphc.GraphBuilder("statistic")
    x = g.input("x", "f32[64,64]")
    mean = composite.mean(x, axes=(1,))
    joint = optimized(derive_joint(g.finish(x * reduce.spread(e.exp(mean), (1,), x.shape))))
    assert saved_types(partition(joint), 1) == ["f32[64]"]


def test_random_numbers_are_saved_not_drawn_again() -> None:
    g = graphc.GraphBuilder("dropout")
    x, state = g.input("x", "f32[8,8]"), g.input("state", "i64[2]")
    draw, after = graphc.ops.random_uniform(state, shape=(8, 8))
    kept = e.where(draw > 0.5, x * 2, x * 0)
    joint = derive_joint(g.finish(kept, after, aliases=[(1, 1)]), ["x"])
    split = partition(joint)
    assert "random_uniform" not in [node.op for node in split.backward.nodes]
    assert split.forward.aliases == ((1, 1),)
    arrays = [normal(1, 8, 8), np.array([3, 4]), normal(2, 8, 8)]
    expected = graphc.run(joint.graph, *arrays)
    for actual, wanted in zip(run_split(split, 2, arrays, graphc.run), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_an_updated_input_that_backward_reads_is_saved_as_it_was() -> None:
    """Forward overwrites w; backward needs its old content."""
    g = graphc.GraphBuilder("updated")
    x, w = g.input("x", "f32[5]"), g.input("w", "f32[5]")
    joint = derive_joint(g.finish(x * w, w + 1, aliases=[(1, 1)]), ["x"])
    split = partition(joint)
    executables = [graphc.compile(split.forward), graphc.compile(split.backward)]
    a, b, c = normal(1, 5), normal(2, 5), normal(3, 5)
    old = b.copy()
    results = executables[0](a, b)
    np.testing.assert_array_equal(b, old + 1)
    taken = [(a, b)[i] for i in split.saved_inputs]
    zeros = np.zeros(5, np.float32)
    (by_x,) = executables[1](*taken, *results[2:], c, zeros)
    np.testing.assert_array_equal(by_x, c * old)


def test_the_joint_of_a_joint_is_split_at_its_own_cotangents() -> None:
    g = graphc.GraphBuilder("twice")
    x = g.input("x", "f32[5]")
    second = derive_joint(graphc.joint(g.finish(e.exp(x) * x)), ["x"])
    split = partition(second)
    assert split.forward.input_names == ("x", "cotangent_0")
    arrays = [normal(i, 5) for i in range(4)]
    expected = graphc.run(second.graph, *arrays)
    for actual, wanted in zip(run_split(split, 2, arrays, graphc.run), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_inputs_may_be_called_like_cotangents() -> None:
    """What is a cotangent is told by its position, whatever the user's inputs are called."""
    names = ("cotangent_x", "cotangent_0", "cotangent_0_", "cotangents", "cotangent_1__")
    g = graphc.GraphBuilder("named")
    x, y, *others = (g.input(name, "f32[5]") for name in names)
    joint = derive_joint(g.finish(e.exp(x) * y, others[0] * others[1] * x), ["cotangent_x"])
    assert joint.graph.input_names == (*names, "cotangent_0___", "cotangent_1___")
    assert (joint.outputs, joint.cotangents) == (2, (5, 6))
    split = partition(joint)
    assert split.forward.input_names == names
    assert split.backward.input_names[-2:] == joint.graph.input_names[-2:]
    arrays = [normal(i, 5) for i in range(7)]
    (a, b, c, d), (by_first, by_second) = arrays[:4], arrays[5:]
    want = by_first * np.exp(a) * b + by_second * c * d
    for halves in (graphc.run(joint.graph, *arrays), run_split(split, 2, arrays, graphc.run)):
        np.testing.assert_allclose(halves[2], want, rtol=1e-5)


def test_the_order_of_derivatives_is_no_matter_of_names() -> None:
    """The second joint graph has cotangents of its own and takes the first one's as inputs."""
    g = graphc.GraphBuilder("orders")
    x = g.input("cotangent_0", "f32[5]")
    first = derive_joint(g.finish(e.exp(x)))
    second = derive_joint(first.graph, ["cotangent_0"])
    assert (first.outputs, first.cotangents) == (1, (1,))
    assert (second.outputs, second.cotangents) == (2, (2, 3))
    split = partition(second)
    assert len(split.forward.inputs) == 2
    arrays = [normal(i, 5) for i in range(4)]
    value, seed, by_value, by_gradient = arrays
    want = np.exp(value) * (by_value + by_gradient * seed)
    np.testing.assert_allclose(run_split(split, 2, arrays, graphc.run)[2], want, rtol=1e-5)
