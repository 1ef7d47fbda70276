"""`torch.nn.utils.parametrizations`: weights by direction and length, of spectral norm 1."""

from __future__ import annotations

from typing import Any, NoReturn

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
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


def orthogonal(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "parametrizations.orthogonal is not here; torch.nn.init.orthogonal_ starts from an "
        "orthogonal matrix"
    )
