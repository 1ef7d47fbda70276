"""Loops and branches made smaller: what is pruned, what is moved out, what stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ops import elementwise as e
from graphc.ops import indexing, movement, reduce
from graphc.ops.control import cond, scan, while_loop
from graphc.passes.simplify_regions import simplify_regions

Array = np.ndarray[Any, Any]
V, S, M = "f32[3]", "f32[]", "f32[3,3]"


def region(function: Callable[..., Any], *types: str, name: str = "body") -> graphc.Graph:
    g = graphc.GraphBuilder(name)
    out = function(*[g.input(f"x{i}", type) for i, type in enumerate(types)])
    return g.finish(*(out if isinstance(out, tuple) else (out,)))


def simplified(graph: graphc.Graph) -> graphc.Graph:
    """The simplified graph; it keeps the rules and what the graph computes."""
    after = graphc.verify(simplify_regions(graph))
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(type.shape).astype(type.dtype.numpy) if type.dtype.is_float
        else np.asarray(random.integers(0, 2, type.shape)).astype(type.dtype.numpy)
        for type in graph.input_types
    ]  # fmt: skip
    for got, want in zip(graphc.run(after, *arrays), graphc.run(graph, *arrays), strict=True):
        np.testing.assert_array_equal(got, want)
    assert after.input_names == graph.input_names and after.output_types == graph.output_types
    return after


def the(graph: graphc.Graph, op: str) -> graphc.Node:
    (node,) = [node for node in graph.nodes if node.op == op]
    return node


def ops(graph: graphc.Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op != "input"]


# -- pruning --------------------------------------------------------------------------------------


def test_a_scan_keeps_only_what_an_output_needs() -> None:
    """b is needed by a, c is not, and with it goes what only c read."""
    body = region(lambda a, b, c, x, y, w, v: (a + b, b * x, c + y * v, a, c), V, V, V, V, V, V, V)
    graph = region(
        lambda a, b, c, xs, ys, w, v: (
            (
                out := scan(
                    a, b, c, xs, ys, w, e.exp(v), carry=3, sequences=2, length=2, body=body
                )
            )[0],
            out[3],
        ),
        V, V, V, "f32[2,3]", "f32[2,3]", V, V, name="f",
    )  # fmt: skip
    after = simplified(graph)
    expected = graphc.parse("""
    graph f(%a: f32[3], %b: f32[3], %c: f32[3], %xs: f32[2,3], %ys: f32[2,3], %w: f32[3],
            %v: f32[3]) {
      %1 = scan(%a, %b, %xs) carry=2 length=2 reverse=false saved=0 sequences=1
        graph body(%a: f32[3], %b: f32[3], %x: f32[3]) {
          %1 = add(%a, %b) : f32[3]
          %2 = mul(%b, %x) : f32[3]
          return %1, %2, %a
        } : f32[3], f32[3], f32[2,3]
      return %1, %1.2
    }""")
    assert renamed(after) == renamed(expected)


def renamed(graph: graphc.Graph) -> str:
    """The text with inputs named by position."""
    g = graphc.GraphBuilder(graph.name)
    values: dict[graphc.Value, Any] = {}
    from graphc.ir.registry import lookup

    for identity, node in enumerate(graph.nodes):
        with g.at(None):
            if node.op == "input":
                results: Any = (g.input(f"i{identity}", node.types[0]),)
            elif node.op == "constant":
                results = (g.constant(node.attribute("value")),)
            else:
                regions = tuple(graphc.parse(renamed(each)) for each in node.regions)
                operands = tuple(values[v] for v in node.operands)
                results = g.apply(lookup(node.op), operands, dict(node.attributes), regions)
        values.update({graphc.Value(identity, i): x for i, x in enumerate(results)})
    return "\n".join(
        line.partition("  //")[0]
        for line in str(g.finish(*(values[v] for v in graph.outputs))).splitlines()
    )


def test_a_ys_only_scan_loses_its_carry() -> None:
    body = region(lambda c, x: (c + x, x * 2), V, V)
    graph = region(
        lambda c, xs: scan(c, xs, carry=1, sequences=1, length=2, body=body)[1], V, "f32[2,3]"
    )
    node = the(simplified(graph), "scan")
    assert node.attribute("carry") == 0 and len(node.operands) == 1 and len(node.types) == 1


def test_saved_results_are_counted_anew() -> None:
    body = region(lambda c, x: (c + x, x * 2, c, x), V, V)
    graph = region(
        lambda c, xs: (
            (out := scan(c, xs, carry=1, sequences=1, length=2, saved=2, body=body))[0], out[3]
        ),
        V, "f32[2,3]",
    )  # fmt: skip
    node = the(simplified(graph), "scan")
    assert node.attribute("saved") == 1 and len(node.types) == 2


def test_a_branch_loses_results_and_operands_neither_side_reads() -> None:
    then = region(lambda a, b, c: (a + b, c), V, V, V, name="then")
    otherwise = region(lambda a, b, c: (a * 2, b), V, V, V, name="otherwise")
    graph = region(
        lambda p, a, b, c: cond(p, a, b, e.exp(c), then=then, otherwise=otherwise)[0],
        "bool[]", V, V, V,
    )  # fmt: skip
    after = simplified(graph)
    node = the(after, "cond")
    assert len(node.operands) == 3 and len(node.types) == 1 and "exp" not in ops(after)
    assert all(len(r.inputs) == 2 for r in node.regions)


def test_a_while_loop_keeps_what_its_condition_needs() -> None:
    """The counter is read by the condition, `scale` by the counter's update; the sum by nobody."""
    condition = region(lambda n, x, s, w, scale: n < 5.0, S, V, V, V, S, name="condition")
    body = region(
        lambda n, x, s, w, scale: (n + e.abs(scale) + 1, x * 2, s + x * w, w, scale),
        S, V, V, V, S,
    )  # fmt: skip
    graph = region(
        lambda n, x, s, w, scale: while_loop(
            n, x, s, w, scale, carry=5, condition=condition, body=body
        )[1],
        S,
        V,
        V,
        V,
        S,
    )
    node = the(simplified(graph), "while_loop")
    assert node.attribute("carry") == 3 and len(node.operands) == 3
    assert [len(r.inputs) for r in node.regions] == [3, 3]


def test_regions_in_regions_are_pruned() -> None:
    inner = region(lambda c, x: (c + x, x * 2, c), V, V)
    body = region(
        lambda c, xs: scan(c, xs, carry=1, sequences=1, length=2, body=inner)[0], V, "f32[2,3]"
    )
    graph = region(
        lambda c, xs: scan(c, xs, carry=1, sequences=1, length=3, body=body), V, "f32[3,2,3]"
    )
    (outer,) = the(simplified(graph), "scan").regions
    assert len(the(outer, "scan").types) == 1


def test_a_loop_nobody_reads_is_gone() -> None:
    body = region(lambda c, x: (c + x,), V, V)
    graph = region(
        lambda c, xs: (scan(c, xs, carry=1, sequences=1, length=2, body=body), c * 2)[1],
        V, "f32[2,3]",
    )  # fmt: skip
    assert "scan" not in ops(simplified(graph))


# -- moving out -----------------------------------------------------------------------------------


def test_what_is_the_same_at_each_step_is_computed_ahead() -> None:
    def cell(h: Any, x: Any, w: Any, b: Any) -> Any:
        turned = movement.transpose(w, permutation=(1, 0))
        return (e.tanh(h @ turned + x + e.exp(b)),)

    graph = region(
        lambda h, xs, w, b: scan(
            h, xs, w, b, carry=1, sequences=1, length=2, body=region(cell, M, M, M, M)
        ),
        M, "f32[2,3,3]", M, M,
    )  # fmt: skip
    after = simplified(graph)
    assert ops(after) == ["transpose", "exp", "scan"]
    node = the(after, "scan")
    (body,) = node.regions
    assert ops(body) == ["matmul", "add", "add", "tanh"] and len(node.operands) == 4
    assert renamed(simplify_regions(after)) == renamed(after)


def test_out_of_two_loops_at_once() -> None:
    inner = region(lambda c, x, w: (c * e.exp(w) + x,), V, V, V)
    body = region(
        lambda c, xs, w: scan(c, xs, w, carry=1, sequences=1, length=2, body=inner),
        V, "f32[2,3]", V,
    )  # fmt: skip
    graph = region(
        lambda c, xs, w: scan(c, xs, w, carry=1, sequences=1, length=3, body=body),
        V, "f32[3,2,3]", V,
    )  # fmt: skip
    assert ops(simplified(graph)) == ["exp", "scan"]


def test_a_result_that_never_changes_is_computed_ahead() -> None:
    body = region(lambda c, w: (c + 1, e.exp(w)), V, V)
    graph = region(lambda c, w: scan(c, w, carry=1, sequences=0, length=2, body=body), V, V)
    assert "exp" in ops(simplified(graph))


def test_index_maps_that_repeat_elements_stay() -> None:
    """A broadcast costs nothing where it is read, and memory as a value."""
    body = region(lambda h, b: (h + b,), M, V)
    graph = region(lambda h, b: scan(h, b, carry=1, sequences=0, length=2, body=body), M, V)
    after = simplified(graph)
    assert ops(after) == ["scan"]
    assert "broadcast" in ops(the(after, "scan").regions[0])


def test_what_is_behind_a_broadcast_is_computed_ahead() -> None:
    body = region(lambda h, b: (h + e.exp(b),), M, V)
    graph = region(lambda h, b: scan(h, b, carry=1, sequences=0, length=2, body=body), M, V)
    assert ops(simplified(graph)) == ["exp", "scan"]


def test_content_checks_stay_in_a_loop_that_may_run_no_step() -> None:
    body = region(
        lambda h, x, i: (h + reduce.sum(indexing.take(x, i, axis=0), axes=(0,)),),
        S, V, "i64[2]",
    )  # fmt: skip
    graph = region(
        lambda h, x, i: scan(h, x, i, carry=1, sequences=0, length=0, body=body), S, V, "i64[2]"
    )
    after = simplified(graph)
    assert ops(after) == ["scan"]
    wrong = np.array(1, np.float32), np.ones(3, np.float32), np.array([7, 8])
    assert graphc.compile(graph)(*wrong)[0] == 1


@pytest.mark.parametrize("kind", ["check", "endless"])
def test_regions_that_may_fail_or_not_end_stay_too(kind: str) -> None:
    def then(x: Any, i: Any) -> Any:
        if kind == "check":
            return indexing.take(x, i, axis=0)
        going = region(lambda x: reduce.sum(x, axes=(0,)) < 1e9, V, name="condition")
        return while_loop(x, carry=1, condition=going, body=region(lambda x: x * 1, V))

    def body(h: Any, x: Any, i: Any) -> Any:
        kept = cond(
            reduce.sum(x, axes=(0,)) > 0,
            x,
            i,
            then=region(then, V, "i64[3]"),
            otherwise=region(lambda x, i: x * 2, V, "i64[3]"),
        )
        return (h + kept,)

    graph = region(
        lambda h, x, i: scan(
            h, x, i, carry=1, sequences=0, length=0, body=region(body, V, V, "i64[3]")
        ),
        V, V, "i64[3]",
    )  # fmt: skip
    assert "cond" not in ops(simplify_regions(graph))
    arrays = np.ones(3, np.float32), np.ones(3, np.float32), np.array([7, 8, 9])
    np.testing.assert_array_equal(graphc.compile(graph)(*arrays)[0], arrays[0])


def test_nothing_is_moved_out_of_branches() -> None:
    """They may not run at all, and what they compute may be costly."""
    then = region(lambda x: e.exp(x) @ x, M, name="then")
    graph = region(
        lambda p, x: cond(p, x, then=then, otherwise=region(lambda x: x, M)), "bool[]", M
    )
    assert ops(simplified(graph)) == ["cond"]


def test_out_of_a_while_loop_whose_condition_ignores_it() -> None:
    condition = region(lambda x, w: reduce.sum(x, axes=(0,)) < 50.0, V, V, name="condition")
    body = region(lambda x, w: x + e.exp(w), V, V)
    graph = region(lambda x, w: while_loop(x, w, carry=1, condition=condition, body=body), V, V)
    after = simplified(graph)
    assert ops(after) == ["exp", "while_loop"]
    assert graphc.parse(str(after)) == after


def test_aliases_stay() -> None:
    g = graphc.GraphBuilder("f")
    c, xs = g.input("c", V), g.input("xs", "f32[2,3]")
    body = region(lambda c, x: (c + x, x * 2), V, V)
    results = scan(c, xs, carry=1, sequences=1, length=2, body=body)
    graph = g.finish(results[1], results[0], aliases=[(1, 0)])
    assert simplified(graph).aliases == ((1, 0),)
