"""Matrix products cut into blocks of rows and columns: the same bits whatever the caches, in parts
too, no access beside a buffer, and no gathers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.contraction.problem.view import ContractionView
from graphc.codegen.kernels.contraction.strategies.blocked import BlockedPlan
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import Target, named
from graphc.ops import contract, movement
from graphc.records import replace
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

CACHES = [(8, 16), (64, 200), (2, 4)]
"""KiB of L1 and L2: several blocks of rows, of columns, of both."""


V3 = named("x86-64-v3")


def small(l1: int, l2: int, target: Target = V3) -> Target:
    return replace(target, l1_bytes=l1 * 1024, l2_bytes=l2 * 1024)


def spec(form: str, x: Shape, y: Shape, beside: bool = False) -> KernelSpec:
    """The kernel of a product of matrices, whose leading axes are joined; with `beside`, two
    matrices are updated by it."""
    g = graphc.GraphBuilder("product")
    handles = []
    for name, letter, shape in zip("xy", form, (x, y)):
        handle = g.input(name, f"f32[{','.join(map(str, shape))}]")
        handle = movement.reshape(handle, shape=(math.prod(shape[:-1]), shape[-1]))
        transposed = movement.transpose(handle, permutation=(1, 0))
        handles.append(handle if letter == "N" else transposed)
    out = contract.matmul(*handles)
    results = [out]
    if beside:
        moments = [g.input(name, str(out.tensor_type)) for name in ("first", "second")]
        results = [moments[0] * 0.5 + out, moments[1] * 0.25 + out * out]
    _, plan = plan_graph(g.finish(*results))
    (launch,) = [step for step in plan.steps if isinstance(step, Launch)]
    return launch.kernel


def buffers(kernel: Kernel) -> list[Array]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(buffer.size, np.float32) for buffer in kernel.buffers]


def native(kernel: Kernel, parts: int = 1, target: Target | None = None) -> list[Array]:
    arrays = buffers(kernel)
    edges = [kernel.extent * part // parts for part in range(parts + 1)]
    call = jit.kernel_caller(kernel, target)
    for begin, end in itertools.pairwise(edges):
        call(arrays, begin, end)
    return arrays


PRODUCTS = {
    "NN": ("NN", (70, 600), (600, 90), False),
    "NT": ("NT", (41, 515), (130, 515), False),
    "TN": ("TN", (600, 83), (600, 70), False),
    "steps": ("TN", (15, 36, 104), (15, 36, 64), False),
    "narrow": ("TN", (300, 134), (300, 64), False),
    "small": ("TN", (13, 20, 21), (13, 20, 50), False),
    "update": ("TN", (64, 90), (64, 100), True),
    "deep update": ("TN", (5, 120, 90), (5, 120, 40), True),
}


@pytest.mark.sampled(48)
@pytest.mark.parametrize("name", PRODUCTS)
def test_blocks_change_no_bit(name: str, native_target: Target) -> None:
    kernel = spec(*PRODUCTS[name])
    whole = native(lower(kernel, native_target), 1, native_target)
    for caches in CACHES:
        blocked = lower(kernel, small(*caches, native_target))
        for parts in (1, 2, 3):
            arrays = native(blocked, parts, native_target)
            for actual, expected in zip(arrays, whole, strict=True):
                np.testing.assert_array_equal(actual, expected, err_msg=f"{caches} {parts}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("caches", CACHES)
def test_no_access_of_blocks_is_beside_a_buffer(caches: tuple[int, int]) -> None:
    """The interpreter checks each access."""
    kernel = lower(spec(*PRODUCTS["small"]), small(*caches))
    arrays = buffers(kernel)
    interpreter.run(kernel, arrays)
    for actual, expected in zip(arrays, native(kernel), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [name for name in PRODUCTS if name != "small"])
@pytest.mark.parametrize("caches", [(32, 1024), *CACHES])
def test_rows_and_columns_are_read_by_vectors(name: str, caches: tuple[int, int]) -> None:
    """Also where axes are joined, so that only bounds tell that a row has one batch index, and
    where the last block is smaller than the others."""
    assert "gather" not in str(lower(spec(*PRODUCTS[name]), small(*caches)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("caches", [(32, 1024), *CACHES])
def test_heads_are_read_by_vectors(transposed: bool, caches: tuple[int, int]) -> None:
    """Where a vector lies in one head, though heads lie apart."""
    g = graphc.GraphBuilder("heads")
    x, y = (
        g.input("x", "f32[2,4,160,16]"),
        g.input("y", "f32[320,48]" if transposed else "f32[64,48]"),
    )
    x = movement.reshape(movement.transpose(x, permutation=(0, 2, 1, 3)), shape=(320, 64))
    x = movement.transpose(x, permutation=(1, 0)) if transposed else x
    _, plan = plan_graph(g.finish(contract.matmul(x, y)))
    (launch,) = [step for step in plan.steps if isinstance(step, Launch)]
    assert "gather" not in str(lower(launch.kernel, small(*caches)))


def test_small_caches_have_many_blocks() -> None:
    """What the tests above are about."""
    blocks = {
        (plan.blocks.rows > 0, plan.blocks.columns > 1)
        for name in PRODUCTS for caches in ((32, 1024), *CACHES)
        for plan in [choose(spec(*PRODUCTS[name]).body, 8, small(*caches))]
        if isinstance(plan, BlockedPlan) and plan.packs_columns
    }  # fmt: skip
    assert blocks == {(False, False), (False, True), (True, False), (True, True)}


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_with_kernels_of_one_element_are_products(axes: int) -> None:
    def view(stride: int, swapped: bool = False) -> ContractionView:
        g = graphc.GraphBuilder("pointwise")
        x = g.input("x", f"f32{[2, 40, *size]}")
        w = g.input("w", f"f32{[24, 40, *(1,) * axes]}")
        geometry: Any = {"stride": (stride,) * axes, "padding": (0,) * axes,
                         "dilation": (1,) * axes, "groups": 1}  # fmt: skip
        return ContractionView(g.finish(contract.conv(x, w, **geometry)), swapped)

    size = (16, 32, 4)[:axes]
    for swapped in (False, True):
        result = view(1, swapped)
        assert {result.m, result.n} == {(24,), (math.prod(size),)} and result.k == (40,)
    assert len(view(2).n) == axes


@pytest.mark.sampled(16)
@pytest.mark.parametrize("caches", [(32, 256), (32, 512), (48, 2048)])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_drawn_products_keep_to_their_copies_at_any_cache_size(
    vector_bytes: int, caches: tuple[int, int]
) -> None:
    """Lowering verifies rule L8: a run of one group of tiles once lay, to the verifier, before the
    copy of every later block of rows."""
    target = replace(small(*caches), vector_bytes=vector_bytes)
    rng = np.random.default_rng(vector_bytes + caches[1])
    lower(spec("TN", (1024, 79), (1024, 128)), target)
    lower(spec("TN", (1024, 154), (1024, 256)), target)
    for _ in range(20):
        m, n = int(rng.integers(41, 512)), int(rng.choice([33, 64, 100, 128, 256, 512]))
        k = int(rng.choice([256, 300, 512, 1024, 4096]))
        lower(spec("TN", (k, m), (k, n)), target)
