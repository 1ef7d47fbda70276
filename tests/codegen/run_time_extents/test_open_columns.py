"""Columns of sizes known only at run time, by a register tile: vectors along the last coordinate of
n, of one line or of neighbouring ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.codegen.kernels.contraction.strategies.open_columns import OpenColumnsPlan
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.target import named
from graphc.ir.builder import Var
from graphc.ir.dims import Extent, dim
from graphc.ops import contract
from graphc.ops.movement import transpose
from tests.codegen.run_time_extents.kernels import (
    Array,
    M,
    N,
    Operand,
    Program,
    along,
    body_of,
    compare,
)
from tests.codegen.run_time_extents.open_planes import (
    ALL_TARGETS,
    BROAD,
    HIGH,
    H,
    W,
    convolution,
    planes,
)

SIZES = planes((1, 5, 7), (1, 1, 1), (2, 1, 3), (1, 2, 2), (1, 9, 35), (2, 12, 17), (1, 7, 16))
"""Of one line and column, of a tile of either, of one more."""
WIDE = planes((1, 9, 11), (2, 7, 9), (1, 13, 33), (1, 10, 16))
"""As wide as the longest windows at least."""
# Of images, weights, options, sizes.
DEPTHWISE: dict[str, tuple[tuple[Extent, ...], tuple[int, ...], dict[str, Any], Any]] = {
    "padded": ((N, 3, H, W), (3, 1, 3, 3), {"padding": 1, "groups": 3}, SIZES),
    "stride 2": ((N, 3, H, W), (3, 1, 3, 3), {"padding": 1, "groups": 3, "stride": 2}, SIZES),
    "5x5, stride 2": ((N, 2, H, W), (2, 1, 5, 5), {"padding": 2, "groups": 2, "stride": 2}, SIZES),
    "7x7": ((1, 2, H, W), (2, 1, 7, 7), {"padding": 3, "groups": 2}, SIZES),
    "several outputs a group": ((N, 2, H, W), (6, 1, 3, 3), {"padding": 1, "groups": 2}, SIZES),
    "dilated": ((N, 2, H, W), (2, 1, 3, 3), {"padding": 2, "dilation": 2, "groups": 2}, SIZES),
    "no padding": ((N, 2, HIGH, BROAD), (2, 1, 3, 3), {"groups": 2}, WIDE),
    "odd strides": (
        (N, 2, HIGH, BROAD), (2, 1, 3, 5), {"groups": 2, "padding": (1, 2), "stride": (3, 5)}, WIDE
    ),
    "padding more than windows": ((1, 2, H, W), (2, 1, 2, 2), {"padding": 3, "groups": 2}, SIZES),
    "open width alone": ((N, 2, 1, W), (2, 1, 3, 3), {"padding": 1, "groups": 2}, SIZES),
    "six lines": ((N, 2, 6, W), (2, 1, 3, 3), {"padding": 1, "groups": 2}, SIZES),
    "open height alone": ((N, 2, H, 3), (2, 1, 7, 7), {"padding": 3, "groups": 2}, SIZES),
    "one axis": ((N, 2, W), (2, 1, 4), {"padding": 2, "groups": 2}, SIZES),
    "three axes": ((1, 2, 3, H, W), (2, 1, 3, 3, 3), {"padding": 1, "groups": 2}, SIZES[:5]),
    "few channels": ((N, 3, H, W), (5, 3, 3, 3), {"padding": 1}, SIZES),
    "K blocks": ((1, 43, H, W), (2, 43, 3, 3), {"padding": 1}, SIZES[:4]),
}  # fmt: skip


LONG = ("7x7", "5x5, stride 2", "K blocks", "three axes")
"""Those that take seconds, on four targets."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow) if x in LONG else x for x in DEPTHWISE]
)
def test_windows_at_any_size(name: str) -> None:
    x, w, options, sizes = DEPTHWISE[name]
    compare(*convolution(x, w, **options), sizes, strategy=OpenColumnsPlan, targets=ALL_TARGETS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [3, 9])
def test_products_with_padding_are_skipped(width: int) -> None:
    """Zeros stand for what is beyond the border: where a weight is infinite, tiles with NaN are
    summed again, also those of lines that are not all there."""
    program, operands = convolution((N, 2, H, W), (2, 1, 3, 3), padding=1, groups=2)

    def infinite(numbers: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        plane = (sizes["h"], sizes["w"])
        weights = numbers.standard_normal((2, 1, 3, 3)).astype(np.float32)
        weights[0, 0, 0, 0] = np.inf
        weights[1, 0, 2, 2] = np.nan
        x, residual = (numbers.standard_normal((2, 2, *plane)).astype(np.float32) for _ in range(2))
        return [x, weights, residual]

    sizes = planes((2, 1, width), (2, 3, width), (2, 8, width))
    compare(program, operands, sizes, infinite, strategy=OpenColumnsPlan)


def test_no_positions() -> None:
    high, wide = dim("h"), dim("w")
    program, operands = convolution((N, 2, high, wide), (2, 1, 3, 3), padding=2, groups=2)
    none = planes((0, 3, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0), (1, 3, 4))
    compare(program, operands, none, strategy=OpenColumnsPlan)


# -- gradients by the input ------------------------------------------------------------------------


def upsampled(
    channels: tuple[int, int], taps: int, stride: tuple[int, int], padding: int = 0, more: int = 0,
    groups: int = 1,
) -> tuple[Program, list[Operand]]:  # fmt: skip
    """A transposed convolution; `more` lines and columns than the windows need."""
    geometry: dict[str, Any] = {"stride": stride, "padding": (padding,) * 2, "dilation": (1, 1),
                                "groups": groups}  # fmt: skip
    size = tuple(
        (extent - 1) * step + taps - 2 * padding + more
        for extent, step in zip((H, W), stride, strict=True)
    )
    return (
        lambda g, w: contract.conv_input_grad(g, w, size=size, **geometry),
        [(N, channels[0], H, W), (channels[0], channels[1] // groups, taps, taps)],
    )


GRADIENTS: dict[str, tuple[Program, list[Operand]]] = {
    "2x2": upsampled((5, 3), 2, (2, 2)),
    "2x2, one channel": upsampled((3, 1), 2, (2, 2)),
    "more than windows": upsampled((3, 2), 2, (2, 2), more=1),
    "4x4, padded": upsampled((3, 4), 4, (2, 2), padding=1),
    "3x3, padded": upsampled((3, 4), 3, (2, 2), padding=1, more=1),
    "depthwise": upsampled((4, 4), 3, (2, 2), padding=1, more=1, groups=4),
    "1x1": upsampled((3, 2), 1, (2, 2)),
    "stride 3": upsampled((3, 2), 3, (1, 3)),
    "along lines": upsampled((3, 2), 2, (1, 2)),
    "down": upsampled((3, 2), 2, (2, 1)),
    "no stride": upsampled((3, 2), 3, (1, 1), padding=1),
}


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_by_the_input(name: str) -> None:
    compare(*GRADIENTS[name], SIZES, strategy=OpenColumnsPlan, targets=ALL_TARGETS)


def test_infinite_elements_meet_their_own_taps_alone() -> None:
    def infinite(numbers: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        g = numbers.standard_normal((1, 3, sizes["h"], sizes["w"])).astype(np.float32)
        g[0, :, 0, -1] = np.inf
        w = numbers.standard_normal((3, 4, 4, 4)).astype(np.float32)
        w[0, 0, 0, 0] = np.nan
        return [g, w]

    compare(
        *GRADIENTS["4x4, padded"], planes((1, 3, 5), (1, 1, 2)), infinite, strategy=OpenColumnsPlan
    )


# -- products --------------------------------------------------------------------------------------


def product(
    x: tuple[Extent, ...], y: tuple[Extent, ...], transposed: bool = False
) -> tuple[Program, list[Operand]]:
    rank = len(y)

    def program(x: Var, y: Var) -> Var:
        order = (*range(rank - 2), rank - 1, rank - 2)
        return x @ (transpose(y, permutation=order) if transposed else y)

    return program, [x, (*y[:-2], y[-1], y[-2]) if transposed else y]


COLUMNS = along(1, 0, 4, 5, 16, 17, 31, 47)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("x", "y"),
    [((5, 7), (7, N)), ((1, 20), (20, N)), ((13, 300), (300, N)), ((2, 3, 5), (2, 5, N))],
)
def test_products(x: tuple[int, ...], y: tuple[Extent, ...], transposed: bool) -> None:
    compare(*product(x, y, transposed), COLUMNS, strategy=OpenColumnsPlan, targets=ALL_TARGETS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transposed", [False, True])
def test_rows_and_columns_of_any_size(transposed: bool) -> None:
    sizes = [{"n": n, "m": m} for n, m in ((1, 1), (3, 9), (17, 2), (0, 3), (3, 0), (33, 14))]
    program, operands = product((M, 6), (6, N), transposed)
    compare(program, operands, sizes, strategy=OpenColumnsPlan, targets=ALL_TARGETS)


# -- the choice ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_it_is_what_is_chosen(target: str) -> None:
    height, width = dim("h", 2), dim("w", 2)
    depthwise = convolution((N, 32, height, width), (32, 1, 3, 3), padding=1, groups=32)
    for each in (depthwise, upsampled((24, 24), 2, (2, 2)), product((64, 300), (300, N))):
        plan = choose(body_of(*each), named(target).vector_bytes // 4, named(target))
        assert isinstance(plan, OpenColumnsPlan), plan.reason
