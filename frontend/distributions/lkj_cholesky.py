"""Cholesky factors of correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.distributions import constraints
from frontend.distributions.distribution import Distribution
from frontend.distributions.gamma import Beta
from frontend.distributions.utils import broadcast_all, tiny
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.bessel_and_gamma import mvlgamma
from frontend.functions.pointwise import clamp
from frontend.functions.random import normal_numbers
from frontend.functions.ranges import arange
from frontend.functions.select import tril
from frontend.nn.functional.padding import pad


class LKJCholesky(Distribution):
    """Lower Cholesky factors L [dim, dim] of correlation matrices, of a density of these
    proportional to det(L Lᵀ)^(`concentration` - 1) (Lewandowski, Kurowicka and Joe, 2009; the onion
    method). Raises ValueError for `dim` below 2."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    parameters = ("concentration",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found {dim=}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Row i is i numbers of a direction, of a squared length that a beta distribution gives,
        # and the rest of length 1 on the diagonal.
        n, shape = self.dim, self._extended_shape(sample_shape)
        with no_grad():
            rows = arange(n - 1, dtype=self.concentration.dtype)
            a = self.concentration.unsqueeze(-1) + 0.5 * (n - 2) - 0.5 * rows
            squares = Beta(rows + 0.5, a, False).sample(sample_shape).unsqueeze(-1)
            directions = tril(normal_numbers(shape, self.concentration.dtype), -1)[..., 1:, :]
            lengths = (directions * directions).sum(-1, keepdim=True).sqrt()
            factor = pad(squares.sqrt() * directions / lengths, [0, 0, 1, 0])
            rest = clamp(1 - (factor**2).sum(-1), min=tiny(factor))
            return factor + rest.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, concentration = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = 2 * (concentration - 1).unsqueeze(-1) + n - arange(2, n + 1, dtype=value.dtype)
        density = (order * diagonal.log()).sum(-1)
        # The norm: page 1999 of the paper, as PyTorch gives it.
        less = n - 1
        alpha = concentration + 0.5 * less
        norm = mvlgamma(alpha - 0.5, less) - alpha.lgamma() * less
        return density - (norm + 0.5 * less * math.log(math.pi))
