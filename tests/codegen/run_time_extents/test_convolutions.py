"""Convolutions and their gradients over any number of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc import ops
from graphc.codegen.kernels.contraction.strategies.depthwise_wgrad import DepthwiseWgradPlan
from graphc.codegen.kernels.contraction.strategies.direct_conv import DirectConvPlan
from graphc.codegen.kernels.contraction.strategies.parity_split import ParitySplitPlan
from graphc.codegen.kernels.contraction.strategies.split_k import SplitKPlan
from graphc.codegen.kernels.contraction.strategies.table import Strategy
from graphc.codegen.kernels.contraction.strategies.tap_list_conv import TapListConvPlan
from graphc.codegen.kernels.contraction.strategies.unblocked import UnblockedPlan
from graphc.ir.builder import Var
from graphc.ir.dims import Extent, dim
from graphc.ops import contract, paired_convolution
from graphc.ops.movement import transpose
from tests.codegen.run_time_extents.kernels import Array, N, Operand, Program, along, compare

Shape = tuple[int, ...]


def convolution(
    which: str, x: Shape, w: Shape, stride: int = 1, groups: int = 1, channels_last: bool = False,
    images: Extent = N,
) -> tuple[Program, list[Operand]]:  # fmt: skip
    """A convolution with one element of padding of images x (without their number), or a gradient
    of it. `channels_last`: the weight is stored with output channels side by side."""
    rank = len(x) - 1
    geometry: dict[str, Any] = {"stride": (stride,) * rank, "padding": (1,) * rank,
                                "dilation": (1,) * rank, "groups": groups}  # fmt: skip
    places = tuple((dim + 2 - tap) // stride + 1 for dim, tap in zip(x[1:], w[2:], strict=True))
    inputs, results = (images, *x), (images, w[0], *places)
    if which == "by w":
        return lambda x, g: contract.conv_weight_grad(x, g, kernel=w[2:], **geometry), [
            inputs, results
        ]  # fmt: skip

    def weight(w: Any) -> Any:
        return transpose(w, permutation=(rank + 1, *range(rank + 1))) if channels_last else w

    stored = (*w[1:], w[0]) if channels_last else w
    if which == "forward":
        return lambda x, w: contract.conv(x, weight(w), **geometry), [inputs, stored]
    return lambda g, w: contract.conv_input_grad(g, weight(w), size=x[1:], **geometry), [
        results, stored
    ]  # fmt: skip


# Of images, weights, options: the strategies for a convolution and for its gradient by the input.
CASES: dict[str, tuple[Shape, Shape, dict[str, Any], tuple[Strategy, Strategy]]] = {
    "halo": ((3, 5, 7), (5, 3, 3, 3), {}, (UnblockedPlan, UnblockedPlan)),
    "strided": ((3, 5, 8), (5, 3, 3, 3), {"stride": 2}, (UnblockedPlan, ParitySplitPlan)),
    "groups": ((4, 5, 6), (6, 2, 3, 3), {"groups": 2}, (UnblockedPlan, UnblockedPlan)),
    "one axis": ((5, 13), (7, 5, 4), {}, (UnblockedPlan, UnblockedPlan)),
    "pointwise": ((5, 4, 4), (9, 5, 1, 1), {}, (UnblockedPlan, UnblockedPlan)),
    "direct": ((8, 4, 4), (8, 8, 3, 3), {"channels_last": True}, (DirectConvPlan, UnblockedPlan)),
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("which", ["forward", "by x"])
@pytest.mark.parametrize("name", CASES)
def test_over_images(name: str, which: str) -> None:
    x, w, options, strategies = CASES[name]
    program, operands = convolution(which, x, w, **options)
    compare(program, operands, along(0, 1, 3), strategy=strategies[which == "by x"])


# Of images, weights, options, and numbers of images: strategies for the gradient by the weight.
SUMS: dict[str, tuple[Shape, Shape, dict[str, Any], tuple[int, ...], Strategy]] = {
    # K blocks are of two images, and groups of four.
    "groups of images": ((4, 11, 11), (2, 4, 1, 3), {}, (0, 1, 2, 4, 5), SplitKPlan),
    "in their order": ((1, 6, 17), (2, 1, 3, 3), {}, (0, 1, 5), SplitKPlan),
    "depthwise": ((5, 11, 11), (5, 1, 1, 3), {"groups": 5}, (0, 1, 2, 5), DepthwiseWgradPlan),
    "taps": ((17, 2, 3), (3, 17, 3, 3), {}, (0, 1, 3, 5), TapListConvPlan),
    "no copy of one size": ((3, 4, 4), (4, 3, 3, 3), {}, (0, 1, 5), UnblockedPlan),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SUMS)
def test_sums_over_images(name: str) -> None:
    x, w, options, sizes, strategy = SUMS[name]
    program, operands = convolution("by w", x, w, **options, images=dim("n", 0, 5))
    compare(program, operands, along(*sizes), strategy=strategy)


def test_pairs_of_any_number_of_channels() -> None:
    """A group of k's first axis is of pairs: its copy has two channels of each."""
    channels = 2 * dim("n", 1)
    geometry: dict[str, Any] = dict.fromkeys(("stride", "padding", "dilation"), (1, 1))

    def program(x: Var, w: Var) -> Var:
        return paired_convolution.paired_conv(x, w, groups=1, **geometry)

    operands = [(2, channels, 5, 6), (6, channels, 3, 3)]
    compare(program, operands, along(1, 2, 3, 17), strategy=SplitKPlan)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("which", ["forward", "by x"])
def test_images_along_vectors(which: str) -> None:
    """As many as a vector has at least: parts of several vectors, the last with fewer images."""
    many = dim("n", 16)
    program, operands = convolution(which, (2, 2, 3), (5, 2, 3, 3), images=many)
    compare(program, operands, along(16, 17, 63), strategy=TapListConvPlan)


def test_sums_of_one_k_block_of_images() -> None:
    """-0 is the sum of a K block alone, +0 of several: also where a copy grows."""
    program, operands = convolution("by w", (17, 1, 1), (3, 17, 3, 3))

    def small(numbers: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        return [np.full((sizes["n"], *shape[1:]), value, np.float32)
                for shape, value in zip(operands, (-1e-30, 1e-30), strict=True)]  # fmt: skip

    compare(program, operands, along(1, 256, 257), small, strategy=TapListConvPlan)


def test_winograd_over_images() -> None:
    def program(x: Var, u: Var) -> Var:
        return ops.winograd(x, u, padding=(1, 1)) * 2.0

    compare(program, [(N, 3, 5, 6), (16, 5, 3)], along(0, 1, 3))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stride", [1, 2])
def test_of_any_height_and_width(stride: int) -> None:
    """Also with infinities: products with padding are skipped, not zeros."""
    height, width = dim("h", 1), dim("w", 1)
    geometry: dict[str, Any] = {"stride": (stride, stride), "padding": (1, 1),
                                "dilation": (1, 1), "groups": 1}  # fmt: skip
    places = tuple((size + 2 - 3) // stride + 1 for size in (height, width))
    sizes = [{"n": n, "h": h, "w": w} for n, h, w in [(1, 1, 1), (2, 5, 17), (1, 4, 4), (0, 3, 3)]]

    def infinite(numbers: np.random.Generator, of_each: dict[str, int]) -> list[Array]:
        shape = (of_each["n"], 2, of_each["h"], of_each["w"])
        weights = numbers.standard_normal((3, 2, 3, 3)).astype(np.float32)
        weights[0, 0, 0, 0] = np.inf
        return [numbers.standard_normal(shape).astype(np.float32), weights]

    images, results, weight = (N, 2, height, width), (N, 3, *places), (3, 2, 3, 3)
    compare(lambda x, w: contract.conv(x, w, **geometry), [images, weight], sizes, infinite)
    compare(
        lambda g, w: contract.conv_input_grad(g, w, size=(height, width), **geometry),
        [results, weight], sizes,
    )  # fmt: skip
    compare(
        lambda x, g: contract.conv_weight_grad(x, g, kernel=(3, 3), **geometry),
        [images, results], sizes,
    )  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(2, 9, 30), (1, 3, 257), (3, 2, 2), (1, 17, 16)])
def test_where_sums_over_places_are_cut(shape: Shape) -> None:
    """At an image, at a line, or within one, as the sizes have it."""
    height, width = dim("h", 1), dim("w", 1)
    geometry: dict[str, Any] = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1),
                                "groups": 1}  # fmt: skip
    compare(
        lambda x, g: contract.conv_weight_grad(x, g, kernel=(1, 1), **geometry),
        [(N, 2, height, width), (N, 3, height, width)],
        [dict(zip(("n", "h", "w"), shape, strict=True))],
    )  # fmt: skip
