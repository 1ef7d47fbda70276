"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import cat, narrow, reshape

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters [n], one parameter behind the other; differentiable."""
    return cat([reshape(parameter, -1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let each parameter's data be its part of `vec` [n], whose memory they then share.

    Raises TypeError where `vec` is no tensor, RuntimeError where it is too short; then nothing is
    changed.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    targets, start, parts = list(parameters), 0, []
    for parameter in targets:
        count = min(parameter.numel(), max(vec.numel() - start, 0))
        parts.append(reshape(narrow(vec, 0, start, count), *parameter.shape))
        start += count
    for parameter, part in zip(targets, parts):
        parameter.data = part.detach()
