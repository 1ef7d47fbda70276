"""Differences, numeric derivatives and integrals along a dimension; covariances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.promotion import casted
from frontend.engine.eager.uncompiled import imaginary, joined, real_part
from frontend.engine.tensors.state import STATE, computing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import reduce, select
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from frontend.functions.layout import narrow
from frontend.functions.logic import bitwise_xor
from frontend.functions.matrix import matmul
from frontend.functions.order import cumsum
from frontend.functions.pointwise import clamp
from frontend.functions.reduce import dimension
from frontend.functions.shape import cat
from frontend.functions.unary import sqrt
from graphc.errors import ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType


def _misfit(message: str) -> ShapeError:
    return ShapeError(message, location=user_location())


# -- differences ---------------------------------------------------------------------------------


@public(method=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None, *, out: Any = None,
) -> Tensor:  # fmt: skip
    """The n-th differences of neighbours along `dim`, with `prepend` and `append` at the ends; of
    bools, whether they differ."""
    need_tensors("diff", input=input)
    if not input.dim():
        raise _misfit("diff expects input to be at least one-dimensional")
    axis = dimension(dim, input.dim())
    parts = [x for x in (prepend, input, append) if x is not None]
    for x in parts:
        if x.dim() != input.dim():
            raise _misfit("diff expects prepend or append to be the same dimension as input")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    result = input if len(parts) == 1 else cat(parts, axis)
    if n == 0:
        return stored(input.clone(), out)
    for _ in range(min(n, result.shape[axis])):
        count = max(result.shape[axis] - 1, 0)
        later = narrow(result, axis, min(1, result.shape[axis]), count)
        earlier = narrow(result, axis, 0, count)
        result = bitwise_xor(later, earlier) if later.dtype is DType.bool else later - earlier
    return stored(result, out)


@public()
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Numeric derivatives along each of `dim` (all by default), of second order inside and of
    `edge_order` at the ends. `spacing`: one distance, one for each dimension, or the coordinates
    along each as tensors."""
    need_tensors("gradient", input=input)
    if input.dtype is DType.bool:
        raise not_implemented("gradient", input.dtype)
    if input.dtype is DType.u8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    axes = _axes(dim, input.dim())
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, Sequence) else [spacing] * len(axes)
    places = {x.device for x in spacings if isinstance(x, Tensor)}
    if len(places) > 1:
        raise RuntimeError(
            "torch.gradient expected each tensor to be on the same device, but got devices "
            f"{' and '.join(sorted(map(str, places)))}!"
        )
    if len(spacings) != len(axes):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to the number of dims ({len(axes)}), but got a list of length {len(spacings)}"
        )
    for axis in axes:
        if input.shape[axis] <= edge_order:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    pairs = zip(spacings, axes, strict=True)
    return tuple(_derivative(input, step, axis, edge_order) for step, axis in pairs)


def _axes(dim: Any, rank: int) -> list[int]:
    listed = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [dimension(axis, rank) for axis in listed]
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"torch.gradient: a dimension appears multiple times in dim {dim}")
    return axes


def _derivative(x: Tensor, spacing: Any, axis: int, edge_order: int) -> Tensor:
    size = x.shape[axis]
    at = lambda i, count=1: narrow(x, axis, i % size, count)  # noqa: E731
    x = x if x.dtype.is_float else casted(x, STATE.default_dtype)
    if isinstance(spacing, Tensor) and spacing.dim():
        shape = [1] * x.dim()
        shape[axis] = -1
        steps = diff(spacing).reshape(shape)
        left = narrow(steps, axis, 0, size - 2)
        right = narrow(steps, axis, 1, size - 2)
        first, second, last, before = (
            narrow(steps, axis, i, 1) for i in (0, min(1, size - 2), size - 2, max(size - 3, 0))
        )
    else:
        left = right = first = second = last = before = spacing
    # The derivative of the parabola through each three neighbours (Fornberg, "Generation of finite
    # difference formulas on arbitrarily spaced grids", 1988).
    if isinstance(spacing, Tensor):
        whole = left + right
        centre = (
            at(0, size - 2) * (-right / (left * whole))
            + at(1, size - 2) * ((right - left) / (left * right))
            + at(2, size - 2) * (left / (right * whole))
        )
    else:
        centre = (at(2, size - 2) - at(0, size - 2)) / (2 * spacing)
    if edge_order == 1:
        start, end = (at(1) - at(0)) / first, (at(-1) - at(-2)) / last
    else:
        start = _edge(at(0), at(1), at(2), first, second)
        end = -_edge(at(-1), at(-2), at(-3), last, before)
    return cat([start, centre, end], axis)


def _edge(x: Tensor, y: Tensor, z: Tensor, near: Any, far: Any) -> Tensor:
    """The slope at x of the parabola through x, y and z; `near` and `far` are their distances."""
    whole = near + far
    return (
        x * (-(near + whole) / (near * whole))
        + y * (whole / (near * far))
        - z * (near / (far * whole))
    )


# -- integrals -----------------------------------------------------------------------------------


def _areas(name: str, y: Tensor, x: Any, dim: int) -> tuple[Tensor, int]:
    """Twice the areas between neighbours along an axis (without `x`, by distance), and the axis."""
    need_tensors(name, y=y)
    if y.dtype is DType.bool or (isinstance(x, Tensor) and x.dtype is DType.bool):
        raise RuntimeError(f"{name}: received a bool input for `x` or `y`; bool is not supported")
    axis = dimension(dim, y.dim())
    # Sums and differences of narrow integers are not those of their dtype.
    y = casted(y, DType.i64) if y.dtype.is_integer else y
    x = casted(x, DType.i64) if isinstance(x, Tensor) and x.dtype.is_integer else x
    count = max(y.shape[axis] - 1, 0)
    sides = narrow(y, axis, min(1, y.shape[axis]), count) + narrow(y, axis, 0, count)
    if x is None:
        return sides, axis
    if x.dim() == 1 and x.shape[0] != y.shape[axis]:
        raise _misfit(
            f"{name}: There must be one `x` value for each sample point; got {x.shape[0]} for "
            f"{y.shape[axis]}"
        )
    shape = [1] * y.dim()
    shape[axis] = -1
    places = x.reshape(shape) if x.dim() == 1 else x
    steps = diff(places, dim=axis - y.dim())
    return sides * steps, steps.dim() - y.dim() + axis if steps.dim() > y.dim() else axis


@public()
def trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoidal rule, at coordinates `x` or distances
    `dx`."""
    areas, axis = _areas("trapezoid", y, x, dim)
    return reduce.sum(areas, axis) * ((1 if x is not None or dx is None else dx) / 2.0)


trapz = trapezoid


@public()
def cumulative_trapezoid(y: Tensor, x: Any = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals by the trapezoidal rule up to each element of y but the first."""
    areas, axis = _areas("cumulative_trapezoid", y, x, dim)
    return cumsum(areas * ((1 if x is not None or dx is None else dx) / 2.0), axis)


# -- covariances ---------------------------------------------------------------------------------


@public(method=True)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariances of the rows (variables) over the columns (observations), which may be
    repeated `fweights` times and weigh `aweights`."""
    need_tensors("cov", input=input)
    if input.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions"
        )
    if input.dtype is DType.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    x = rows if rows.dtype.is_float else casted(rows, STATE.default_dtype)
    weights = _weights(x.shape[1], fweights, aweights)
    if weights is None:
        count: Any = x.shape[1]
        mean, weighted = reduce.sum(x, 1, keepdim=True) / count, lambda y: y
        norm: Any = max(count - correction, 0)
    else:
        total = reduce.sum(weights)
        mean = reduce.sum(x * weights, 1, keepdim=True) / total
        weighted = lambda y: y * weights  # noqa: E731
        norm = total - correction
        if aweights is not None and correction:
            norm = total - correction * reduce.sum(weights * aweights) / total
        norm = clamp(norm, min=0)
    if not isinstance(norm, Tensor):
        norm = x.new_tensor(float(norm))
    apart = x - mean
    result = matmul(apart, weighted(apart).mH) / norm
    return result.reshape(()) if rows.shape[0] == 1 else result


def _weights(count: int, fweights: Any, aweights: Any) -> Tensor | None:
    product: Tensor | None = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if w.dim() > 1 or w.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have one element for each of {count} observations, got "
                f"shape {list(w.shape)}"
            )
        if w.dtype.is_float is (name == "fweights"):
            kind = "integral" if name == "fweights" else "floating point"
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype")
        if computing() and bool(reduce.any(w < 0)):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        product = w if product is None else product * w
    return product


@public(method=True)
def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of the rows: their covariances over the products of their
    standard deviations, clamped to [-1, 1]."""
    need_tensors("corrcoef", input=input)
    if input.dim() > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions"
        )
    c = cov(input)
    if not c.dim():
        return c / c
    deviations = sqrt(select.diagonal(c))
    if c.is_complex():
        deviations = real_part(deviations)
    ratios = c / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    if not c.is_complex():
        return clamp(ratios, -1, 1)
    return joined(clamp(real_part(ratios), -1, 1), clamp(imaginary(ratios), -1, 1))
