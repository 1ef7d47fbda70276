"""Trees of additions of products become one product, to the same bits."""

import numpy as np
import pytest

import graphc
from graphc.ops.contract import matmul, tree_matmul
from graphc.ops.movement import slice_, transpose
from graphc.passes.canonicalize import canonicalize
from graphc.passes.dead_code import dead_code

ROWS, COLUMNS, DEPTH = 24, 40, 3


def added(values):
    while len(values) > 1:
        values = [x + y for x, y in zip(values[::2], values[1::2])]
    return values[0]


def gradients(count, *, rows=ROWS, columns=COLUMNS, depth=DEPTH, form="apart", dtype="f32"):
    """The gradients of a weight by `count` shares, added as a tree, and the graph's inputs."""
    g = graphc.GraphBuilder("gradients")
    products = []
    if form == "slices":
        whole = g.input("x", f"{dtype}[{count * depth},{rows}]")
    for i in range(count):
        if form == "slices":
            x = slice_(whole, start=(i * depth, 0), size=(depth, rows), step=(1, 1))
            x = transpose(x, permutation=(1, 0))
        elif form == "transposed":
            x = transpose(g.input(f"x{i}", f"{dtype}[{depth},{rows}]"), permutation=(1, 0))
        else:
            x = g.input(f"x{i}", f"{dtype}[{rows},{depth}]")
        y = g.input(f"y{i}", f"{dtype}[{depth},{columns}]")
        products.append(matmul(x, y))
    return g, products


def made(graph):
    """The chains of each product in the normal form."""
    return [
        node.attribute("chains") if node.op == "tree_matmul" else 1
        for node in dead_code(canonicalize(graph)).nodes
        if node.op in ("matmul", "tree_matmul")
    ]


def drawn(graph):
    rng = np.random.default_rng(7)
    types = [node.types[0] for node in graph.nodes if node.op == "input"]
    return [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in types]


def same_bits(graph):
    inputs = drawn(graph)
    fast, plain = (graphc.compile(graph, level=level)(*inputs) for level in ("exact", "none"))
    for x, y in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(x, y)
    return fast[0], inputs


@pytest.mark.parametrize("form", ["apart", "transposed", "slices"])
@pytest.mark.parametrize("count", [4, 8])
def test_a_tree_is_one_product(form, count):
    g, products = gradients(count, form=form)
    graph = g.finish(added(products))
    # Eight copied operands are as large as a result, of which there is no gain.
    fits = count * DEPTH * (ROWS + COLUMNS) <= ROWS * COLUMNS
    assert made(graph) == ([count] if fits else [4, 4])
    same_bits(graph)


def test_slices_of_one_array_are_read_where_they_lie():
    g, products = gradients(4, form="slices", rows=64, columns=64)
    nodes = canonicalize(g.finish(added(products))).nodes
    (tree,) = [node for node in nodes if node.op == "tree_matmul"]
    left = nodes[tree.operands[0].node]
    assert left.op == "transpose" and nodes[left.operands[0].node].op == "input"


def test_trees_of_trees():
    g, products = gradients(16, rows=80, columns=96, depth=1)
    graph = g.finish(added(products))
    assert made(graph) == [16]
    result, inputs = same_bits(graph)
    expected = sum(x.astype(float) @ y for x, y in zip(inputs[::2], inputs[1::2]))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_what_is_left_as_it_is():
    g, products = gradients(4)
    in_order = g.finish(products[0] + products[1] + products[2] + products[3])
    assert made(in_order) == [1] * 4
    g, products = gradients(2)
    assert made(g.finish(added(products))) == [1] * 2
    g, products = gradients(4)
    read = g.finish(added(products), products[1])
    assert made(read) == [1] * 4
    g, products = gradients(4, rows=3, columns=5)
    assert made(g.finish(added(products))) == [1] * 4
    g, products = gradients(4)
    other = matmul(g.input("a", f"f32[{ROWS},2]"), g.input("b", f"f32[2,{COLUMNS}]"))
    assert made(g.finish(added([*products[:3], other]))) == [1] * 4
    for graph in (in_order, read):
        same_bits(graph)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("rows", "columns", "depth", "chains"),
    [(17, 50, 4, 8), (1, 6, 4, 2), (5, 3, 600, 2), (40, 33, 3, 4), (8, 1, 1, 4), (3, 2, 0, 4)],
)
def test_bits_are_those_of_products_that_are_added(dtype, rows, columns, depth, chains):
    g = graphc.GraphBuilder("tree")
    x = g.input("x", f"{dtype}[{rows},{depth * chains}]")
    y = g.input("y", f"{dtype}[{depth * chains},{columns}]")
    parts = [
        matmul(
            slice_(x, start=(0, i * depth), size=(rows, depth), step=(1, 1)),
            slice_(y, start=(i * depth, 0), size=(depth, columns), step=(1, 1)),
        )
        for i in range(chains)
    ]
    graph = g.finish(tree_matmul(x, y, chains=chains), added(parts))
    one, other = graphc.compile(graph, level="none")(*drawn(graph))
    np.testing.assert_array_equal(one, other)


def test_depths_of_any_size():
    graph = graphc.parse(
        """
        graph tree(%x: f32[20,4*n], %y: f32[4*n,30], %z: f32[n]) where 1 <= n {
          %1 = tree_matmul(%x, %y) chains=4 : f32[20,30]
          return %1
        }
        """
    )
    compiled = graphc.compile(graph, example={"n": 3})
    rng = np.random.default_rng(3)
    for size in (1, 3, 70, 300):
        a = rng.standard_normal((20, 4 * size)).astype("f")
        b = rng.standard_normal((4 * size, 30)).astype("f")
        (result,) = compiled.at(n=size)(a, b, b[:size, 0].copy())
        sums = [a[:, i * size : (i + 1) * size] for i in range(4)]
        expected = sum(s.astype(float) @ b[i * size : (i + 1) * size] for i, s in enumerate(sums))
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "chains", "said"),
    [
        (("f32[3,6]", "f32[6,2]"), 3, "power of two"),
        (("f32[3,6]", "f32[6,2]"), 4, "no 4 equal chains"),
        (("f32[2,3,4]", "f32[2,4,2]"), 2, "takes matrices"),
        (("f32[3,4]", "f32[6,2]"), 2, "cannot be multiplied"),
    ],
)
def test_bad_operands(shapes, chains, said):
    g = graphc.GraphBuilder("bad")
    with pytest.raises(graphc.GraphError, match=said):
        tree_matmul(*(g.input(f"x{i}", s) for i, s in enumerate(shapes)), chains=chains)


def test_a_long_sum_is_not_followed_to_its_end():
    g = graphc.GraphBuilder("long")
    x = g.input("x", f"f32[{ROWS},{COLUMNS}]")
    total = x
    for _ in range(3000):  # more than Python recurses
        total = total + x
    after = canonicalize(g.finish(total))
    assert sum(node.op == "add" for node in after.nodes) == 3000
