"""Ops that hold graphs: what they compute, their text, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.errors import AttributeValueError
from graphc.ir.nodes import Value
from graphc.ops import elementwise as e
from graphc.ops import indexing, reduce
from graphc.ops.control import cond, scan, while_loop
from graphc.records import replace

Array = np.ndarray[Any, Any]


def region(function: Callable[..., Any], *types: str, name: str = "body") -> graphc.Graph:
    g = graphc.GraphBuilder(name)
    out = function(*[g.input(f"x{i}", type) for i, type in enumerate(types)])
    return g.finish(*(out if isinstance(out, tuple) else (out,)))


def built(function: Callable[..., Any], *types: str) -> graphc.Graph:
    return region(function, *types, name="f")


def total(x: Any) -> Any:
    return reduce.sum(x, axes=(0,))


SUM = region(lambda s, x: (s + x, s), "f64[]", "f64[]")


def running(**attributes: Any) -> graphc.Graph:
    return built(
        lambda s, x: scan(s, x, carry=1, sequences=1, length=4, body=SUM, **attributes),
        "f64[]", "f64[4]",
    )  # fmt: skip


# -- values ---------------------------------------------------------------------------------------


def test_a_scan_hands_the_carry_on_and_stacks_ys_at_their_xs() -> None:
    x = np.array([1.0, 2, 3, 4])
    last, before = graphc.run(running(), np.float64(10), x)
    np.testing.assert_array_equal(last, 20.0)
    np.testing.assert_array_equal(before, [10, 11, 13, 16])
    last, before = graphc.run(running(reverse=True), np.float64(10), x)
    np.testing.assert_array_equal(last, 20.0)
    np.testing.assert_array_equal(before, [19, 17, 14, 10])


def test_a_scan_of_no_step_gives_its_first_carry() -> None:
    graph = built(
        lambda s, x: scan(s, x, carry=1, sequences=1, length=0, body=SUM), "f64[]", "f64[0]"
    )
    last, ys = graphc.run(graph, np.float64(3), np.zeros(0))
    assert last == 3 and ys.shape == (0,)
    for level in ("none", "exact"):
        last, ys = graphc.compile(graph, level)(np.array(3.0), np.zeros(0))
        assert last == 3 and ys.shape == (0,)


def test_only_the_chosen_branch_runs() -> None:
    then = region(lambda x, i: indexing.take(x, i, axis=0), "f32[3]", "i64[1]", name="then")
    otherwise = region(lambda x, i: e.cast(i, dtype=graphc.DType.f32), "f32[3]", "i64[1]")
    graph = built(
        lambda p, x, i: cond(p, x, i, then=then, otherwise=otherwise), "bool[]", "f32[3]", "i64[1]"
    )
    x, wrong = np.arange(3, dtype=np.float32), np.array([7])
    runs = [lambda *a: graphc.run(graph, *a), graphc.compile(graph, "none"), graphc.compile(graph)]
    for run in runs:
        np.testing.assert_array_equal(run(np.array(False), x, wrong)[0], [7.0])
        np.testing.assert_array_equal(run(np.array(True), x, np.array([2]))[0], [2.0])
        with pytest.raises(graphc.IndexRangeError, match="7"):
            run(np.array(True), x, wrong)


def test_a_while_loop_runs_as_often_as_its_condition_holds() -> None:
    condition = region(lambda x, n, top: e.lt(x, top), "f32[]", "i64[]", "f32[]")
    body = region(lambda x, n, top: (x * 2, n + 1), "f32[]", "i64[]", "f32[]")
    graph = built(
        lambda x, n, top: while_loop(x, n, top, carry=2, condition=condition, body=body),
        "f32[]", "i64[]", "f32[]",
    )  # fmt: skip
    compiled = graphc.compile(graph)
    wanted = {100.0: (100, 0), 99.0: (198, 1), 1.0: (128, 7), np.nan: (np.nan, 0)}
    for start, want in wanted.items():
        arrays = np.array(start, np.float32), np.array(0), np.array(100, np.float32)
        np.testing.assert_array_equal(graphc.run(graph, *arrays), want)
        np.testing.assert_array_equal(compiled(*arrays), want)


def test_carries_that_change_places() -> None:
    """A body that returns its inputs in another order reads all before it writes any."""
    swap = region(lambda a, b, c: (b, c, a, a), "f32[2]", "f32[2]", "f32[2]")
    graph = built(
        lambda a, b, c: scan(a, b, c, carry=3, sequences=0, length=5, body=swap),
        "f32[2]", "f32[2]", "f32[2]",
    )  # fmt: skip
    arrays = tuple(np.full(2, i, np.float32) for i in range(3))
    want = graphc.run(graph, *arrays)
    np.testing.assert_array_equal(want[3][:, 0], [0, 1, 2, 0, 1])
    for level in ("none", "exact"):
        for got, exact in zip(graphc.compile(graph, level)(*arrays), want, strict=True):
            np.testing.assert_array_equal(got, exact)


def test_integers_and_bools_are_carried() -> None:
    body = region(
        lambda n, odd, x: (n + x, e.logical_not(odd), e.where(odd, n, x)),
        "i32[]", "bool[]", "i32[]",
    )  # fmt: skip
    graph = built(
        lambda n, odd, x: scan(n, odd, x, carry=2, sequences=1, length=3, body=body),
        "i32[]", "bool[]", "i32[3]",
    )  # fmt: skip
    arrays = np.array(5, np.int32), np.array(True), np.array([1, 2, 3], np.int32)
    for results in (graphc.run(graph, *arrays), graphc.compile(graph)(*arrays)):
        assert results[0] == 11 and not results[1]
        np.testing.assert_array_equal(results[2], [5, 2, 8])


# -- text -----------------------------------------------------------------------------------------


def nested() -> graphc.Graph:
    inner = region(lambda s, x, w: (e.tanh(s * w + x), s), "f32[2]", "f32[2]", "f32[2]")

    def outer(s: Any, xs: Any, w: Any) -> tuple[Any, ...]:
        last, before = scan(s, xs, w, carry=1, sequences=1, length=3, body=inner)
        chosen = cond(
            reduce.sum(before, axes=(0, 1)) > 0, last, w,
            then=region(lambda a, b: a + b, "f32[2]", "f32[2]", name="then"),
            otherwise=region(lambda a, b: a * 0.5, "f32[2]", "f32[2]", name="otherwise"),
        )  # fmt: skip
        return chosen, before

    body = region(outer, "f32[2]", "f32[3,2]", "f32[2]", name="outer")
    return built(
        lambda s, xs, w: scan(
            s, xs, w, carry=1, sequences=1, length=4, reverse=True, body=body
        ),
        "f32[2]", "f32[4,3,2]", "f32[2]",
    )  # fmt: skip


def test_text_reads_back_with_regions_in_regions() -> None:
    for graph in (nested(), running(), graphc.joint(nested())):
        again = graphc.parse(str(graph))
        assert again == graph
        graphc.verify(again)


def test_every_runner_on_nested_regions() -> None:
    random = np.random.default_rng(0)
    graph = nested()
    arrays = tuple(
        random.standard_normal(type.shape).astype(np.float32) for type in graph.input_types
    )
    want = graphc.run(graph, *arrays)
    for level in ("none", "exact", "relaxed"):
        for got, exact in zip(graphc.compile(graph, level)(*arrays), want, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-6)


# -- what is refused ------------------------------------------------------------------------------

F, G = "f32[2]", "f32[3]"
ONE = region(lambda x: x * 2, F, name="one")
TYPES = ("bool[]", F, G, "f32[4,2]", "f64[2]", "i64[2]")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda p, f, *r: cond(f, f, then=ONE, otherwise=ONE), graphc.DTypeError,
         r"bool\[\] first"),
        (lambda p, f, g, *r: cond(p, g, then=ONE, otherwise=ONE), graphc.ShapeError,
         r"then takes \(f32\[2\]\), but is given \(f32\[3\]\)"),
        (lambda p, f, g, t, d, i: cond(p, d, then=ONE, otherwise=ONE), graphc.DTypeError,
         r"then takes \(f32\[2\]\), but is given \(f64\[2\]\)"),
        (lambda p, f, *r: cond(p, f, then=ONE, otherwise=region(lambda x: (x, x), F)),
         graphc.ShapeError, "otherwise gives"),
        (lambda p, f, *r: cond(p, f, then=ONE, otherwise=region(lambda x: x > 0, F)),
         graphc.DTypeError, r"otherwise gives \(bool\[2\]\), expected \(f32\[2\]\)"),
        (lambda p, f, *r: cond(p, f, then=region(lambda x: (), F),
                               otherwise=region(lambda x: (), F)), graphc.GraphError, "nothing"),
        (lambda p, f, *r: cond(p, f, then=ONE), AttributeValueError, "'otherwise'"),
        (lambda p, f, *r: cond(p, f, then=3, otherwise=ONE), AttributeValueError,
         "3, not a graph"),
        (lambda p, f, *r: cond(p, f, then=ONE, otherwise=replace(ONE, aliases=((0, 0),))),
         graphc.GraphError, "in place"),
        (lambda p, f, *r: while_loop(f, carry=1, condition=ONE, body=ONE), graphc.GraphError,
         r"condition gives \(f32\[2\]\), expected \(bool\[\]\)"),
        (lambda p, f, *r: while_loop(f, carry=0, condition=ONE, body=ONE),
         AttributeValueError, "carry must be a whole number from 1 to 1"),
        (lambda p, f, *r: while_loop(f, carry=2, condition=ONE, body=ONE),
         AttributeValueError, "from 1 to 1, not 2"),
        (lambda p, f, *r: while_loop(
            f, carry=1, condition=region(lambda x: total(x) > 0, F), body=region(total, F)),
         graphc.ShapeError, r"body gives \(f32\[\]\)"),
        (lambda p, f, g, t, *r: scan(t, carry=0, sequences=1, length=3, body=ONE),
         graphc.ShapeError, r"sequence 0 is f32\[4,2\], its first axis must be 3"),
        (lambda p, *r: scan(p, carry=0, sequences=1, length=3, body=ONE), graphc.ShapeError,
         "first axis must be 3"),
        (lambda p, f, g, t, *r: scan(f, t, carry=1, sequences=1, length=4, body=ONE),
         graphc.ShapeError, "body takes"),
        (lambda p, f, *r: scan(f, carry=1, sequences=1, length=4, body=ONE),
         AttributeValueError, "sequences must be a whole number from 0 to 0"),
        (lambda p, f, *r: scan(f, carry=1, sequences=0, length=-1, body=ONE),
         AttributeValueError, "length must be a whole number from 0, not -1"),
        (lambda p, f, *r: scan(f, carry=True, sequences=0, length=1, body=ONE),
         AttributeValueError, "not True"),
        (lambda p, f, *r: scan(f, carry=1, sequences=0, length=1, saved=1, body=ONE),
         AttributeValueError, "saved must be a whole number from 0 to 0"),
        (lambda p, f, *r: scan(f, carry=1, sequences=0, length=1, body=region(lambda x: (), F)),
         graphc.GraphError, "body gives"),
        (lambda p, f, *r: scan(f, carry=0, sequences=0, length=1, body=region(lambda x: (), F)),
         graphc.GraphError, "returns nothing"),
        (lambda p, f, *r: scan(f, carry=1, sequences=0, length=1, bodies=1, body=ONE),
         AttributeValueError, "no attribute 'bodies'"),
    ],
)  # fmt: skip
def test_bad_input_is_named_with_the_line(call: Any, kind: Any, message: str) -> None:
    g = graphc.GraphBuilder()
    inputs = [g.input(f"x{i}", type) for i, type in enumerate(TYPES)]
    with pytest.raises(kind, match=message) as caught:
        call(*inputs)
    assert "test_control.py:" in str(caught.value)


def test_the_verifier_finds_broken_regions() -> None:
    graph = running()
    graphc.verify(graph)
    broken = replace(SUM, outputs=(Value(9), Value(0)))
    node = graph.nodes[2]
    for region_, rule in ((broken, "G"), (replace(SUM, outputs=(Value(0),)), "G5")):
        nodes = (*graph.nodes[:2], replace(node, regions=(region_,)), *graph.nodes[3:])
        with pytest.raises(graphc.VerifyError, match=rule):
            graphc.verify(replace(graph, nodes=nodes))
    for regions in ((), (SUM, SUM)):
        nodes = (*graph.nodes[:2], replace(node, regions=regions), *graph.nodes[3:])
        with pytest.raises(graphc.VerifyError, match=r"G[48]"):
            graphc.verify(replace(graph, nodes=nodes))


def test_a_bad_text_of_a_region_is_refused() -> None:
    text = str(running())
    assert "add" in text
    with pytest.raises(graphc.GraphError, match="its first axis must be 5"):
        graphc.parse(text.replace("length=4", "length=5"))
    with pytest.raises(graphc.GraphError, match=r"operands of one dtype, got f64\[\], i64"):
        graphc.parse(text.replace("f64[] {", "i64[] {", 1).replace("%x1: f64[])", "%x1: i64[])", 1))
