"""Derived backward graphs: conventions of `joint`, second derivatives, errors of wrong rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.autodiff.numeric import numeric_gradients
from graphc.autodiff.sweep import reads
from graphc.ir.registry import unregister
from graphc.ops import composite, contract, indexing, movement, reduce
from graphc.ops import elementwise as e
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.nn import losses, normalization, pooling

Array = np.ndarray[Any, Any]


def normal(seed: int, *shape: int) -> Array:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape))


def total(x: Any) -> Any:
    return reduce.sum(x, axes=tuple(range(len(x.shape))))


def built(function: Callable[..., Any], *arrays: Array, name: str = "f") -> graphc.Graph:
    g = graphc.GraphBuilder(name)
    inputs = [g.input(f"x{i}", graphc.TensorType.of(np.asarray(a))) for i, a in enumerate(arrays)]
    out = function(*inputs)
    return g.finish(*(out if isinstance(out, tuple) else (out,)))


# -- conventions ----------------------------------------------------------------------------------


def test_a_scalar_output_needs_no_cotangent() -> None:
    graph = built(lambda x, y: total(x * y), normal(1, 3), normal(2, 3))
    joint = graphc.joint(graph)
    assert joint.input_names == ("x0", "x1")
    loss, by_x, by_y = graphc.run(joint, normal(1, 3), normal(2, 3))
    np.testing.assert_allclose(loss, normal(1, 3) @ normal(2, 3))
    np.testing.assert_array_equal(by_x, normal(2, 3))
    np.testing.assert_array_equal(by_y, normal(1, 3))


def test_other_outputs_take_cotangents() -> None:
    graph = built(lambda x: (x * 2, x > 0, e.exp(x)), normal(1, 3))
    joint = graphc.joint(graph)
    assert joint.input_names == ("x0", "cotangent_0", "cotangent_2")
    *_, by_x = graphc.run(joint, normal(1, 3), normal(2, 3), normal(3, 3))
    np.testing.assert_allclose(by_x, normal(2, 3) * 2 + normal(3, 3) * np.exp(normal(1, 3)))


def test_wrt_by_name_and_position_in_the_order_asked() -> None:
    arrays = normal(1, 3), normal(2, 3)
    graph = built(lambda x, y: total(x * x * y), *arrays)
    _, by_y, by_x = graphc.run(graphc.joint(graph, ["x1", 0]), *arrays)
    np.testing.assert_allclose(by_y, arrays[0] ** 2)
    np.testing.assert_allclose(by_x, 2 * arrays[0] * arrays[1])
    with pytest.raises(graphc.ArgumentError, match=r"no input 'z'(.|\n)*one of x0, x1"):
        graphc.joint(graph, ["z"])
    with pytest.raises(graphc.ArgumentError, match="no input 2"):
        graphc.joint(graph, [2])


def test_integers_have_no_gradients() -> None:
    index = np.array([0, 2])
    graph = built(lambda x, i: total(indexing.take(x, i, axis=0)), normal(1, 3), index)
    assert len(graphc.joint(graph).outputs) == 2
    with pytest.raises(graphc.ArgumentError, match=r"'x1' is i64\[2\]: only float inputs"):
        graphc.joint(graph, ["x1"])


def test_an_input_without_influence_gets_zeros() -> None:
    graph = built(lambda x, y: total(x) + total(e.floor(y)) * 0, normal(1, 3), normal(2, 2))
    _, by_x, by_y = graphc.run(graphc.joint(graph), normal(1, 3), normal(2, 2))
    assert (by_x == 1).all() and by_y.shape == (2,) and (by_y == 0).all()


def test_one_value_as_two_outputs_and_an_input_as_output() -> None:
    graph = built(lambda x: (x * 3, x * 3, x), normal(1, 4))
    same = built(lambda x: ((y := x * 3), y, x), normal(1, 4))
    for each in (graph, same):
        arrays = [normal(i, 4) for i in range(1, 5)]
        *_, by_x = graphc.run(graphc.joint(each), *arrays)
        np.testing.assert_allclose(by_x, 3 * (arrays[1] + arrays[2]) + arrays[3])


def test_gradients_carry_the_lines_of_the_forward() -> None:
    graph = built(lambda x: total(e.tanh(x)), normal(1, 3))
    joint = graphc.joint(graph)
    assert all(node.location is not None for node in joint.nodes)
    lines = {str(node.location).partition(":")[0] for node in joint.nodes}
    assert lines == {"test_joint.py"}


def test_an_op_without_a_gradient_names_itself_and_the_line() -> None:
    op = Elementwise("no_rule", lambda s, x: s.floor(x), vjp=None, samples=None)
    try:
        graph = built(lambda x: total(op(x)), normal(1, 3))
        message = r"no_rule has no gradient(.|\n)*test_joint.py:"
        with pytest.raises(graphc.GraphError, match=message):
            graphc.joint(graph)
    finally:
        unregister("no_rule")


# -- second derivatives ---------------------------------------------------------------------------


def _softmax_loss(logits: Any) -> Any:
    target = logits.context.constant(np.array([1, 0, 3]))
    return losses.cross_entropy(logits, target)


def _conv(x: Any, w: Any) -> Any:
    flat = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 1), "groups": 1}
    y = contract.conv(x, w, **flat)
    return total(y * y * y)


def _pools(x: Any) -> Any:
    y = pooling.avg_pool(x * x, kernel=(2,), stride=(1,), padding=(1,))
    z = pooling.max_pool(x * x * x, kernel=(2,), stride=(2,), padding=(0,), dilation=(1,))
    return total(y * y) + total(z * z)


SECOND: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "polynomial": (lambda x, y: total(x * x * x * y), [normal(1, 4), normal(2, 4)]),
    "activations": (
        lambda x: total(e.tanh(x) * e.sigmoid(x) + e.erf(x) + composite.gelu(x)), [normal(1, 5)]
    ),
    "roots": (lambda x: total(e.sqrt(x) * e.log(x) / e.rsqrt(x)), [np.abs(normal(1, 5)) + 0.5]),
    "power": (lambda x, y: total(x**y), [np.abs(normal(1, 3)) + 0.5, normal(2, 3)]),
    "product": (lambda x, y: total(e.exp((x @ y) * 0.3)), [normal(1, 2, 3), normal(2, 3, 2)]),
    "softmax": (lambda x: total(composite.softmax(x, axis=1) * x), [normal(1, 2, 3)]),
    "cross_entropy": (_softmax_loss, [normal(1, 3, 4)]),
    "layer_norm": (
        lambda x, w, b: total(e.sin(normalization.layer_norm(x, w, b))),
        [normal(1, 2, 4), normal(2, 4), normal(3, 4)],
    ),
    "variance": (lambda x: total(e.exp(composite.var(x, axes=(1,)))), [normal(1, 2, 4)]),
    "convolution": (_conv, [normal(1, 1, 2, 4, 3), normal(2, 2, 2, 3, 2)]),
    "pools": (_pools, [normal(1, 1, 6)]),
    "movement": (
        lambda x: total(movement.transpose(x * x, permutation=(1, 0)) @ (x * x)), [normal(1, 2, 3)]
    ),
    "gather": (
        lambda x: total(
            indexing.take(x * x, x.context.constant(np.array([1, 1, 0])), axis=0) * 2.0
        ) ** 2,
        [normal(1, 2, 2)],
    ),
    "extrema": (lambda x: total(reduce.max(x * x, axes=(1,)) ** 3), [normal(1, 3, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    """The joint of the joint against central differences of the first gradient."""
    function, arrays = SECOND[name]
    first = graphc.joint(built(function, *arrays))
    second = graphc.joint(first, range(len(arrays)))
    count = len(arrays)
    # Cotangents: 0 for the loss, random for its gradients. So the result is H·v.
    directions = [normal(7 + i, *array.shape) for i, array in enumerate(arrays)]
    outputs = graphc.run(second, *arrays, np.zeros(()), *directions)
    second_order = outputs[-count:]
    expected = numeric_gradients(
        lambda *values: graphc.run(first, *values), arrays, [None, *directions], range(count)
    )
    for actual, wanted in zip(second_order, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-6)


def test_joint_of_a_joint_with_cotangents() -> None:
    """Second derivatives of a graph that is no scalar: its cotangents are inputs like others."""
    arrays = [normal(1, 3), normal(2, 3)]
    first = graphc.joint(built(lambda x: e.exp(x), arrays[0]))
    second = graphc.joint(first, [0])
    assert len(set(second.input_names)) == len(second.input_names)
    *_, by_x = graphc.run(second, *arrays, np.zeros(3), np.ones(3))
    np.testing.assert_allclose(by_x, arrays[1] * np.exp(arrays[0]))


def test_third_derivative() -> None:
    x = normal(1)
    graph = built(lambda x: x * x * x * x, x)
    for _ in range(2):
        joint = graphc.joint(graph, [0])
        graph = graphc.Graph("next", joint.nodes, joint.outputs[-1:])
    *_, third = graphc.run(graphc.joint(graph, [0]), x)
    np.testing.assert_allclose(third, 24 * x)


# -- reads ----------------------------------------------------------------------------------------


def _reads(op: Any, *texts: str, wanted: tuple[bool, ...] | None = None, **attributes: Any) -> Any:
    types = tuple(graphc.TensorType.parse(text) for text in texts)
    canonical = op.canonical(attributes)
    wanted = wanted or (True,) * len(types)
    return reads(op, types, op.infer(types, canonical), canonical, wanted)


@pytest.mark.parametrize("op", [e.tanh, e.exp, e.sigmoid, e.sqrt, e.rsqrt, e.relu])
def test_rules_that_read_only_their_result(op: Any) -> None:
    assert _reads(op, "f32[3]") == ((False,), (True,))


@pytest.mark.parametrize("op", [e.log, e.sin, e.cos, e.erf, e.abs, composite.gelu])
def test_rules_that_read_only_their_operand(op: Any) -> None:
    assert _reads(op, "f32[3]") == ((True,), (False,))


@pytest.mark.parametrize(("op", "count"), [(e.add, 2), (e.sub, 2), (e.neg, 1), (e.floor, 1)])
def test_rules_that_read_nothing(op: Any, count: int) -> None:
    assert _reads(op, *["f32[3]"] * count) == ((False,) * count, (False,))


def test_only_what_wanted_gradients_need_is_read() -> None:
    two = ("f32[3]", "f32[3]")
    assert _reads(e.mul, *two) == ((True, True), (False,))
    assert _reads(e.mul, *two, wanted=(True, False)) == ((False, True), (False,))
    assert _reads(e.mul, *two, wanted=(False, True)) == ((True, False), (False,))
    assert _reads(e.div, *two, wanted=(True, False)) == ((False, True), (False,))
    square = ("f32[3,3]", "f32[3,3]")
    assert _reads(contract.matmul, *square, wanted=(True, False)) == ((False, True), (False,))
    assert _reads(reduce.sum, "f32[3,4]", axes=(1,)) == ((False,), (False,))
    assert _reads(movement.reshape, "f32[3,4]", shape=(12,)) == ((False,), (False,))
    assert _reads(composite.softmax, "f32[3,4]", axis=1) == ((False,), (True,))
    picked = _reads(indexing.take, "f32[3,4]", "i64[2]", axis=0, wanted=(True, False))
    assert picked == ((False, True), (False,))
    chosen = _reads(e.where, "bool[3]", *two, wanted=(False, True, True))
    assert chosen == ((True, False, False), (False,))


# -- wrong rules ----------------------------------------------------------------------------------


@pytest.fixture
def declared() -> Any:
    """Declares elementwise ops for one test."""
    names: list[str] = []

    def declare(name: str, vjp: Any) -> Any:
        names.append(name)
        return e.elementwise(
            name, lambda s, x: s.neg(x), vjp=vjp, dtypes=(graphc.DType.f64, graphc.DType.f32),
            samples=lambda m: [],
        )  # fmt: skip

    yield declare
    for name in names:
        unregister(name)


def test_a_rule_with_a_wrong_shape_is_caught(declared: Any) -> None:
    op = declared("skewed", lambda g, out, x: (reduce.sum(g, axes=(0,)),))
    graph = built(lambda x: total(op(x)), normal(1, 2, 3))
    with pytest.raises(
        graphc.GraphError, match=r"rule of skewed gives f64\[3\] for f64\[2,3\](.|\n)*test_joint.py"
    ):
        graphc.joint(graph)


def test_a_rule_with_a_wrong_dtype_is_caught(declared: Any) -> None:
    op = declared("narrowed", lambda g, out, x: (e.cast(g, dtype=graphc.DType.f32),))
    with pytest.raises(graphc.GraphError, match=r"rule of narrowed gives f32\[3\] for f64\[3\]"):
        graphc.joint(built(lambda x: total(op(x)), normal(1, 3)))


def test_a_rule_with_too_many_gradients_is_caught(declared: Any) -> None:
    op = declared("doubled", lambda g, out, x: (g, g))
    with pytest.raises(graphc.GraphError, match="doubled gives 2 gradients for 1 operands"):
        graphc.joint(built(lambda x: total(op(x)), normal(1, 3)))
