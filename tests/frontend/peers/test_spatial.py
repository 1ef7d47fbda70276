"""Layers over windows and images against PyTorch's: convolution, pooling, padding, resizing,
patches, sampling by a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.layer_cases.convolutions import (
    CONVOLUTIONS,
    SIZES,
    TRANSPOSED,
    make_conv,
    make_transposed,
    named,
)
from tests.frontend.layer_cases.pooling import ADAPTIVE_SIZES, DILATIONS, POOLS, POWERS, make_pool
from tests.frontend.layer_cases.pooling import SIZES as POOL_SIZES

WORD = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}


def image(peer: Any, axes: int, channels: int = 4, batch: tuple[int, ...] = (2,)) -> np.ndarray:
    drawn: np.ndarray = peer.normal(*batch, channels, *SIZES[:axes])
    return drawn


def modes_of(axes: int, options: dict[str, Any]) -> tuple[str, ...]:
    """Compiled over two axes always, over one and three for some options: the loops are the same,
    and take time to compile."""
    return ("eager", "compiled") if axes == 2 or len(options) == 2 else ("eager",)


# -- convolution ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv(peer: Any, axes: int, options: dict[str, Any]) -> None:
    peer.module(
        lambda nn: make_conv(nn, axes, options), image(peer, axes), training=(True,),
        modes=modes_of(axes, options),
    )  # fmt: skip


def test_conv_with_a_number_per_axis(peer: Any) -> None:
    make = lambda nn: nn.Conv2d(4, 6, (3, 2), (1, 2), (2, 0), (2, 1), 2)  # noqa: E731
    peer.module(make, image(peer, 2))
    peer.module(make, image(peer, 2, batch=(1,)), training=(True,))
    peer.module(make, image(peer, 2, batch=()), training=(True,))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv_without_batch_and_without_images(peer: Any, axes: int) -> None:
    for kind in ("Conv", "ConvTranspose"):
        make = lambda nn, kind=kind: getattr(nn, f"{kind}{axes}d")(4, 2, 2)  # noqa: E731
        peer.module(make, image(peer, axes, batch=()), training=(True,), modes=("eager",))
        peer.module(make, image(peer, axes, batch=(0,)), training=(True,), modes=("eager",))


@pytest.mark.parametrize("options", TRANSPOSED, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv_transpose(peer: Any, axes: int, options: dict[str, Any]) -> None:
    x = image(peer, axes)[..., :3]
    peer.module(
        lambda nn: make_transposed(nn, axes, options), x, training=(True,),
        modes=modes_of(axes, options),
    )  # fmt: skip


@pytest.mark.parametrize("size", [(8, 7), (2, 5, 7, 8), [8, 8]], ids=str)
def test_output_size_of_conv_transpose(peer: Any, size: Any) -> None:
    def call(nn: Any) -> Any:
        class Model(nn.Module):  # type: ignore[name-defined,misc]
            def __init__(self) -> None:
                super().__init__()
                self.up = nn.ConvTranspose2d(4, 5, 3, stride=2)

            def forward(self, x: Any) -> Any:
                return self.up(x, output_size=size)

        return Model()

    peer.module(call, peer.normal(2, 4, 3, 3), training=(True,))


def test_functional_forms_of_convolution(peer: Any) -> None:
    peer.function(
        lambda t, x, w, b: [
            t.conv1d(x, w, b, stride=2, padding=1),
            t.nn.functional.conv1d(x, w, None, 1, "same"),
            t.conv_transpose1d(x[:, :3], w, None, 2, 1, 1),
            t.conv_tbc(x.permute(2, 0, 1).contiguous(), w.permute(2, 1, 0).contiguous(), b, 1),
        ],
        peer.normal(2, 4, 7), peer.normal(3, 4, 3), peer.normal(3),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["conv2d", "conv_transpose2d"])
def test_second_derivatives_of_convolution(peer: Any, kind: str) -> None:
    def call(t: Any, x: Any, w: Any, b: Any) -> Any:
        out = getattr(t.nn.functional, kind)(x, w, b, stride=2, padding=1)
        grads = t.autograd.grad((out * out * out).sum(), (x, w, b), create_graph=True)
        return sum((grad * grad).sum() for grad in grads)

    peer.function(call, peer.normal(2, 3, 5, 4), peer.normal(3, 3, 3, 2), peer.normal(3),
                  bound=3e-5)  # fmt: skip


@pytest.mark.parametrize("kind", ["Conv1d", "Conv3d", "ConvTranspose2d"])
def test_initial_weights_have_the_same_distribution(peer: Any, kind: str) -> None:
    frontend.manual_seed(0)
    ours = getattr(frontend.nn, kind)(16, 64, 3, groups=2)
    theirs = getattr(peer.torch.nn, kind)(16, 64, 3, groups=2)
    for mine, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        x, y = mine.detach().numpy(), other.detach().numpy()
        assert x.shape == y.shape
        assert np.abs(x).max() == pytest.approx(np.abs(y).max(), rel=0.1)
        assert x.std() == pytest.approx(y.std(), rel=0.2)
        assert abs(x.mean()) < 0.2 * np.abs(x).max()


# -- pooling --------------------------------------------------------------------------------------


def pooled_image(peer: Any, axes: int) -> np.ndarray:
    drawn: np.ndarray = peer.normal(2, 2, *POOL_SIZES[:axes])
    return drawn


@pytest.mark.parametrize("dilation", DILATIONS)
@pytest.mark.parametrize("options", POOLS, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_max_pool(peer: Any, axes: int, options: dict[str, Any], dilation: int) -> None:
    more = {"dilation": dilation, "return_indices": True}
    peer.module(
        lambda nn: make_pool(nn, "Max", axes, options, **more), pooled_image(peer, axes),
        training=(True,), modes=("eager", "compiled")[: 1 + (axes == 2 or dilation == 1)],
    )  # fmt: skip


def test_max_pool_with_dilation_and_without_batch(peer: Any) -> None:
    peer.module(lambda nn: nn.MaxPool2d((2, 3), (2, 1), (1, 0), (3, 2)), image(peer, 2))
    peer.module(lambda nn: nn.MaxPool2d(2, dilation=2), image(peer, 2, batch=()), training=(True,))
    whole = np.arange(30).reshape(1, 5, 6)
    peer.function(lambda t, x: t.nn.functional.max_pool2d(x, 2, return_indices=True), whole)


def test_max_pool_of_ties_and_of_nothing_but_minus_infinity(peer: Any) -> None:
    ties = np.random.default_rng(0).integers(0, 3, (2, 2, 6, 6)).astype(np.float32)
    ties[1] = -np.inf
    peer.function(
        lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True), ties
    )  # fmt: skip
    peer.function(lambda t, x: t.nn.functional.adaptive_max_pool2d(x, 4, True), ties)


@pytest.mark.parametrize("include", [True, False], ids=["padding counts", "does not"])
@pytest.mark.parametrize("options", POOLS, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_avg_pool(peer: Any, axes: int, options: dict[str, Any], include: bool) -> None:
    peer.module(
        lambda nn: make_pool(nn, "Avg", axes, options, count_include_pad=include),
        pooled_image(peer, axes), training=(True,),
        modes=("eager", "compiled")[: 1 + (axes == 2)],
    )  # fmt: skip


@pytest.mark.parametrize("axes", [2, 3])
def test_avg_pool_with_a_divisor(peer: Any, axes: int) -> None:
    make = lambda nn: getattr(nn, f"AvgPool{axes}d")(3, 2, 1, True, divisor_override=5)  # noqa: E731
    peer.module(make, image(peer, axes, 2), training=(True,))


@pytest.mark.parametrize("power", POWERS, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_lp_pool(peer: Any, axes: int, power: float) -> None:
    x = np.abs(pooled_image(peer, axes)) + 0.1
    modes = ("eager", "compiled")[: 1 + (axes == 2)]
    make = lambda nn: getattr(nn, f"LPPool{axes}d")(power, 2, ceil_mode=True)  # noqa: E731
    peer.module(make, x, training=(True,), modes=modes)


def test_lp_pool_of_zeros_has_gradient_0(peer: Any) -> None:
    x = np.array([[[0, 0, 3, -4, 0, 0]]], np.float32)
    peer.function(lambda t, x: t.nn.functional.lp_pool1d(x, 2, 2), x)


@pytest.mark.parametrize("size", ADAPTIVE_SIZES, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_adaptive_pools(peer: Any, axes: int, size: int) -> None:
    modes = ("eager", "compiled") if size in (3, 4) else ("eager",)
    x = pooled_image(peer, axes)
    for kind, options in (("Avg", {}), ("Max", {"return_indices": True})):
        make = lambda nn, k=kind, o=options: getattr(nn, f"Adaptive{k}Pool{axes}d")(size, **o)  # noqa: E731
        peer.module(make, x, training=(True,), modes=modes)


def test_adaptive_pools_that_keep_an_axis(peer: Any) -> None:
    peer.module(lambda nn: nn.AdaptiveAvgPool2d((None, 2)), image(peer, 2), training=(True,))
    peer.module(lambda nn: nn.AdaptiveMaxPool2d((4, None)), image(peer, 2, batch=()))
    peer.function(lambda t, x: t.adaptive_max_pool1d(x, 4), image(peer, 1))


@pytest.mark.parametrize("geometry", [(2, 2, 0), (3, 2, 1), (2, 3, 0)], ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_max_unpool(peer: Any, axes: int, geometry: tuple[int, int, int]) -> None:
    def call(t: Any, x: Any) -> Any:
        y, indices = getattr(t.nn, f"MaxPool{axes}d")(*geometry, return_indices=True)(x)
        back = getattr(t.nn, f"MaxUnpool{axes}d")(*geometry)
        return back(y, indices, output_size=x.shape)

    modes = ("eager", "compiled")[: 1 + (axes == 2)]
    peer.function(call, image(peer, axes, 2), modes=modes)


# -- padding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", WORD)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_padding_layers(peer: Any, axes: int, mode: str) -> None:
    sides = (1, 2, 0, 3, 2, 1)[: 2 * axes]
    make = lambda nn: getattr(nn, f"{WORD[mode]}Pad{axes}d")(sides)  # noqa: E731
    peer.module(make, image(peer, axes, 2), training=(True,))
    peer.module(lambda nn: getattr(nn, f"{WORD[mode]}Pad{axes}d")(1),
                image(peer, axes, 2, batch=()), training=(True,), modes=("eager",))  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_constant_padding_layers(peer: Any, axes: int) -> None:
    sides = (1, 2, -1, 0, 2, -2)[: 2 * axes]
    peer.module(lambda nn: getattr(nn, f"ConstantPad{axes}d")(sides, 1.5), image(peer, axes))
    peer.module(lambda nn: getattr(nn, f"ZeroPad{axes}d")(2), image(peer, axes), training=(True,))


@pytest.mark.parametrize("mode", ["constant", *WORD])
def test_padding_that_cuts(peer: Any, mode: str) -> None:
    peer.function(
        lambda t, x: t.nn.functional.pad(x, (-1, 2, 3, -2), mode), image(peer, 2), modes=("eager",)
    )


def test_padding_of_integers(peer: Any) -> None:
    x = np.arange(12).reshape(1, 3, 4)
    for mode in ("constant", *WORD):
        peer.function(lambda t, x, m=mode: t.nn.functional.pad(x, (2, 1), m), x, modes=("eager",))
    peer.function(lambda t, x: t.nn.functional.pad(x, (1, 1), value=7), x > 4, modes=("eager",))


# -- resizing -------------------------------------------------------------------------------------

RESIZES: list[tuple[str, int, bool | None]] = [
    ("nearest", 1, None), ("nearest", 2, None), ("nearest", 3, None), ("nearest-exact", 2, None),
    ("linear", 1, None), ("linear", 1, True), ("bilinear", 2, False), ("bilinear", 2, True),
    ("trilinear", 3, False), ("trilinear", 3, True), ("bicubic", 2, False), ("bicubic", 2, True),
    ("area", 1, None), ("area", 2, None), ("area", 3, None),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "axes", "corners"), RESIZES, ids=str)
def test_interpolate(peer: Any, mode: str, axes: int, corners: bool | None) -> None:
    x = image(peer, axes, 2)

    def resized(t: Any, x: Any, **how: Any) -> Any:
        return t.nn.functional.interpolate(x, mode=mode, align_corners=corners, **how)

    def every(t: Any, x: Any) -> Any:
        results = [resized(t, x, size=size) for size in (1, 3, 4, 11)]
        results += [resized(t, x, scale_factor=scale) for scale in (2, 1.5, 0.7)]
        return [*results, resized(t, x, scale_factor=1.3, recompute_scale_factor=True)]

    peer.function(every, x, modes=("eager",))
    peer.function(lambda t, x: [resized(t, x, size=7), resized(t, x, scale_factor=2)], x)


def test_upsampling_layers(peer: Any) -> None:
    x = image(peer, 2)
    peer.module(lambda nn: nn.Upsample(scale_factor=(2, 1.5)), x)
    peer.module(lambda nn: nn.Upsample((7, 9), mode="bilinear"), x, training=(True,))
    peer.module(lambda nn: nn.UpsamplingNearest2d(scale_factor=3), x, training=(True,))
    peer.module(lambda nn: nn.UpsamplingBilinear2d((9, 4)), x, training=(True,))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8], ids=["f32", "f64", "u8"])
def test_the_nearest_element_is_the_same_one(peer: Any, dtype: Any, mode: str) -> None:
    for extent in (1, 2, 3, 5, 7, 12, 29, 56):
        x = np.arange(extent, dtype=dtype).reshape(1, 1, extent)
        mine, other = frontend.tensor(x), peer.torch.tensor(x)
        for size in (*range(1, 12), 17, 29, 41, 55, 64, 99):
            ours = frontend.nn.functional.interpolate(mine, size, mode=mode)
            theirs = peer.torch.nn.functional.interpolate(other, size, mode=mode)
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), f"{extent} to {size}")


# -- patches and pixels ---------------------------------------------------------------------------

PATCHES: list[tuple[Any, ...]] = [(2,), ((3, 2), 1, 1, 2), (2, 2, (1, 0), (1, 2)), (1, 1, 0, 2)]


@pytest.mark.parametrize("geometry", PATCHES, ids=str)
def test_unfold_and_fold(peer: Any, geometry: tuple[Any, ...]) -> None:
    peer.module(lambda nn: nn.Unfold(*geometry), image(peer, 2, 2), training=(True,))
    columns = peer.torch.nn.functional.unfold(peer.torch.zeros(2, 3, 6, 5), *geometry).shape
    peer.module(
        lambda nn: nn.Fold((6, 5), *geometry), peer.normal(*columns), training=(True,)
    )  # fmt: skip
    peer.module(lambda nn: nn.Fold((6, 5), *geometry), peer.normal(*columns[1:]),
                training=(True,), modes=("eager",))  # fmt: skip


def test_pixels_and_channels(peer: Any) -> None:
    peer.module(lambda nn: nn.PixelShuffle(2), peer.normal(2, 8, 3, 2))
    peer.module(lambda nn: nn.PixelUnshuffle(2), peer.normal(2, 2, 4, 6), training=(True,))
    peer.module(lambda nn: nn.ChannelShuffle(3), peer.normal(2, 6, 4, 2), training=(True,))
    peer.function(lambda t, x: t.pixel_shuffle(t.pixel_unshuffle(x, 3), 3), peer.normal(2, 2, 3, 6))
    peer.module(lambda nn: nn.Flatten(), image(peer, 2), training=(True,))
    peer.module(lambda nn: nn.Unflatten(1, (2, -1)), image(peer, 2), training=(True,))


@pytest.mark.parametrize("corners", [True, False], ids=["aligned", "edges"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(peer: Any, mode: str, padding: str, corners: bool) -> None:
    modes = ("eager", "compiled") if padding == "reflection" and corners else ("eager",)
    sample = lambda t, x, g: t.nn.functional.grid_sample(x, g, mode, padding, corners)  # noqa: E731
    peer.function(sample, image(peer, 2), 1.5 * peer.normal(2, 3, 7, 2), modes=modes, bound=3e-5)
    if mode != "bicubic":
        peer.function(sample, image(peer, 3), peer.normal(2, 2, 3, 4, 3), modes=("eager",),
                      bound=3e-5)  # fmt: skip


@pytest.mark.parametrize("corners", [True, False], ids=["aligned", "edges"])
def test_affine_grid(peer: Any, corners: bool) -> None:
    grid = lambda t, x, size: t.nn.functional.affine_grid(x, size, corners)  # noqa: E731
    peer.function(lambda t, x: grid(t, x, (2, 1, 3, 1)), peer.normal(2, 2, 3))
    peer.function(lambda t, x: grid(t, x, (2, 1, 3, 4, 2)), peer.normal(2, 3, 4), modes=("eager",))


# -- what layers say of themselves ----------------------------------------------------------------

LAYERS: dict[str, Callable[[Any], Any]] = {
    "Conv1d": lambda nn: nn.Conv1d(2, 4, 3),
    "Conv2d": lambda nn: nn.Conv2d(2, 4, (3, 2), 2, 1, 2, 2, False, "reflect"),
    "Conv2d same": lambda nn: nn.Conv2d(2, 4, 2, padding="same", padding_mode="circular"),
    "Conv3d": lambda nn: nn.Conv3d(2, 4, 3, padding="valid"),
    "ConvTranspose1d": lambda nn: nn.ConvTranspose1d(2, 4, 3, 2, 1, 1, 2, False, 2),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(2, 4, 3),
    "MaxPool1d": lambda nn: nn.MaxPool1d(2),
    "MaxPool2d": lambda nn: nn.MaxPool2d((2, 3), (1, 2), 1, 2, True, True),
    "AvgPool1d": lambda nn: nn.AvgPool1d(2, padding=1),
    "AvgPool2d": lambda nn: nn.AvgPool2d(2, divisor_override=3),
    "AvgPool3d": lambda nn: nn.AvgPool3d((2, 1, 2), 1, 1, True),
    "AdaptiveAvgPool2d": lambda nn: nn.AdaptiveAvgPool2d((None, 3)),
    "AdaptiveMaxPool1d": lambda nn: nn.AdaptiveMaxPool1d(3, True),
    "LPPool2d": lambda nn: nn.LPPool2d(2, 3),
    "MaxUnpool2d": lambda nn: nn.MaxUnpool2d(2, padding=1),
    "ConstantPad1d": lambda nn: nn.ConstantPad1d(2, 3.5),
    "ZeroPad2d": lambda nn: nn.ZeroPad2d((1, 2, 3, 4)),
    "ReflectionPad2d": lambda nn: nn.ReflectionPad2d((1, 2, 0, 1)),
    "ReplicationPad3d": lambda nn: nn.ReplicationPad3d(2),
    "CircularPad1d": lambda nn: nn.CircularPad1d(3),
    "Flatten": lambda nn: nn.Flatten(0, 2),
    "Unflatten": lambda nn: nn.Unflatten(1, (2, 3)),
    "PixelShuffle": lambda nn: nn.PixelShuffle(2),
    "PixelUnshuffle": lambda nn: nn.PixelUnshuffle(2),
    "ChannelShuffle": lambda nn: nn.ChannelShuffle(2),
    "Upsample": lambda nn: nn.Upsample(scale_factor=(2, 3.5)),
    "Upsample size": lambda nn: nn.Upsample((3, 4), mode="bilinear", align_corners=True),
    "UpsamplingNearest2d": lambda nn: nn.UpsamplingNearest2d(scale_factor=2),
    "UpsamplingBilinear2d": lambda nn: nn.UpsamplingBilinear2d(3),
    "Unfold": lambda nn: nn.Unfold(2, stride=(1, 2)),
    "Fold": lambda nn: nn.Fold((3, 3), 2),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_repr_and_attributes(peer: Any, make: Callable[[Any], Any]) -> None:
    ours, theirs = make(frontend.nn), make(peer.torch.nn)
    assert repr(ours) == repr(theirs)
    private = ("_reversed_padding_repeated_twice",)
    for name, value in vars(theirs).items():
        if not name.startswith("_") or name in private:
            assert getattr(ours, name) == value, name


# -- errors ---------------------------------------------------------------------------------------


def on(shape: tuple[int, ...], call: Callable[..., Any]) -> Callable[[Any], Any]:
    """`call(F, x)` on zeros of a shape."""
    return lambda t: call(t.nn.functional, t.zeros(shape))


ERRORS: dict[str, Callable[[Any], Any]] = {
    "conv rank": lambda t: t.conv2d(t.zeros(5, 5), t.zeros(4, 3, 3, 3)),
    "conv channels": lambda t: t.conv2d(t.zeros(1, 2, 5, 5), t.zeros(4, 3, 3, 3)),
    "conv groups": lambda t: t.conv2d(t.zeros(1, 4, 5, 5), t.zeros(3, 2, 3, 3), groups=2),
    "conv no groups": lambda t: t.conv2d(t.zeros(1, 4, 5, 5), t.zeros(3, 4, 3, 3), groups=0),
    "conv bias": lambda t: t.conv2d(t.zeros(1, 3, 5, 5), t.zeros(4, 3, 3, 3), t.zeros(5)),
    "conv kernel": lambda t: t.conv3d(t.zeros(1, 3, 2, 5, 5), t.zeros(4, 3, 3, 3, 3)),
    "conv stride": lambda t: t.conv1d(t.zeros(1, 3, 5), t.zeros(4, 3, 3), stride=0),
    "conv padding": lambda t: t.conv1d(t.zeros(1, 3, 5), t.zeros(4, 3, 3), padding=-1),
    "conv same": lambda t: t.conv1d(t.zeros(1, 3, 5), t.zeros(4, 3, 3), None, 2, "same"),
    "conv word": lambda t: t.conv1d(t.zeros(1, 3, 5), t.zeros(4, 3, 3), padding="sam"),
    "conv no outputs": lambda t: t.conv1d(t.zeros(1, 3, 5), t.zeros(0, 3, 3)),
    "conv no pixels": lambda t: t.conv1d(t.zeros(1, 3, 0), t.zeros(2, 3, 1), padding=1),
    "conv mode": lambda t: t.nn.Conv2d(3, 2, 1, padding_mode="foo"),
    "conv layer": lambda t: t.nn.Conv2d(3, 2, 1, groups=2),
    "transpose channels": lambda t: t.conv_transpose2d(t.zeros(1, 4, 3, 3), t.zeros(3, 2, 1, 1)),
    "transpose bias": lambda t: t.conv_transpose1d(t.zeros(1, 3, 3), t.zeros(3, 2, 1), t.zeros(3)),
    "transpose mode": lambda t: t.nn.ConvTranspose2d(3, 2, 1, padding_mode="reflect"),
    "transpose word": lambda t: t.conv_transpose1d(t.zeros(1, 3, 3), t.zeros(3, 2, 1),
                                                   padding="same"),
    "transpose small": lambda t: t.conv_transpose2d(t.zeros(1, 3, 1, 1), t.zeros(3, 2, 1, 1),
                                                    padding=1),
    "transpose more": lambda t: t.conv_transpose1d(t.zeros(1, 3, 3), t.zeros(3, 2, 1),
                                                   output_padding=1),
    "transpose size": lambda t: t.nn.ConvTranspose2d(3, 2, 3, 2)(t.zeros(1, 3, 3, 3), (20, 20)),
    "max_pool rank": on((5, 5), lambda F, x: F.max_pool2d(x, 2)),
    "max_pool small": on((1, 3, 2, 2), lambda F, x: F.max_pool2d(x, 3)),
    "max_pool padding": on((1, 3, 9, 9), lambda F, x: F.max_pool2d(x, 3, padding=2)),
    "max_pool negative": on((1, 3, 9), lambda F, x: F.max_pool1d(x, 3, padding=-1)),
    "max_pool stride": on((1, 3, 9), lambda F, x: F.max_pool1d(x, 3, 0)),
    "max_pool bool": lambda t: t.max_pool2d(t.zeros(1, 3, 9, 9, dtype=t.bool), 2),
    "avg_pool divisor": on((1, 3, 9, 9), lambda F, x: F.avg_pool2d(x, 3, divisor_override=0)),
    "avg_pool tuple": on((1, 3, 9, 9), lambda F, x: F.avg_pool2d(x, (3, 3, 3))),
    "avg_pool ints": lambda t: t.nn.functional.avg_pool2d(t.zeros(1, 3, 9, 9, dtype=t.int32), 2),
    "adaptive rank": on((5,), lambda F, x: F.adaptive_avg_pool2d(x, 2)),
    "adaptive negative": on((1, 2, 5), lambda F, x: F.adaptive_avg_pool1d(x, -1)),
    "adaptive none": on((1, 2, 5), lambda F, x: F.adaptive_avg_pool1d(x, None)),
    "adaptive tuple": on((1, 2, 5, 5, 5), lambda F, x: F.adaptive_max_pool3d(x, (2, 2))),
    "adaptive empty": on((1, 2, 0), lambda F, x: F.adaptive_max_pool1d(x, 2)),
    "unpool size": lambda t: t.nn.MaxUnpool1d(2)(t.zeros(1, 1, 2), t.zeros(1, 1, 2).long(), (9,)),
    "unpool shape": lambda t: t.nn.MaxUnpool1d(2)(t.zeros(1, 1, 2), t.zeros(1, 1, 3).long()),
    "unpool dtype": lambda t: t.nn.MaxUnpool2d(2)(t.zeros(1, 1, 2, 2), t.zeros(1, 1, 2, 2)),
    "unpool range": lambda t: t.nn.MaxUnpool2d(2)(t.zeros(1, 1, 2, 2),
                                                  t.full((1, 1, 2, 2), 16).long()),
    "pad odd": on((1, 2, 4), lambda F, x: F.pad(x, (1,))),
    "pad int": on((1, 2, 4), lambda F, x: F.pad(x, 1)),
    "pad rank": on((1, 2, 4, 4), lambda F, x: F.pad(x, (1, 2), "reflect")),
    "pad mode": on((1, 2, 4), lambda F, x: F.pad(x, (1, 2), "foo")),
    "pad value": on((1, 2, 4), lambda F, x: F.pad(x, (1, 2), "reflect", 1.0)),
    "pad reflect": on((1, 2, 4), lambda F, x: F.pad(x, (4, 0), "reflect")),
    "pad circular": on((1, 2, 4), lambda F, x: F.pad(x, (5, 0), "circular")),
    "pad too little": on((1, 2, 4), lambda F, x: F.pad(x, (-3, -2), "replicate")),
    "pad layer": lambda t: t.nn.CircularPad2d(1)(t.zeros(4, 4)),
    "unflatten": lambda t: t.nn.Unflatten(1, 6),
    "unflatten item": lambda t: t.nn.Unflatten(1, (2, 3.0)),
    "shuffle rank": on((4, 2), lambda F, x: F.pixel_shuffle(x, 2)),
    "shuffle channels": on((1, 3, 2, 2), lambda F, x: F.pixel_shuffle(x, 2)),
    "unshuffle": on((1, 3, 2, 3), lambda F, x: F.pixel_unshuffle(x, 2)),
    "channels": on((1, 4, 2), lambda F, x: F.channel_shuffle(x, 3)),
    "size and scale": on((1, 2, 3), lambda F, x: F.interpolate(x, 2, 2)),
    "no size": on((1, 2, 3), lambda F, x: F.interpolate(x)),
    "sizes": on((1, 2, 3), lambda F, x: F.interpolate(x, (2, 2))),
    "scales": on((1, 2, 3, 3), lambda F, x: F.interpolate(x, scale_factor=(2,))),
    "corners": on((1, 2, 3), lambda F, x: F.interpolate(x, 2, align_corners=False)),
    "mode rank": on((1, 2, 3), lambda F, x: F.interpolate(x, 2, mode="bilinear")),
    "size 0": on((1, 2, 3), lambda F, x: F.interpolate(x, 0)),
    "recompute": on((1, 2, 3), lambda F, x: F.interpolate(x, 2, recompute_scale_factor=True)),
    "unfold": on((1, 2, 4, 4), lambda F, x: F.unfold(x, 5)),
    "unfold stride": on((1, 2, 4, 4), lambda F, x: F.unfold(x, 2, stride=0)),
    "fold channels": on((1, 7, 9), lambda F, x: F.fold(x, 4, 2)),
    "fold count": on((1, 8, 8), lambda F, x: F.fold(x, 4, 2)),
    "grid": on((1, 2, 4, 4), lambda F, x: F.grid_sample(x, x, align_corners=False)),
    "grid mode": on((1, 2, 4, 4), lambda F, x: F.grid_sample(x, x, "foo")),
    "affine": on((1, 3, 3), lambda F, x: F.affine_grid(x, (1, 1, 3, 3), False)),
}  # fmt: skip


@pytest.mark.parametrize("wrong", ERRORS.values(), ids=ERRORS)
def test_errors_have_the_same_type(peer: Any, wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as theirs:
        wrong(peer.torch)
    with pytest.raises(theirs.type) as ours:
        wrong(frontend)
    assert len(str(ours.value)) > 20
