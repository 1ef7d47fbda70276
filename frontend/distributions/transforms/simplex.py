"""Transforms to vectors of positive numbers whose sum is 1."""

from __future__ import annotations

from collections.abc import Sequence

from frontend.distributions import constraints
from frontend.distributions.transforms.elementwise import _clipped_sigmoid
from frontend.distributions.transforms.transform import Transform
from frontend.distributions.utils import tiny
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import clamp
from frontend.functions.ranges import arange
from frontend.functions.reduce import softmax
from frontend.nn.functional.activation import logsigmoid
from frontend.nn.functional.padding import pad


class SoftmaxTransform(Transform):
    """y = softmax(x), of vectors of K numbers; its inverse is the logarithm."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Vectors of K - 1 numbers to K parts of a stick: each says how much of the rest is broken
    off; 0 gives equal parts."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(x - _log_parts_left(x))
        rest = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        # A rest of 0 has no logarithm.
        first = y[..., :-1]
        rest = clamp(1 - first.cumsum(-1), min=tiny(y))
        return first.log() - rest.log() + _log_parts_left(first)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        moved = x - _log_parts_left(x)
        return (-moved + logsigmoid(moved) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


def _log_parts_left(x: Tensor) -> Tensor:
    """log(K - 1), log(K - 2), … log(1)."""
    return (x.shape[-1] - arange(x.shape[-1], dtype=x.dtype)).log()
