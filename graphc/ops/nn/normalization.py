"""Normalisations as composites with own gradients: a tape node each, and the variance taken about
the mean (not E[x²] - E[x]², which cancels).

With n = (x - mean) · scale, scale = (var + eps)^-½ and h the gradient of n, the gradient of x is
scale · (h - mean(h) - n · mean(h · n)); where the mean is not subtracted, mean(h) is not either.

The gradient of a bias needs neither n nor x: rules compute n in the gradients that do.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.composite import check_float, mean
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer
from graphc.ops.movement import reshape

Axes = tuple[int, ...]


def _centred(x: Any, axes: Axes) -> Any:
    return x - r.spread(mean(x, axes=axes), axes, x.shape)


def _scale(centred: Any, axes: Axes, eps: float) -> Any:
    return r.spread(e.rsqrt(mean(centred * centred, axes=axes) + eps), axes, centred.shape)


def _normal(centred: Any, axes: Axes, eps: float) -> tuple[Any, Any]:
    """n and scale."""
    scale = _scale(centred, axes, eps)
    return centred * scale, scale


def _by_normal(normal: Any, scale: Any, h: Any, axes: Axes, *, centred: bool = True) -> Any:
    """The gradient of x from that of `normal`."""
    rest = h - normal * r.spread(mean(h * normal, axes=axes), axes, h.shape)
    return (rest - r.spread(mean(h, axes=axes), axes, h.shape) if centred else rest) * scale


# -- over the last axes --------------------------------------------------------------------------


def _last_axes(op: str, x: Any, *parts: Any) -> Axes:
    """The axes that weight (and bias) cover. Raises ShapeError where they do not fit."""
    shape, rank = parts[0].shape, len(x.shape)
    count = len(shape)
    if any(part.shape != shape for part in parts) or x.shape[rank - count :] != shape:
        names = ", ".join(
            f"{n} {p.tensor_type}" for n, p in zip(("weight", "bias"), parts, strict=False)
        )
        raise ShapeError(f"{op} of {x.tensor_type} with {names}")
    return tuple(range(rank - count, rank))


def _lead(x: Any, weight: Any) -> Axes:
    return tuple(range(len(x.shape) - len(weight.shape)))


def _layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    check_float("layer_norm", x)
    axes = _last_axes("layer_norm", x, weight, bias)
    centred = _centred(x, axes)
    normal = centred * _scale(centred, axes, eps)
    return normal * broadcast_to(weight, x.shape) + broadcast_to(bias, x.shape)


def _layer_norm_vjp(
    g: Any, out: Any, x: Any, weight: Any, bias: Any, *, eps: float
) -> tuple[Any, Any, Any]:
    axes, lead = _last_axes("layer_norm", x, weight), _lead(x, weight)
    normal = cache(lambda: _normal(_centred(x, axes), axes, eps))
    return (
        lambda: _by_normal(*normal(), g * broadcast_to(weight, x.shape), axes),
        lambda: r.sum(g * normal()[0], axes=lead),
        lambda: r.sum(g, axes=lead),
    )


layer_norm = Composite("layer_norm", _layer_norm, vjp=_layer_norm_vjp, samples=lambda m: [
    m(m.normal(4, 6), m.normal(6), m.normal(6)),
    m(m.normal(2, 3, 4), m.normal(3, 4), m.normal(3, 4)),
    m(m.normal(5, 100), m.normal(100), m.normal(100)),
])  # fmt: skip


def _rms_norm(x: Any, weight: Any, *, eps: float = 1e-5) -> Any:
    check_float("rms_norm", x)
    axes = _last_axes("rms_norm", x, weight)
    return x * _scale(x, axes, eps) * broadcast_to(weight, x.shape)


def _rms_norm_vjp(g: Any, out: Any, x: Any, weight: Any, *, eps: float) -> tuple[Any, Any]:
    axes = _last_axes("rms_norm", x, weight)
    normal = cache(lambda: _normal(x, axes, eps))
    return (
        lambda: _by_normal(*normal(), g * broadcast_to(weight, x.shape), axes, centred=False),
        lambda: r.sum(g * normal()[0], axes=_lead(x, weight)),
    )


rms_norm = Composite("rms_norm", _rms_norm, vjp=_rms_norm_vjp, samples=lambda m: [
    m(m.normal(4, 6), m.normal(6)), m(m.normal(2, 3, 4), m.normal(3, 4), eps=0.1),
    m(m.normal(5, 100), m.normal(100)),
])  # fmt: skip


# -- per channel (axis 1) ------------------------------------------------------------------------


def _but_channels(op: str, x: Any, *parts: Any) -> Axes:
    """All axes but the channels'. Raises ShapeError where x has none, or `parts` do not fit."""
    rank = len(x.shape)
    if rank < 2 or any(part.shape != x.shape[1:2] for part in parts):
        listed = ", ".join(str(part.tensor_type) for part in parts)
        raise ShapeError(f"{op} of {x.tensor_type} with {listed}: one of each per channel (axis 1)")
    return (0, *range(2, rank))


def _batch_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    check_float("batch_norm", x)
    axes = _but_channels("batch_norm", x, weight, bias)
    level = mean(x, axes=axes)
    centred = x - r.spread(level, axes, x.shape)
    variance = mean(centred * centred, axes=axes)
    normal = centred * r.spread(e.rsqrt(variance + eps), axes, x.shape)
    out = normal * r.spread(weight, axes, x.shape) + r.spread(bias, axes, x.shape)
    return out, level, variance


def _batch_norm_vjp(
    g: Any, out: Any, x: Any, weight: Any, bias: Any, *, eps: float
) -> tuple[Any, Any, Any]:
    by_out, by_level, by_variance = g
    axes = _but_channels("batch_norm", x)
    count = max(math.prod(x.shape[axis] for axis in axes), 1)
    centred = cache(lambda: _centred(x, axes))
    normal = cache(lambda: _normal(centred(), axes, eps))

    def by_x() -> Any:
        parts = []
        if by_out is not None:
            # The weight is the same for all that a mean is over, so the means are of the gradient
            # itself: the sums are those of the gradients of weight and bias.
            by_centred = _by_normal(*normal(), by_out, axes)
            parts.append(by_centred * r.spread(weight, axes, x.shape))
        if by_level is not None:
            parts.append(r.spread(by_level / count, axes, x.shape))
        if by_variance is not None:
            parts.append(centred() * r.spread(by_variance * (2 / count), axes, x.shape))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    if by_out is None:
        return by_x, None, None
    return by_x, lambda: r.sum(by_out * normal()[0], axes=axes), lambda: r.sum(by_out, axes=axes)


def _channel_samples(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(4, 3), m.normal(3), m.normal(3)),
            m(m.normal(2, 3, 5), m.normal(3), m.normal(3), eps=0.1),
            m(m.normal(4, 2, 9, 7), m.normal(2), m.normal(2))]  # fmt: skip


# Results: the normalised x, and the mean and biased variance of each channel.
batch_norm = Composite("batch_norm", _batch_norm, vjp=_batch_norm_vjp, samples=_channel_samples)


def _channel_affine(
    x: Any, level: Any, variance: Any, weight: Any, bias: Any, *, eps: float = 1e-5
) -> Any:
    check_float("batch_norm_by", x)
    axes = _but_channels("batch_norm_by", x, level, variance, weight, bias)
    scale = e.rsqrt(variance + eps) * weight
    centred = x - r.spread(level, axes, x.shape)
    return centred * r.spread(scale, axes, x.shape) + r.spread(bias, axes, x.shape)


def _channel_affine_vjp(
    g: Any, out: Any, x: Any, level: Any, variance: Any, weight: Any, bias: Any, *, eps: float
) -> tuple[Any, Any, Any, Any, Any]:
    axes = _but_channels("batch_norm_by", x)
    root = cache(lambda: e.rsqrt(variance + eps))

    def by_scale() -> Any:
        return r.sum(g * (x - r.spread(level, axes, x.shape)), axes=axes)

    return (
        lambda: g * r.spread(root() * weight, axes, x.shape),
        lambda: -(r.sum(g, axes=axes) * (root() * weight)),
        lambda: by_scale() * weight * (root() * root() * root() * -0.5),
        lambda: by_scale() * root(),
        lambda: r.sum(g, axes=axes),
    )


# By a given mean and variance: what a trained network runs.
batch_norm_by = Composite(
    "batch_norm_by", _channel_affine, vjp=_channel_affine_vjp,
    samples=lambda m: [
        m(m.normal(4, 3), m.normal(3), m.positive(3), m.normal(3), m.normal(3)),
        m(m.normal(2, 3, 5, 9), m.normal(3), m.positive(3), m.normal(3), m.normal(3), eps=0.1),
    ],
)  # fmt: skip


def _grouped(x: Any, groups: int) -> Any:
    """x as [batch, groups, what is normalised together]."""
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"group_norm of {x.tensor_type} in {groups} groups")
    size = x.shape[1] // groups * math.prod(x.shape[2:])
    return reshape(x, shape=(x.shape[0], groups, size))


def _group_norm(x: Any, weight: Any, bias: Any, *, groups: int, eps: float = 1e-5) -> Any:
    check_float("group_norm", x)
    axes = _but_channels("group_norm", x, weight, bias)
    centred = _centred(_grouped(x, groups), (2,))
    normal = reshape(centred * _scale(centred, (2,), eps), shape=x.shape)
    return normal * r.spread(weight, axes, x.shape) + r.spread(bias, axes, x.shape)


def _group_norm_vjp(
    g: Any, out: Any, x: Any, weight: Any, bias: Any, *, groups: int, eps: float
) -> tuple[Any, Any, Any]:
    axes = _but_channels("group_norm", x)
    normal = cache(lambda: _normal(_centred(_grouped(x, groups), (2,)), (2,), eps))

    def by_x() -> Any:
        parts = normal()
        h = _grouped(g * r.spread(weight, axes, x.shape), groups)
        return reshape(_by_normal(*parts, h, (2,)), shape=x.shape)

    return (
        by_x,
        lambda: r.sum(g * reshape(normal()[0], shape=x.shape), axes=axes),
        lambda: r.sum(g, axes=axes),
    )


group_norm = Composite("group_norm", _group_norm, vjp=_group_norm_vjp, samples=lambda m: [
    m(m.normal(2, 4, 5), m.normal(4), m.normal(4), groups=2),
    m(m.normal(2, 3, 9, 9), m.normal(3), m.normal(3), groups=3),
    m(m.normal(3, 6), m.normal(6), m.normal(6), groups=1, eps=0.1),
])  # fmt: skip
