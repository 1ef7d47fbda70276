"""Functions of one operand that are one op each: powers and logarithms, rounding, trigonometric,
hyperbolic and special functions."""

from __future__ import annotations

import builtins
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, apply_unary
from frontend.engine.eager.promotion import floating
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.declarations import public
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops.scalar_functions import special, trigonometric


def _unary(op: Any, text: str, in_place: bool | str = "torch") -> Any:
    def function(input: Tensor, *, out: Any = None) -> Tensor:
        result = apply_unary(op, floating(input))
        return result if out is None else stored(result, out)

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"{text}, elementwise; integers become the default float dtype."
    return public(method=True, in_place=in_place)(function)


exp = _unary(e.exp, "e to the power of x")
exp2 = _unary(special.exp2, "2 to the power of x")
expm1 = _unary(special.expm1, "exp(x) - 1, exact also where x is small")
log = _unary(e.log, "The natural logarithm")
log2 = _unary(special.log2, "The logarithm to base 2")
log10 = _unary(special.log10, "The logarithm to base 10")
log1p = _unary(special.log1p, "log(1 + x), exact also where x is small")
sqrt = _unary(e.sqrt, "The square root")
rsqrt = _unary(e.rsqrt, "1 / √x")
sigmoid = _unary(e.sigmoid, "1 / (1 + exp(-x))")

sin = _unary(e.sin, "The sine")
cos = _unary(e.cos, "The cosine")
tan = _unary(trigonometric.tan, "The tangent")
asin = arcsin = _unary(trigonometric.asin, "The angle between -π/2 and π/2 with sine x")
acos = arccos = _unary(trigonometric.acos, "The angle between 0 and π with cosine x")
atan = arctan = _unary(trigonometric.atan, "The angle between -π/2 and π/2 with tangent x")
sinh = _unary(trigonometric.sinh, "The hyperbolic sine")
cosh = _unary(trigonometric.cosh, "The hyperbolic cosine")
tanh = _unary(e.tanh, "The hyperbolic tangent")
asinh = arcsinh = _unary(trigonometric.asinh, "The inverse of the hyperbolic sine")
acosh = arccosh = _unary(trigonometric.acosh, "The inverse of the hyperbolic cosine")
atanh = arctanh = _unary(trigonometric.atanh, "The inverse of the hyperbolic tangent")

erf = _unary(e.erf, "The error function")
erfc = _unary(special.erfc, "1 - erf(x), exact also where erf is near 1")
erfinv = _unary(
    special.erfinv, "The inverse of the error function, NaN outside of [-1, 1]", in_place=True
)
lgamma = _unary(special.lgamma, "The logarithm of |Γ(x)|", True)
digamma = _unary(special.digamma, "The derivative of lgamma", True)


@public(method=True, in_place=True)
def polygamma(n: int, input: Tensor, *, out: Any = None) -> Tensor:
    """The nth derivative of digamma (n = 0: digamma itself). Also `x.polygamma(n)`."""
    if isinstance(n, Tensor):
        n, input = input, n  # type: ignore[assignment]
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma(input, out=out)
    result = CONTEXT.apply(special.polygamma, (floating(input),), {"order": int(n)})[0]
    return stored(result, out)


# -- rounding ------------------------------------------------------------------------------------


def _whole(op: Any, text: str) -> Any:
    def function(input: Tensor, *, out: Any = None) -> Tensor:
        need_tensors(op.name, input=input)
        if input.dtype.is_float:
            result = apply_unary(op, input)
        elif input.dtype is DType.bool:
            raise not_implemented(f"{op.name}_cpu", input.dtype)
        else:
            result = _copied(input)
        return result if out is None else stored(result, out)

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"{text}, elementwise; integers are left as they are."
    return function


def _copied(input: Tensor) -> Tensor:
    """A copy with its own memory."""
    return CONTEXT.apply(e.cast, (input,), {"dtype": input.dtype})[0]


floor = public(method=True, in_place="torch")(_whole(e.floor, "Rounded down"))
ceil = public(method=True, in_place="torch")(_whole(e.ceil, "Rounded up"))
trunc = fix = public(method=True, in_place="torch")(_whole(e.trunc, "Rounded towards zero"))
_round = _whole(e.round, "Rounded to the nearest whole number, halves to even")
_round.__qualname__ = "_round"


@public(method=True, in_place="torch")
def round(input: Tensor, *, decimals: int = 0, out: Any = None) -> Tensor:
    """Rounded to the nearest whole number, or to a multiple of 10^-decimals; halves to even."""
    if decimals == 0:
        return _round(input, out=out)
    if not input.dtype.is_float:
        raise not_implemented("round_cpu", input.dtype)
    scale = 10.0 ** builtins.abs(decimals)
    rounded = _round(input * scale) / scale if decimals > 0 else _round(input / scale) * scale
    return stored(rounded, out)


@public(method=True, in_place="torch", node="Frac")
def frac(input: Tensor, *, out: Any = None) -> Tensor:
    """What trunc takes away: input - trunc(input)."""
    if not input.dtype.is_float:
        raise not_implemented("frac_cpu", input.dtype)
    return stored(input - trunc(input), out)


# -- signs ---------------------------------------------------------------------------------------


@public(method=True, in_place="torch.abs_")
def abs(input: Tensor, *, out: Any = None) -> Tensor:
    """The magnitude, elementwise."""
    need_tensors("abs", input=input)
    if input.dtype is DType.bool:
        raise not_implemented("abs_cpu", input.dtype)
    return stored(apply_unary(e.abs, input), out)


absolute = abs


@public(method=True, in_place="torch")
def neg(input: Tensor, *, out: Any = None) -> Tensor:
    """-input. Raises RuntimeError for bools."""
    need_tensors("neg", input=input)
    if input.dtype is DType.bool:
        raise DTypeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead.",
            location=user_location(),
        )
    result = apply_unary(e.neg, input)
    return result if out is None else stored(result, out)


negative = neg


@public(method=True)
def positive(input: Tensor) -> Tensor:
    """The tensor itself. Raises RuntimeError for bools."""
    if input.dtype is DType.bool:
        raise DTypeError(
            "The `+` operator, on a bool tensor is not supported.", location=user_location()
        )
    return input


@public(method=True, in_place=True)
def sign(input: Tensor, *, out: Any = None) -> Tensor:
    """-1, 0 or 1 by the sign, elementwise; 0 for NaN. Bools are left as they are."""
    need_tensors("sign", input=input)
    if input.is_complex():
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
            "torch.sgn instead."
        )
    if input.dtype is DType.bool:
        result = _copied(input)
    else:
        result = apply_unary(e.sign, input)
    return stored(result, out)


@public(method=True, in_place=True, node="Sgn")
def sgn(input: Tensor, *, out: Any = None) -> Tensor:
    """The sign, elementwise; of a complex number x / |x|, and 0 for 0."""
    if not input.is_complex():
        return sign(input, out=out)
    return stored(apply_unary(e.sign, input), out)


@public(method=True)
def signbit(input: Tensor, *, out: Any = None) -> Tensor:
    """Whether the sign is negative, also that of -0."""
    need_tensors("signbit", input=input)
    if input.dtype.is_float:
        result = apply_unary(e.signbit, input)
    else:
        result = input < 0
    return stored(result, out)


# -- products ------------------------------------------------------------------------------------


@public(method=True, in_place="torch", node="Pow")
def square(input: Tensor, *, out: Any = None) -> Tensor:
    """input · input; bools become integers."""
    need_tensors("square", input=input)
    x = input if input.dtype is not DType.bool else input.long()
    return stored(CONTEXT.apply(e.mul, (x, x), {})[0], out)


@public(method=True, in_place="torch", node="Reciprocal")
def reciprocal(input: Tensor, *, out: Any = None) -> Tensor:
    """1 / input; integers become the default float dtype."""
    return stored(1 / floating(input), out)


@public(method=True, in_place=True)
def relu(input: Tensor) -> Tensor:
    """max(x, 0); the gradient at 0 is 0."""
    need_tensors("relu", input=input)
    if input.dtype is DType.bool:
        raise DTypeError("Boolean inputs not supported for relu", location=user_location())
    return apply_unary(e.relu, input)
