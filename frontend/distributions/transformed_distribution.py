"""A distribution of what transforms make of another's samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution
from frontend.distributions.independent import Independent
from frontend.distributions.transforms import ComposeTransform, Transform
from frontend.distributions.transforms.composed import widened
from frontend.distributions.utils import _sum_rightmost
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import expand


class TransformedDistribution(Distribution):
    """What `transforms`, one or several, the first first, make of samples of `base_distribution`.
    Raises ValueError for other transforms, and where the base has fewer dimensions than they
    need."""

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ):
        self.transforms = _listed(transforms)
        whole = ComposeTransform(self.transforms)
        needed, own = whole.domain.event_dim, len(base_distribution.event_shape)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < needed:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {needed}, but got "
                f"{shape}."
            )
        result = Size(whole.forward_shape(shape))
        wide = Size(whole.inverse_shape(result))  # as the parameters of the transforms broadcast
        if wide != shape:
            base_distribution = base_distribution.expand(wide[: len(wide) - own])
        if needed > own:
            base_distribution = Independent(base_distribution, needed - own)
        self.base_dist = base_distribution
        changed = own + whole.codomain.event_dim - needed
        cut = len(result) - max(whole.codomain.event_dim, changed)
        super().__init__(result[:cut], result[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        expanded = type(self).__new__(type(self)) if _instance is None else _instance
        expanded.__dict__.update(self.__dict__)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        expanded.base_dist = self.base_dist.expand(
            shape[: len(shape) - len(self.base_dist.event_shape)]
        )
        expanded._batch_shape = Size(batch_shape)
        return expanded

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        return widened(self.transforms[-1].codomain, len(self.event_shape))

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        dims = len(self.event_shape)
        result: Any = 0.0
        for transform in reversed(self.transforms):
            before = transform._inv_call(value)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            change = transform.log_abs_det_jacobian(before, value)
            result = result - _sum_rightmost(change, dims - transform.domain.event_dim)
            value = before
        base = self.base_dist.log_prob(value)
        return result + _sum_rightmost(base, dims - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Shares below for shares above, where the transforms decrease."""
        sign = ComposeTransform(self.transforms).sign
        if type(sign) is int and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._monotonize_cdf(value)))


class TransformedFamily(TransformedDistribution):
    """A family that transforms another: by its `parameters` alone, which `_base_and_transforms`
    makes both of."""

    def _base_and_transforms(self) -> tuple[Distribution, list[Transform]]:
        raise NotImplementedError

    def _set_up(self, validate_args: bool | None) -> None:
        """Take the parameters, which are set."""
        TransformedDistribution.__init__(self, *self._base_and_transforms(), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        expanded = type(self).__new__(type(self)) if _instance is None else _instance
        expanded.__dict__.update(self.__dict__)
        for name in self.parameters:
            value = self.__dict__[name]
            expanded.__dict__[name] = expand(value, (*batch_shape, *self._own_dims(name)))
        expanded._set_up(False)
        expanded._validate_args = self._validate_args
        return expanded


def _listed(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(each, Transform) for each in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms
