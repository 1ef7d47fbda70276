"""Transforms one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.transforms.transform import Transform
from frontend.distributions.utils import _sum_rightmost
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros_like


class ComposeTransform(Transform):
    """The transforms `parts`, the first first."""

    _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0):
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        needed = 0  # dimensions of the values before each part, from the last one back
        for part in reversed(self.parts):
            needed = part.domain.event_dim + max(needed - part.codomain.event_dim, 0)
        return widened(self.parts[0].domain, needed)

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        reached = 0
        for part in self.parts:
            reached = part.codomain.event_dim + max(reached - part.domain.event_dim, 0)
        return widened(self.parts[-1].codomain, reached)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._cache_size = self._cache_size
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform([part.with_cache(cache_size) for part in self.parts], cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        dims = self.domain.event_dim
        total: Any = 0.0
        for part, before, after in zip(self.parts, values, values[1:]):
            change = part.log_abs_det_jacobian(before, after)
            total = total + _sum_rightmost(change, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


def widened(constraint: Any, event_dim: int) -> Any:
    """A constraint of values of so many dimensions, for one of as many or fewer."""
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform = ComposeTransform([])
