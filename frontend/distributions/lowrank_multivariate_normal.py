"""The normal distribution of vectors of a covariance of low rank and a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from frontend import linalg
from frontend.distributions import constraints
from frontend.distributions.distribution import Distribution
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import normal_numbers
from frontend.functions.ranges import eye
from frontend.functions.shape import expand
from graphc.ir.types import broadcast_shapes


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of mean `loc` [*, n] and covariance W Wᵀ + D, of `cov_factor` W [*, n, r] and
    the diagonal `cov_diag` D [*, n]; solved by the matrix 1 + Wᵀ D⁻¹ W of r rows."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    parameters = ("loc", "cov_factor", "cov_diag")
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        size = tuple(loc.shape[-1:])
        if tuple(cov_factor.shape[-2:-1]) != size:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {size[0]} x m")
        if tuple(cov_diag.shape[-1:]) != size:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {size}")
        batch = tuple(broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]))
        self.loc = expand(loc, batch + size)
        self.cov_diag = expand(cov_diag, batch + size)
        self.cov_factor = expand(cov_factor, batch + tuple(cov_factor.shape[-2:]))
        super().__init__(batch, size, validate_args=validate_args)

    def _own_dims(self, name: str) -> tuple[int, ...]:
        return tuple(self.cov_factor.shape[-2:] if name == "cov_factor" else self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self) -> Tensor:
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        solved = self._solved_factor()
        return self.cov_diag.reciprocal().diag_embed() - solved.mT @ solved

    def _capacitance_tril(self) -> Tensor:
        """The Cholesky factor of 1 + Wᵀ D⁻¹ W."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        one = eye(self.cov_factor.shape[-1], dtype=self.loc.dtype)
        return linalg.cholesky(one + scaled @ self.cov_factor)

    def _solved_factor(self) -> Tensor:
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        return linalg.solve_triangular(self._capacitance_tril(), scaled, upper=False)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, rank = self._extended_shape(sample_shape), self.cov_factor.shape[-1]
        with no_grad():
            common = normal_numbers((*shape[:-1], rank), self.loc.dtype)
            own = normal_numbers(shape, self.loc.dtype)
        moved = (self.cov_factor @ common.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved + self.cov_diag.sqrt() * own

    def _log_det(self) -> Tensor:
        diagonal = self._capacitance_tril().diagonal(dim1=-2, dim2=-1)
        return 2 * diagonal.log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = value - self.loc
        shared = (self._solved_factor() @ away.unsqueeze(-1)).squeeze(-1)
        squares = (away**2 / self.cov_diag).sum(-1) - (shared**2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + squares)

    def entropy(self) -> Tensor:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return expand(0.5 * (constant + self._log_det()), tuple(self._batch_shape))
