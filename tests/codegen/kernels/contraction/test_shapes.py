"""Contractions of drawn shapes, geometries and epilogues against float64, compiled and interpreted.

The references are written here: tap by tap, and a tap that falls on padding is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import named
from graphc.ir.handle import broadcast_to
from graphc.ops import composite, contract, movement
from graphc.ops import elementwise as e
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Graph = graphc.Graph
Shape = tuple[int, ...]

many = settings(deadline=None, derandomize=True, database=None, max_examples=28)
some = settings(many, max_examples=16)


def compiled(graph: Graph, arrays: list[Array]) -> tuple[Array, ...]:
    return graphc.compile(graph)(*arrays)


def interpreted(graph: Graph, arrays: list[Array], target: str = "x86-64-v3") -> tuple[Array, ...]:
    """The graph's kernels with their loops interpreted."""

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        interpreter.run(lower(kernel, named(target)), [*reads, *writes])

    _, plan = plan_graph(graph)
    return run_plan(plan, tuple(arrays), run_kernel)


def drawn(seed: int, shape: Shape, dtype: str = "f32") -> Array:
    content = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(content, graphc.DType[dtype].numpy)


def typed(array: Array) -> str:
    return str(graphc.TensorType.of(array))


def assert_near(actual: Array, exact: Array, magnitude: Array, terms: int) -> None:
    """Within what `terms` roundings in any order can do: terms · ε · Σ|a||b|, and as much again for
    float64, in which the reference is computed."""
    assert actual.shape == exact.shape
    epsilon = 2.0**-24 if actual.dtype == np.float32 else 2.0**-52
    bound = (terms + 1) * epsilon * magnitude
    off = ~(np.abs(actual - exact) <= bound)
    assert not off.any(), f"{off.sum()} of {off.size} are off, first at {np.argwhere(off)[0]}"


# -- products -------------------------------------------------------------------------------------

sizes = st.one_of(
    st.sampled_from([0, 1, 1, 2, 3]), st.integers(4, 40), st.sampled_from([47, 48, 49, 64, 65, 97])
)
depths = st.one_of(sizes, st.sampled_from([128, 511, 513, 1100]))


def product(form: str, x: Array, y: Array) -> tuple[Graph, list[Array]]:
    """The product of x [.., m, k] and y [.., k, n], stored as `form` says and broadcast to each
    other's batch."""
    g = graphc.GraphBuilder("product")
    stored = [
        np.ascontiguousarray(array if letter == "N" else array.swapaxes(-1, -2))
        for letter, array in zip(form, (x, y))
    ]
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    handles = []
    for name, letter, array in zip("xy", form, stored):
        handle = broadcast_to(g.input(name, typed(array)), (*batch, *array.shape[-2:]))
        rank = len(batch)
        swap = (*range(rank), rank + 1, rank)
        handles.append(handle if letter == "N" else movement.transpose(handle, permutation=swap))
    return g.finish(contract.matmul(*handles)), stored


def check_product(run: Any, form: str, x: Array, y: Array) -> None:
    (result,) = run(*product(form, x, y))
    assert result.dtype == x.dtype
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    assert_near(result, wide_x @ wide_y, np.abs(wide_x) @ np.abs(wide_y), x.shape[-1])


BATCHES: list[tuple[Shape, Shape]] = [
    ((), ()), ((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((1,), (4,)), ((2, 1), (1, 3)),
    ((0,), (0,)), ((3,), ()),
]  # fmt: skip


@many
@given(
    form=st.sampled_from(["NN", "NT", "TN", "TT"]),
    batches=st.sampled_from(BATCHES),
    m=sizes, n=sizes, k=depths,
    dtype=st.sampled_from(["f32", "f32", "f64"]),
)  # fmt: skip
@example("NN", ((), ()), 1, 1, 0, "f32")
@example("NT", ((), ()), 20, 33, 0, "f32")
@example("TN", ((2,), (2,)), 0, 33, 7, "f64")
@example("NN", ((), ()), 5, 0, 7, "f32")
def test_products_of_any_shape(
    form: str, batches: tuple[Shape, Shape], m: int, n: int, k: int, dtype: str
) -> None:
    x, y = drawn(m, (*batches[0], m, k), dtype), drawn(n + 99, (*batches[1], k, n), dtype)
    check_product(compiled, form, x, y)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(
    ("form", "m", "n", "k"),
    [("NN", 13, 35, 9), ("NT", 7, 17, 20), ("TN", 15, 19, 5), ("TT", 1, 18, 7), ("NN", 9, 1, 6)],
)
def test_products_interpreted(target: str, form: str, m: int, n: int, k: int) -> None:
    """The loops for every target; the interpreter also checks each access."""
    check_product(
        lambda graph, arrays: interpreted(graph, arrays, target), form,
        drawn(1, (m, k)), drawn(2, (k, n)),
    )  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("shape", [(5, 7, 9), (33, 50, 70), (1, 64, 40), (40, 1, 64)])
def test_products_hand_on_infinity_and_nan(form: str, shape: tuple[int, int, int]) -> None:
    """Each result has the NaN and infinities of its own row and column: 0·∞ counts, and nothing
    comes from beside the operands."""
    m, n, k = shape
    x, y = drawn(3, (m, k)), drawn(4, (k, n))
    x[m // 2, k // 2], x[0, 0], x[m - 1, k - 1] = np.inf, 0.0, np.nan
    y[k // 2, n // 2], y[0, n - 1], y[k - 1, 0] = 0.0, -np.inf, np.nan
    (result,) = compiled(*product(form, x, y))
    with np.errstate(invalid="ignore"):
        exact = np.array(
            [[sum(a * b for a, b in zip(row, column)) for column in y.T.tolist()]
             for row in x.tolist()]
        )  # fmt: skip
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
    np.testing.assert_array_equal(result[np.isinf(exact)], exact[np.isinf(exact)])
    finite = np.isfinite(exact)
    np.testing.assert_allclose(result[finite], exact[finite], rtol=1e-4, atol=1e-4)


# -- epilogues ------------------------------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "none": (lambda v: v, lambda a: a),
    "relu": (e.relu, lambda a: np.maximum(a, 0)),
    "gelu": (composite.gelu, lambda a: a * 0.5 * (1 + _erf(a / math.sqrt(2)))),
    "tanh": (e.tanh, np.tanh),
}
flags = st.booleans()


@many
@given(
    m=st.one_of(st.integers(1, 40), st.sampled_from([64, 97])),
    n=st.one_of(st.integers(1, 40), st.sampled_from([64, 97])),
    k=st.one_of(st.integers(1, 40), st.sampled_from([0, 530])),
    form=st.sampled_from(["NN", "NT", "TN"]),
    by_column=flags, by_row=flags, residual=flags, second=flags, wide=flags,
    activation=st.sampled_from(list(ACTIVATIONS)),
)  # fmt: skip
def test_epilogues_of_products(
    m: int, n: int, k: int, form: str, by_column: bool, by_row: bool, residual: bool,
    second: bool, wide: bool, activation: str,
) -> None:  # fmt: skip
    """Bias along either axis, activation, residual; the value before the activation as a second
    output; a cast at the end."""
    x, y = drawn(m, (m, k)), drawn(n, (k, n))
    added = [
        drawn(7, shape)
        for shape, taken in (((n,), by_column), ((m, 1), by_row), ((m, n), residual))
        if taken
    ]
    on_handle, on_array = ACTIVATIONS[activation]
    g = graphc.GraphBuilder("epilogue")
    vx, vy = (
        g.input(name, typed(array if letter == "N" else array.T))
        for name, letter, array in zip("xy", form, (x, y))
    )
    vx = vx if form[0] == "N" else movement.transpose(vx, permutation=(1, 0))
    vy = vy if form[1] == "N" else movement.transpose(vy, permutation=(1, 0))
    before = vx @ vy
    biases, rest = (added[:-1], added[-1:]) if residual else (added, [])
    for number, array in enumerate(biases):
        before = before + g.input(f"bias{number}", typed(array))
    after = on_handle(before)
    for array in rest:
        after = after + g.input("residual", typed(array))
    after = e.cast(after, dtype=graphc.DType.f64) if wide else after
    graph = g.finish(*([before] if second else []), after)
    stored = [
        np.ascontiguousarray(array if letter == "N" else array.T)
        for letter, array in zip(form, (x, y))
    ]
    result = compiled(graph, [*stored, *added])

    exact = x.astype(np.float64) @ y.astype(np.float64)
    size = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64)) + 1
    for array in biases:
        exact, size = exact + array, size + np.abs(array)
    results = [exact] if second else []
    results.append(on_array(exact) + sum(rest))
    size = size + np.abs(sum(rest))
    for actual, wanted in zip(result, results, strict=True):
        assert_near(actual.astype(np.float32), wanted, 2 * size, k + 12)
    assert result[-1].dtype == (np.float64 if wide else np.float32)


# -- convolutions ---------------------------------------------------------------------------------


def taps(
    size: Shape, kernel: Shape, geometry: dict[str, Any]
) -> Iterator[tuple[Shape, tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap the positions whose window reads an element there, and those elements."""
    counts = positions(size, kernel, geometry)
    for tap in np.ndindex(*kernel):
        windows, elements = [], []
        for t, length, count, s, pad, d in zip(
            tap, size, counts, geometry["stride"], geometry["padding"], geometry["dilation"]
        ):
            inside = [p for p in range(count) if 0 <= p * s + t * d - pad < length]
            first, last = (inside[0], inside[-1]) if inside else (0, -1)
            windows.append(slice(first, last + 1))
            start = first * s + t * d - pad if inside else 0
            elements.append(slice(start, start + (last - first) * s + 1 if inside else 0, s))
        yield tap, tuple(windows), tuple(elements)


def positions(size: Shape, kernel: Shape, geometry: dict[str, Any]) -> Shape:
    axes = zip(size, kernel, geometry["stride"], geometry["padding"], geometry["dilation"])
    return tuple((n + 2 * pad - d * (k - 1) - 1) // s + 1 for n, k, s, pad, d in axes)


def reference(x: Array, w: Array, c: Array, geometry: dict[str, Any]) -> tuple[Array, ...]:
    """The convolution of x with w, and its gradients by x and by w for the cotangent c."""
    groups, size, kernel = geometry["groups"], x.shape[2:], w.shape[2:]
    x, w, c = (array.astype(np.float64) for array in (x, w, c))
    out, by_x, by_w = np.zeros(c.shape), np.zeros(x.shape), np.zeros(w.shape)
    inner, outer = w.shape[1], w.shape[0] // groups
    every = slice(None)

    def flat(part: Array) -> Array:
        return part.reshape(*part.shape[:2], math.prod(part.shape[2:]))

    for tap, windows, elements in taps(size, kernel, geometry):
        for group in range(groups):
            channels = slice(group * inner, (group + 1) * inner)
            outputs = slice(group * outer, (group + 1) * outer)
            read, at = (every, channels, *elements), (every, outputs, *windows)
            weight = w[(outputs, every, *tap)]
            out[at] += np.einsum("nc...,oc->no...", x[read], weight)
            by_x[read] += np.einsum("no...,oc->nc...", c[at], weight)
            by_w[(outputs, every, *tap)] += np.einsum("nop,ncp->oc", flat(c[at]), flat(x[read]))
    return out, by_x, by_w


def convolutions(x: Array, w: Array, geometry: dict[str, Any]) -> tuple[Graph, list[Array]]:
    """A graph of the convolution and both gradients, and its arrays."""
    g = graphc.GraphBuilder("convolutions")
    vx, vw = g.input("x", typed(x)), g.input("w", typed(w))
    out = contract.conv(vx, vw, **geometry)
    dtype = str(graphc.DType.of(x.dtype).value)
    cotangent = drawn(5, out.shape, dtype)
    vc = g.input("c", typed(cotangent))
    by_x = contract.conv_input_grad(vc, vw, size=x.shape[2:], **geometry)
    by_w = contract.conv_weight_grad(vx, vc, kernel=w.shape[2:], **geometry)
    return g.finish(out, by_x, by_w), [x, w, cotangent]


def check_convolutions(run: Any, x: Array, w: Array, geometry: dict[str, Any]) -> None:
    graph, arrays = convolutions(x, w, geometry)
    result = run(graph, arrays)
    exact = reference(*arrays, geometry)
    sizes = reference(*map(np.abs, arrays), geometry)
    window, places = math.prod(w.shape[2:]), math.prod(arrays[2].shape[2:])
    terms = (w.shape[1] * window, w.shape[0] * window, x.shape[0] * places)
    for actual, wanted, size, count in zip(result, exact, sizes, terms, strict=True):
        assert_near(actual, wanted, size, count)


@st.composite
def convolution(draw: Any, axes: int) -> tuple[Shape, Shape, dict[str, Any]]:
    """Shapes of x and w and a geometry in which at least one window fits."""
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    inner, outer = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 3, 8, 17]))
    if draw(st.sampled_from([False, False, True])):  # depthwise
        groups, inner, outer = draw(st.sampled_from([1, 3, 8, 17, 32])), 1, draw(st.integers(1, 2))
    per_axis = [
        (draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.integers(1, 2)),
         draw(st.integers(1, 5 if axes == 1 else 3)))
        for _ in range(axes)
    ]  # fmt: skip
    stride, padding, dilation, kernel = zip(*per_axis)
    limit = {1: 40, 2: 12, 3: 6}[axes]
    size = tuple(
        draw(st.integers(max(1, d * (k - 1) + 1 - 2 * pad), max(limit, d * (k - 1) + 1)))
        for pad, d, k in zip(padding, dilation, kernel)
    )
    n = draw(st.sampled_from([1, 2, 3]))
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return (n, inner * groups, *size), (outer * groups, inner, *kernel), geometry


def _test_of(axes: int) -> Any:
    @given(case=convolution(axes), dtype=st.sampled_from(["f32", "f32", "f64"]))
    def check(case: tuple[Shape, Shape, dict[str, Any]], dtype: str) -> None:
        x_shape, w_shape, geometry = case
        check_convolutions(compiled, drawn(1, x_shape, dtype), drawn(2, w_shape, dtype), geometry)

    return check


test_convolutions_over_one_axis = settings(some, max_examples=12)(_test_of(1))
test_convolutions_over_two_axes = some(_test_of(2))
test_convolutions_over_three_axes = settings(some, max_examples=8)(_test_of(3))


def plane(stride: int = 1, padding: int = 1, dilation: int = 1, groups: int = 1) -> dict[str, Any]:
    return {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (dilation,) * 2,
            "groups": groups}  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("x", "w", "geometry"),
    [
        ((16, 64, 6, 6), (64, 64, 3, 3), plane()), ((2, 48, 9, 7), (33, 48, 3, 3), plane(2)),
        ((2, 40, 9, 9), (70, 40, 1, 1), plane(2, 0)), ((2, 3, 20, 21), (64, 3, 3, 3), plane()),
        ((4, 3, 16, 16), (6, 3, 5, 5), plane(1, 0)), ((2, 64, 9, 17), (64, 1, 3, 3),
                                                       plane(groups=64)),
        ((2, 40, 8, 8), (80, 20, 3, 3), plane(groups=2)), ((1, 32, 4, 4), (32, 32, 3, 3), plane()),
        ((0, 3, 5, 5), (4, 3, 3, 3), plane()), ((2, 8, 12, 11), (8, 8, 3, 3), plane(1, 4, 3)),
        ((1, 8, 1, 1), (8, 1, 1, 1), plane(2, groups=8)), ((1, 8, 1, 1), (9, 8, 1, 1), plane(2)),
    ],
)  # fmt: skip
def test_convolutions_of_networks(x: Shape, w: Shape, geometry: dict[str, Any]) -> None:
    """Channel counts of several tiles, where drawn ones stay below one; windows of padding only."""
    check_convolutions(compiled, drawn(1, x), drawn(2, w), geometry)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize(
    ("x", "w", "geometry"),
    [
        ((1, 3, 5, 6), (5, 3, 3, 3), plane()), ((1, 4, 6, 5), (4, 1, 3, 3), plane(2, 1, 1, 4)),
        ((1, 2, 5, 5), (3, 2, 2, 2), plane(2, 0)),
    ],
)  # fmt: skip
def test_convolutions_interpreted(target: str, x: Shape, w: Shape, geometry: Any) -> None:
    check_convolutions(
        lambda graph, arrays: interpreted(graph, arrays, target), drawn(1, x), drawn(2, w), geometry
    )


@pytest.mark.sampled(10)
@pytest.mark.parametrize("awkward", [np.inf, np.nan], ids=str)
@pytest.mark.parametrize("operand", ["x", "w", "c"])
@pytest.mark.parametrize(
    ("x", "w", "geometry"),
    [
        ((2, 3, 6, 7), (5, 3, 3, 3), plane()), ((1, 2, 7, 7), (3, 2, 3, 3), plane(2)),
        ((1, 16, 5, 19), (24, 16, 3, 3), plane()), ((1, 20, 6, 6), (20, 1, 3, 3), plane(groups=20)),
        ((1, 2, 6, 6), (3, 2, 2, 2), plane(1, 2, 2)), ((1, 2, 9, 9), (2, 2, 1, 1), plane(2, 0)),
        ((1, 2, 1, 3), (2, 1, 3, 3), plane(groups=2)), ((2, 32, 2, 2), (64, 32, 3, 3), plane()),
    ],
)  # fmt: skip
def test_padded_taps_are_skipped_whatever_the_other_operand_holds(
    awkward: float, operand: str, x: Shape, w: Shape, geometry: Any
) -> None:
    """An infinite weight at a padded tap adds nothing, where 0·∞ would add NaN; at a tap that reads
    an element, it counts."""
    arrays = {"x": drawn(1, x), "w": drawn(2, w)}
    graph, (*_, arrays["c"]) = convolutions(arrays["x"], arrays["w"], geometry)
    target = arrays[operand]
    target[(0,) * target.ndim] = awkward  # at a corner, where taps are padded
    target[-1, 0, -1, -1] = awkward
    result = compiled(graph, list(arrays.values()))
    with np.errstate(invalid="ignore"):
        exact = reference(*arrays.values(), geometry)
    for name, actual, wanted in zip(("conv", "by x", "by w"), result, exact, strict=True):
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted), err_msg=name)
        np.testing.assert_array_equal(np.isinf(actual), np.isinf(wanted), err_msg=name)
        finite = np.isfinite(wanted)
        np.testing.assert_allclose(actual[finite], wanted[finite], rtol=1e-4, atol=1e-4)
