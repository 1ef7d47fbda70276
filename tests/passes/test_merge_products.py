"""Products with the same matrix become one product of all their rows, to the same bits."""

import itertools

import numpy as np
import pytest

import graphc
from graphc.ir.nodes import Graph
from graphc.ops.contract import conv_input_grad, matmul
from graphc.ops.elementwise import exp, tanh
from graphc.ops.movement import slice_
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code
from graphc.passes.merge_products import merge_products
from graphc.passes.pipelines import optimize

DEPTH, COLUMNS = 64, 96


def layer(rows, *, whole=False):
    """Products of so many rows each with one matrix."""
    g = graphc.GraphBuilder("layer")
    w = g.input("w", f"f32[{DEPTH},{COLUMNS}]")
    if whole:
        x = g.input("x", f"f32[{sum(rows)},{DEPTH}]")
        starts = np.cumsum([0, *rows[:-1]]).tolist()
        xs = [
            slice_(x, start=(start, 0), size=(count, DEPTH), step=(1, 1))
            for start, count in zip(starts, rows)
        ]
    else:
        xs = [g.input(f"x{i}", f"f32[{count},{DEPTH}]") for i, count in enumerate(rows)]
    return g, w, [matmul(x, w) for x in xs]


def merged(graph: Graph) -> list[int]:
    """The rows of the products that are left."""
    after = dead_code(merge_products(canonicalize(graph), 0))
    return [node.types[0].shape[0] for node in after.nodes if node.op == "matmul"]


def same_bits(graph: Graph) -> None:
    rng = np.random.default_rng(5)
    inputs = [
        rng.standard_normal(node.types[0].shape).astype("f") * 0.1
        for node in graph.nodes
        if node.op == "input"
    ]
    changed = merge_products(canonicalize(graph), 0)
    fast, plain = (graphc.compile(each, level="none")(*inputs) for each in (changed, graph))
    for x, y in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("rows", [(2, 2), (1, 2, 3), (1, 1, 1, 1, 1)])
@pytest.mark.parametrize("whole", [False, True])
def test_rows_of_several_products_are_one_product(rows, whole):
    g, _, products = layer(rows, whole=whole)
    graph = g.finish(*[exp(product) for product in products])
    assert merged(graph) == [sum(rows)]
    same_bits(graph)


def test_slices_of_one_array_are_read_where_they_lie():
    g, _, products = layer((2, 3), whole=True)
    nodes = merge_products(canonicalize(g.finish(*products)), 0).nodes
    (product,) = [node for node in nodes if node.op == "matmul"]
    assert nodes[product.operands[0].node].op == "input"


def test_layers_behind_each_other():
    g, _, products = layer((1, 2, 1))
    u = g.input("u", f"f32[{COLUMNS},{DEPTH}]")
    graph = g.finish(*[matmul(tanh(product), u) for product in products])
    assert merged(graph) == [4, 4]
    same_bits(graph)


def test_a_product_of_a_product_with_the_same_matrix_stays_apart():
    """Each step of a recurrence reads the one before; what comes from outside is one product."""
    g = graphc.GraphBuilder("recurrence")
    w, u = (g.input(name, f"f32[{DEPTH},{DEPTH}]") for name in "wu")
    state = g.input("state", f"f32[2,{DEPTH}]")
    for step in range(3):
        x = g.input(f"x{step}", f"f32[2,{DEPTH}]")
        state = tanh(matmul(x, w) + matmul(state, u))
    graph = g.finish(state)
    assert sorted(merged(graph)) == [2, 2, 2, 6]
    same_bits(graph)


def test_crossed_layers():
    """Each of two matrices is read ahead of the other: one merged product on its own would wait for
    itself."""
    g = graphc.GraphBuilder("crossed")
    w, u = (g.input(name, f"f32[{DEPTH},{DEPTH}]") for name in "wu")
    x, y = (g.input(name, f"f32[2,{DEPTH}]") for name in "xy")
    graph = g.finish(matmul(exp(matmul(x, w)), u), matmul(exp(matmul(y, u)), w))
    assert merged(graph) == [2, 2, 2, 2]
    same_bits(graph)


def test_what_is_left_as_it_is():
    g, _, products = layer((60, 60))
    large = g.finish(*products)
    assert merge_products(canonicalize(large), 0) == canonicalize(large)
    g, _, products = layer((3,))
    assert merged(g.finish(*products)) == [3]
    g, w, _ = layer((1,))
    other = g.input("v", f"f32[{DEPTH},{COLUMNS}]")
    xs = [g.input(name, f"f32[1,{DEPTH}]") for name in "ab"]
    assert merged(g.finish(matmul(xs[0], w), matmul(xs[1], other))) == [1, 1]
    g, _, products = layer((0, 0))
    assert merged(g.finish(*products)) == [0, 0]


def test_rows_of_any_size_stay_apart():
    graph = graphc.parse(
        f"""
        graph layer(%x: f32[n,{DEPTH}], %y: f32[2,{DEPTH}], %w: f32[{DEPTH},{COLUMNS}])
          where 1 <= n {{
          %1 = matmul(%x, %w) : f32[n,{COLUMNS}]
          %2 = matmul(%y, %w) : f32[2,{COLUMNS}]
          return %1, %2
        }}
        """
    )
    assert len(merged(graph)) == 2


def test_a_matrix_that_a_cache_holds_is_read_again():
    g, _, products = layer((2, 2))
    graph = g.finish(*products)
    assert merge_products(canonicalize(graph)) == canonicalize(graph)


def test_a_large_matrix_is_read_once_by_what_is_compiled():
    g = graphc.GraphBuilder("large")
    w = g.input("w", "f32[512,640]")
    xs = [g.input(f"x{i}", "f32[2,512]") for i in range(3)]
    graph = g.finish(*[tanh(matmul(x, w)) for x in xs])
    assert [n.types[0].shape for n in optimize(graph).nodes if n.op == "matmul"] == [(6, 640)]
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((512, 640)).astype("f")]
    inputs += [rng.standard_normal((2, 512)).astype("f") for _ in xs]
    fast, plain = (graphc.compile(graph, level=level)(*inputs) for level in ("exact", "none"))
    for x, y in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(x, y)


def input_gradients(images, channels=6, size=(8, 8), count=3, groups=1, strides=(1, 1)):
    """Gradients by the input of convolutions with one weight, 5 x 5, to 32 channels; strides of
    each."""
    g = graphc.GraphBuilder("convolutions")
    w = g.input("w", f"f32[32,{channels // groups},5,5]")
    results = []
    for i, stride in zip(range(count), itertools.cycle(strides)):
        places = ",".join(str((place - 5) // stride + 1) for place in size)
        gradient = g.input(f"g{i}", f"f32[{images},32,{places}]")
        geometry = {"stride": (stride,) * 2, "padding": (0, 0), "dilation": (1, 1)}
        results.append(
            tanh(conv_input_grad(gradient, w, size=size, groups=groups, **geometry))
        )  # fmt: skip
    return canonicalize(g.finish(*results))


def images_of(graph: Graph) -> list[int]:
    after = dead_code(merge_products(graph))
    return [node.types[0].shape[0] for node in after.nodes if node.op == "conv_input_grad"]


def test_few_images_of_several_convolutions_are_one_batch():
    graph = input_gradients(5, 7)
    assert images_of(graph) == [15]
    same_bits(graph)
    other_strides = input_gradients(5, 11, (13, 13), count=4, strides=(1, 2))
    assert images_of(other_strides) == [10, 10]
    same_bits(other_strides)


def test_convolutions_that_fill_registers_stay_apart():
    assert images_of(input_gradients(16)) == [16] * 3
    assert images_of(input_gradients(5, 12)) == [5] * 3
    assert images_of(input_gradients(5, size=(20, 20))) == [5] * 3
    assert images_of(input_gradients(5, 8, groups=2)) == [5] * 3
    assert images_of(input_gradients(5, 1)) == [5] * 3  # few products for what is moved
    assert images_of(input_gradients(5, count=1)) == [5]
