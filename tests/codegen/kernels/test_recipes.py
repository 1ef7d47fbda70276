"""The kernel recipes: right results, the same bits for any layout and target, no stray access."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc.codegen.kernels.contraction.problem.k_blocks import K_BLOCK
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.nodes import For, walk
from graphc.codegen.target import Target, executable, named, running
from graphc.ir.handle import broadcast_to
from graphc.ops import contract, indexing, movement, order, reduce
from graphc.ops import elementwise as e
from graphc.ops.kinds.numpy_fma import fma32
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Graph = graphc.Graph


def run_on(graph: Graph, arrays: list[Array], target: Target | None = None) -> tuple[Array, ...]:
    """The graph's kernels, native for `target`."""

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        chosen = running(target)
        jit.call_kernel(lower(kernel, chosen), [*reads, *writes], target=chosen)

    _, plan = plan_graph(graph)
    return run_plan(plan, tuple(arrays), run_kernel)


def interpreted(graph: Graph, arrays: list[Array], target: Target) -> tuple[Array, ...]:
    """The same with the loops interpreted."""

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        interpreter.run(lower(kernel, target), [*reads, *writes])

    _, plan = plan_graph(graph)
    return run_plan(plan, tuple(arrays), run_kernel)


def bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def listed(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


# -- contractions ---------------------------------------------------------------------------------


def product(form: str, batch: tuple[int, ...], m: int, n: int, k: int) -> Graph:
    """NN, NT (the right operand stored transposed), TN (the left one), TT."""
    g = graphc.GraphBuilder("product")
    left, right = (m, k) if form[0] == "N" else (k, m), (k, n) if form[1] == "N" else (n, k)
    x = g.input("x", "f32" + listed((*batch, *left)))
    y = g.input("y", "f32" + listed((*batch, *right)))
    rank = len(batch)
    swap = (*range(rank), rank + 1, rank)
    x = x if form[0] == "N" else movement.transpose(x, permutation=swap)
    y = y if form[1] == "N" else movement.transpose(y, permutation=swap)
    return g.finish(x @ y)


def operands(form: str, batch: tuple[int, ...], m: int, n: int, k: int) -> tuple[Array, Array]:
    """The operands in logical order."""
    return normal(m * 31 + k, *batch, m, k), normal(n * 17 + k, *batch, k, n)


def stored(form: str, x: Array, y: Array) -> list[Array]:
    x = x if form[0] == "N" else x.swapaxes(-1, -2)
    y = y if form[1] == "N" else y.swapaxes(-1, -2)
    return [np.ascontiguousarray(x), np.ascontiguousarray(y)]


def assert_near(actual: Array, exact: Array, magnitude: Array, terms: int) -> None:
    """Within the bound of a chain of `terms` roundings: terms · ε · Σ|a||b|."""
    bound = (min(terms, K_BLOCK) + terms // K_BLOCK + 1) * 2.0**-24 * magnitude
    assert (np.abs(actual - exact) <= bound).all()


dims = st.one_of(st.integers(0, 5), st.integers(6, 40), st.sampled_from([16, 17, 31, 32, 33, 64]))
depths = st.one_of(dims, st.sampled_from([511, 512, 513, 1030]))


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    form=st.sampled_from(["NN", "NT", "TN", "TT"]),
    batch=st.sampled_from([(), (), (2,), (2, 3), (0,)]),
    m=dims, n=dims, k=depths,
)  # fmt: skip
def test_products(form: str, batch: tuple[int, ...], m: int, n: int, k: int) -> None:
    x, y = operands(form, batch, m, n, k)
    (result,) = run_on(product(form, batch, m, n, k), stored(form, x, y))
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    assert result.shape == (*batch, m, n)
    assert_near(result, wide_x @ wide_y, np.abs(wide_x) @ np.abs(wide_y), k)


def chained(x: Array, y: Array) -> Array:
    """Level exact's arithmetic, written out: FMA chains of 512, added in order."""
    total: Array | None = None
    for first in range(0, x.shape[1], K_BLOCK):
        chain = np.zeros((x.shape[0], y.shape[1]), np.float32)
        for k in range(first, min(first + K_BLOCK, x.shape[1])):
            left, right = np.broadcast_arrays(x[:, k, None], y[None, k, :])
            chain = fma32(left, right, chain)
        total = chain if total is None else total + chain
    return np.zeros((x.shape[0], y.shape[1]), np.float32) if total is None else total


@pytest.mark.sampled(8)
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("shape", [(1, 1, 7), (5, 35, 3), (7, 19, 1100)])
def test_products_are_chains_in_logical_order(form: str, shape: tuple[int, int, int]) -> None:
    """The same bits for every storage order and every target, and those of the definition."""
    x, y = operands(form, (), *shape)
    expected = chained(x, y)
    for target in executable():
        (actual,) = run_on(product(form, (), *shape), stored(form, x, y), target)
        np.testing.assert_array_equal(bits(actual), bits(expected), err_msg=target.name)


def test_integer_products_wrap() -> None:
    g = graphc.GraphBuilder("integers")
    x, y = g.input("x", "i32[3,20]"), g.input("y", "i32[20,18]")
    random = np.random.default_rng(0)
    a = random.integers(-(2**31), 2**31, (3, 20)).astype(np.int32)
    b = random.integers(-(2**31), 2**31, (20, 18)).astype(np.int32)
    np.testing.assert_array_equal(run_on(g.finish(x @ y), [a, b])[0], a @ b)


geometries = st.tuples(
    st.sampled_from([1, 2, 3]),  # stride
    st.sampled_from([0, 1, 2]),  # padding
    st.sampled_from([1, 2]),  # dilation
    st.sampled_from([1, 2, 3]),  # kernel
)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(
    rows=geometries,
    columns=geometries,
    groups=st.sampled_from([1, 1, 2, 3]),
    channels=st.integers(1, 3),
    outputs=st.sampled_from([1, 2, 5, 16, 17]),
    size=st.tuples(st.integers(5, 9), st.integers(5, 20)),
    n=st.sampled_from([1, 2]),
)
def test_convolutions(
    rows: Any, columns: Any, groups: int, channels: int, outputs: int, size: Any, n: int
) -> None:
    """Convolution and its two adjoints against float64."""
    stride, padding, dilation, kernel = zip(rows, columns, strict=True)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x_shape = (n, channels * groups, *size)
    w_shape = (outputs * groups, channels, *kernel)
    x, w = normal(1, *x_shape), normal(2, *w_shape)
    g = graphc.GraphBuilder("convolution")
    vx, vw = g.input("x", "f32" + listed(x_shape)), g.input("w", "f32" + listed(w_shape))
    out = contract.conv(vx, vw, **geometry)
    cotangent = normal(3, *out.shape)
    vg = g.input("g", "f32" + listed(out.shape))
    by_x = contract.conv_input_grad(vg, vw, size=size, **geometry)
    by_w = contract.conv_weight_grad(vx, vg, kernel=kernel, **geometry)
    result = run_on(g.finish(out, by_x, by_w), [x, w, cotangent])

    def exact(*arrays: Array) -> list[Array]:
        a, b, c = (array.astype(np.float64) for array in arrays)
        conv, into_x, into_w = (
            contract.conv, contract.conv_input_grad, contract.conv_weight_grad,
        )  # fmt: skip
        return [
            conv.compute((a, b), geometry)[0],
            into_x.compute((c, b), {"size": size, **geometry})[0],
            into_w.compute((a, c), {"kernel": kernel, **geometry})[0],
        ]

    terms = [
        channels * kernel[0] * kernel[1],
        outputs * kernel[0] * kernel[1],
        n * out.shape[2] * out.shape[3],
    ]
    results = zip(
        result, exact(x, w, cotangent), exact(abs(x), abs(w), abs(cotangent)), terms, strict=True
    )
    for actual, wanted, magnitude, count in results:
        assert_near(actual, wanted, magnitude, count)


# -- targets --------------------------------------------------------------------------------------


def _nest() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("nest")
    x, b = g.input("x", "f32[5,77]"), g.input("b", "f32[77]")
    return g.finish(graphc.ops.softmax(e.tanh(x + b), axis=1)), [normal(1, 5, 77), normal(2, 77)]


def _columns() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("columns")
    x = g.input("x", "f64[70,19]")
    centred = x - reduce.spread(graphc.ops.mean(x, axes=(0,)), (0,), x.shape)
    return g.finish(reduce.sum(centred * centred, axes=(0,))), [normal(1, 70, 19).astype(float)]


def _sums() -> tuple[Graph, list[Array]]:
    """Two sums over leading and middle axes in one kernel, over many columns and of few; channels
    of images."""
    g = graphc.GraphBuilder("sums")
    x, s = g.input("x", "f32[2,21,1101]"), g.input("s", "f32[2,21]")
    y = g.input("y", "f32[18,3,5,7]")
    scaled = x * reduce.spread(s, (2,), x.shape)
    sums = [reduce.sum(v, axes=axes) for axes in ((1,), (0, 1)) for v in (x, scaled)]
    return g.finish(*sums, reduce.sum(y, axes=(0, 2, 3)), reduce.max(y, axes=(0, 1))), [
        normal(1, 2, 21, 1101), normal(2, 2, 21), normal(3, 18, 3, 5, 7)
    ]  # fmt: skip


def _contract() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("contract")
    x, w, b = g.input("x", "f32[9,600]"), g.input("w", "f32[600,21]"), g.input("b", "f32[21]")
    arrays = [normal(1, 9, 600), normal(2, 600, 21), normal(3, 21)]
    return g.finish(e.sigmoid(x @ w + b)), arrays


def _conv() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("conv")
    x, w = g.input("x", "f32[2,3,7,9]"), g.input("w", "f32[18,3,3,3]")
    ones = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    return g.finish(e.relu(contract.conv(x, w, **ones))), [
        normal(1, 2, 3, 7, 9), normal(2, 18, 3, 3, 3)
    ]  # fmt: skip


def _scatter() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("scatter")
    x, rows, d = g.input("x", "f32[6,20]"), g.input("rows", "i64[50]"), g.input("d", "f32[50,20]")
    index = np.random.default_rng(0).integers(0, 6, 50)
    return g.finish(indexing.index_add(x, rows, d, axis=0)), [
        normal(1, 6, 20), index, normal(2, 50, 20)
    ]  # fmt: skip


def _set() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("set")
    x, rows, d = g.input("x", "f32[6,20]"), g.input("rows", "i64[50]"), g.input("d", "f32[50,20]")
    i, v = g.input("i", "i32[6,30]"), g.input("v", "f32[6,30]")
    random = np.random.default_rng(0)
    written = indexing.index_set(x, rows, d, axis=0), indexing.scatter_max(x, i, v, axis=1)
    return g.finish(*written), [
        normal(1, 6, 20), random.integers(0, 5, 50), normal(2, 50, 20),
        random.integers(0, 20, (6, 30)).astype(np.int32), normal(3, 6, 30),
    ]  # fmt: skip


def _scan() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("scan")
    x = g.input("x", "f32[3,5,21]")
    transposed = movement.transpose(x, permutation=(2, 0, 1))
    scans = [order.cumsum(x * 2, axis=axis) for axis in (0, 1, 2)]
    return g.finish(*scans, order.cumprod(transposed, axis=0), order.argcummax(x, axis=1)), [
        normal(1, 3, 5, 21)
    ]


def _sort() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("sort")
    x, y = g.input("x", "f32[3,4,37]"), g.input("y", "i32[19,3]")
    content = np.random.default_rng(0).integers(-4, 4, (3, 4, 37)).astype(np.float32) * 0.5
    content[0, :, 3::7] = np.nan
    sorts = [order.argsort(x, axis=1), order.argsort(x, axis=2, descending=True)]
    sorts += [order.argtopk(x, axis=2, count=count) for count in (1, 5, 36)]
    return g.finish(*sorts, order.argsort(y, axis=0)), [
        content, np.random.default_rng(1).integers(-2, 3, (19, 3)).astype(np.int32)
    ]  # fmt: skip


def _random() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("random")
    state = g.input("state", "i64[2]")
    draw, after = graphc.ops.random_uniform(state, shape=(3, 41))
    return g.finish(e.exp(draw), after), [np.array([3, 5])]


EXAMPLES = {
    "nest": _nest, "columns": _columns, "sums": _sums, "contract": _contract, "conv": _conv,
    "scatter": _scatter, "random": _random, "set": _set, "scan": _scan, "sort": _sort,
}  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", EXAMPLES)
def test_targets_give_the_same_bits(name: str) -> None:
    graph, arrays = EXAMPLES[name]()
    expected = run_on(graph, arrays)
    for target in executable():
        for actual, wanted in zip(run_on(graph, arrays, target), expected, strict=True):
            np.testing.assert_array_equal(bits(actual), bits(wanted), err_msg=target.name)


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    "name", ["nest", "columns", "sums", "scatter", "random", "set", "scan", "sort"]
)
@pytest.mark.parametrize("target", ["aarch64", "x86-64-v4"])
def test_other_targets_interpreted(name: str, target: str) -> None:
    """Code for a processor that is not here runs in the interpreter of loops."""
    graph, arrays = EXAMPLES[name]()
    expected = run_on(graph, arrays)
    for actual, wanted in zip(interpreted(graph, arrays, named(target)), expected, strict=True):
        np.testing.assert_array_equal(bits(actual), bits(wanted))


# -- scatter --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 7, 33])
def test_scatter_adds_repeated_indices_in_order(width: int) -> None:
    random = np.random.default_rng(width)
    x, d = normal(1, 5, width), normal(2, 60, width)
    rows = random.integers(0, 3, 60)
    rows[:20] = 1
    g = graphc.GraphBuilder("repeated")
    vx, vr = g.input("x", "f32" + listed(x.shape)), g.input("rows", "i64[60]")
    vd = g.input("d", "f32" + listed(d.shape))
    (actual,) = run_on(g.finish(indexing.index_add(vx, vr, vd, axis=0)), [x, rows, d])
    expected = x.copy()
    for row, added in zip(rows, d, strict=True):
        expected[row] += added
    np.testing.assert_array_equal(bits(actual), bits(expected))


def test_scatter_along_the_last_axis() -> None:
    x, d = normal(1, 4, 9), normal(2, 4, 30)
    index = np.random.default_rng(0).integers(0, 2, (4, 30))
    g = graphc.GraphBuilder("last")
    vx, vi, vd = g.input("x", "f32[4,9]"), g.input("i", "i64[4,30]"), g.input("d", "f32[4,30]")
    (actual,) = run_on(g.finish(indexing.scatter_add(vx, vi, vd, axis=1)), [x, index, d])
    expected = x.copy()
    for row in range(4):
        for column in range(30):
            expected[row, index[row, column]] += d[row, column]
    np.testing.assert_array_equal(bits(actual), bits(expected))


@pytest.mark.parametrize("width", [1, 7, 33])
def test_of_what_is_written_to_one_place_the_last_stays(width: int) -> None:
    random = np.random.default_rng(width)
    x, d = normal(1, 5, width), normal(2, 60, width)
    rows = random.integers(0, 3, 60)
    g = graphc.GraphBuilder("last")
    vx, vr = g.input("x", "f32" + listed(x.shape)), g.input("rows", "i64[60]")
    vd = g.input("d", "f32" + listed(d.shape))
    (actual,) = run_on(g.finish(indexing.index_set(vx, vr, vd, axis=0)), [x, rows, d])
    expected = x.copy()
    for row, new in zip(rows, d, strict=True):
        expected[row] = new
    np.testing.assert_array_equal(bits(actual), bits(expected))


# -- scans and sorts ------------------------------------------------------------------------------


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1,), (2, 1, 5), (4, 7, 19), (130, 33)])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_scans_add_in_the_order_of_the_axis(shape: tuple[int, ...], dtype: str) -> None:
    """The same bits for every axis and target, and those of the definition."""
    x = (normal(len(shape), *shape) * 9).astype(graphc.DType[dtype].numpy)
    for axis in range(len(shape)):
        g = graphc.GraphBuilder("scan")
        graph = g.finish(order.cumsum(g.input("x", dtype + listed(shape)), axis=axis))
        expected = np.add.accumulate(x, axis=axis, dtype=x.dtype)
        for target in executable():
            (actual,) = run_on(graph, [x], target)
            np.testing.assert_array_equal(bits(actual), bits(expected), err_msg=target.name)


def awkward(length: int, dtype: str) -> Array:
    """Ties, zeros of both signs, infinities, NaN; the ends of the range."""
    random = np.random.default_rng(length)
    if dtype[0] == "i":
        ends = np.iinfo(graphc.DType[dtype].numpy)
        drawn = random.choice([ends.min, ends.max, -1, 0, 1, 2, 3], (3, length))
    else:
        special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.0, 5e-324, -1e-40]
        drawn = np.where(random.random((3, length)) < 0.6, random.choice(special, (3, length)),
                         random.standard_normal((3, length)))  # fmt: skip
    return np.asarray(drawn, graphc.DType[dtype].numpy)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 8, 17, 64, 100, 1000])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts_are_stable(length: int, dtype: str, descending: bool) -> None:
    x = awkward(length, dtype)
    g = graphc.GraphBuilder("sort")
    v = g.input("x", dtype + listed(x.shape))
    (actual,) = run_on(g.finish(order.argsort(v, axis=1, descending=descending)), [x])
    for row, positions in zip(x, actual, strict=True):
        # NaN above all numbers, zeros equal: what Python's stable sort makes of such keys.
        keys = [(value != value, 0.0 if value != value else float(value)) for value in row.tolist()]
        expected = sorted(range(length), key=keys.__getitem__, reverse=descending)
        if dtype == "i64":
            expected = sorted(range(length), key=row.tolist().__getitem__, reverse=descending)
        assert positions.tolist() == expected


@pytest.mark.sampled(6)
@pytest.mark.parametrize("length", [1, 2, 3, 17, 100, 1000])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("descending", [False, True])
def test_the_first_of_a_sort_are_its_first(length: int, dtype: str, descending: bool) -> None:
    """Selected, sorted, and where one of these changes to the other."""
    x = awkward(length, dtype)
    counts = sorted({count for count in (0, 1, 2, 5, 64, 126, 127, length) if count <= length})
    g = graphc.GraphBuilder("selection")
    v = g.input("x", dtype + listed(x.shape))
    options = {"axis": 1, "descending": descending}
    first = [order.argtopk(v, **options, count=count) for count in counts]
    whole, *results = run_on(g.finish(order.argsort(v, **options), *first), [x])
    for count, positions in zip(counts, results, strict=True):
        assert np.array_equal(positions, whole[:, :count])


def test_what_all_is_taken_of_has_no_loop_over_others() -> None:
    """Lines of three: one over lines, one that inserts, one that stores."""
    g = graphc.GraphBuilder("sort")
    body = g.finish(order.argsort(g.input("x", "f32[4,3]"), axis=1))
    kernel = lower(KernelSpec("sort", body), named("x86-64-v3"))
    assert sum(isinstance(statement, For) for statement in walk(kernel.body)) == 3


@pytest.mark.parametrize("descending", [False, True])
def test_lines_that_come_in_order_are_selected_from(descending: bool) -> None:
    """Each element moves all that are kept, or none."""
    x = np.stack([np.arange(300.0), np.arange(300.0)[::-1]]).astype(np.float32)
    g = graphc.GraphBuilder("selection")
    v = g.input("x", "f32[2,300]")
    (result,) = run_on(g.finish(order.argtopk(v, axis=1, count=9, descending=descending)), [x])
    up, down = np.arange(9), np.arange(299, 290, -1)
    assert np.array_equal(result, [down, up] if descending else [up, down])


# -- guard pages ----------------------------------------------------------------------------------


class Guarded:
    """Memory whose next page must not be touched: that ends the process."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.pages: list[tuple[ctypes.c_void_p, mmap.mmap]] = []

    def array(self, content: Array) -> Array:
        """A copy of `content` that ends where the page does."""
        page = mmap.PAGESIZE
        size = -(-max(content.nbytes, 1) // page) * page
        block = mmap.mmap(-1, size + page)
        behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block)) + size)
        assert self.libc.mprotect(behind, page, 0) == 0
        self.pages.append((behind, block))
        raw = np.frombuffer(block, np.uint8)[size - content.nbytes : size]
        result = raw.view(content.dtype).reshape(content.shape)
        result[...] = content
        return result

    def release(self) -> None:
        for behind, _ in self.pages:
            access = mmap.PROT_READ | mmap.PROT_WRITE
            assert self.libc.mprotect(behind, mmap.PAGESIZE, access) == 0


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    memory = Guarded()
    yield memory
    memory.release()


def _gather() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("gather")
    table, rows = g.input("table", "f32[7,19]"), g.input("rows", "i64[5]")
    picked = indexing.take(table, rows, axis=0)
    return g.finish(picked * 2), [normal(1, 7, 19), np.array([6, 0, 6, 3, 6])]


def _gather_last() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("gather_last")
    table, index = g.input("table", "f32[3,21]"), g.input("index", "i32[3,37]")
    content = np.random.default_rng(0).integers(0, 21, (3, 37)).astype(np.int32)
    content[-1, -5:] = 20
    return g.finish(indexing.gather(table, index, axis=1)), [normal(1, 3, 21), content]


def _windows() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("windows")
    x = g.input("x", "f32[2,3,9,11]")
    shape = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)}
    return g.finish(graphc.ops.max_pool(x, **shape)), [normal(1, 2, 3, 9, 11)]


def _moved() -> tuple[Graph, list[Array]]:
    g = graphc.GraphBuilder("moved")
    x, fill = g.input("x", "f32[5,19]"), g.input("fill", "f32[]")
    wide = movement.pad(x, fill, low=(1, 2), high=(0, 3), interior=(0, 1))
    return g.finish(wide, movement.slice_(x, start=(4, 18), size=(5, 10), step=(-1, -2))), [
        normal(1, 5, 19), normal(2)
    ]  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    "make", [*EXAMPLES.values(), _gather, _gather_last, _windows, _moved],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_nothing_beyond_a_buffer_is_touched(
    guarded: Guarded, make: Any, native_target: Target
) -> None:
    """Every buffer of every kernel ends at a page that must not be touched."""
    graph, arrays = make()

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        buffers = [guarded.array(array) for array in (*reads, *writes)]
        jit.call_kernel(lower(kernel, native_target), buffers, target=native_target)
        for place, result in zip(writes, buffers[len(reads) :], strict=True):
            place[...] = result

    _, plan = plan_graph(graph)
    expected = run_on(graph, arrays)
    for actual, wanted in zip(run_plan(plan, tuple(arrays), run_kernel), expected, strict=True):
        np.testing.assert_array_equal(bits(actual), bits(wanted))


@pytest.mark.parametrize("level", ["none", "exact"])
def test_distances_from_no_points_compute_nothing(level: str) -> None:
    """An axis of size 0 that a reshape moves: its index is no variable of a loop."""
    g = graphc.GraphBuilder("distances")
    x, y = g.input("x", "f32[0,3]"), g.input("y", "f32[2,3]")
    rows = broadcast_to(movement.reshape(x, shape=(0, 1, 3)), (0, 2, 3))
    apart = rows - broadcast_to(y, (0, 2, 3))
    graph = g.finish(apart, e.sqrt(reduce.sum(apart * apart, axes=(2,))))
    result = graphc.compile(graph, level)(np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32))
    assert [array.shape for array in result] == [(0, 2, 3), (0, 2)]
