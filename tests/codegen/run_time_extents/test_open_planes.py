"""Convolutions over planes of any size, by a register tile: positions are its rows, output channels
run along vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.kernels.contraction.strategies.unblocked import UnblockedPlan
from graphc.ir.dims import Extent, dim
from graphc.ir.undecided import granted
from graphc.ops import contract
from tests.codegen.run_time_extents.kernels import Array, N, body_of, compare
from tests.codegen.run_time_extents.open_planes import (
    ALL_TARGETS,
    BROAD,
    HIGH,
    H,
    W,
    convolution,
    planes,
)

SIZES = planes((1, 5, 7), (1, 1, 1), (2, 1, 3), (1, 2, 2), (1, 3, 11), (2, 6, 17), (1, 16, 8))
"""Of one position, of one less than a tile of four has, of a tile, of one more."""
WIDE = planes((1, 9, 11), (2, 7, 9), (1, 13, 17), (1, 10, 16), (1, 12, 15))
"""As wide as the longest windows at least."""
# Of images, weights, options, sizes.
CASES: dict[str, tuple[tuple[Extent, ...], tuple[int, ...], dict[str, Any], Any]] = {
    "padded": ((N, 3, H, W), (18, 3, 3, 3), {"padding": 1}, SIZES),
    "packed": ((N, 3, H, W), (33, 3, 3, 3), {"padding": 1, "packed": True}, SIZES),
    "stride 2": ((N, 3, H, W), (5, 3, 3, 3), {"padding": 1, "stride": 2}, SIZES),
    "odd strides": ((N, 2, HIGH, BROAD), (6, 2, 3, 5), {"padding": (1, 2), "stride": (3, 5)}, WIDE),
    "padding less than strides": (
        (1, 2, HIGH, BROAD), (17, 2, 7, 7), {"padding": 2, "stride": 4}, WIDE
    ),
    "padding more than windows": ((1, 2, H, W), (5, 2, 2, 2), {"padding": 3}, SIZES),
    "dilated": ((N, 2, H, W), (5, 2, 3, 3), {"padding": 2, "dilation": 2}, SIZES),
    "dilated, strided": (
        (1, 2, HIGH, BROAD), (5, 2, 3, 2), {"padding": 1, "dilation": 3, "stride": 2}, WIDE
    ),
    "no padding": ((N, 3, HIGH, BROAD), (5, 3, 3, 3), {}, WIDE),
    "patches": ((1, 3, HIGH, BROAD), (18, 3, 4, 4), {"stride": 4}, WIDE),
    "groups": ((N, 4, H, W), (10, 2, 3, 3), {"padding": 1, "groups": 2}, SIZES),
    "K blocks": ((1, 43, H, W), (5, 43, 3, 3), {"padding": 1}, SIZES[:4]),
    "open width alone": ((N, 3, 1, W), (5, 3, 3, 3), {"padding": 1}, SIZES),
    "open height alone": ((N, 3, H, 1), (5, 3, 3, 3), {"padding": 1}, SIZES),
    "one axis": ((N, 3, W), (7, 3, 4), {"padding": 2}, SIZES),
    "long windows": ((1, 2, BROAD), (18, 2, 11), {"padding": 3, "stride": 3}, WIDE),
    "three axes": ((1, 2, 3, H, W), (5, 2, 3, 3, 3), {"padding": 1}, SIZES[:5]),
}  # fmt: skip


LONG = ("packed", "padding more than windows")
"""Those that take seconds, on four targets."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow) if x in LONG else x for x in CASES]
)
def test_register_tile_at_any_size(name: str) -> None:
    x, w, options, sizes = CASES[name]
    compare(*convolution(x, w, **options), sizes, strategy=UnblockedPlan, targets=ALL_TARGETS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("strides", [1, 2])
def test_products(strides: int) -> None:
    """Windows of one element: positions are one coordinate, or are skipped."""
    h, w = dim("h", 1), dim("w", 1)
    program, operands = convolution((N, 5, h, w), (18, 5, 1, 1), stride=strides)
    compare(program, operands, SIZES, strategy=UnblockedPlan, targets=ALL_TARGETS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [2, 3, 4, 5, 9])
def test_products_with_padding_are_skipped(width: int) -> None:
    """Zeros stand for what is beyond the border: where a weight is infinite, tiles with NaN are
    summed again, also the last one, whose other rows are not there."""
    program, operands = convolution((N, 2, H, W), (5, 2, 3, 3), padding=1)

    def infinite(numbers: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        plane = (sizes["h"], sizes["w"])
        weights = numbers.standard_normal((5, 2, 3, 3)).astype(np.float32)
        weights[:2, 0, 0, 0] = np.inf
        weights[3, 1, 2, 2] = np.nan
        x, residual = (
            numbers.standard_normal((2, channels, *plane)).astype(np.float32) for channels in (2, 5)
        )
        return [x, weights, residual]

    compare(
        program, operands, planes((2, 1, width), (2, 3, width)), infinite, strategy=UnblockedPlan
    )


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stride 1", "groups"])
def test_gradient_by_the_input(kind: str) -> None:
    groups = 2 if kind == "groups" else 1
    geometry: dict[str, Any] = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1),
                                "groups": groups}  # fmt: skip
    compare(
        lambda g, w: contract.conv_input_grad(g, w, size=(H, W), **geometry),
        [(N, 6, H, W), (6, 4 // groups, 3, 3)], SIZES, strategy=UnblockedPlan,
    )  # fmt: skip


def test_no_positions() -> None:
    high, wide = dim("h"), dim("w")
    program, operands = convolution((N, 2, high, wide), (5, 2, 3, 3), padding=2)
    none = planes((0, 3, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0), (1, 3, 4))
    compare(program, operands, none, strategy=UnblockedPlan)


@pytest.mark.parametrize("taps", [1, 3])
def test_it_is_what_is_chosen(taps: int) -> None:
    h, w = dim("h", 2), dim("w", 2)
    body = body_of(*convolution((N, 64, h, w), (64, 64, taps, taps), padding=taps // 2))
    for target in ALL_TARGETS:
        plan = choose(body, 4, target)
        assert isinstance(plan, UnblockedPlan) and plan.problem.view.swapped
        assert plan.tiling.tile.rows >= 4
        assert (plan.tiling.halo is not None) == (taps == 3)


def test_typical_sizes_leave_results() -> None:
    """Windows longer than what is typical: costs are compared for a size at which there is one."""
    width = dim("w", 2)
    with granted():  # as a program's example does
        body = body_of(*convolution((N, 2, (width + 28) // 64 - 2), (5, 2, 1)))
    for problem in problems(body, 4):
        assert problem.typical(problem.rows) > 0
        assert problem.typical(width) >= 128
