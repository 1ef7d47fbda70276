"""Gradients of loops and branches, against numeric ones in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.autodiff.numeric import numeric_gradients
from graphc.ir.copying import copy_graph
from graphc.ops import elementwise as e
from graphc.ops import movement, reduce
from graphc.ops.control import cond, scan, while_loop
from graphc.ops.interpreter import evaluate
from graphc.ops.kinds.region import TimeLoop

Array = np.ndarray[Any, Any]
M, V, S = "f64[2,3]", "f64[3]", "f64[]"


def region(function: Callable[..., Any], *types: str, name: str = "body") -> graphc.Graph:
    g = graphc.GraphBuilder(name)
    out = function(*[g.input(f"x{i}", type) for i, type in enumerate(types)])
    return g.finish(*(out if isinstance(out, tuple) else (out,)))


def total(x: Any) -> Any:
    return reduce.sum(x, axes=tuple(range(len(x.shape))))


def drawn(graph: graphc.Graph, seed: int = 0) -> tuple[Array, ...]:
    random = np.random.default_rng(seed)
    return tuple(
        np.asarray(random.standard_normal(type.shape) * 0.5) if type.dtype.is_float
        else np.asarray(random.integers(0, 3, type.shape)).astype(type.dtype.numpy)
        for type in graph.input_types
    )  # fmt: skip


def hold(graph: graphc.Graph, *, level: str = "exact", skip: tuple[int, ...] = ()) -> graphc.Graph:
    """Derived = numeric gradients of a random weighting of the outputs (but for those in `skip`),
    by the interpreter and compiled. The joint graph."""
    arrays = drawn(graph)
    floats = [i for i, type in enumerate(graph.output_types) if type.dtype.is_float]
    seeds = [i for i in floats if i not in skip]
    joint = graphc.joint(graph, seeds=seeds)
    graphc.verify(joint)
    random = np.random.default_rng(1)
    cotangents = [
        np.asarray(random.standard_normal(type.shape)) if i in seeds else None
        for i, type in enumerate(graph.output_types)
    ]
    arguments = (*arrays, *(c for c in cotangents if c is not None))
    wrt = [i for i, type in enumerate(graph.input_types) if type.dtype.is_float]
    want = numeric_gradients(
        lambda *values: evaluate(graph, values, reference=False), arrays, cotangents, wrt
    )
    count = len(graph.outputs)
    runs = {
        "interpreter": graphc.run(joint, *arguments),
        "none": graphc.compile(joint, "none")(*arguments),
        level: graphc.compile(joint, level)(*arguments),
    }
    for name, results in runs.items():
        for number, (got, numeric) in enumerate(zip(results[count:], want, strict=True)):
            np.testing.assert_allclose(
                got, numeric, rtol=1e-6, atol=1e-8, err_msg=f"{name}, gradient {number}"
            )
    return joint


def scans(graph: graphc.Graph) -> list[graphc.Node]:
    return [node for node in graph.nodes if node.op == "scan"]


def cell(h: Any, x: Any, w: Any, b: Any) -> tuple[Any, ...]:
    new = e.tanh(h @ w + x + b)
    return new, new * x


def recurrent(length: int = 4, **attributes: Any) -> graphc.Graph:
    body = region(cell, M, M, "f64[3,3]", V)
    return region(
        lambda h, xs, w, b: scan(
            h, xs, w, b, carry=1, sequences=1, length=length, body=body, **attributes
        ),
        M, f"f64[{length},2,3]", "f64[3,3]", V,
    )  # fmt: skip


# -- scan -----------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 4])
def test_a_recurrent_cell(length: int, reverse: bool) -> None:
    joint = hold(recurrent(length, reverse=reverse))
    forward, backward = scans(joint)
    assert backward.attribute("reverse") is not reverse and forward.attribute("saved") > 0


def test_products_and_sums_of_invariants_are_taken_behind_the_loop() -> None:
    """The gradients of weight and bias are one product and one sum over all steps."""
    joint = hold(recurrent())
    _, backward = scans(joint)
    assert backward.attribute("carry") == 1  # nothing is accumulated
    (body,) = backward.regions
    ops = [node.op for node in body.nodes]
    assert "sum" not in ops and ops.count("matmul") == 1  # that of the carry's gradient
    assert {"matmul", "sum"} <= {node.op for node in joint.nodes}


def test_an_invariant_used_by_elements_is_accumulated() -> None:
    body = region(lambda h, x, w: (e.sin(h * w) + x, h), M, M, M)
    graph = region(
        lambda h, xs, w: scan(h, xs, w, carry=1, sequences=1, length=3, body=body),
        M, "f64[3,2,3]", M,
    )  # fmt: skip
    _, backward = scans(hold(graph))
    assert backward.attribute("carry") == 2


def test_invariants_in_several_ways_at_once() -> None:
    """As a product twice, by elements, summed, and not at all."""

    def body(h: Any, x: Any, w: Any, b: Any, unused: Any) -> tuple[Any, ...]:
        left = h @ w + movement.transpose(w @ movement.transpose(x, permutation=(1, 0)),
                                          permutation=(1, 0))  # fmt: skip
        return e.tanh(left + b) * total(w), total(h * b)

    graph = region(
        lambda h, xs, w, b, unused: scan(
            h, xs, w, b, unused, carry=1, sequences=1, length=3,
            body=region(body, M, M, "f64[3,3]", V, V),
        ),
        M, "f64[3,2,3]", "f64[3,3]", V, V,
    )  # fmt: skip
    hold(graph)


@pytest.mark.parametrize("permutation", [(0, 1), (1, 0)])
def test_a_product_from_the_left_behind_a_transposition(permutation: tuple[int, int]) -> None:
    body = region(
        lambda h, x, w: (
            movement.transpose(w @ h, permutation=permutation) * 0.5 + x, x
        ),
        "f64[2,2]", "f64[2,2]", "f64[2,2]",
    )  # fmt: skip
    hold(
        region(
            lambda h, xs, w: scan(h, xs, w, carry=1, sequences=1, length=3, body=body),
            "f64[2,2]", "f64[3,2,2]", "f64[2,2]",
        )
    )  # fmt: skip


def test_several_carries_one_of_them_an_integer_that_counts() -> None:
    def body(h: Any, n: Any, c: Any, x: Any) -> tuple[Any, ...]:
        step = e.cast(n, dtype=graphc.DType.f64)
        return e.tanh(h * c + x), n + 1, c * 0.9 + h, e.sin(h * step), n

    graph = region(
        lambda h, n, c, xs: scan(
            h, n, c, xs, carry=3, sequences=1, length=4,
            body=region(body, V, "i64[]", V, V),
        ),
        V, "i64[]", V, "f64[4,3]",
    )  # fmt: skip
    hold(graph)


def test_one_sequence_given_twice_and_as_a_carry() -> None:
    body = region(lambda h, a, b, w: (h * a + e.sin(b) * w, h * b), V, V, V, V)
    graph = region(
        lambda h, xs: scan(h, xs, xs, h, carry=1, sequences=2, length=3, body=body),
        V, "f64[3,3]",
    )  # fmt: skip
    hold(graph)


def test_a_carry_that_is_a_y_twice_and_a_value_that_is_returned_twice() -> None:
    def body(h: Any, x: Any) -> tuple[Any, ...]:
        y = e.exp(h * x)
        return y, h, h, y, y * 2, x

    graph = region(
        lambda h, xs: scan(h, xs, carry=1, sequences=1, length=3, body=region(body, V, V)),
        V, "f64[3,3]",
    )  # fmt: skip
    hold(graph)


@pytest.mark.parametrize("skip", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)])
def test_ys_and_carries_without_gradient(skip: tuple[int, ...]) -> None:
    body = region(lambda h, x: (e.tanh(h + x), h * x, e.sin(x)), V, V)
    graph = region(
        lambda h, xs: scan(h, xs, carry=1, sequences=1, length=3, body=body), V, "f64[3,3]"
    )
    hold(graph, skip=skip)


def test_without_sequences_and_without_carry() -> None:
    power = region(lambda h, w: (h * w,), V, V)
    hold(region(lambda h, w: scan(h, w, carry=1, sequences=0, length=4, body=power), V, V))
    each = region(lambda x, w: (e.exp(x) @ w, e.sin(x)), M, "f64[3,3]")
    hold(
        region(
            lambda xs, w: scan(xs, w, carry=0, sequences=1, length=4, body=each),
            "f64[4,2,3]", "f64[3,3]",
        )
    )  # fmt: skip


def test_a_scan_of_no_step_hands_the_gradient_through() -> None:
    graph = recurrent(0)
    joint = graphc.joint(graph)
    arrays = drawn(joint)
    for results in (graphc.run(joint, *arrays), graphc.compile(joint)(*arrays)):
        _, _, by_h, by_x, by_w, by_b = results
        np.testing.assert_array_equal(by_h, arrays[4])
        assert by_x.shape == (0, 2, 3) and not by_w.any() and not by_b.any()


def test_a_float_output_that_depends_on_no_float() -> None:
    body = region(lambda n, x: (n + x, e.cast(n, dtype=graphc.DType.f64)), "i64[]", "i64[]")
    graph = region(
        lambda n, xs, w: (
            (out := scan(n, xs, carry=1, sequences=1, length=3, body=body))[0], out[1] * w
        ),
        "i64[]", "i64[3]", V,
    )  # fmt: skip
    hold(graph)


# -- regions in regions ---------------------------------------------------------------------------


def test_a_scan_in_a_scan() -> None:
    inner = region(lambda s, x, w: (e.tanh(s * w + x), s * x), V, V, V)

    def outer(s: Any, xs: Any, w: Any, u: Any) -> tuple[Any, ...]:
        last, ys = scan(s, xs, w, carry=1, sequences=1, length=2, reverse=True, body=inner)
        return last * u, reduce.sum(ys, axes=(0,))

    body = region(outer, V, "f64[2,3]", V, V, name="outer")
    graph = region(
        lambda s, xs, w, u: scan(s, xs, w, u, carry=1, sequences=1, length=3, body=body),
        V, "f64[3,2,3]", V, V,
    )  # fmt: skip
    hold(graph)


def chosen(predicate: Any, x: Any, w: Any) -> Any:
    return cond(
        predicate, x, w,
        then=region(lambda x, w: (e.tanh(x * w), x), V, V, name="then"),
        otherwise=region(lambda x, w: (x + 1, e.sin(w)), V, V, name="otherwise"),
    )  # fmt: skip


def test_a_branch_in_a_scan() -> None:
    def body(s: Any, x: Any, w: Any) -> tuple[Any, ...]:
        new, other = chosen(total(x) > 0, s, w)
        return new + x, other

    graph = region(
        lambda s, xs, w: scan(
            s, xs, w, carry=1, sequences=1, length=4, body=region(body, V, V, V)
        ),
        V, "f64[4,3]", V,
    )  # fmt: skip
    hold(graph)


@pytest.mark.parametrize("flag", [0, 1])
def test_a_scan_in_a_branch(flag: int) -> None:
    steps = region(lambda s, x: (e.tanh(s + x), s), V, V)

    def then(s: Any, xs: Any) -> tuple[Any, ...]:
        return scan(s, xs, carry=1, sequences=1, length=3, body=steps)

    graph = region(
        lambda n, s, xs: cond(
            n > (-1 if flag else 5), s, xs, then=region(then, V, "f64[3,3]"),
            otherwise=region(lambda s, xs: (s * s, xs * 2), V, "f64[3,3]"),
        ),
        "i64[]", V, "f64[3,3]",
    )  # fmt: skip
    hold(graph)


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("skip", [(), (0,), (1,)])
def test_a_branch_with_some_results_used(flag: int, skip: tuple[int, ...]) -> None:
    graph = region(lambda n, x, w: chosen(n > (-1 if flag else 5), x, w), "i64[]", V, V)
    hold(graph, skip=skip)


# -- higher orders --------------------------------------------------------------------------------


def second(graph: graphc.Graph) -> None:
    """Derive what one gradient pass gives, and compare with numeric gradients of it."""
    first = graphc.joint(graph)
    g = graphc.GraphBuilder("penalty")
    inputs = [g.input(f"x{i}", type) for i, type in enumerate(first.input_types)]
    copied = copy_graph(first, inputs, g.copied)
    outputs = [copied[v] for v in first.outputs[len(graph.outputs) :]]
    hold(g.finish(*[total(x * x) for x in outputs]))


def test_second_derivatives_of_a_scan() -> None:
    second(recurrent(2))
    body = region(lambda h, x, w: (e.sin(h * w) + x, h * h), V, V, V)
    second(
        region(
            lambda h, xs, w: scan(
                h, xs, w, carry=1, sequences=1, length=3, reverse=True, body=body
            ),
            V, "f64[3,3]", V,
        )
    )  # fmt: skip


@pytest.mark.parametrize("flag", [0, 1])
def test_second_derivatives_of_a_branch(flag: int) -> None:
    second(region(lambda n, x, w: chosen(n > (-1 if flag else 5), x, w), "i64[]", V, V))


# -- what has none --------------------------------------------------------------------------------


def halved(x: Any) -> Any:
    condition = region(lambda x: total(x * x) > 1, V, name="condition")
    return while_loop(x, carry=1, condition=condition, body=region(lambda x: x * 0.5, V))


def test_a_while_loop_has_no_gradient_and_says_where() -> None:
    graph = region(halved, V)
    with pytest.raises(graphc.GraphError, match=r"while_loop has no gradient(.|\n)*test_regions"):
        graphc.joint(graph)
    # One that no gradient goes through is no obstacle.
    hold(region(lambda x, y: y * 2, V, V))


def test_a_while_loop_in_a_loop_that_no_gradient_goes_through() -> None:
    body = region(lambda h, n, x: (h * x, n + 1), V, "i64[]", V)
    graph = region(
        lambda h, n, xs: scan(h, n, xs, carry=2, sequences=1, length=3, body=body),
        V, "i64[]", "f64[3,3]",
    )  # fmt: skip
    hold(graph)


def test_what_the_backward_does_not_read_is_not_saved() -> None:
    """After pruning the forward of a linear loop hands out no carry: its gradient needs none."""
    body = region(lambda h, x, w: (h * 0.5 + x @ w,), M, M, "f64[3,3]")
    graph = region(
        lambda h, xs, w: scan(h, xs, w, carry=1, sequences=1, length=4, body=body),
        M, "f64[4,2,3]", "f64[3,3]",
    )  # fmt: skip
    joint = hold(graph)
    assert scans(joint)[0].attribute("saved") > 0
    optimised = graphc.optimize(joint)
    assert all(node.attribute("saved") == 0 for node in scans(optimised))
    assert isinstance(graphc.ops.scan, TimeLoop)
