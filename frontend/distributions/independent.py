"""Dimensions of a batch as dimensions of one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.distribution import Distribution
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.tensor import Tensor


class Independent(Distribution):
    """`base_distribution` with its last `reinterpreted_batch_ndims` batch dimensions as part of a
    sample: their log-probabilities and entropies are added up. Raises ValueError where there are
    not as many."""

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ):  # fmt: skip
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event = (*batch[kept:], *base_distribution.event_shape)
        super().__init__(batch[:kept], event, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Constraint:
        support = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(support, count) if count else support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def summed(self, values: Tensor) -> Tensor:
        """Values per element of the base's batch, added up to one per element of this batch."""
        count = self.reinterpreted_batch_ndims
        return values.sum(tuple(range(-count, 0))) if count else values

    def log_prob(self, value: Tensor) -> Tensor:
        return self.summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self.summed(self.base_dist.entropy())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = type(self).__new__(type(self)) if _instance is None else _instance
        expanded.__dict__.update(self.__dict__)
        count = self.reinterpreted_batch_ndims
        expanded.base_dist = self.base_dist.expand((*batch_shape, *self.event_shape[:count]))
        expanded._batch_shape = Size(batch_shape)
        return expanded

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
