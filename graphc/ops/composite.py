"""Composites: graphs over other ops, some with an own gradient that is cheaper or more exact."""

from __future__ import annotations

import math
from typing import Any

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.dims import Dim
from graphc.ir.size_floats import SizeFloat
from graphc.ir.size_guards import equal
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.generate import iota_like
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import ContentCheck, SampleDrawer
from graphc.ops.movement import concat, reshape, slice_


def check_float(op: str, x: Any) -> None:
    """Raise DTypeError unless `x` is a float tensor."""
    if not x.dtype.is_float:
        raise DTypeError(f"{op} takes a float tensor, got {x.tensor_type}", hint="cast it")


# -- statistics ----------------------------------------------------------------------------------


def _mean(x: Any, *, axes: tuple[int, ...]) -> Any:
    check_float("mean", x)
    return r.sum(x, axes=axes) / math.prod(x.shape[axis] for axis in axes)


def degrees_of_freedom(x: Any, axes: tuple[int, ...], correction: float) -> Any:
    """How many elements lie along the axes, less the correction: 0 at least."""
    count: Any = math.prod(x.shape[axis] for axis in axes)
    whole = math.floor(correction)
    if whole == correction or not isinstance(count, Dim):
        return max(count - (whole if whole == correction else correction), 0)
    # Asked in whole numbers, which is what can be said of a size known only at run time.
    return SizeFloat("sub", count, correction) if count > whole else 0


def _var(x: Any, *, axes: tuple[int, ...], correction: float = 1) -> Any:
    check_float("var", x)
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    return r.sum(centred * centred, axes=axes) / degrees_of_freedom(x, axes, correction)


def _axes_samples(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5), axes=(1,)), m(m.normal(2, 3, 4), axes=(0, 2)),
            m(m.normal(3, 70), axes=(0, 1))]  # fmt: skip


def _mean_vjp(g: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> tuple[Any]:
    return (r.spread(g / math.prod(x.shape[axis] for axis in axes), axes, x.shape),)


def _var_vjp(g: Any, out: Any, x: Any, *, axes: tuple[int, ...], correction: float) -> tuple[Any]:
    centred = x - r.spread(mean(x, axes=axes), axes, x.shape)
    slope = g * 2 / degrees_of_freedom(x, axes, correction)
    return (centred * r.spread(slope, axes, x.shape),)


mean = Composite("mean", _mean, vjp=_mean_vjp, samples=_axes_samples)
var = Composite(
    "var",
    _var,
    vjp=_var_vjp,
    samples=lambda m: [*_axes_samples(m), m(m.normal(4, 3), axes=(0,), correction=2.5)],
)


# -- activations ---------------------------------------------------------------------------------


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    check_float("gelu", x)
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
    check_float("softmax", x)
    _check_axis("softmax", x, axis)
    if equal(x.shape[axis], 0):
        return x
    shifted = e.exp(x - r.spread(r.max(x, axes=(axis,)), (axis,), x.shape))
    # One division a row; the sum is at least 1, so its reciprocal is an ordinary number.
    return shifted * r.spread(1 / r.sum(shifted, axes=(axis,)), (axis,), x.shape)


def _softmax_vjp(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    total = r.sum(g * out, axes=(axis,))
    return ((g - r.spread(total, (axis,), g.shape)) * out,)


def _log_softmax(x: Any, *, axis: int) -> Any:
    check_float("log_softmax", x)
    _check_axis("log_softmax", x, axis)
    if equal(x.shape[axis], 0):
        return x
    shifted = x - r.spread(r.max(x, axes=(axis,)), (axis,), x.shape)
    total = e.log(r.sum(e.exp(shifted), axes=(axis,)))
    return shifted - r.spread(total, (axis,), x.shape)


def _log_softmax_vjp(g: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    return (g - e.exp(out) * r.spread(r.sum(g, axes=(axis,)), (axis,), g.shape),)


def _axis_samples(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5), axis=1), m(m.normal(2, 3, 4), axis=1), m(m.normal(4, 100), axis=1),
            m(m.normal(0, 3), axis=1), m(m.normal(3, 0), axis=1)]  # fmt: skip


softmax = Composite("softmax", _softmax, vjp=_softmax_vjp, samples=_axis_samples)
log_softmax = Composite("log_softmax", _log_softmax, vjp=_log_softmax_vjp, samples=_axis_samples)


# -- gradients -----------------------------------------------------------------------------------

stop_gradient = Composite(
    "stop_gradient", lambda x: x, vjp=lambda g, out, x: (None,),
    samples=lambda m: [m(m.normal(3, 4)), m(m.integers(5, 3)), m(m.normal())],
    exempt={"gradient": "it has none: that is what it is for"},
)  # fmt: skip
"""Its operand, through which no gradient goes."""

straight_through = Composite(
    "straight_through", lambda old, new: new, vjp=lambda g, out, old, new: (g, None),
    samples=lambda m: [m(m.normal(3, 4), m.normal(3, 4)), m(m.integers(5, 3), m.integers(5, 3))],
    exempt={"gradient": "that of the old value, whatever the new one is made of"},
)  # fmt: skip
"""The value of its second operand with the gradient of its first, as in straight-through
estimators: the new value of what was changed in place where that is not differentiated."""

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
    checks=lambda types, *, classes: (
        ContentCheck(0, classes, "class values must be below classes"),
    ),
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
