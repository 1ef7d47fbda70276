"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from frontend import linalg
from frontend.distributions import constraints
from frontend.distributions.covariance import MATRICES, OfCovariance, factor_of, given_matrix
from frontend.distributions.covariance import (
    _precision_to_scale_tril as _precision_to_scale_tril,
)
from frontend.distributions.distribution import Distribution as Distribution
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import normal_numbers
from frontend.functions.shape import expand
from graphc.ir.types import broadcast_shapes


class MultivariateNormal(OfCovariance):
    """Normal vectors of mean `loc` [*, n], given one of `covariance_matrix`, its inverse
    `precision_matrix` and its lower Cholesky factor `scale_tril`, [*, n, n]."""

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    parameters = ("loc", "_unbroadcasted_scale_tril", *MATRICES)
    has_rsample = True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} matrix must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        size = tuple(loc.shape[-1:])
        batch = tuple(broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]))
        self.loc = expand(loc, batch + size)
        self.__dict__[name] = expand(matrix, batch + size * 2)
        super().__init__(batch, size, validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _own_dims(self, name: str) -> tuple[int, ...]:
        return tuple(self._event_shape) * (1 if name == "loc" else 2)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = (self._unbroadcasted_scale_tril**2).sum(-1)
        return expand(squares, tuple(self._batch_shape + self._event_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = normal_numbers(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        away = (value - self.loc).unsqueeze(-1)
        factor = self._unbroadcasted_scale_tril
        solved = linalg.solve_triangular(factor, away, upper=False).squeeze(-1)
        norm = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (norm + (solved**2).sum(-1)) - self._half_log_det()

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return expand(entropy, tuple(self._batch_shape))
