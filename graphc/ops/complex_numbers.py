"""Arithmetic and functions of complex numbers: pairs of reals along a last axis of 2.

An op here is a composite, so that what follows one another is fused over real and imaginary parts.
A frontend says what is differentiated how; as graphs these have the gradients of their definitions,
which are those with respect to the parts. Functions with cuts take the sides that C99 gives them
(W. Kahan, "Branch cuts for complex elementary functions", 1987, where formulas are his).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.dims import fixed
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops import contract, movement, reduce
from graphc.ops import elementwise as e
from graphc.ops.composite import check_float, stack
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.op import Array, Sample, SampleDrawer
from graphc.ops.scalar_functions import special
from graphc.ops.scalar_functions import trigonometric as t

Parts = tuple[Any, Any]
"""The real and the imaginary parts."""


def part(z: Any, which: int) -> Any:
    """The real (0) or imaginary (1) parts of pairs."""
    rank = len(z.shape) - 1
    if rank < 0 or z.shape[rank] != 2:
        raise ShapeError(f"{z.tensor_type} holds no pairs: its last axis is not 2")
    start, size, step = (0,) * rank + (which,), (*z.shape[:rank], 1), (1,) * (rank + 1)
    taken = movement.slice_(z, start=start, size=size, step=step)
    return movement.reshape(taken, shape=tuple(z.shape[:rank]))


def parts_of(z: Any) -> Parts:
    return part(z, 0), part(z, 1)


def paired(re: Any, im: Any) -> Any:
    """Pairs of these parts."""
    return stack(re, im, axis=len(re.shape))


def where(condition: Any, x: Any, number: float) -> Any:
    """x where the condition holds, else a number."""
    return e.where(condition, x, broadcast_to(lift(number, x), x.shape))


def _is(x: Any, number: float) -> Any:
    return e.eq(x, broadcast_to(lift(number, x), x.shape))


# -- rules on parts ------------------------------------------------------------------------------


def _mul(x: Parts, y: Parts) -> Parts:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _div(x: Parts, y: Parts) -> Parts:
    """Over y by its greater part first, so that no square overflows."""
    (a, b), (c, d) = x, y
    scale = e.maximum(e.abs(c), e.abs(d))
    c, d = c / scale, d / scale
    square = c * c + d * d
    return (a * c + b * d) / square / scale, (b * c - a * d) / square / scale


def _one(like: Any) -> Any:
    return broadcast_to(lift(1, like), like.shape)


def _reciprocal(x: Parts) -> Parts:
    return _div((_one(x[0]), x[0] * 0), x)


def _magnitude(x: Parts) -> Any:
    return t.hypot(*x)


def _angle(x: Parts) -> Any:
    return t.atan2(x[1], x[0])


def _sign(x: Parts) -> Parts:
    size = _magnitude(x)
    some = e.ne(size, broadcast_to(lift(0, size), size.shape))
    over = where(some, size, 1)
    return where(some, x[0] / over, 0), where(some, x[1] / over, 0)


def _exp(x: Parts) -> Parts:
    size, flat = e.exp(x[0]), _is(x[1], 0)
    return size * e.cos(x[1]), e.where(flat, x[1], size * e.sin(x[1]))  # no inf · 0


def _expm1(x: Parts) -> Parts:
    """exp(a)·cos(b) - 1 = expm1(a)·cos(b) - 2·sin²(b/2)."""
    half = e.sin(x[1] * 0.5)
    return special.expm1(x[0]) * e.cos(x[1]) - 2 * half * half, _exp(x)[1]


def _log(x: Parts) -> Parts:
    """Near the unit circle log(|x|) is log1p(|x|² - 1) / 2, of factors that cancel exactly."""
    a, b = e.abs(x[0]), e.abs(x[1])
    greater, less = e.maximum(a, b), e.minimum(a, b)
    off = (greater - 1) * (greater + 1) + less * less
    near = e.lt(e.abs(off), broadcast_to(lift(0.5, off), off.shape))
    size = e.where(near, 0.5 * special.log1p(where(near, off, 0)), e.log(_magnitude(x)))
    return size, _angle(x)


def _log1p(x: Parts) -> Parts:
    a, b = x
    off = a * (a + 2) + b * b
    near = e.lt(e.abs(off), broadcast_to(lift(0.5, off), off.shape))
    size = e.where(near, 0.5 * special.log1p(where(near, off, 0)), e.log(t.hypot(a + 1, b)))
    return size, t.atan2(b, a + 1)


def _scaled(x: Parts, by: float) -> Parts:
    return x[0] * by, x[1] * by


def _sqrt(x: Parts) -> Parts:
    """The root of the greater of (|x| ± a) / 2 is a part; the other is b over twice that."""
    a, b = x
    root = e.sqrt(0.5 * e.abs(a) + 0.5 * _magnitude(x))
    none = _is(root, 0)
    other = e.where(none, root, e.abs(b) / e.where(none, _one(root), root) * 0.5)
    right = e.ge(a, broadcast_to(lift(0, a), a.shape))
    return e.where(right, root, other), e.copysign(e.where(right, other, root), b)


def _sin(x: Parts) -> Parts:
    return e.sin(x[0]) * t.cosh(x[1]), e.cos(x[0]) * t.sinh(x[1])


def _cos(x: Parts) -> Parts:
    return e.cos(x[0]) * t.cosh(x[1]), -(e.sin(x[0]) * t.sinh(x[1]))


def _sinh(x: Parts) -> Parts:
    return t.sinh(x[0]) * e.cos(x[1]), t.cosh(x[0]) * e.sin(x[1])


def _cosh(x: Parts) -> Parts:
    return t.cosh(x[0]) * e.cos(x[1]), t.sinh(x[0]) * e.sin(x[1])


def _tanh(x: Parts) -> Parts:
    """(u + iv) / (1 + iuv) of u = tanh(a), v = tan(b), where 1 - u² is 1 / cosh²(a)."""
    u, v, fall = e.tanh(x[0]), t.tan(x[1]), 1 / t.cosh(x[0])
    below = 1 + (u * v) * (u * v)
    return u * (1 + v * v) / below, v * fall * fall / below


def _turned_in(rule: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """-i · rule(ix)."""

    def turned(x: Parts) -> Parts:
        p, q = rule((-x[1], x[0]))
        return q, -p

    return turned


def _roots(x: Parts) -> tuple[Parts, Parts]:
    """The roots of 1 - x and of 1 + x."""
    return _sqrt((1 - x[0], -x[1])), _sqrt((1 + x[0], x[1]))


def _asin(x: Parts) -> Parts:
    (a, b), (c, d) = _roots(x)
    return t.atan2(x[0], a * c - b * d), t.asinh(a * d - b * c)


def _acos(x: Parts) -> Parts:
    (a, b), (c, d) = _roots(x)
    return 2 * t.atan2(a, c), t.asinh(b * c - a * d)


def _acosh(x: Parts) -> Parts:
    (a, b), (c, d) = _sqrt((x[0] - 1, x[1])), _sqrt((x[0] + 1, x[1]))
    return t.asinh(a * c + b * d), 2 * t.atan2(b, c)


def _atanh(x: Parts) -> Parts:
    """Of |a|, so that what log1p gets is not negative."""
    a, b = e.abs(x[0]), x[1]
    size = 0.25 * special.log1p(4 * a / ((1 - a) * (1 - a) + b * b))
    return e.copysign(size, x[0]), 0.5 * t.atan2(2 * b, (1 - a) * (1 + a) - b * b)


def _sigmoid(x: Parts) -> Parts:
    a, b = _exp((-x[0], -x[1]))
    return _reciprocal((1 + a, b))


def _silu(x: Parts) -> Parts:
    a, b = _exp((-x[0], -x[1]))
    return _div(x, (1 + a, b))


def _pow(x: Parts, y: Parts) -> Parts:
    """exp(y·log(x)); 0 to what is right of 0 is 0, anything to 0 is 1."""
    re, im = _exp(_mul(y, _log(x)))
    empty = e.logical_and(_is(x[0], 0), _is(x[1], 0))
    zero = e.logical_and(empty, e.gt(y[0], broadcast_to(lift(0, y[0]), y[0].shape)))
    one = e.logical_and(_is(y[0], 0), _is(y[1], 0))
    re, im = (where(e.logical_not(zero), each, 0) for each in (re, im))
    return where(e.logical_not(one), re, 1), where(e.logical_not(one), im, 0)


# -- the ops -------------------------------------------------------------------------------------


def _op(
    name: str, rule: Callable[..., Any], samples: Callable[[SampleDrawer], list[Sample]]
) -> Composite:
    """`rule` of the parts of its operands gives parts, or real numbers."""

    def define(*operands: Any) -> Any:
        for z in operands:
            check_float(f"complex_{name}", z)
        result = rule(*map(parts_of, operands))
        return paired(*result) if isinstance(result, tuple) else result

    return Composite(f"complex_{name}", define, samples=samples)


def _one_operand(m: SampleDrawer) -> list[Sample]:
    return [m(m.normal(3, 5, 2))]


def _two_operands(m: SampleDrawer) -> list[Sample]:
    return [m(m.normal(3, 5, 2), m.normal(3, 5, 2))]


mul = _op("mul", _mul, lambda m: [*_two_operands(m), m(m.normal(0, 2), m.normal(0, 2))])
div = _op("div", _div, _two_operands)
pow = _op("pow", _pow, _two_operands)
abs = _op("abs", _magnitude, lambda m: [*_one_operand(m), m(m.normal(2))])
angle = _op("angle", _angle, _one_operand)
sign = _op("sign", _sign, _one_operand)
exp = _op("exp", _exp, _one_operand)
exp2 = _op("exp2", lambda x: _exp(_scaled(x, math.log(2))), _one_operand)
expm1 = _op("expm1", _expm1, _one_operand)
log = _op("log", _log, _one_operand)
log2 = _op("log2", lambda x: _scaled(_log(x), 1 / math.log(2)), _one_operand)
log10 = _op("log10", lambda x: _scaled(_log(x), 1 / math.log(10)), _one_operand)
log1p = _op("log1p", _log1p, _one_operand)
sqrt = _op("sqrt", _sqrt, _one_operand)
rsqrt = _op("rsqrt", lambda x: _reciprocal(_sqrt(x)), _one_operand)
sin = _op("sin", _sin, _one_operand)
cos = _op("cos", _cos, _one_operand)
tan = _op("tan", _turned_in(_tanh), _one_operand)
sinh = _op("sinh", _sinh, _one_operand)
cosh = _op("cosh", _cosh, _one_operand)
tanh = _op("tanh", _tanh, _one_operand)
asin = _op("asin", _asin, _one_operand)
acos = _op("acos", _acos, _one_operand)
atan = _op("atan", _turned_in(_atanh), _one_operand)
asinh = _op("asinh", _turned_in(_asin), _one_operand)
acosh = _op("acosh", _acosh, _one_operand)
atanh = _op("atanh", _atanh, _one_operand)
sigmoid = _op("sigmoid", _sigmoid, _one_operand)
silu = _op("silu", _silu, _one_operand)

# -- products ------------------------------------------------------------------------------------


def _bilinear(product: Any, x: Any, y: Any, **attributes: Any) -> Any:
    """Four real products."""
    (a, b), (c, d) = parts_of(x), parts_of(y)

    def of(left: Any, right: Any) -> Any:
        return product(left, right, **attributes)

    return paired(of(a, c) - of(b, d), of(a, d) + of(b, c))


def _samples_of(product: Any) -> Callable[[SampleDrawer], list[Sample]]:
    """Two of the product's samples, of pairs."""

    def samples(m: SampleDrawer) -> list[Sample]:
        drawn = []
        for sample in [*product.samples(m)][:2]:
            operands = (m.normal(*operand.shape, 2) for operand in sample.operands)
            drawn.append(m(*operands, **sample.attributes))
        return drawn

    return samples


def _conv(x: Any, w: Any, *, stride: Shape, padding: Shape, dilation: Shape, groups: int) -> Any:
    return _bilinear(
        contract.conv, x, w, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def _input_grad(
    g: Any, w: Any, *, size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    return _bilinear(
        contract.conv_input_grad, g, w, size=size, stride=stride, padding=padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip


def _weight_grad(
    x: Any, g: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    return _bilinear(
        contract.conv_weight_grad, x, g, kernel=kernel, stride=stride, padding=padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip


matmul = Composite(
    "complex_matmul",
    lambda x, y: _bilinear(contract.matmul, x, y),
    samples=_samples_of(contract.matmul),
)
conv = Composite("complex_conv", _conv, samples=_samples_of(contract.conv))
conv_input_grad = Composite(
    "complex_conv_input_grad", _input_grad, samples=_samples_of(contract.conv_input_grad)
)
conv_weight_grad = Composite(
    "complex_conv_weight_grad", _weight_grad, samples=_samples_of(contract.conv_weight_grad)
)

# -- products along axes -------------------------------------------------------------------------


def _steps(x: Any, axis: int, start: Any, count: Any) -> Any:
    """`count` pairs along an axis from `start` on."""
    rank = len(x.shape)
    first = tuple(start if a == axis else 0 for a in range(rank))
    size = tuple(count if a == axis else dim for a, dim in enumerate(x.shape))
    return movement.slice_(x, start=first, size=size, step=(1,) * rank)


def _prod(x: Any, *, axes: tuple[int, ...]) -> Any:
    """The first half times the second, until one is left; an odd one comes along."""
    rank = len(x.shape) - 1
    kept = tuple(a for a in range(rank) if a not in axes)
    shape = tuple(x.shape[a] for a in kept)
    count = math.prod(fixed(x.shape[a]) for a in axes)
    lines = movement.transpose(x, permutation=(*axes, *kept, rank))
    z = movement.reshape(lines, shape=(count, *shape, 2))
    if not count:
        ones = broadcast_to(lift(1, z), shape)
        # Of the sum, which is 0, it has that it depends on x.
        return paired(ones, broadcast_to(lift(0, z), shape)) + reduce.sum(z, axes=(0,))
    while count > 1:
        half = count // 2
        halves = mul(_steps(z, 0, 0, half), _steps(z, 0, half, half))
        rest = [_steps(z, 0, 2 * half, 1)] if count % 2 else []
        z, count = movement.concat(halves, *rest, axis=0) if rest else halves, count - half
    return movement.reshape(z, shape=(*shape, 2))


def _cumprod(x: Any, *, axis: int) -> Any:
    """Each times what is 1, then 2, 4, … places before it (D. Hillis and G. Steele, "Data parallel
    algorithms", 1986)."""
    count, step = fixed(x.shape[axis]), 1
    while step < count:
        later = mul(_steps(x, axis, step, count - step), _steps(x, axis, 0, count - step))
        x, step = movement.concat(_steps(x, axis, 0, step), later, axis=axis), 2 * step
    return x


prod = Composite("complex_prod", _prod, samples=lambda m: [
    m(m.normal(3, 5, 2), axes=(1,)), m(m.normal(2, 3, 4, 2), axes=(0, 2)),
    m(m.normal(0, 3, 2), axes=(0,)),
])  # fmt: skip
cumprod = Composite("complex_cumprod", _cumprod, samples=lambda m: [
    m(m.normal(3, 5, 2), axis=1), m(m.normal(4, 3, 2), axis=0), m(m.normal(0, 2), axis=0),
])  # fmt: skip


# -- what NumPy computes, in memory that holds the pairs ------------------------------------------


def stored_type(type: TensorType) -> TensorType:
    """The type that graphs have in place of a tensor's: of complex numbers that of the pairs."""
    if not type.dtype.is_complex:
        return type
    return TensorType(type.dtype.computes_as, (*type.shape, 2))


def as_pairs(array: Array) -> Array:
    """A complex array as pairs, in the same memory; another one as it is."""
    return array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array


def from_pairs(array: Array) -> Array:
    """Pairs that lie side by side as a complex array, in the same memory."""
    kind = DType.c128 if array.dtype == np.float64 else DType.c64
    return array.view(kind.numpy)[..., 0]


def _log_of_sum(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)), with the angle of the greater as it is: not brought into one turn."""
    swap = (x.real < y.real) | (np.isnan(y.real) | np.isnan(y.imag))
    greater, less = np.where(swap, y, x), np.where(swap, x, y)
    both_infinite = np.isinf(greater.real) & (greater.real == less.real)
    apart = np.where(both_infinite, x.dtype.type(0), less - greater)
    infinite = np.where(greater.real < 0, less, np.log(np.exp(less) + np.exp(greater)))
    unknown = np.isnan(greater.real) | np.isnan(greater.imag)
    finite = np.where(unknown, greater, np.log1p(np.exp(apart)) + greater)
    return np.where(both_infinite, infinite, finite)


def logcumsumexp_of_complex(x: Array, *, axis: int) -> Array:
    """Of NumPy's complex numbers, one line after the other."""
    out = x.copy()
    lines = np.moveaxis(out, axis, 0)
    for i in range(1, len(lines)):
        lines[i] = _log_of_sum(lines[i - 1], lines[i])
    return out


def _logcumsumexp(x: Array, *, axis: int) -> Array:
    return as_pairs(logcumsumexp_of_complex(from_pairs(x), axis=axis))


def _logcumsumexp_type(x: TensorType, *, axis: int) -> TensorType:
    if x.dtype not in (DType.f32, DType.f64):
        raise DTypeError(f"pairs are of f32 or f64, not {x.dtype}")
    if not 0 <= axis < x.rank - 1 or x.shape[-1] != 2:
        raise ShapeError(f"{x} holds no pairs along an axis {axis}")
    return x


logcumsumexp = Host(
    "complex_logcumsumexp", _logcumsumexp, _logcumsumexp_type,
    samples=lambda m: [m(m.normal(4, 2), axis=0), m(m.normal(2, 3, 2), axis=1)],
)  # fmt: skip
