"""Transforms to matrices that have a Cholesky factor, and to such factors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from frontend import linalg
from frontend.distributions import constraints
from frontend.distributions.transforms.transform import Transform
from frontend.distributions.utils import eps_of, tril_matrix_to_vec, vec_to_tril_matrix
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import clamp
from frontend.functions.ranges import eye
from frontend.functions.select import tril
from frontend.nn.functional.activation import softplus
from frontend.nn.functional.padding import pad


class LowerCholeskyTransform(Transform):
    """The lower triangle of a matrix, with exp of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return tril(x, -1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return tril(y, -1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """L Lᵀ of the Cholesky factor L that `LowerCholeskyTransform` gives."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()._call(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers to the Cholesky factors [n, n] of correlations: row by row
    tanh of each says what share of the row's rest of length it takes; the diagonal takes the
    last."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        most = 1 - eps_of(x)
        shares = vec_to_tril_matrix(clamp(x.tanh(), min=-most, max=most), diag=-1)
        rest = (1 - shares**2).sqrt().cumprod(-1)
        return (shares + eye(shares.shape[-1], dtype=x.dtype)) * pad(
            rest[..., :-1], [1, 0], value=1
        )

    def _inverse(self, y: Tensor) -> Tensor:
        rest = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        shares = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return (shares.log1p() - (-shares).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        rest = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * rest.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))
