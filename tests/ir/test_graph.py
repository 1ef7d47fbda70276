"""Builder, equality, the networkx view, and one broken graph per rule of the verifier."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import (
    Constant,
    DType,
    DTypeError,
    GraphBuilder,
    GraphError,
    ShapeError,
    TensorType,
    TraceError,
    Value,
    VerifyError,
)
from graphc.errors import AttributeValueError
from graphc.ir.handle import sum_to
from graphc.ir.nodes import Location, Node
from graphc.records import replace

F32 = TensorType(DType.f32, (2,))


def square() -> graphc.Graph:
    g = GraphBuilder("square")
    x = g.input("x", F32)
    return g.finish(x * x)


# -- verifier -------------------------------------------------------------------------------------


def changed(position: int, **change: Any) -> graphc.Graph:
    """x, y, constant, broadcast, x·c, sum(x·c) with one node changed."""
    g = GraphBuilder("broken")
    x, _ = g.input("x", F32), g.input("y", "f32[3]")
    product = x * 2.0
    graph = g.finish(product, graphc.ops.reduce.sum(product, axes=(0,)))
    nodes = list(graph.nodes)
    nodes[position] = replace(nodes[position], **change)
    return replace(graph, nodes=tuple(nodes))


def region(inner: graphc.Graph) -> graphc.Graph:
    graph = square()
    nodes = (graph.nodes[0], replace(graph.nodes[1], regions=(inner,)))
    return replace(graph, nodes=nodes)


def late_input() -> graphc.Graph:
    graph = square()
    late = Node("input", (), (("name", "z"),), (F32,))
    return replace(graph, nodes=(*graph.nodes, late))


BROKEN = {
    "G1 input after a node": (late_input, "G1"),
    "G1 two of one name": (lambda: changed(1, attributes=(("name", "x"),)), "G1"),
    "G1 with an operand": (lambda: changed(1, operands=(Value(0),)), "G1"),
    "G2 a later node": (lambda: changed(4, operands=(Value(5), Value(3))), "G2"),
    "G2 itself": (lambda: changed(4, operands=(Value(4), Value(3))), "G2"),
    "G2 no such node": (lambda: changed(4, operands=(Value(-1), Value(3))), "G2"),
    "G2 no such result": (lambda: changed(4, operands=(Value(0, 1), Value(3))), "G2"),
    "G3 no such op": (lambda: changed(4, op="mull"), "G3"),
    "G4 an attribute too many": (lambda: changed(4, attributes=(("a", 1),)), "G4"),
    "G4 an attribute missing": (lambda: changed(5, attributes=()), "G4"),
    "G4 a list": (lambda: changed(5, attributes=(("axes", [0]),)), "G4"),
    "G5 the wrong type": (lambda: changed(4, types=(TensorType(DType.f64, (2,)),)), "G5"),
    "G5 a type too many": (lambda: changed(4, types=(F32, F32)), "G5"),
    "G5 operands that do not fit": (lambda: changed(4, operands=(Value(1), Value(3))), "G5"),
    "G6 no such output": (lambda: replace(square(), outputs=(Value(7),)), "G6"),
    "G6 no such result": (lambda: replace(square(), outputs=(Value(1, 1),)), "G6"),
    "G7 two outputs for one input": (
        lambda: replace(square(), outputs=(Value(1), Value(1)), aliases=((0, 0), (1, 0))), "G7"),
    "G7 one output for two inputs": (lambda: replace(square(), aliases=((0, 0), (0, 1))), "G7"),
    "G7 no such output": (lambda: replace(square(), aliases=((3, 0),)), "G7"),
    "G7 no such input": (lambda: replace(square(), aliases=((0, 3),)), "G7"),
    "G7 another type": (
        lambda: replace(changed(5), aliases=((1, 0),)), "G7"),
    "G8 a broken region": (lambda: region(replace(square(), outputs=(Value(9),))), "G8"),
    "G9 a constant of another type": (lambda: changed(2, types=(F32,)), "G9"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_named(case: str) -> None:
    make, rule = BROKEN[case]
    with pytest.raises(VerifyError, match=f"^rule {rule} broken in graph '"):
        graphc.verify(make())


def test_each_rule_is_broken_once() -> None:
    from graphc.ir import verifier

    words = (verifier.__doc__ or "").split()
    listed = {word for word in words if word[0] == "G" and len(word) == 2}
    assert {rule for _, rule in BROKEN.values()} == listed


def test_a_verify_error_names_node_and_line() -> None:
    with pytest.raises(VerifyError, match=r"node %4 = mul : f64\[2\][\s\S]*test_graph.py:\d+"):
        graphc.verify(changed(4, types=(TensorType(DType.f64, (2,)),)))


def test_whole_graphs_pass() -> None:
    assert graphc.verify(square()) == square()
    assert graphc.verify(changed(5)) == changed(5)


# -- equality and the networkx view ---------------------------------------------------------------


def test_the_networkx_view_keeps_both_edges_of_a_square() -> None:
    view = square().nx()
    assert view.is_directed() and view.is_multigraph()
    assert sorted(view.edges(keys=True)) == [(0, 1, (0, 0)), (0, 1, (1, 0))]
    assert view.nodes[1]["node"].op == "mul"
    assert view.graph["name"] == "square"


def test_the_networkx_view_tells_results_apart() -> None:
    g = GraphBuilder()
    state = g.input("state", "i64[2]")
    numbers, new = g.apply(graphc.ops.generate.random_uniform, (state,), {"shape": (2,)})
    graph = g.finish(numbers * 2.0, new + new)
    keys = {key for _, _, key in graph.nx().edges(keys=True)}
    assert keys >= {(0, 0), (0, 1), (1, 1)}


def test_users_lists_a_reader_once_per_position() -> None:
    assert square().users() == {Value(0): [1, 1], Value(1): []}


def test_equality_ignores_locations() -> None:
    graph = square()
    moved = [replace(node, location=Location("elsewhere.py", 7)) for node in graph.nodes]
    assert replace(graph, nodes=tuple(moved)) == graph
    assert hash(replace(graph, nodes=tuple(moved))) == hash(graph)
    assert str(replace(graph, nodes=tuple(moved))) != str(graph)


def test_equality_sees_everything_else() -> None:
    graph = square()
    assert replace(graph, name="other") != graph
    assert replace(graph, aliases=((0, 0),)) != graph
    assert replace(graph, outputs=(Value(0),)) != graph


def test_constants_compare_by_content() -> None:
    nan = np.array([np.nan, 1.0])
    assert Constant(nan) == Constant(nan.copy())
    assert Constant(np.array(0.0)) != Constant(np.array(-0.0))
    assert Constant(np.zeros(2)) != Constant(np.zeros((2, 1)))
    assert Constant(np.zeros(2)) != Constant(np.zeros(2, np.float32))
    payload = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    assert Constant(payload) != Constant(np.array([np.nan]))
    assert len({Constant(nan), Constant(nan.copy())}) == 1


def test_constants_are_copies_that_cannot_be_written() -> None:
    array = np.arange(3.0)
    constant = Constant(array)
    array[0] = 9
    assert constant.array[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        constant.array[0] = 1


def test_uniform_constants_have_a_scalar() -> None:
    assert Constant(np.full((2, 3), 1.5)).scalar == 1.5
    assert Constant(np.arange(2)).scalar is None
    assert Constant(np.array([0.0, -0.0])).scalar is None
    assert Constant(np.zeros(0)).scalar is None


# -- builder --------------------------------------------------------------------------------------


def test_inputs_met_late_lead_in_the_graph() -> None:
    g = GraphBuilder()
    x = g.input("x", F32)
    doubled = x * 2.0
    y = g.input("y", F32)
    graph = graphc.verify(g.finish(doubled + y, y))
    assert graph.input_names == ("x", "y")
    assert graph.outputs[1] == Value(1)


@pytest.mark.parametrize("name", ["", "a b", "7", "a-b", "é\n", "%x"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(GraphError, match="is not a name"):
        GraphBuilder(name)
    with pytest.raises(GraphError, match="is not a name"):
        GraphBuilder().input(name, F32)


def test_builder_errors() -> None:
    g = GraphBuilder("mine")
    x = g.input("x", F32)
    with pytest.raises(GraphError, match="two inputs are named 'x'"):
        g.input("x", F32)
    other = GraphBuilder("other").input("y", F32)
    with pytest.raises(TraceError, match="is no value of graph 'mine'"):
        x + other
    with pytest.raises(TraceError, match=r"add got array.*is no value of graph"):
        g.apply(graphc.ops.elementwise.add, (x, np.zeros(2)), {})
    with pytest.raises(GraphError, match="is no value of graph 'mine'"):
        g.finish(other)
    with pytest.raises(TraceError, match=r"no truth value[\s\S]*where"):
        bool(x > 0)
    g.finish(x)
    with pytest.raises(GraphError, match="graph 'mine' is finished and takes no more nodes"):
        x + x


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x, y: x + y, ShapeError, r"shapes \[2\] and \[3\] do not broadcast \(axis -1\)"),
        (lambda x, y: x @ y, ShapeError, r"matmul of f32\[2\] and f32\[3\]: shapes cannot"),
        (lambda x, y: graphc.ops.elementwise.logical_not(x), DTypeError,
         r"logical_not does not take f32\[2\] as operand 0"),
        (lambda x, y: graphc.ops.elementwise.add(x, y), ShapeError, r"f32\[2\], f32\[3\]"),
        (lambda x, y: graphc.ops.elementwise.exp(x, wide=1), AttributeValueError,
         "exp has no attribute 'wide'"),
        (lambda x, y: graphc.ops.reduce.sum(x), AttributeValueError, "needs the attribute 'axes'"),
        (lambda x, y: graphc.ops.reduce.sum(x, axes=(float("nan"),)), AttributeValueError, "NaN"),
        (lambda x, y: graphc.ops.reduce.sum(x, axes=object()), AttributeValueError, "cannot be"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_shapes_and_the_users_line(
    build: Any, error: type[GraphError], message: str
) -> None:
    g = GraphBuilder()
    x, y = g.input("x", F32), g.input("y", "f32[3]")
    with pytest.raises(error, match=message) as caught:
        build(x, y)
    if "broadcast (" not in str(caught.value):
        assert caught.value.location is not None
        assert caught.value.location.file == "test_graph.py"


def test_attributes_become_plain() -> None:
    g = GraphBuilder()
    x = g.input("x", "f32[2,3]")
    graph = g.finish(graphc.ops.reduce.sum(x, axes=[np.int64(1)]))
    axes = graph.nodes[1].attribute("axes")
    assert axes == (1,) and type(axes[0]) is int
    with pytest.raises(KeyError, match="no attribute 'shape'"):
        graph.nodes[1].attribute("shape")


def test_dtypes_that_are_not_supported() -> None:
    with pytest.raises(DTypeError, match="dtype complex64 is not supported"):
        GraphBuilder().constant(np.zeros(2, np.complex64))
    with pytest.raises(ShapeError, match=r"negative dimension in shape \[-1\]"):
        TensorType(DType.f32, (-1,))


def test_locations_can_be_set_and_are_the_users_else() -> None:
    g = GraphBuilder()
    x = g.input("x", F32)
    with g.at(Location("model.py", 3, "forward")):
        y = x + x
    graph = g.finish(y * y)
    assert str(graph.nodes[1].location) == "model.py:3 in forward"
    assert graph.nodes[2].location.file == "test_graph.py"  # type: ignore[union-attr]


@pytest.mark.parametrize("location", [Location("model.py", 3, "forward"), None])
def test_a_copied_node_has_the_location_of_its_original(location: Location | None) -> None:
    g = GraphBuilder("original")
    x = g.input("x", F32)
    with g.at(location):
        graph = g.finish(x + x)
    b = GraphBuilder("copy")
    y = b.input("y", F32)
    copy = b.finish(*b.copied(graph.nodes[1], (y, y)))
    assert copy.nodes[1].location == location


def test_sum_to_is_the_adjoint_of_broadcast_to() -> None:
    for shape in ((), (1,), (3,), (2, 1), (1, 3), (4, 1, 3), (4, 2, 3)):
        g = GraphBuilder()
        graph = g.finish(sum_to(g.input("x", "f32[4,2,3]"), shape))
        x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
        axes = tuple(range(3 - len(shape)))
        want = x.sum(axes)
        ones = tuple(axis for axis, dim in enumerate(shape) if dim == 1 and want.shape[axis] > 1)
        (result,) = graphc.run(graph, x)
        np.testing.assert_array_equal(result, want.sum(ones, keepdims=True).reshape(shape))


def test_equality_tells_attributes_apart_that_python_calls_equal() -> None:
    def marked(mark: Any) -> Node:
        return Node("op", (), (("mark", mark),), (F32,))

    marks = [0, 0.0, -0.0, False, 1, 1.0, True, (0.0,), (-0.0,), (0,), None, "0"]
    for i, left in enumerate(marks):
        for j, right in enumerate(marks):
            assert (marked(left) == marked(right)) == (i == j)
    assert len({marked(mark) for mark in marks}) == len(marks)


def test_a_node_is_read_back_equal_and_without_the_hash_of_the_process_that_wrote_it() -> None:
    b = graphc.GraphBuilder("pair")
    x = b.input("x", "f32[3]")
    graph = b.finish(x * x + 1.0)
    hashes = [hash(node) for node in graph.nodes]
    read = pickle.loads(pickle.dumps(graph))
    assert read == graph and str(read) == str(graph)
    assert [node.location for node in read.nodes] == [node.location for node in graph.nodes]
    assert [node._hash for node in read.nodes] == [None] * len(graph.nodes)
    assert [hash(node) for node in read.nodes] == hashes
    other = replace(graph.nodes[-1], op="sub")  # knows nothing of what it was made of
    assert other != graph.nodes[-1] and other._hash is None
