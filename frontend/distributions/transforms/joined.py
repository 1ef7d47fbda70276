"""Transforms of the parts of a value along one dimension."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.transforms.transform import Transform
from frontend.distributions.utils import _sum_rightmost
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import cat, stack


class JoinedTransform(Transform):
    """The transforms `transforms` of parts along `dim`."""

    transforms: list[Transform]
    dim: int

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(each.bijective for each in self.transforms)


class CatTransform(JoinedTransform):
    """Transforms of pieces of the given `lengths` (1 by default) along `dim`, joined by `cat`."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ):  # fmt: skip
        assert all(isinstance(each, Transform) for each in tseq)
        super().__init__(cache_size)
        self.transforms = [each.with_cache(cache_size) if cache_size else each for each in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        parts = [each.with_cache(cache_size) for each in self.transforms]
        return CatTransform(parts, self.dim, self.lengths, cache_size)

    def _pieces(self, value: Tensor) -> list[Tensor]:
        assert -value.dim() <= self.dim < value.dim()
        assert value.size(self.dim) == self.length
        starts = itertools.accumulate(self.lengths, initial=0)
        return [value.narrow(self.dim, at, n) for at, n in zip(starts, self.lengths)]

    def _call(self, x: Tensor) -> Tensor:
        pieces = self._pieces(x)
        return cat([each(piece) for each, piece in zip(self.transforms, pieces)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = self._pieces(y)
        return cat(
            [each._inv_call(piece) for each, piece in zip(self.transforms, pieces)], self.dim
        )

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = []
        for each, before, after in zip(self.transforms, self._pieces(x), self._pieces(y)):
            change = each.log_abs_det_jacobian(before, after)
            more = self.event_dim - each.event_dim
            parts.append(_sum_rightmost(change, more) if more > 0 else change)
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        if dim < 0:
            return cat(parts, dim)
        return sum(parts)  # type: ignore[return-value]

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([each.domain for each in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([each.codomain for each in self.transforms], self.dim, self.lengths)


class StackTransform(JoinedTransform):
    """Transforms of the slices along `dim`, joined by `stack`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0):
        assert all(isinstance(each, Transform) for each in tseq)
        super().__init__(cache_size)
        self.transforms = [each.with_cache(cache_size) if cache_size else each for each in tseq]
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        parts = [each.with_cache(cache_size) for each in self.transforms]
        return StackTransform(parts, self.dim, cache_size)

    def _joined(self, call: Callable[..., Tensor], *values: Tensor) -> Tensor:
        assert all(value.size(self.dim) == len(self.transforms) for value in values)
        slices = [
            call(each, *(value.select(self.dim, i) for value in values))
            for i, each in enumerate(self.transforms)
        ]
        return stack(slices, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return self._joined(lambda each, part: each(part), x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined(lambda each, part: each._inv_call(part), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._joined(lambda each, *pair: each.log_abs_det_jacobian(*pair), x, y)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([each.domain for each in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([each.codomain for each in self.transforms], self.dim)
