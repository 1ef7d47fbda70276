"""Layers that change the shape only."""

from __future__ import annotations

from collections.abc import Sequence

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis `dim` as several of `unflattened_size`, one of which may be -1. Raises TypeError for
    sizes that are no ints, and where `dim` is a name: tensors here have none."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]):
        super().__init__()
        if isinstance(dim, str):
            raise TypeError("unflatten by name is not supported: tensors have no named dimensions")
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                "unflattened_size must be a tuple of ints, but found type "
                f"{type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
