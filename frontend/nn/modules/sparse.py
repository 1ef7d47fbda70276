"""Layers that look rows up."""

from __future__ import annotations

from typing import Any

from frontend.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.state import no_grad
from frontend.tensor import Tensor

__all__ = ["Embedding"]


class Embedding(Module):
    """Rows of `weight` [num_embeddings, embedding_dim] at integer indices [*]:
    [*, embedding_dim].

    Rows start from N(0, 1); the one at `padding_idx` starts at 0 and takes no gradient. Raises
    AssertionError where `padding_idx` is no row.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: Any = None,
    ):
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(empty((num_embeddings, embedding_dim), dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
