"""Convolutions of f16 and bf16, summed two products at a time: forward and both gradients have the
bits of the definition on every target, by each strategy that is chosen there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.recipe import plan_kernel
from graphc.codegen.kernels.contraction.strategies.paired_windows import PairedWindowsPlan
from graphc.codegen.kernels.contraction.strategies.tap_list_conv import TapListConvPlan
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.target import named
from graphc.ops.kinds.numpy_fma import fma32
from graphc.ops.paired_convolution import (
    conv_of_halves,
    input_grad_of_halves,
    weight_grad_of_halves,
)
from graphc.schedule.plan import KernelSpec

Array = np.ndarray[Any, Any]
Geometry = dict[str, Any]
K_BLOCK = 256
EXTENDED = named("x86-64-v4+bf16")
TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")]
SCALES = {
    "normal": (1.0, 1.0), "products underflow": (2.0**-70, 2.0**-70),
    "sums underflow": (2.0**-60, 2.0**-60), "denormal": (2.0**-133, 1.0),
}  # fmt: skip
# x, w, stride, padding, dilation, groups
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((2, 6, 7, 8), (8, 6, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "padded": ((1, 8, 6, 6), (6, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "several K blocks": ((1, 66, 4, 4), (4, 66, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "strided": ((2, 4, 9, 12), (6, 4, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    "dilated in groups": ((1, 8, 8, 9), (4, 4, 2, 2), (1, 1), (1, 0), (1, 3), 2),
    "product": ((2, 10, 5, 6), (12, 10, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    "strided product": ((1, 4, 8, 8), (6, 4, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    "line": ((3, 4, 40), (2, 4, 5), (1,), (2,), (1,), 1),
    "weights copied": ((1, 4, 12, 12), (8, 4, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "many images": ((17, 2, 4, 4), (4, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
}  # fmt: skip


def geometry_of(case: tuple[Any, ...]) -> Geometry:
    return dict(zip(("stride", "padding", "dilation", "groups"), case[2:], strict=True))


def in_blocks(products: Any, shape: tuple[int, ...]) -> Array:
    """The sums of (block, valid, x, y) in order: FMAs from +0 in each block, blocks added in order,
    from +0 where there are several."""
    totals: dict[int, Array] = {}
    for block, valid, x, y in products:
        before = totals.setdefault(block, np.zeros(shape, np.float32))
        x, y, valid = np.broadcast_arrays(x, y, valid)
        total = fma32(*np.broadcast_arrays(x, y, before))
        totals[block] = np.where(np.broadcast_to(valid, shape), total, before)
    blocks = list(totals.values())
    return blocks[0] if len(blocks) == 1 else functools.reduce(
        np.add, blocks, np.zeros(shape, np.float32)
    )  # fmt: skip


def gathered(x: Array, axes_at: list[Array]) -> tuple[Array, Array]:
    """x [.., *size] at coordinates along its last axes, and where these exist."""
    rank = len(axes_at)
    valid: Array = np.ones((1,) * rank, bool)
    for axis, at in enumerate(axes_at):
        inside = (at >= 0) & (at < x.shape[axis - rank])
        valid = valid & inside.reshape([-1 if a == axis else 1 for a in range(rank)])
        x = np.take(x, np.clip(at, 0, x.shape[axis - rank] - 1), axis=axis - rank)
    return x, valid


def paired(count: int) -> list[int]:
    return [i ^ 1 for i in range(count)]


def forward(x: Array, w: Array, positions: tuple[int, ...], g: Geometry) -> Array:
    def products() -> Any:
        kernel = w.shape[2:]
        step = K_BLOCK // (2 * int(np.prod(kernel)))
        for pair in range(w.shape[1] // 2):
            for tap in np.ndindex(*kernel):
                at = [
                    np.arange(n) * s + t * d - p for n, s, t, d, p in
                    zip(positions, g["stride"], tap, g["dilation"], g["padding"], strict=True)
                ]  # fmt: skip
                for c in (2 * pair + 1, 2 * pair):
                    read, valid = gathered(x[:, c : c + 1], at)
                    factor = w[(slice(None), c, *tap)].reshape(1, -1, *(1,) * len(kernel))
                    yield pair // step, valid, read, factor

    return in_blocks(products(), (x.shape[0], w.shape[0], *positions))


def input_gradient(g: Array, w: Array, size: tuple[int, ...], how: Geometry) -> Array:
    def products() -> Any:
        kernel = w.shape[2:]
        step = K_BLOCK // (2 * int(np.prod(kernel)))
        for pair in range(w.shape[0] // 2):
            for tap in np.ndindex(*kernel):
                moved = [
                    np.arange(n) + p - t * d for n, t, d, p in
                    zip(size, tap, how["dilation"], how["padding"], strict=True)
                ]  # fmt: skip
                at = [np.where(m % s, -1, m // s) for m, s in zip(moved, how["stride"])]
                for o in (2 * pair + 1, 2 * pair):
                    read, valid = gathered(g[:, o : o + 1], at)
                    factor = w[(o, slice(None), *tap)].reshape(1, -1, *(1,) * len(kernel))
                    yield pair // step, valid, read, factor

    return in_blocks(products(), (g.shape[0], w.shape[1], *size))


def weight_gradient(x: Array, g: Array, kernel: tuple[int, ...], how: Geometry) -> Array:
    positions = g.shape[2:]
    count, width = int(np.prod(positions)), positions[-1]

    def products() -> Any:
        for n in range(x.shape[0]):
            for line in np.ndindex(*positions[:-1]):
                for last in paired(width):
                    place = (*line, last)
                    if count <= K_BLOCK:
                        block = n // (K_BLOCK // count)
                    else:
                        lines = K_BLOCK // width
                        assert len(line) == 1
                        block = n * (-(-positions[0] // lines)) + line[0] // lines
                    at = [
                        np.arange(k) * d + i * s - p for k, d, i, s, p in
                        zip(kernel, how["dilation"], place, how["stride"], how["padding"],
                            strict=True)
                    ]  # fmt: skip
                    read, valid = gathered(x[n], at)
                    factor = g[(n, slice(None), *place)].reshape(-1, 1, *(1,) * len(kernel))
                    yield block, valid, read[None], factor

    return in_blocks(products(), (g.shape[1], x.shape[1], *kernel))


def by_groups(one: Any, x: Array, y: Array, groups: int, axes: tuple[int, int], out: int) -> Array:
    parts = zip(np.split(x, groups, axes[0]), np.split(y, groups, axes[1]), strict=True)
    with np.errstate(all="ignore"):
        return np.concatenate([one(*part) for part in parts], out)


KINDS = ("conv", "conv_input_grad", "conv_weight_grad")


def body(kind: str, case: tuple[Any, ...], dtype: str = "bf16") -> graphc.Graph:
    x, w = case[:2]
    geometry = geometry_of(case)
    out = forward_positions(case)
    b = graphc.GraphBuilder(kind)
    text = {name: ",".join(map(str, shape)) for name, shape in
            (("x", x), ("w", w), ("g", (x[0], w[0], *out)))}  # fmt: skip
    read = [b.input(name, f"{dtype}[{text[name]}]") for name in OPERANDS[kind]]
    more: Geometry = {
        "conv": {}, "conv_input_grad": {"size": x[2:]}, "conv_weight_grad": {"kernel": w[2:]}
    }[kind]  # fmt: skip
    return b.finish(getattr(ops, f"paired_{kind}")(*read, **more, **geometry))


OPERANDS = {"conv": "xw", "conv_input_grad": "gw", "conv_weight_grad": "xg"}


def forward_positions(case: tuple[Any, ...]) -> tuple[int, ...]:
    x, w, stride, padding, dilation, _ = case
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    )


def defined(kind: str, case: tuple[Any, ...], left: Array, right: Array) -> Array:
    geometry, groups = geometry_of(case), case[-1]
    left, right = (each.astype(np.float32) for each in (left, right))
    if kind == "conv":
        positions = forward_positions(case)
        one = lambda x, w: forward(x, w, positions, geometry)  # noqa: E731
        return by_groups(one, left, right, groups, (1, 0), 1)
    if kind == "conv_input_grad":
        one = lambda g, w: input_gradient(g, w, case[0][2:], geometry)  # noqa: E731
        return by_groups(one, left, right, groups, (1, 0), 1)
    one = lambda x, g: weight_gradient(x, g, case[1][2:], geometry)  # noqa: E731
    return by_groups(one, left, right, groups, (1, 1), 0)


def drawn(graph: graphc.Graph, scales: tuple[float, float] = (1.0, 1.0)) -> list[Array]:
    random = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        return [
            (random.standard_normal(type.shape) * scale).astype(type.dtype.numpy)
            for type, scale in zip(graph.input_types, scales, strict=True)
        ]


def same(got: Array, want: Array) -> bool:
    numbers = ~np.isnan(want)
    # Of sums that underflowed to zero the sign is not defined.
    bits = (got.view(np.int32) == want.view(np.int32)) | ((got == 0) & (want == 0))
    return bool((np.isnan(got) == np.isnan(want)).all() and bits[numbers].all())


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_the_definition(name: str, kind: str, native_target: Any) -> None:
    graph = body(kind, CASES[name])
    for scales in SCALES.values():
        left, right = drawn(graph, scales)
        (got,) = graphc.compile(graph, target=native_target)(left, right)
        assert same(got, defined(kind, CASES[name], left, right)), scales


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", [*TARGETS, EXTENDED], ids=lambda target: target.name)
@pytest.mark.parametrize("kind", KINDS)
def test_interpreted_on_every_target(target: Any, kind: str) -> None:
    case = ((1, 4, 4, 6), (6, 4, 3, 3), (1, 1), (1, 1), (1, 1), 1)
    graph = body(kind, case)
    for scales in ((1.0, 1.0), (2.0**-70, 2.0**-70)):
        left, right = drawn(graph, scales)
        result = np.empty(graph.output_types[0].shape, np.float32)
        with np.errstate(all="ignore"):
            run(lower(KernelSpec("contract", graph), target), [left, right, result])
        assert same(result, defined(kind, case, left, right))


def test_weights_that_several_tiles_read_are_copied_as_floats() -> None:
    graph = body("conv", CASES["weights copied"])
    kernel = lower(KernelSpec("contract", graph), named("x86-64-v3"))
    assert "broadcast operand packed" in str(kernel.note)
    (copied,) = (text for text in str(kernel).splitlines() if text.startswith("kernel "))
    assert "broadcast: scratch f32[288]" in copied


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_with_padding_is_skipped(kind: str, native_target: Any) -> None:
    case = CASES["padded"]
    graph = body(kind, case)
    left, right = drawn(graph)
    right[0, 1, 0, 0], right[-1, 0, 1, 1], left[0, 3, 2, 2] = np.inf, np.nan, -np.inf
    (got,) = graphc.compile(graph, target=native_target)(left, right)
    assert same(got, defined(kind, case, left, right))


def test_halves_of_odd_numbers_are_widened() -> None:
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    for channels, outputs, width, counts in ((3, 4, 6, (0, 1, 1)), (4, 3, 5, (1, 0, 0))):
        b = graphc.GraphBuilder("halves")
        x = b.input("x", f"bf16[2,{channels},5,{width}]")
        w = b.input("w", f"bf16[{outputs},{channels},3,3]")
        g = b.input("g", f"bf16[2,{outputs},5,{width}]")
        graph = b.finish(
            conv_of_halves(x, w, **how), input_grad_of_halves(g, w, size=(5, width), **how),
            weight_grad_of_halves(x, g, kernel=(3, 3), **how),
        )  # fmt: skip
        assert tuple(str(graph).count(f"paired_{kind}(") for kind in KINDS) == counts
        assert all(str(type).startswith("f32") for type in graph.output_types)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_gradients_are_rounded_to_the_operands_dtype(dtype: str) -> None:
    case = CASES["padded"]
    graph = graphc.joint(body("conv", case, dtype), wrt=["x", "w"])
    x, w = drawn(body("conv", case, dtype))
    g = np.random.default_rng(5).standard_normal((1, 6, 6, 6)).astype(np.float32)
    _, by_x, by_w = graphc.compile(graph)(x, w, g)
    short = g.astype(x.dtype)
    assert by_x.dtype == by_w.dtype == x.dtype
    assert (by_x == defined("conv_input_grad", case, short, w).astype(x.dtype)).all()
    assert (by_w == defined("conv_weight_grad", case, x, short).astype(x.dtype)).all()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_near_those_of_float64(kind: str, dtype: str) -> None:
    for case in CASES.values():
        graph = body(kind, case, dtype)
        left, right = drawn(graph)
        (got,) = graphc.run(graph, left, right)
        want = defined(kind, case, left, right)
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


def test_odd_numbers_are_refused() -> None:
    b = graphc.GraphBuilder("odd")
    x, w = b.input("x", "bf16[1,3,4,4]"), b.input("w", "bf16[2,3,3,3]")
    with pytest.raises(graphc.GraphError, match="an odd number of channels in a group"):
        ops.paired_conv(x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)


BY_PAIRS = ("plain", "padded", "several K blocks", "strided", "dilated in groups", "line")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["conv", "conv_input_grad"])
@pytest.mark.parametrize("name", BY_PAIRS)
def test_the_instruction_adds_the_same_sums(name: str, kind: str) -> None:
    """Where the cost model would take another strategy too; both where no sum is denormal and
    where the instruction would flush them."""
    graph = body(kind, CASES[name])
    single = next(problems(graph, 16))
    plans = list(PairedWindowsPlan.candidates(single, EXTENDED))
    assert plans
    for plan in plans[:1]:
        kernel = plan_kernel("paired", plan, 16)
        assert "dot_pairs" in str(kernel)
        for scales in ((1.0, 1.0), (2.0**-70, 2.0**-70)):
            left, right = drawn(graph, scales)
            result = np.empty(graph.output_types[0].shape, np.float32)
            with np.errstate(all="ignore"):
                run(kernel, [left, right, result])
            assert same(result, defined(kind, CASES[name], left, right)), scales


def test_skipped_products_by_the_instruction() -> None:
    graph = body("conv", CASES["padded"])
    plan = next(iter(PairedWindowsPlan.candidates(next(problems(graph, 16)), EXTENDED)))
    left, right = drawn(graph)
    right[0, 1, 0, 0], right[1, 0, 1, 1], left[0, 3, 2, 2] = np.inf, np.nan, -np.inf
    result = np.empty(graph.output_types[0].shape, np.float32)
    with np.errstate(all="ignore"):
        run(plan_kernel("paired", plan, 16), [left, right, result])
    assert same(result, defined("conv", CASES["padded"], left, right))


def test_the_instruction_is_used_where_it_pays() -> None:
    case = ((8, 64, 28, 28), (64, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1)
    for kind in ("conv", "conv_input_grad"):
        notes = {
            target.name: lower(KernelSpec("contract", body(kind, case)), target).note
            for target in (EXTENDED, named("x86-64-v4"))
        }
        assert "paired windows" in notes[EXTENDED.name]
        assert "paired windows" not in notes["x86-64-v4"]
    product = body("conv", ((8, 64, 28, 28), (64, 64, 1, 1), (1, 1), (0, 0), (1, 1), 1))
    assert "pairs: tile" in lower(KernelSpec("contract", product), EXTENDED).note


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_taps_have_both_of_a_pair(kind: str) -> None:
    """Small planes, with vectors along images: groups and strides too."""
    for case in (
        ((9, 8, 4, 4), (6, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((8, 16, 4, 6), (4, 8, 3, 3), (2, 1), (1, 1), (1, 1), 2),
    ):
        graph = body(kind, case)
        left, right = drawn(graph)
        (plan,) = TapListConvPlan.candidates(next(problems(graph, 8)), named("x86-64-v3"))
        result = np.empty(graph.output_types[0].shape, np.float32)
        run(plan_kernel("listed", plan, 8), [left, right, result])
        assert same(result, defined(kind, case, left, right))
