"""Transforms of each number by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.transforms.composed import widened
from frontend.distributions.transforms.transform import Transform
from frontend.distributions.utils import eps_of, tiny
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full_like
from frontend.functions.pointwise import clamp
from frontend.nn.functional.activation import softplus
from graphc.ir.types import broadcast_shapes


class Increasing(Transform):
    """Of real numbers, strictly increasing, without parameters."""

    domain = constraints.real
    bijective = True
    sign = 1
    _compared = ()


class ExpTransform(Increasing):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(Increasing):
    """y = 1 / (1 + exp(-x)), kept away from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        kept = clamp(y, min=tiny(y), max=1.0 - eps_of(y))
        return kept.log() - (-kept).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, kept away from 0 and 1."""
    return clamp(x.sigmoid(), min=tiny(x), max=1.0 - eps_of(x))


class SoftplusTransform(Increasing):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Increasing):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)²), which is exact where tanh is close to 1
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; its inverse is the positive one."""

    domain = constraints.real
    codomain = constraints.positive
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """y = x ** exponent."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _compared = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return sign_of(self.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return Size(broadcast_shapes(tuple(shape), shape_of(self.exponent)))

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """y = loc + scale * x, of values of `event_dim` dimensions."""

    bijective = True
    _compared = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return widened(constraints.real, self._event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return widened(constraints.real, self._event_dim)

    @property
    def sign(self) -> Any:
        return sign_of(self.scale)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            each = (
                self.scale.abs()
                .log()
                .expand(broadcast_shapes(shape_of(self.scale), tuple(x.shape)))
            )
        else:
            each = full_like(x, math.log(abs(self.scale)))
        count = self._event_dim
        return each.reshape(*each.shape[:-count], -1).sum(-1) if count else each

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        parameters = broadcast_shapes(shape_of(self.loc), shape_of(self.scale))
        return Size(broadcast_shapes(tuple(shape), parameters))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The share of `distribution` up to x."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0):
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


def sign_of(number: Any) -> Any:
    """The sign of a tensor's elements, or of a number."""
    return number.sign() if isinstance(number, Tensor) else (number > 0) - (number < 0)


def shape_of(number: Any) -> tuple[int, ...]:
    """The shape of a tensor; of a number ()."""
    return tuple(number.shape) if isinstance(number, Tensor) else ()
