"""Wishart's distribution of covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend import linalg
from frontend.distributions import constraints
from frontend.distributions.constraints import Constraint
from frontend.distributions.covariance import MATRICES, OfCovariance, factor_of, given_matrix
from frontend.distributions.exp_family import ExponentialFamily
from frontend.distributions.gamma import Chi2
from frontend.distributions.utils import tiny
from frontend.engine.tensors.state import computing, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.bessel_and_gamma import mvlgamma
from frontend.functions.pointwise import clamp
from frontend.functions.random import normal_numbers
from frontend.functions.ranges import arange
from frontend.functions.select import tril
from frontend.functions.shape import expand
from graphc.ir.types import broadcast_shapes


class Wishart(OfCovariance, ExponentialFamily):
    """Sums of x xᵀ of `df` (above n - 1) normal vectors x of mean 0, given one of
    `covariance_matrix`, its inverse `precision_matrix` and its lower Cholesky factor `scale_tril`,
    [*, n, n]."""

    support = constraints.positive_definite
    parameters = ("df", "_unbroadcasted_scale_tril", *MATRICES)
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, df: Any, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        name, matrix = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        degrees = df if isinstance(df, Tensor) else matrix.new_tensor(float(df))
        event = tuple(matrix.shape[-2:])
        batch = tuple(broadcast_shapes(matrix.shape[:-2], degrees.shape))
        if computing() and bool((degrees <= event[-1] - 1).any()):
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}."
            )
        self.df = expand(degrees, batch)
        self.__dict__[name] = expand(matrix, batch + event)
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_scale_tril = expand(factor_of(name, matrix), batch + event)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _own_dims(self, name: str) -> tuple[int, ...]:
        return () if name == "df" else tuple(self._event_shape)

    def _wide_df(self) -> Tensor:
        return self.df.reshape(*self._batch_shape, 1, 1)

    @property
    def mean(self) -> Tensor:
        return self._wide_df() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._wide_df() - self._event_shape[-1] - 1
        return factor.where(factor > 0, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._wide_df() * (covariance**2 + outer)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        # Bartlett's decomposition: a triangle of normal numbers, roots of chi-squared ones on the
        # diagonal.
        n, shape = self._event_shape[-1], self._extended_shape(sample_shape)
        free = self.df.unsqueeze(-1) - arange(n, dtype=self.df.dtype)
        roots = clamp(Chi2(free, False).rsample(sample_shape), min=tiny(self.df)).sqrt()
        with no_grad():
            normal = tril(normal_numbers(shape, self.df.dtype), -1)
        factor = self._unbroadcasted_scale_tril @ (normal + roots.diag_embed())
        return factor @ factor.mT

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, df = self._event_shape[-1], self.df
        factor = self._unbroadcasted_scale_tril
        solved = linalg.solve_triangular(factor, linalg.cholesky(value), upper=False)
        trace = (solved**2).sum(-1).sum(-1)
        norm = df * (n / 2 * math.log(2.0) + self._half_log_det()) + mvlgamma(df / 2, n)
        return (df - n - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2 - norm

    def entropy(self) -> Tensor:
        n, df = self._event_shape[-1], self.df
        digammas = ((df.unsqueeze(-1) - arange(n, dtype=df.dtype)) / 2).digamma().sum(-1)
        scale = (n + 1) * (n / 2 * math.log(2.0) + self._half_log_det())
        return scale + mvlgamma(df / 2, n) - (df - n - 1) / 2 * digammas + n * df / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        n = self._event_shape[-1]
        whole = y + (n + 1) / 2
        return whole * (-linalg.slogdet(-2 * x).logabsdet + n * math.log(2.0)) + mvlgamma(whole, n)
