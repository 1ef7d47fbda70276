"""Distributions given by a covariance, its inverse, or its Cholesky factor."""

from __future__ import annotations

from typing import Any

from frontend import linalg
from frontend.distributions.distribution import Distribution
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.ranges import eye
from frontend.functions.shape import expand

MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


class OfCovariance(Distribution):
    """What keeps the Cholesky factor of its covariance under PyTorch's name for it, which a class
    derived from this may give another way: the matrices that were not given follow from it."""

    def __getattr__(self, name: str) -> Any:
        if name not in MATRICES:
            raise AttributeError(name)
        factor = self._unbroadcasted_scale_tril
        wide = expand(factor, (*self._batch_shape, *self._own_dims("scale_tril")))
        if name == "scale_tril":
            return wide
        return wide @ wide.mT if name == "covariance_matrix" else inverse_of(wide)


def given_matrix(*matrices: Tensor | None) -> tuple[str, Tensor]:
    """The one of `MATRICES` that is given, by its name. Raises ValueError for none or several."""
    passed = [pair for pair in zip(MATRICES, matrices) if pair[1] is not None]
    if len(passed) != 1:
        raise ValueError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    name, matrix = passed[0]
    assert matrix is not None
    return name, matrix


def factor_of(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor L of the covariance, L Lᵀ."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """That of an inverse of the covariance: under PyTorch's name."""
    # With P = U Uᵀ for an upper U (of rows and columns in reverse), the inverse is U⁻ᵀ U⁻¹.
    upper = linalg.cholesky(P.flip((-2, -1))).flip((-2, -1)).mT
    return linalg.solve_triangular(upper, eye(P.shape[-1], dtype=P.dtype), upper=False)


def inverse_of(factor: Tensor) -> Tensor:
    """The inverse of L Lᵀ."""
    one = eye(factor.shape[-1], dtype=factor.dtype)
    inverse = linalg.solve_triangular(factor, one, upper=False)
    return inverse.mT @ inverse
