"""Layers that look rows up."""

from __future__ import annotations

from typing import Any, Self

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A `weight` [num_embeddings, embedding_dim] from N(0, 1), the row at `padding_idx` 0."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool

    def _set_padding(self, padding_idx: int | None, bag: bool) -> None:
        if padding_idx is not None:
            if not -self.num_embeddings <= padding_idx < self.num_embeddings:
                name = "padding_idx" if bag else "Padding_idx"
                raise AssertionError(f"{name} must be within num_embeddings")
            padding_idx %= self.num_embeddings
        self.padding_idx = padding_idx

    def _set_weight(self, weight: Tensor | None, frozen: bool, options: dict[str, Any]) -> None:
        size = (self.num_embeddings, self.embedding_dim)
        if weight is None:
            self.weight = Parameter(empty(size, **options), requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(weight.shape) != size:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def _options_text(self) -> str:
        """The options that are not as by default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse is not False:
            text += ", sparse=True"
        return text


def _table_of(embeddings: Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(_Table):
    """Rows of `weight` [num_embeddings, embedding_dim] at integer indices [*]:
    [*, embedding_dim]; the options are those of `F.embedding`.

    Rows start from N(0, 1); the one at `padding_idx` starts at 0 and takes no gradient. Raises
    AssertionError where `padding_idx` is no row.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self._set_padding(padding_idx, bag=False)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._set_weight(_weight, _freeze, {"device": device, "dtype": dtype})

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return self._options_text()

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer over the rows `embeddings` (its memory, not a copy), which do not train unless
        `freeze` is False. Raises AssertionError unless it is 2-d."""
        rows, columns = _table_of(embeddings)
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight=embeddings, _freeze=freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """The sum, mean or maximum of rows of `weight` in each bag of indices; the options are those of
    `F.embedding_bag`. Raises AssertionError where `padding_idx` is no row."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._set_padding(padding_idx, bag=True)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._set_weight(_weight, False, {"device": device, "dtype": dtype})

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """As `Embedding.from_pretrained`."""
        rows, columns = _table_of(embeddings)
        bag = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            _weight=embeddings, include_last_offset=include_last_offset, padding_idx=padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad = not freeze
        return bag
