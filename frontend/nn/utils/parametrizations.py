"""`torch.nn.utils.parametrizations`: weights by direction and length, of spectral norm 1,
orthogonal ones."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.limits import finfo
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros_like
from frontend.functions.linear_algebra.factorizations import geqrf, householder_product, qr
from frontend.functions.linear_algebra.functions_of_matrices import matrix_exp
from frontend.functions.linear_algebra.solving import solve
from frontend.functions.logic import allclose
from frontend.functions.random import randn
from frontend.functions.ranges import eye
from frontend.functions.shape import cat
from frontend.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from frontend.nn.modules.module import Module
from frontend.nn.utils.norms import Direction, iterated, matrix_of, norm_except_dim, unit, weighted
from frontend.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """`original0` is the length for each index of `dim`, `original1` the direction."""

    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weighted(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """`module.name` as length times direction (Salimans and Kingma 2016); a length for each index
    of `dim`, one for all with None. State dicts of the former weight_norm can be loaded."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def renamed(module: Module, state_dict: Any, prefix: str, *rest: Any) -> None:
        for old, new in ((f"{name}_g", "original0"), (f"{name}_v", "original1")):
            if prefix + old in state_dict:
                value = state_dict.pop(prefix + old)
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = value

    module.register_load_state_dict_pre_hook(renamed)
    return module


class _SpectralNorm(Module):
    """A weight over its greatest singular value, which power iteration approximates: `_u`, `_v` are
    the vectors it has come to."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ):
        super().__init__()
        if not -weight.dim() <= dim < weight.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.dim()}, "
                f"{weight.dim() - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.dim()
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = matrix_of(weight, self.dim)
                height, width = matrix.shape
                start: Direction = (
                    unit(matrix.new_empty(height).normal_(0, 1), eps),
                    unit(matrix.new_empty(width).normal_(0, 1), eps),
                )
                u, v = iterated(matrix, start, 15, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return unit(weight, self.eps)
        matrix = matrix_of(weight, self.dim)
        buffers: Any = self
        if self.training:
            with no_grad():
                u, v = iterated(
                    matrix.detach(), (buffers._u, buffers._v), self.n_power_iterations, self.eps
                )
                buffers._u.copy_(u)
                buffers._v.copy_(v)
        u, v = buffers._u.clone(), buffers._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


_TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """`module.name` over its greatest singular value (Miyato et al. 2018), rows along `dim`: 1 for
    transposed convolutions, else 0. Raises ValueError where there is no such parameter."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    rows = (1 if isinstance(module, _TRANSPOSED) else 0) if dim is None else dim
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, rows, eps))
    return module


_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """Any matrix as one with orthonormal columns, or rows where it is wider than high. With a base
    (`use_trivialization`) that is multiplied by the orthogonal matrix, so that any orthogonal
    matrix can be assigned."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True):
        super().__init__()
        if orthogonal_map == "householder" and weight.is_complex():
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.register_buffer("base", None)
        self.trivialized = use_trivialization

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        if self.orthogonal_map == "householder":
            Q = _reflected(tall)
        else:
            Q = _rotated(tall, self.orthogonal_map)
        if self.base is not None:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        """What forward makes Q of: with a base that becomes Q, its columns made orthonormal where
        they are not. Raises ValueError on another shape."""
        if self.shape != Q.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        X = self._based_on(tall) if self.trivialized else self._factors(tall)
        return X.mT if wide else X

    def _factors(self, Q: Tensor) -> Tensor:
        """The reflections that make up an orthogonal Q, and signs on the diagonal."""
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        A, tau = geqrf(Q)
        diagonal = A.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[tau == 0.0] *= -1  # a column without a reflection has kept its sign
        return A

    def _based_on(self, Q: Tensor) -> Tensor:
        """Keep Q as the base; the weight from which forward gives the identity."""
        rows, columns = Q.size(-2), Q.size(-1)
        base = Q.clone() if _has_orthonormal_columns(Q) else _orthonormal(Q)
        if rows != columns:  # further columns, up to a whole basis
            further = randn(*Q.shape[:-2], rows, rows - columns, dtype=Q.dtype, device=Q.device)
            base = _orthonormal(cat([base, further], dim=-1))
        self.base = base
        weight = zeros_like(Q)
        weight.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return weight


def _rotated(X: Tensor, orthogonal_map: str) -> Tensor:
    """exp(A), or the Cayley transform (I - A/2)^-1 (I + A/2), of the skew-symmetric A whose lower
    triangle is that of X."""
    rows, columns = X.size(-2), X.size(-1)
    lower = X.tril()
    if rows != columns:
        beside = X.new_zeros(*X.shape[:-2], rows, rows - columns)
        lower = cat([lower, beside], dim=-1)
    A = lower - lower.mH
    if orthogonal_map == "matrix_exp":
        Q = matrix_exp(A)
    else:
        identity = eye(rows, dtype=A.dtype, device=A.device)
        Q = solve(identity - 0.5 * A, identity + 0.5 * A)
    return Q[..., :columns]


def _reflected(X: Tensor) -> Tensor:
    """The product of Householder reflections by the columns below X's diagonal, each column of it
    with the sign that stands on the diagonal."""
    below = X.tril(diagonal=-1)
    tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
    signs = X.diagonal(dim1=-2, dim2=-1).int()
    return householder_product(below, tau) * signs.unsqueeze(-2)


def _has_orthonormal_columns(Q: Tensor) -> bool:
    """To some hundred roundings of its size."""
    rows, columns = Q.size(-2), Q.size(-1)
    gram = Q.mH @ Q
    bound = 10 * rows * finfo(Q.dtype).eps
    return bool(allclose(gram, eye(columns, dtype=Q.dtype, device=Q.device), atol=bound))


def _orthonormal(A: Tensor) -> Tensor:
    """A with its columns made orthonormal one after the other, none turned round."""
    Q, R = qr(A)
    signs: Tensor = R.diagonal(dim1=-2, dim2=-1).sgn()
    return Q * signs.unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Module:  # fmt: skip
    """`module.name`, a matrix or a batch of them, with orthonormal columns, or rows where it is
    wider than high. `orthogonal_map`: "matrix_exp" (the default of square and complex ones),
    "cayley" or "householder" (the default of others). `use_trivialization` keeps a base of its
    size, so that any such matrix can be assigned (Lezcano-Casado 2019). Raises ValueError where
    there is no such parameter, it has one dimension or the map has another name."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    kept = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    register_parametrization(module, name, kept, unsafe=True)
    return module
