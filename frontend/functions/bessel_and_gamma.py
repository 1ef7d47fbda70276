"""Special functions that are not at the top level: what `frontend.special` shows beside those.
Orthogonal polynomials are their recurrences, written out for a whole degree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from frontend.engine.eager.dispatch import apply_one, apply_unary, filled
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.promotion import aligned, casted, float_binary, floating, result_type
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_a_tensor, need_tensors, stored
from frontend.functions.control import while_loop
from frontend.functions.creation import ones_like, zeros_like
from frontend.functions.declarations import public
from frontend.functions.pointwise import where
from frontend.functions.unary import erfc, exp, lgamma, log, log1p, sin
from graphc.ops import indexing
from graphc.ops.scalar_functions import airy, bessel, quantiles
from graphc.ops.scalar_functions import number_functions as ops


def _unary(op: Any, text: str, name: str = "") -> Any:
    def function(input: Tensor, *, out: Any = None) -> Tensor:
        need_tensors(op.name, input=input)
        return stored(apply_unary(op, floating(input)), out)

    function.__name__ = function.__qualname__ = name or op.name
    function.__doc__ = f"{text}, elementwise; integers become the default float dtype."
    return function


airy_ai = _unary(airy.airy_ai, "The Airy function Ai, without a gradient")
i0 = public(method=True, in_place="torch")(
    _unary(bessel.i0, "The modified Bessel function of the first kind, order 0")
)
i0e = _unary(bessel.i0e, "exp(-|x|)·I₀(x)")
i1 = _unary(bessel.i1, "The modified Bessel function of the first kind, order 1")
i1e = _unary(bessel.i1e, "exp(-|x|)·I₁(x)")
bessel_j0 = _unary(bessel.bessel_j0, "The Bessel function of the first kind, order 0")
bessel_j1 = _unary(bessel.bessel_j1, "The Bessel function of the first kind, order 1")
bessel_y0 = _unary(bessel.bessel_y0, "The Bessel function of the second kind, order 0")
bessel_y1 = _unary(bessel.bessel_y1, "The Bessel function of the second kind, order 1")
modified_bessel_i0 = _unary(bessel.i0, "The same as `i0`", "modified_bessel_i0")
modified_bessel_i1 = _unary(bessel.i1, "The same as `i1`", "modified_bessel_i1")
modified_bessel_k0 = _unary(
    bessel.modified_bessel_k0, "The modified Bessel function of the second kind, order 0"
)
modified_bessel_k1 = _unary(
    bessel.modified_bessel_k1, "The modified Bessel function of the second kind, order 1"
)
scaled_modified_bessel_k0 = _unary(bessel.scaled_modified_bessel_k0, "exp(x)·K₀(x)")
scaled_modified_bessel_k1 = _unary(bessel.scaled_modified_bessel_k1, "exp(x)·K₁(x)")
erfcx = _unary(bessel.erfcx, "exp(x²)·erfc(x)")
log_ndtr = _unary(bessel.log_ndtr, "The logarithm of the normal distribution's share up to x")
ndtri = _unary(quantiles.ndtri, "The quantile of the normal distribution; NaN outside of [0, 1]")


def ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """The normal distribution's share up to x."""
    need_tensors("ndtr", input=input)
    return stored(erfc(floating(input) * -math.sqrt(0.5)) * 0.5, out)


def spherical_bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """sin(x) / x, and 1 at 0."""
    need_tensors("spherical_bessel_j0", input=input)
    x = floating(input)
    flat, infinite = x == 0, abs(x) == math.inf
    safe = where(flat, 1.0, where(infinite, 1.0, x))
    return stored(where(infinite, 0.0, where(flat, 1.0, sin(safe) / safe)), out)


def entr(input: Tensor, *, out: Any = None) -> Tensor:
    """-x·log(x): 0 at 0, -inf below."""
    need_tensors("entr", input=input)
    kind = floating(input).dtype
    x = casted(input, kind.computes_as)  # half types round once
    positive = where(x > 0, x, 1.0)
    least = where(x == 0, 0.0, filled(-math.inf, x.dtype, ()))
    inner = where(x > 0, -positive * log(positive), least)
    return stored(casted(where(x.isnan(), x, inner), kind), out)


def xlog1py(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """input · log(1 + other), and 0 where input is 0 and other no NaN."""
    need_a_tensor("special_xlog1py", input, other)
    kind = result_type(input, other)
    x, y = aligned((input, other), kind if kind.is_float else STATE.default_dtype)
    flat = (x == 0).logical_and((y <= -1).logical_or(y == math.inf))
    return stored(where(flat, 0.0, x * log1p(where(flat, 0.0, y))), out)


def zeta(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """Hurwitz's zeta function Σ (other + k)^-input; infinite where other is 0 or a negative whole
    number, NaN where it is another negative one. Its gradient is that of `other`."""
    return stored(float_binary(quantiles.zeta, input, other), out)


@public(method=True, in_place=True)
def mvlgamma(input: Tensor, p: int, *, out: Any = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p; elements must exceed
    (p - 1) / 2, below it is infinite or NaN."""
    need_tensors("mvlgamma", input=input)
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    x = floating(input)
    total = lgamma(x) + p * (p - 1) / 4 * math.log(math.pi)
    for step in range(1, p):
        total = total + lgamma(x - step / 2)
    return stored(total, out)


# -- incomplete gamma functions ------------------------------------------------------------------


def _gamma_rule(sign: float, name: str) -> Callable[..., tuple[Any, Any]]:
    def rule(g: Any, out: Any, a: Any, x: Any) -> tuple[Any, Any]:
        def refused() -> Any:
            raise NotImplementedError(f"the derivative for '{name}: input' is not implemented.")

        return refused, g * sign * exp((a - 1) * log(x) - x - lgamma(a))

    return rule


_LOWER = HostOp("igamma", ops.igamma, _gamma_rule(1.0, "igamma"), ((0, 1), ()))
_UPPER = HostOp("igammac", ops.igammac, _gamma_rule(-1.0, "igammac"), ((0, 1), ()))


def _gamma(op: HostOp, input: Any, other: Any, out: Any) -> Tensor:
    need_tensors(op.name, input=input, other=other)
    kind = result_type(input, other)
    kind = kind if kind.is_float else STATE.default_dtype
    value = op(*aligned((input, other), kind.computes_as))
    return stored(casted(value, kind), out)


@public(method=True, in_place=True)
def igamma(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The regularized lower incomplete gamma function P(input, other), with a gradient for
    `other`."""
    return _gamma(_LOWER, input, other, out)


@public(method=True, in_place=True)
def igammac(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The regularized upper incomplete gamma function, 1 - P, exact also where it is small."""
    return _gamma(_UPPER, input, other, out)


# -- orthogonal polynomials ----------------------------------------------------------------------

Step = Callable[[Any, Any, Any, Any], Any]
MOST_TERMS = 1 << 16
"""The greatest degree: each term is computed, of all elements."""


def _recurrence(name: str, text: str, first: Callable[[Any], Any], step: Step) -> Any:
    """p₀ = 1, p₁ = first(x), pₖ₊₁ = step(x, k, pₖ, pₖ₋₁)."""
    refusal = f"special.{name}(): degrees go up to {MOST_TERMS}"

    def function(input: Any, n: Any, *, out: Any = None) -> Tensor:
        if not isinstance(input, Tensor) and not isinstance(n, Tensor):
            raise TypeError(f"special.{name}(): one of the arguments must be a Tensor")
        kind = result_type(input, n)
        kind = kind if kind.is_float else STATE.default_dtype
        whole = not isinstance(n, Tensor)
        x, degree = aligned((input, n), kind)
        result = (
            _of_degree(x, int(n))
            if whole
            else _of_degrees(x, degree.trunc().nan_to_num(-1, -1, -1))
        )
        return stored(result, out)

    def _of_degree(x: Tensor, degree: int) -> Tensor:
        if degree > MOST_TERMS:
            raise RuntimeError(refusal)
        before, now = ones_like(x), first(x)
        if degree < 1:
            return before if degree == 0 else zeros_like(x)
        for k in range(1, degree):
            before, now = now, step(x, k, now, before)
        return now

    def _of_degrees(x: Tensor, degree: Tensor) -> Tensor:
        few = apply_one(indexing.check_all, degree <= MOST_TERMS, message=refusal)
        degree = where(few, degree, 0)
        before, now = ones_like(x), first(x)
        result = where(degree == 0, before, where(degree == 1, now, 0.0))
        if not x.numel():
            return result

        def further(k: Any, before: Any, now: Any, result: Any) -> tuple[Any, ...]:
            before, now = now, step(x, k, now, before)
            return k + 1, before, now, where(degree == k + 1, now, result)

        carried: tuple[Any, ...] = (ones_like(x.detach().reshape(-1)[0]), before, now, result)
        greatest = degree.detach().amax()
        if STATE.mode is not None:
            return while_loop(lambda k, *_: k < greatest, further, carried)[-1]
        for _ in range(1, int(greatest)):
            carried = further(*carried)
        return carried[-1]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{text} of degree n at the input. n is a number, or a tensor, whose greatest element says "
        f"how many terms are computed, at most {MOST_TERMS:,} (else it raises RuntimeError); with "
        "one, compiled code has no gradient."
    )
    return function


def _chebyshev(x: Any, k: Any, now: Any, before: Any) -> Any:
    return 2 * x * now - before


def _shifted_chebyshev(x: Any, k: Any, now: Any, before: Any) -> Any:
    return 2 * (2 * x - 1) * now - before


_KINDS = {
    "t": lambda x: x * 1,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}
for _kind, _first in _KINDS.items():
    _name = f"chebyshev_polynomial_{_kind}"
    _text = f"The Chebyshev polynomial {_kind.upper()}"
    globals()[_name] = _recurrence(_name, _text, _first, _chebyshev)
    _moved = lambda x, first=_first: first(2 * x - 1)  # noqa: E731
    globals()[f"shifted_{_name}"] = _recurrence(
        f"shifted_{_name}", f"{_text} of 2x - 1", _moved, _shifted_chebyshev
    )
hermite_polynomial_h = _recurrence(
    "hermite_polynomial_h", "The physicists' Hermite polynomial", lambda x: 2 * x,
    lambda x, k, now, before: 2 * x * now - 2 * k * before,
)  # fmt: skip
hermite_polynomial_he = _recurrence(
    "hermite_polynomial_he", "The probabilists' Hermite polynomial", lambda x: x * 1,
    lambda x, k, now, before: x * now - k * before,
)  # fmt: skip
laguerre_polynomial_l = _recurrence(
    "laguerre_polynomial_l", "The Laguerre polynomial", lambda x: 1 - x,
    lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
)  # fmt: skip
legendre_polynomial_p = _recurrence(
    "legendre_polynomial_p", "The Legendre polynomial", lambda x: x * 1,
    lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
)  # fmt: skip
