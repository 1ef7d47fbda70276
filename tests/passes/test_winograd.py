"""Convolutions by Winograd's F(2x2, 3x3): where they are chosen, the error bound that
docs/contractions.md states, numbers that are not finite, and training steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc import GraphBuilder, ops
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.target import named
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType
from graphc.ir.verifier import verify
from graphc.ops.contract import conv, conv_input_grad
from graphc.ops.layouts.winograd import weight_matrix
from graphc.passes import winograd as winograd_pass
from graphc.passes.pipelines import optimize
from graphc.passes.winograd import LEAST_GAIN, Candidate

Array = np.ndarray[Any, Any]
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]
V3 = preferred_layouts(named("x86-64-v3"))
LIMIT = {"f32": 2.0**-24, "f64": 2.0**-53}


def winograd(graph: graphc.Graph) -> graphc.Graph:
    """The pass, for a target whatever the machine's."""
    return winograd_pass.winograd(graph, V3.winograd_gain)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every convolution that fits, however small."""
    monkeypatch.setattr(winograd_pass, "LEAST_GAIN", 0.0)


def geometry(padding: tuple[int, int], stride: int = 1, dilation: int = 1, groups: int = 1) -> Any:
    return {
        "stride": (stride,) * 2, "padding": padding, "dilation": (dilation,) * 2, "groups": groups,
    }  # fmt: skip


def forward(
    x: tuple[int, ...], w: tuple[int, ...], dtype: str = "f32", **options: Any
) -> graphc.Graph:
    g = GraphBuilder("forward")
    handles = [g.input(name, f"{dtype}[{','.join(map(str, shape))}]")
               for name, shape in (("x", x), ("w", w))]  # fmt: skip
    return g.finish(conv(*handles, **(options or geometry((1, 1)))))


def backward(
    x: tuple[int, ...], w: tuple[int, ...], padding: tuple[int, int], dtype: str = "f32"
) -> graphc.Graph:
    """The gradient of x, of shape `x`."""
    g = GraphBuilder("backward")
    places = tuple(dim + 2 * by - 2 for dim, by in zip(x[2:], padding, strict=True))
    shapes = (("g", (x[0], w[0], *places)), ("w", w))
    handles = [g.input(n, f"{dtype}[{','.join(map(str, shape))}]") for n, shape in shapes]
    return g.finish(conv_input_grad(*handles, size=x[2:], **geometry(padding)))


def op_names(graph: graphc.Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def drawn(graph: graphc.Graph, seed: int = 0) -> list[Array]:
    random = np.random.default_rng(seed)
    return [
        random.standard_normal(type.shape).astype(type.dtype.numpy) for type in graph.input_types
    ]


# -- what is rewritten ----------------------------------------------------------------------------

LARGE = (16, 64, 32, 32), (64, 64, 3, 3)


def test_a_convolution_becomes_a_product_for_its_weights_and_winograd() -> None:
    graph = forward(*LARGE)
    rewritten = winograd(graph)
    verify(rewritten)
    assert op_names(rewritten) == [
        "input", "input", "constant", "reshape", "transpose", "matmul", "reshape", "winograd",
    ]  # fmt: skip
    assert rewritten.nodes[-1].attribute("padding") == (1, 1)
    assert {node.location for node in rewritten.nodes[2:]} == {graph.nodes[2].location}


def test_the_gradient_of_the_input_takes_turned_weights_and_the_other_padding() -> None:
    rewritten = winograd(backward(*LARGE, (0, 1)))
    verify(rewritten)
    assert op_names(rewritten)[-3:] == ["reshape", "transpose", "winograd"]
    assert rewritten.nodes[-1].attribute("padding") == (2, 1)


def test_only_level_relaxed_takes_it() -> None:
    graph = forward(*LARGE)
    assert "winograd" in op_names(optimize(graph, "relaxed", preferred=V3))
    for level in ("none", "exact"):
        assert op_names(optimize(graph, level, preferred=V3)) == ["input", "input", "conv"]


def test_sizes_left_open_are_decided_on_as_for_the_example() -> None:
    g = GraphBuilder("open")
    x = g.input("x", TensorType(DType.f32, (dim("n", 1), *LARGE[0][1:])))
    w = g.input("w", f"f32[{','.join(map(str, LARGE[1]))}]")
    graph = g.finish(conv(x, w, **geometry((1, 1))))
    assert "winograd" in op_names(optimize(graph, "relaxed", preferred=V3))
    run = graphc.compile(graph, level="relaxed", example={"n": 2})
    for n in (1, 3):
        arrays = drawn(forward((n, *LARGE[0][1:]), LARGE[1]))
        (result,) = run(*arrays)
        (exact,) = graphc.compile(forward(arrays[0].shape, LARGE[1]))(*arrays)
        assert np.allclose(result, exact, atol=1e-3) and run.programs == 1


def test_weights_known_at_compile_time_are_transformed_there() -> None:
    w = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32)
    g = GraphBuilder("frozen")
    graph = g.finish(conv(g.input("x", "f32[1,64,32,32]"), g.constant(w), **geometry((1, 1))))
    optimized = optimize(graph, "relaxed", preferred=V3)
    assert sorted(op_names(optimized)) == ["constant", "input", "winograd"]
    x = np.random.default_rng(1).standard_normal((1, 64, 32, 32)).astype(np.float32)
    (one,), (other,) = (graphc.compile(graph, level)(x) for level in ("relaxed", "exact"))
    np.testing.assert_allclose(one, other, atol=1e-3)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((16, 64, 32, 32), (64, 64, 3, 3), geometry((1, 1), stride=2)),
        ((16, 64, 32, 32), (64, 64, 3, 3), geometry((1, 1), dilation=2)),
        ((16, 64, 32, 32), (64, 32, 3, 3), geometry((1, 1), groups=2)),
        ((16, 64, 32, 32), (64, 64, 5, 5), geometry((2, 2))),
        ((16, 64, 32, 32), (64, 64, 1, 3), geometry((0, 1))),
        ((16, 64, 32, 32), (64, 64, 3, 3), geometry((3, 1))),
        ((16, 3, 32, 32), (64, 3, 3, 3), geometry((1, 1))),
        ((16, 512, 4, 4), (512, 512, 3, 3), geometry((1, 1))),
        ((16, 64, 3, 3), (64, 64, 3, 3), geometry((0, 0))),
    ],
)  # fmt: skip
def test_what_does_not_fit_or_does_not_pay_stays(
    x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any]
) -> None:
    graph = forward(x, w, **options)
    assert op_names(winograd(graph)) == ["input", "input", "conv"]


def test_other_ranks_stay() -> None:
    for x, w in (((16, 64, 999), (64, 64, 3)), ((4, 64, 9, 9, 9), (64, 64, 3, 3, 3))):
        ones = (1,) * (len(x) - 2)
        options = {"stride": ones, "padding": ones, "dilation": ones, "groups": 1}
        assert "conv" in op_names(winograd(forward(x, w, **options)))


def case(n: int, c: int, o: int, size: int, **options: Any) -> Candidate:
    shape = (size, size)
    return Candidate(DType.f32, (n, c, *shape), (o, c, 3, 3), (n, o, *shape), (1, 1), **options)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("convolution", "chosen"),
    [
        (case(16, 64, 64, 56), True), (case(16, 64, 64, 32), True), (case(16, 128, 128, 16), True),
        (case(1, 64, 64, 32), True), (case(4, 256, 256, 14), True), (case(16, 64, 64, 3), False),
        (case(16, 3, 64, 32), False), (case(16, 64, 3, 32), False), (case(0, 64, 64, 32), False),
    ],
)  # fmt: skip
def test_the_models_of_all_targets_take_what_gains_by_much(
    convolution: Candidate, chosen: bool, target: str
) -> None:
    gain = preferred_layouts(named(target)).winograd_gain(convolution)
    assert (gain >= LEAST_GAIN) == chosen


def test_blocks_of_wider_vectors_leave_the_cache_with_fewer_channels() -> None:
    """Four vectors of 16 tiles are four times the two of 8 that a target with 16 registers has."""
    narrow, wide = (
        preferred_layouts(named(target)).winograd_gain(case(1, 256, 256, 14))
        for target in ("x86-64-v3", "x86-64-v4")
    )
    assert narrow >= LEAST_GAIN > wide


def test_known_weights_gain_more() -> None:
    plain, known = (V3.winograd_gain(case(1, 512, 512, 7, known_weight=k)) for k in (False, True))
    assert plain < LEAST_GAIN < known


def test_the_gradient_is_compared_with_the_direct_gradient() -> None:
    assert V3.winograd_gain(case(16, 64, 64, 32, is_gradient=True)) >= LEAST_GAIN


def test_without_a_target_convolutions_stay() -> None:
    assert "winograd" not in op_names(optimize(forward(*LARGE), "relaxed"))


# -- how far off it is ----------------------------------------------------------------------------


def exact(graph: graphc.Graph, arrays: list[Array]) -> Array:
    """Tap by tap in more than float64; the gradient as the convolution with the turned kernel."""
    x, w = (array.astype(np.longdouble) for array in arrays)
    node = graph.nodes[-1]
    padding = node.attribute("padding")
    if node.op == "conv_input_grad":
        w = w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        padding = tuple(2 - by for by in padding)
    whole = np.pad(x, ((0, 0), (0, 0), *((by, by) for by in padding)))
    high, across = (dim - 2 for dim in whole.shape[2:])
    total = np.zeros((x.shape[0], w.shape[0], high, across), np.longdouble)
    for i, j in np.ndindex(3, 3):
        part = whole[:, :, i : i + high, j : j + across]
        total += np.einsum("oc,nchw->nohw", w[:, :, i, j], part)
    return total


def bound(graph: graphc.Graph, arrays: list[Array], unit: float) -> Array:
    """docs/contractions.md: 4·(C + 16)·u · Σ_c (Σ of |x| under the tile) (Σ of |w|), with u/(1-nu)
    for u."""
    x, w = (np.abs(array.astype(np.longdouble)) for array in arrays)
    node = graph.nodes[-1]
    padding = node.attribute("padding")
    if node.op == "conv_input_grad":
        w, padding = w.transpose(1, 0, 2, 3), tuple(2 - by for by in padding)
    high, across = node.types[0].shape[2:]
    tiles = -(-high // 2), -(-across // 2)
    behind = (2 * t + 2 - dim - by for t, dim, by in zip(tiles, x.shape[2:], padding, strict=True))
    whole = np.pad(x, ((0, 0), (0, 0), *zip(padding, behind, strict=True)))
    under = sum(
        whole[:, :, i : i + 2 * tiles[0] : 2, j : j + 2 * tiles[1] : 2] for i, j in np.ndindex(4, 4)
    )
    n = (x.shape[1] + 16) * unit
    each = 4 * n / (1 - n) * np.einsum("oc,nchw->nohw", w.sum((2, 3)), under)
    return each.repeat(2, axis=2).repeat(2, axis=3)[:, :, :high, :across]


sizes = st.tuples(st.integers(1, 13), st.integers(1, 21))
paddings = st.tuples(st.integers(0, 2), st.integers(0, 2))


@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 3), st.integers(1, 24), st.integers(1, 9), sizes, paddings,
    st.sampled_from(["f32", "f64"]), st.booleans(), st.integers(0, 3),
)  # fmt: skip
def test_errors_stay_within_the_stated_bound(
    images: int, channels: int, outputs: int, size: tuple[int, int], padding: tuple[int, int],
    dtype: str, gradient: bool, seed: int,
) -> None:  # fmt: skip
    size = tuple(max(dim, 3 - 2 * by) for dim, by in zip(size, padding, strict=True))
    x, w = (images, channels, *size), (outputs, channels, 3, 3)
    graph = (
        backward(x, w, padding, dtype) if gradient else forward(x, w, dtype, **geometry(padding))
    )
    arrays = drawn(graph, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_pass, "LEAST_GAIN", 0.0)
        taken = winograd(graph)
    assert "winograd" in op_names(taken)
    (result,) = graphc.compile(taken)(*arrays)
    error = np.abs(result - exact(graph, arrays))
    assert (error <= bound(graph, arrays, LIMIT[dtype])).all()


def test_the_bound_holds_for_long_sums_that_cancel() -> None:
    graph = forward((1, 300, 4, 6), (3, 300, 3, 3))
    x, w = drawn(graph)
    x[:, ::2] *= 1e4
    x[:, 1::2] = -x[:, ::2]
    w[:, 1::2] = w[:, ::2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd_pass, "LEAST_GAIN", 0.0)
        (result,) = graphc.compile(winograd(graph))(x, w)
    error = np.abs(result - exact(graph, [x, w]))
    assert (error <= bound(graph, [x, w], LIMIT["f32"])).all()


def test_products_of_the_weights_matrix_are_exact() -> None:
    """Its elements are powers of two, or 0: a condition of the bound."""
    for turned in (False, True):
        assert set(np.abs(weight_matrix(turned)).ravel()) == {0, 0.25, 0.5, 1}


# -- numbers that are not finite ------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_in_x_reaches_what_it_reaches_in_the_convolution(
    number: float, gradient: bool, always: None
) -> None:
    shapes = (2, 3, 7, 10), (4, 3, 3, 3)
    graph = backward(*shapes, (1, 0)) if gradient else forward(*shapes, **geometry((1, 0)))
    taken = winograd(graph)
    assert "winograd" in op_names(taken)
    one, other = graphc.compile(taken), graphc.compile(graph)
    x, w = drawn(graph)
    w[0, 0, 1] = 0  # times infinity this is NaN
    for place in np.ndindex(*x.shape[2:]):
        bad = x.copy()
        bad[1, 2, *place] = number
        actual, expected = one(bad, w)[0], other(bad, w)[0]
        np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected))
        assert np.isnan(actual[np.isnan(expected)]).all()


@pytest.mark.parametrize("gradient", [False, True])
def test_what_is_not_finite_in_the_weights_never_disappears(gradient: bool, always: None) -> None:
    shapes = (2, 3, 5, 6), (4, 3, 3, 3)
    graph = backward(*shapes, (1, 1)) if gradient else forward(*shapes)
    one, other = graphc.compile(winograd(graph)), graphc.compile(graph)
    x, w = drawn(graph)
    for number in (np.nan, np.inf, -np.inf):
        for place in np.ndindex(3, 3):
            bad = w.copy()
            bad[2, 1, *place] = number
            actual, expected = one(x, bad)[0], other(x, bad)[0]
            assert not np.isfinite(actual[~np.isfinite(expected)]).any()
            assert np.isnan(actual[np.isnan(expected)]).all()
            # Only results of that kernel are touched.
            own = np.zeros(actual.shape, bool)
            own[:, 1 if gradient else 2] = True
            assert np.isfinite(actual[~own]).all()


# -- training ------------------------------------------------------------------------------------


def test_a_training_step_takes_it_forward_and_for_the_gradient_of_x(always: None) -> None:
    g = GraphBuilder("step")
    x, w, b = g.input("x", "f32[2,5,7,9]"), g.input("w", "f32[6,5,3,3]"), g.input("b", "f32[6,7,9]")
    y = conv(x, w, **geometry((1, 1)))
    out = ops.relu(y + ops.movement.broadcast(b, shape=y.shape))
    loss = ops.sum(out * out, axes=(0, 1, 2, 3))
    graph = graphc.joint(g.finish(loss), wrt=["x", "w", "b"])
    names = op_names(optimize(graph, "relaxed", preferred=V3))
    assert names.count("winograd") == 2
    assert "conv" not in names and "conv_input_grad" not in names
    assert names.count("conv_weight_grad") == 1
    arrays = drawn(graph)
    one, other = (graphc.compile(graph, level)(*arrays) for level in ("relaxed", "exact"))
    for result, exact in zip(one, other, strict=True):
        scale = np.abs(exact).max()
        np.testing.assert_allclose(result, exact, atol=2e-5 * scale, rtol=0)


def test_gradients_agree_with_differences(always: None) -> None:
    """Of a loss in f64, along a line through a random direction."""
    g = GraphBuilder("loss")
    x, w = g.input("x", "f64[1,3,5,6]"), g.input("w", "f64[4,3,3,3]")
    y = conv(x, w, **geometry((1, 2)))
    plain = g.finish(ops.sum(ops.tanh(y), axes=(0, 1, 2, 3)))
    joint = graphc.joint(plain, wrt=["x", "w"])
    arrays = [0.3 * array for array in drawn(plain)]
    value, step = graphc.compile(plain, "relaxed"), 1e-5
    gradients = graphc.compile(joint, "relaxed")(*arrays)[-2:]
    for i, gradient in enumerate(gradients):
        along = np.random.default_rng(i).standard_normal(arrays[i].shape)
        sides = []
        for sign in (1, -1):
            moved = list(arrays)
            moved[i] = arrays[i] + sign * step * along
            sides.append(float(value(*moved)[0]))
        difference = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose((gradient * along).sum(), difference, rtol=1e-7, atol=1e-8)
