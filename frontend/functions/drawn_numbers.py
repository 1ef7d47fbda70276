"""Numbers that take a varying count of uniform ones each: gamma, Poisson, binomial, von Mises.

NumPy's generators compute them, seeded by a key from the stream, eagerly and for compiled code.
"""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, not_implemented
from frontend.functions.declarations import public
from frontend.functions.random import Generator, whole_numbers
from frontend.functions.sampling import all_satisfy
from frontend.functions.shape import broadcast_tensors
from graphc.ops.scalar_functions import drawn_numbers as numbers


@public()
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the rates `input`, in its dtype. Raises RuntimeError for negative
    rates; in a trace they give NaN."""
    need_tensors("poisson", input=input)
    if not input.dtype.is_float:
        raise not_implemented("poisson_cpu", input.dtype)
    if not all_satisfy(lambda rates: rates >= 0, input):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return drawn_by(_POISSON, generator, input)


@public()
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` tries succeed, each with probability `prob`; broadcast, in the dtype of
    `count`. Raises ValueError for integer dtypes and, eagerly, values out of range, which give NaN
    in a trace."""
    need_tensors("binomial", count=count, prob=prob)
    for name, parameter in (("count", count), ("prob", prob)):
        if not parameter.dtype.is_float:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: "
                f"{SCALAR_NAMES[parameter.dtype]}"
            )
    counts, chances = (
        all_satisfy(lambda n: n >= 0, count),
        all_satisfy(lambda p: (p >= 0) & (p <= 1), prob),
    )
    if not (counts and chances):
        raise ValueError("binomial expects count >= 0 and prob in [0, 1]")
    return drawn_by(_BINOMIAL, generator, *broadcast_tensors(count, prob))


def _gamma_rule(g: Any, out: Any, key: Any, shape: Any) -> tuple[Any, Any]:
    return None, g * _GAMMA_SHAPE(shape, out)


def _no_rule(*_: Any) -> tuple[Any, ...]:
    raise NotImplementedError("the derivative of the gradient of gamma numbers is not implemented")


_POISSON = HostOp("poisson", numbers.drawn_poisson, lambda g, out, key, rate: (None, g * 0))
_BINOMIAL = HostOp(
    "binomial", numbers.drawn_binomial, lambda g, out, key, n, p: (None, g * 0, g * 0)
)
_GAMMA = HostOp("standard_gamma", numbers.drawn_gamma, _gamma_rule, ((1,), (0,)))
_GAMMA_SHAPE = HostOp("standard_gamma_grad", numbers.gamma_shape_gradient, _no_rule)
_VON_MISES = HostOp("von_mises", numbers.drawn_von_mises, lambda g, out, key, k: (None, g * 0))


def drawn_by(op: HostOp, generator: Generator | None, first: Tensor, *others: Tensor) -> Tensor:
    """Numbers of a distribution that NumPy draws, by a key from the stream; in the dtype of the
    first parameter."""
    wide = first.dtype.computes_as
    with no_grad():
        key = whole_numbers(0, 2**62, (2,), generator)
    drawn: Tensor = op(key, *(casted(x, wide) for x in (first, *others)))
    return casted(drawn, first.dtype)


def standard_gamma(shape: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers of these shapes and a rate of 1, never 0. Gradients go to the shapes: a number
    keeps its place among all of them. Of shapes below or equal to 0, NaN."""
    return drawn_by(_GAMMA, generator, shape)


def von_mises(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Angles from -π to π around 0; without gradient."""
    return drawn_by(_VON_MISES, generator, concentration.detach())
