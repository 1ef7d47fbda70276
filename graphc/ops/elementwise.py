"""Elementwise ops. Gradients at kinks and ties follow PyTorch: relu and abs have 0 at 0, equal
operands of minimum and maximum share the gradient, clamp passes it on its boundaries."""

from __future__ import annotations

from typing import Any

from graphc.ir.handle import filled_like
from graphc.ir.types import DType
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.op import EVERY, FLOATS, NUMBERS, ContentCheck, SampleDrawer

SQRT_PI = 1.7724538509055159


def elementwise(name: str, scalar: Any, **declaration: Any) -> Elementwise:
    """Declare an elementwise op: its scalar rule, gradient rule and samples."""
    declaration.setdefault("vjp", None)
    return Elementwise(name, scalar, **declaration)


def _zeros_like(x: Any) -> Any:
    return filled_like(0, x)


def _one(m: SampleDrawer) -> Any:
    return [m(m.normal(3, 5)), m(m.normal()), m(m.normal(0, 3)), m(m.normal(37))]


def _positive(m: SampleDrawer) -> Any:
    return [m(m.positive(3, 5)), m(m.positive()), m(m.positive(0)), m(m.positive(37))]


def _apart(m: SampleDrawer) -> Any:
    return [m(m.apart(3, 5)), m(m.apart()), m(m.apart(37))]


def _two(m: SampleDrawer) -> Any:
    return [m(m.normal(3, 5), m.positive(3, 5)), m(m.normal(), m.positive()),
            m(m.normal(0, 2), m.normal(0, 2)), m(m.normal(35), m.positive(35))]  # fmt: skip


def _two_apart(m: SampleDrawer) -> Any:
    both = m.apart(2, 3, 13)
    return [m(both[0], both[1]), m(both[0, 0, 0], both[0, 0, 1])]


def _two_bools(m: SampleDrawer) -> Any:
    return [m(m.bools(3, 7), m.bools(3, 7)), m(m.bools(), m.bools())]


def _steps(m: SampleDrawer) -> Any:
    return [m(m.normal(37) * 3), m(m.normal()), m(m.normal(3, 2) * 100)]


def _ties(m: SampleDrawer) -> Any:
    x = m.integers(3, 4, 9).astype(float)
    y = m.integers(3, 4, 9).astype(float)
    return [m(x, y, differentiable=False), *_two_apart(m)]


def _nonzero(types: Any) -> tuple[ContentCheck, ...]:
    return (ContentCheck(1, None, "division by zero"),) if types[1].dtype.is_integer else ()


# -- arithmetic ----------------------------------------------------------------------------------

add = elementwise("add", lambda s, x, y: s.add(x, y), vjp=lambda g, out, x, y: (g, g),
                  dtypes=NUMBERS, samples=_two)  # fmt: skip
sub = elementwise("sub", lambda s, x, y: s.sub(x, y), vjp=lambda g, out, x, y: (g, lambda: -g),
                  dtypes=NUMBERS, samples=_two)  # fmt: skip
mul = elementwise("mul", lambda s, x, y: s.mul(x, y),
              vjp=lambda g, out, x, y: (lambda: g * y, lambda: g * x),
                  dtypes=NUMBERS, samples=_two)  # fmt: skip
div = elementwise(
    "div",
    lambda s, x, y: s.div(x, y),
    vjp=lambda g, out, x, y: (lambda: g / y, lambda: -(g * out) / y),
    dtypes=FLOATS,
    cost=8,
    samples=_two,
)
floordiv = elementwise("floordiv", lambda s, x, y: s.floordiv(x, y), dtypes=NUMBERS, cost=9,
                       samples=_two, checks=_nonzero,
                       vjp=lambda g, out, x, y: (_zeros_like(g), _zeros_like(g)))  # fmt: skip
mod = elementwise("mod", lambda s, x, y: s.mod(x, y), dtypes=NUMBERS, cost=9, samples=_two,
                  checks=_nonzero,
                  vjp=lambda g, out, x, y: (g, lambda: -(g * floordiv(x, y))))  # fmt: skip
fmod = elementwise("fmod", lambda s, x, y: s.fmod(x, y), dtypes=NUMBERS, cost=9, samples=_two,
                   checks=_nonzero,
                   vjp=lambda g, out, x, y: (g, lambda: -(g * trunc(x / y))))  # fmt: skip
neg = elementwise("neg", lambda s, x: s.neg(x), vjp=lambda g, out, x: (-g,), dtypes=NUMBERS,
                  samples=_one)  # fmt: skip


def _pow_vjp(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    # x**(y-1) may be inf or NaN where y is 0, and log(x) where x is 0: those gradients are 0.
    def base() -> Any:
        return where(eq(y, _zeros_like(y)), _zeros_like(y), g * y * pow(x, y - 1))

    def exponent() -> Any:
        flat = logical_and(eq(x, _zeros_like(x)), ge(y, _zeros_like(y)))
        return g * where(flat, _zeros_like(x), out * log(x))

    return base, exponent


pow = elementwise("pow", lambda s, x, y: s.pow(x, y), vjp=_pow_vjp, dtypes=NUMBERS, cost=20, ulps=4,
                  samples=lambda m: [m(m.positive(3, 5), m.normal(3, 5)),
                                     m(m.positive(), m.normal()),
                                     m(m.apart(5), m.integers(4, 5, low=-2).astype(float),
                                       differentiable=False)])  # fmt: skip

# -- functions of one operand --------------------------------------------------------------------

exp = elementwise("exp", lambda s, x: s.exp(x), vjp=lambda g, out, x: (g * out,), dtypes=FLOATS,
                  cost=15, ulps=2, samples=_one)  # fmt: skip
log = elementwise("log", lambda s, x: s.log(x), vjp=lambda g, out, x: (g / x,), dtypes=FLOATS,
                  cost=15, ulps=2, samples=_positive)  # fmt: skip
sin = elementwise("sin", lambda s, x: s.sin(x), vjp=lambda g, out, x: (g * cos(x),), dtypes=FLOATS,
                  cost=20, ulps=2, samples=_one)  # fmt: skip
cos: Elementwise = elementwise("cos", lambda s, x: s.cos(x), vjp=lambda g, out, x: (-(g * sin(x)),),
                  dtypes=FLOATS, cost=20, ulps=2, samples=_one)  # fmt: skip
sqrt = elementwise("sqrt", lambda s, x: s.sqrt(x), vjp=lambda g, out, x: (g / (out * 2),),
                   dtypes=FLOATS, cost=10, samples=_positive)  # fmt: skip
rsqrt = elementwise("rsqrt", lambda s, x: s.rsqrt(x), dtypes=FLOATS, cost=12, ulps=2,
                    vjp=lambda g, out, x: (g * out * out * out * -0.5,),
                    samples=_positive)  # fmt: skip
tanh = elementwise("tanh", lambda s, x: s.tanh(x), vjp=lambda g, out, x: (g * (1 - out * out),),
                   dtypes=FLOATS, cost=15, ulps=6, samples=_one)  # fmt: skip
sigmoid = elementwise("sigmoid", lambda s, x: s.sigmoid(x), dtypes=FLOATS, cost=17, ulps=4,
                      vjp=lambda g, out, x: (g * (out * (1 - out)),), samples=_one)  # fmt: skip
erf = elementwise("erf", lambda s, x: s.erf(x), dtypes=FLOATS, cost=15, ulps=6,
                  vjp=lambda g, out, x: (g * exp(-(x * x)) * (2 / SQRT_PI),),
                  samples=_one)  # fmt: skip
abs = elementwise("abs", lambda s, x: s.abs(x), vjp=lambda g, out, x: (g * sign(x),),
                  dtypes=NUMBERS, samples=_apart)  # fmt: skip
sign: Elementwise = elementwise("sign", lambda s, x: s.sign(x), dtypes=NUMBERS, samples=_apart,
                                vjp=lambda g, out, x: (_zeros_like(g),))  # fmt: skip
floor = elementwise("floor", lambda s, x: s.floor(x), vjp=lambda g, out, x: (_zeros_like(g),),
                    dtypes=FLOATS, samples=_steps)  # fmt: skip
ceil = elementwise("ceil", lambda s, x: s.ceil(x), vjp=lambda g, out, x: (_zeros_like(g),),
                   dtypes=FLOATS, samples=_steps)  # fmt: skip
round = elementwise("round", lambda s, x: s.round(x), vjp=lambda g, out, x: (_zeros_like(g),),
                    dtypes=FLOATS, samples=_steps)  # fmt: skip
trunc: Elementwise = elementwise("trunc", lambda s, x: s.trunc(x), dtypes=FLOATS, samples=_steps,
                                 vjp=lambda g, out, x: (_zeros_like(g),))  # fmt: skip


def _copysign_vjp(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    zero = _zeros_like(g)
    return lambda: where(eq(x, zero), zero, g * (out / x)), zero


copysign = elementwise("copysign", lambda s, x, y: s.copysign(x, y), dtypes=FLOATS, cost=3,
                       vjp=_copysign_vjp, samples=_two_apart)  # fmt: skip
relu = elementwise(
    "relu",
    lambda s, x: s.maximum(s.constant(0, x), x),
    vjp=lambda g, out, x: (where(le(out, _zeros_like(out)), _zeros_like(g), g),),
    dtypes=NUMBERS,
    samples=lambda m: [*_apart(m), m(m.integers(3, 9, low=-2) * 1.0, differentiable=False)],
)

# -- comparisons and logic -----------------------------------------------------------------------

eq = elementwise("eq", lambda s, x, y: s.eq(x, y), result=DType.bool, samples=_ties)
ne = elementwise("ne", lambda s, x, y: s.ne(x, y), result=DType.bool, samples=_ties)
lt = elementwise("lt", lambda s, x, y: s.lt(x, y), dtypes=NUMBERS, result=DType.bool, samples=_ties)
le: Elementwise = elementwise(
    "le", lambda s, x, y: s.le(x, y), dtypes=NUMBERS, result=DType.bool, samples=_ties
)
gt: Elementwise = elementwise(
    "gt", lambda s, x, y: s.gt(x, y), dtypes=NUMBERS, result=DType.bool, samples=_ties
)
signbit = elementwise("signbit", lambda s, x: s.signbit(x), dtypes=FLOATS, result=DType.bool,
                      samples=_one)  # fmt: skip
ge = elementwise("ge", lambda s, x, y: s.ge(x, y), dtypes=NUMBERS, result=DType.bool, samples=_ties)
logical_and = elementwise("logical_and", lambda s, x, y: s.logical_and(x, y),
                          dtypes=(DType.bool,), samples=_two_bools)  # fmt: skip
logical_or = elementwise("logical_or", lambda s, x, y: s.logical_or(x, y), dtypes=(DType.bool,),
                         samples=_two_bools)  # fmt: skip
logical_xor = elementwise("logical_xor", lambda s, x, y: s.logical_xor(x, y),
                          dtypes=(DType.bool,), samples=_two_bools)  # fmt: skip
logical_not = elementwise("logical_not", lambda s, x: s.logical_not(x), dtypes=(DType.bool,),
                          samples=lambda m: [m(m.bools(3, 7)), m(m.bools())])  # fmt: skip

# -- choice --------------------------------------------------------------------------------------

where: Elementwise = elementwise(
    "where",
    lambda s, p, x, y: s.select(p, x, y),
    predicate=True,
    vjp=lambda g, out, p, x, y: (
        None, lambda: where(p, g, _zeros_like(g)), lambda: where(p, _zeros_like(g), g)
    ),
    samples=lambda m: [m(m.bools(3, 5), m.normal(3, 5), m.normal(3, 5)),
                       m(m.bools(), m.normal(), m.normal())],
)  # fmt: skip


def _extremum_vjp(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    half = where(eq(x, y), g * 0.5, g)
    none = _zeros_like(g)
    # A NaN operand is the result, and takes the gradient.
    takes_x = logical_or(eq(x, out), ne(x, x))
    takes_y = logical_or(eq(y, out), ne(y, y))
    return lambda: where(takes_x, half, none), lambda: where(takes_y, half, none)


minimum = elementwise("minimum", lambda s, x, y: s.minimum(x, y), dtypes=NUMBERS,
                      vjp=_extremum_vjp, samples=_ties)  # fmt: skip
maximum = elementwise("maximum", lambda s, x, y: s.maximum(x, y), dtypes=NUMBERS,
                      vjp=_extremum_vjp, samples=_ties)  # fmt: skip


def _clamp_vjp(g: Any, out: Any, x: Any, low: Any, high: Any) -> tuple[Any, Any, Any]:
    none = _zeros_like(g)

    def inside() -> Any:
        return where(logical_and(ge(x, low), le(x, high)), g, none)

    def below() -> Any:
        return where(logical_and(lt(x, low), lt(low, high)), g, none)

    def above() -> Any:
        return where(logical_or(gt(x, high), lt(high, low)), g, none)

    return inside, below, above


clamp = elementwise("clamp", lambda s, x, low, high: s.minimum(s.maximum(x, low), high),
                    dtypes=NUMBERS, vjp=_clamp_vjp, cost=2,
                    samples=lambda m: [m(m.apart(3, 5), m.apart(3, 5) - 1, m.apart(3, 5) + 1.01),
                                       m(m.apart(), m.apart() - 1, m.apart() + 1)])  # fmt: skip


def _cast_vjp(g: Any, out: Any, x: Any, *, dtype: DType) -> tuple[Any]:
    return (cast(g, dtype=x.dtype),) if x.dtype.is_float and dtype.is_float else (None,)


cast = elementwise(
    "cast",
    lambda s, x, *, dtype: s.convert(x, dtype),
    dtypes=EVERY,
    result="dtype",
    vjp=_cast_vjp,
    samples=lambda m: [m(m.normal(3, 5) * 3, dtype=dtype, differentiable=dtype is DType.f64)
                       for dtype in EVERY] + [m(m.normal(), dtype=DType.f64)],
)  # fmt: skip
