"""Composites: graphs over other ops, some with an own gradient that is cheaper or more exact."""

from __future__ import annotations

import math
from typing import Any

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import aligned, broadcast_to, lift
from graphc.ir.types import DType, Shape
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.generate import iota_like
from graphc.ops.indexing import gather
from graphc.ops.kind_composite import Composite
from graphc.ops.movement import concat, pad, reshape, slice_, transpose
from graphc.ops.op import Check, Sampler
from graphc.ops.windows import unwindows, windows


def _float(op: str, x: Any) -> None:
    if not x.dtype.is_float:
        raise DTypeError(f"{op} takes a float tensor, got {x.tensor_type}", hint="cast it")


# -- statistics ----------------------------------------------------------------------------------


def _mean(x: Any, *, axes: tuple[int, ...]) -> Any:
    _float("mean", x)
    return r.sum(x, axes=axes) / math.prod(x.shape[axis] for axis in axes)


def _var(x: Any, *, axes: tuple[int, ...], correction: int = 1) -> Any:
    _float("var", x)
    count = math.prod(x.shape[axis] for axis in axes)
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    return r.sum(centred * centred, axes=axes) / max(count - correction, 0)


def _axes_samples(m: Sampler) -> list[Any]:
    return [m(m.normal(3, 5), axes=(1,)), m(m.normal(2, 3, 4), axes=(0, 2)),
            m(m.normal(3, 70), axes=(0, 1))]  # fmt: skip


def _mean_vjp(g: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> tuple[Any]:
    return (r.spread(g / math.prod(x.shape[axis] for axis in axes), axes, x.shape),)


def _var_vjp(g: Any, out: Any, x: Any, *, axes: tuple[int, ...], correction: int) -> tuple[Any]:
    count = math.prod(x.shape[axis] for axis in axes)
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    return (centred * r.spread(g * 2 / max(count - correction, 0), axes, x.shape),)


mean = Composite("mean", _mean, vjp=_mean_vjp, samples=_axes_samples)
var = Composite("var", _var, vjp=_var_vjp, samples=_axes_samples)


# -- activations ---------------------------------------------------------------------------------


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    _float("gelu", x)
    if approximate == "none":
        return x * 0.5 * (1 + e.erf(x * math.sqrt(0.5)))
    if approximate == "tanh":
        return x * 0.5 * (1 + e.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)))
    raise AttributeValueError(f"gelu: approximate must be 'none' or 'tanh', not {approximate!r}")


def _gelu_vjp(g: Any, out: Any, x: Any, *, approximate: str) -> tuple[Any]:
    if approximate == "none":
        # d/dx x·Φ(x) = Φ(x) + x·φ(x)
        cumulative = 0.5 * (1 + e.erf(x * math.sqrt(0.5)))
        density = e.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return (g * (cumulative + x * density),)
    scale = math.sqrt(2 / math.pi)
    bend = e.tanh((x + x * x * x * 0.044715) * scale)
    slope = (1 + x * x * (3 * 0.044715)) * scale
    return (g * (0.5 * (1 + bend) + x * 0.5 * (1 - bend * bend) * slope),)


gelu = Composite("gelu", _gelu, vjp=_gelu_vjp, samples=lambda m: [
    m(m.normal(3, 5)), m(m.normal(37), approximate="tanh"), m(m.normal()),
])  # fmt: skip


def _check_axis(op: str, x: Any, axis: int) -> None:
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"{op}: axis {axis} is out of range for {x.tensor_type}")


def _softmax(x: Any, *, axis: int) -> Any:
    _float("softmax", x)
    _check_axis("softmax", x, axis)
    if x.shape[axis] == 0:
        return x
    shifted = e.exp(x - r.spread(r.max(x, axes=(axis,)), (axis,), x.shape))
    return shifted / r.spread(r.sum(shifted, axes=(axis,)), (axis,), x.shape)


def _softmax_vjp(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    total = r.sum(g * out, axes=(axis,))
    return ((g - r.spread(total, (axis,), g.shape)) * out,)


def _log_softmax(x: Any, *, axis: int) -> Any:
    _float("log_softmax", x)
    _check_axis("log_softmax", x, axis)
    if x.shape[axis] == 0:
        return x
    shifted = x - r.spread(r.max(x, axes=(axis,)), (axis,), x.shape)
    total = e.log(r.sum(e.exp(shifted), axes=(axis,)))
    return shifted - r.spread(total, (axis,), x.shape)


def _log_softmax_vjp(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    return (g - e.exp(out) * r.spread(r.sum(g, axes=(axis,)), (axis,), g.shape),)


def _axis_samples(m: Sampler) -> list[Any]:
    return [m(m.normal(3, 5), axis=1), m(m.normal(2, 3, 4), axis=1), m(m.normal(4, 100), axis=1),
            m(m.normal(0, 3), axis=1), m(m.normal(3, 0), axis=1)]  # fmt: skip


softmax = Composite("softmax", _softmax, vjp=_softmax_vjp, samples=_axis_samples)
log_softmax = Composite("log_softmax", _log_softmax, vjp=_log_softmax_vjp, samples=_axis_samples)


# -- losses --------------------------------------------------------------------------------------


def _cross_entropy_parts(logits: Any, target: Any, ignore_index: int) -> tuple[Any, Any]:
    """Which rows count, and their target classes (0 where a row does not count)."""
    kept = e.ne(target, broadcast_to(lift(ignore_index, target), target.shape))
    none = broadcast_to(lift(0, target), target.shape)
    return kept, e.where(kept, target, none)


def _cross_entropy(
    logits: Any, target: Any, *, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    _float("cross_entropy", logits)
    if len(logits.shape) != 2 or target.shape != logits.shape[:1]:
        raise ShapeError(
            f"cross_entropy of logits {logits.tensor_type} and target {target.tensor_type}",
            hint="logits [rows, classes], target [rows]",
        )
    if not target.dtype.is_integer:
        raise DTypeError(f"cross_entropy takes integer targets, got {target.tensor_type}")
    if reduction not in ("mean", "sum", "none"):
        raise AttributeValueError(f"cross_entropy: {reduction!r} is not a valid reduction")
    kept, safe = _cross_entropy_parts(logits, target, ignore_index)
    rows = logits.shape[0]
    scores = log_softmax(logits, axis=1)
    picked = reshape(gather(scores, reshape(safe, shape=(rows, 1)), axis=1), shape=(rows,))
    losses = e.where(kept, -picked, picked * 0)
    if reduction == "none":
        return losses
    total = r.sum(losses, axes=(0,))
    if reduction == "sum":
        return total
    return total / r.sum(e.cast(kept, dtype=logits.dtype), axes=(0,))


def _cross_entropy_vjp(
    g: Any, out: Any, logits: Any, target: Any, *, ignore_index: int, reduction: str
) -> tuple[Any, None]:
    kept, safe = _cross_entropy_parts(logits, target, ignore_index)
    weight = e.cast(kept, dtype=logits.dtype)
    if reduction == "mean":
        scale = weight * broadcast_to(g / r.sum(weight, axes=(0,)), weight.shape)
    else:
        scale = weight * broadcast_to(g, weight.shape)
    shape = logits.shape
    classes = iota_like(logits, shape, 1, target.dtype)
    hit = e.cast(e.eq(classes, r.spread(safe, (1,), shape)), dtype=logits.dtype)
    return (softmax(logits, axis=1) - hit) * r.spread(scale, (1,), shape), None


def _cross_entropy_samples(m: Sampler) -> list[Any]:
    some = m.integers(5, 4)
    some[1] = -100
    return [m(m.normal(4, 5), m.integers(5, 4)), m(m.normal(4, 5), some),
            m(m.normal(4, 5), m.integers(5, 4), reduction="sum"),
            m(m.normal(40, 20), m.integers(20, 40), reduction="none")]  # fmt: skip


cross_entropy = Composite(
    "cross_entropy", _cross_entropy, vjp=_cross_entropy_vjp, samples=_cross_entropy_samples
)


# -- normalisation -------------------------------------------------------------------------------


def _layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    _float("layer_norm", x)
    count = len(weight.shape)
    if weight.shape != bias.shape or x.shape[len(x.shape) - count :] != weight.shape:
        raise ShapeError(
            f"layer_norm of {x.tensor_type} with weight {weight.tensor_type}, "
            f"bias {bias.tensor_type}"
        )
    axes = tuple(range(len(x.shape) - count, len(x.shape)))
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    spread = mean(centred * centred, axes=axes)
    normal = centred * r.spread(e.rsqrt(spread + eps), axes, x.shape)
    return normal * broadcast_to(weight, x.shape) + broadcast_to(bias, x.shape)


def _layer_norm_vjp(
    g: Any, out: Any, x: Any, weight: Any, bias: Any, *, eps: float
) -> tuple[Any, Any, Any]:
    rank, count = len(x.shape), len(weight.shape)
    lead, axes = tuple(range(rank - count)), tuple(range(rank - count, rank))
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    scale = r.spread(e.rsqrt(mean(centred * centred, axes=axes) + eps), axes, x.shape)
    normal = centred * scale

    def by_x() -> Any:
        inner = g * broadcast_to(weight, x.shape)
        level = r.spread(mean(inner, axes=axes), axes, x.shape)
        slope = r.spread(mean(inner * normal, axes=axes), axes, x.shape)
        return (inner - level - normal * slope) * scale

    return by_x, lambda: r.sum(g * normal, axes=lead), lambda: r.sum(g, axes=lead)


layer_norm = Composite("layer_norm", _layer_norm, vjp=_layer_norm_vjp, samples=lambda m: [
    m(m.normal(4, 6), m.normal(6), m.normal(6)),
    m(m.normal(2, 3, 4), m.normal(3, 4), m.normal(3, 4)),
    m(m.normal(5, 100), m.normal(100), m.normal(100)),
])  # fmt: skip


# -- pooling -------------------------------------------------------------------------------------
# Over the last len(kernel) axes. A pooled tensor is a window view, reduced over its taps.


def _tapped(x: Any, kernel: Shape) -> Any:
    """x with an axis per tap, by an index map only."""
    unit = reshape(x, shape=(*x.shape, *(1,) * len(kernel)))
    return broadcast_to(unit, (*x.shape, *kernel))


def _windows(x: Any, fill: float, kernel: Shape, **geometry: Shape) -> Any:
    if len(kernel) > len(x.shape):
        raise ShapeError(f"pooling over {len(kernel)} axes of {x.tensor_type}")
    return windows(_tapped(x, kernel), lift(fill, x), kernel=kernel, **geometry)


def _flat_taps(x: Any, kernel: Shape) -> Any:
    lead = x.shape[: len(x.shape) - len(kernel)]
    return reshape(x, shape=(*lead, math.prod(kernel)))


def _lowest(x: Any) -> float:
    return -math.inf if x.dtype.is_float else -(2 ** (8 * x.dtype.itemsize - 1))


def _check_padding(kernel: Shape, padding: Shape) -> None:
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise AttributeValueError(
            f"pool: pad should be at most half of kernel size, got {padding} for kernel {kernel}"
        )


def _max_pool(x: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    _check_padding(kernel, padding)
    view = _windows(x, _lowest(x), kernel, stride=stride, padding=padding, dilation=dilation)
    return r.max(_flat_taps(view, kernel), axes=(len(x.shape),))


def _max_pool_vjp(
    g: Any, out: Any, x: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[Any]:
    # The first of equal maxima in a window takes the gradient, as in PyTorch.
    geometry = {"stride": stride, "padding": padding, "dilation": dilation}
    rank, count = len(x.shape), len(kernel)
    flat = _flat_taps(_windows(x, _lowest(x), kernel, **geometry), kernel)
    best = r.spread(r.argmax(flat, axes=(rank,)), (rank,), flat.shape)
    chosen = e.eq(best, iota_like(x, flat.shape, rank))
    placed = e.where(chosen, *aligned(r.spread(g, (rank,), flat.shape), 0.0))
    taps = reshape(placed, shape=(*g.shape, *kernel))
    return (_overlapped(taps, x.shape[rank - count :], kernel, **geometry),)


def _overlapped(taps: Any, size: Shape, kernel: Shape, **geometry: Shape) -> Any:
    """The adjoint of a pooling's windows: each place takes the sum of the taps that fall on it."""
    count = len(kernel)
    lead = len(taps.shape) - 2 * count
    if geometry["stride"] != kernel or any(geometry["padding"]) or max(geometry["dilation"]) > 1:
        zero = lift(0, taps)
        spread = unwindows(taps, zero, size=size, kernel=kernel, **geometry)
        return r.sum(spread, axes=tuple(range(lead + count, lead + 2 * count)))
    # Windows that tile the axes: one tap falls on each place, none on a rest at the end.
    order = [axis for i in range(count) for axis in (lead + i, lead + count + i)]
    tiled = transpose(taps, permutation=(*range(lead), *order))
    covered = tuple(n * k for n, k in zip(taps.shape[lead:], kernel, strict=False))
    flat = reshape(tiled, shape=(*taps.shape[:lead], *covered))
    rest = tuple(whole - part for whole, part in zip(size, covered, strict=True))
    none = (0,) * (lead + count)
    return pad(flat, lift(0, flat), low=none, high=(*none[:lead], *rest), interior=none)


max_pool = Composite("max_pool", _max_pool, vjp=_max_pool_vjp, samples=lambda m: [
    m(m.apart(2, 3, 6, 6), kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1)),
    m(m.apart(2, 7, 5), kernel=(2, 3), stride=(2, 3), padding=(0, 0), dilation=(1, 1)),
    m(m.apart(1, 5, 7), kernel=(3, 2), stride=(2, 1), padding=(1, 1), dilation=(1, 2)),
    m(m.apart(2, 9), kernel=(3,), stride=(1,), padding=(1,), dilation=(1,)),
])  # fmt: skip


def _avg_pool(
    x: Any, *, kernel: Shape, stride: Shape, padding: Shape, count_include_pad: bool = True
) -> Any:
    _float("avg_pool", x)
    _check_padding(kernel, padding)
    geometry = {"stride": stride, "padding": padding, "dilation": (1,) * len(kernel)}
    rank = len(x.shape)
    axes = tuple(range(rank, rank + len(kernel)))
    total = r.sum(_windows(x, 0.0, kernel, **geometry), axes=axes)
    if count_include_pad or not any(padding):
        return total / math.prod(kernel)
    ones = broadcast_to(lift(1, x), x.shape)
    return total / r.sum(_windows(ones, 0.0, kernel, **geometry), axes=axes)


def _avg_pool_vjp(
    g: Any, out: Any, x: Any, *, kernel: Shape, stride: Shape, padding: Shape,
    count_include_pad: bool,
) -> tuple[Any]:  # fmt: skip
    geometry = {"stride": stride, "padding": padding, "dilation": (1,) * len(kernel)}
    rank, count = len(x.shape), len(kernel)
    if count_include_pad or not any(padding):
        share = g / math.prod(kernel)
    else:
        ones = _windows(broadcast_to(lift(1, x), x.shape), 0.0, kernel, **geometry)
        share = g / r.sum(ones, axes=tuple(range(rank, rank + count)))
    size = x.shape[rank - count :]
    return (_overlapped(_tapped(share, kernel), size, kernel, **geometry),)


avg_pool = Composite("avg_pool", _avg_pool, vjp=_avg_pool_vjp, samples=lambda m: [
    m(m.normal(2, 3, 6, 6), kernel=(2, 2), stride=(2, 2), padding=(0, 0)),
    m(m.normal(1, 5, 7), kernel=(3, 2), stride=(2, 1), padding=(1, 1)),
    m(m.normal(1, 5, 7), kernel=(3, 2), stride=(2, 1), padding=(1, 1), count_include_pad=False),
])  # fmt: skip


# -- indexing ------------------------------------------------------------------------------------


def _one_hot(x: Any, *, classes: int) -> Any:
    if not x.dtype.is_integer:
        raise DTypeError(f"one_hot takes integers, got {x.tensor_type}")
    shape = (*x.shape, classes)
    axis = len(x.shape)
    hit = e.eq(r.spread(x, (axis,), shape), iota_like(x, shape, axis, x.dtype))
    return e.cast(hit, dtype=DType.i64)


one_hot = Composite(
    "one_hot",
    _one_hot,
    differentiable=False,
    checks=lambda types, *, classes: (Check(0, classes, "class values must be below classes"),),
    samples=lambda m: [m(m.integers(5, 3, 4), classes=5), m(m.integers(5), classes=20)],
)


def _stack(*xs: Any, axis: int) -> Any:
    if not 0 <= axis <= len(xs[0].shape):
        raise ShapeError(f"stack: axis {axis} is out of range for {xs[0].tensor_type}")
    for x in xs:
        if x.tensor_type != xs[0].tensor_type:
            raise ShapeError(f"stack: {x.tensor_type} and {xs[0].tensor_type} differ")
    unit = [reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:])) for x in xs]
    return concat(*unit, axis=axis)


def _stack_vjp(g: Any, out: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    ones = (1,) * len(g.shape)
    size = (*g.shape[:axis], 1, *g.shape[axis + 1 :])
    starts = [tuple(i if a == axis else 0 for a in range(len(size))) for i in range(len(xs))]
    return tuple(
        reshape(slice_(g, start=start, size=size, step=ones), shape=x.shape)
        for start, x in zip(starts, xs, strict=True)
    )


stack = Composite("stack", _stack, vjp=_stack_vjp, samples=lambda m: [
    m(m.normal(3, 4), m.normal(3, 4), axis=1), m(m.normal(), m.normal(), m.normal(), axis=0),
    m(m.normal(3), axis=1),
])  # fmt: skip
