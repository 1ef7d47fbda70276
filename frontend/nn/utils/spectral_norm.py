"""The former `spectral_norm`: a hook computes the weight before each forward. New code uses
`parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.nn.utils.norms import matrix_of, unit

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: `name` is the parameter `name_orig` over its greatest singular value, which power
    iteration approximates from the buffers `name_u` and `name_v`."""

    def __init__(self, name: str, steps: int, dim: int, eps: float):
        self.name = name
        self.n_power_iterations = steps
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            # PyTorch's former order: the right vector first.
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(matrix.t().mv(u), self.eps))
                    u.copy_(unit(matrix.mv(v), self.eps))
            u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """`module.name` over its greatest singular value, rows along `dim`: 1 for transposed
    convolutions, else 0."""
    transposed = isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d)
    hook = SpectralNorm(name, n_power_iterations, int(transposed) if dim is None else dim, eps)
    weight: Any = module._parameters[name]
    matrix = matrix_of(weight.detach(), hook.dim)
    height, width = matrix.shape
    with no_grad():
        u = unit(matrix.new_empty(height).normal_(0, 1), eps)
        v = unit(matrix.new_empty(width).normal_(0, 1), eps)
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """A plain parameter again. Raises ValueError where the name has no spectral_norm."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with no_grad():
                weight = hook.compute_weight(module, do_power_iteration=False)
            delattr(module, name)
            del module._buffers[f"{name}_u"], module._buffers[f"{name}_v"]
            del module._parameters[f"{name}_orig"]
            module.register_parameter(name, Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
