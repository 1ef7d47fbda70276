"""Sequences of several lengths: padded to one length, or packed without padding.

A `PackedSequence` holds time step after time step of sequences sorted by falling length: `data`
[sum of lengths, …], `batch_sizes` [longest] says how many sequences reach each step.
Lengths decide shapes, so in a trace they have to be numbers, or a tensor of constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full, tensor, zeros_like
from frontend.functions.ranges import arange
from frontend.functions.scatter import index_add, index_select
from frontend.functions.shape import cat, narrow, reshape, stack, transpose
from frontend.nn.checks import fail
from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.types import DType

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

_UNSORTED = (
    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
    "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
    "requirement if you do not need ONNX exportability."
)


def known_array(values: Tensor, what: str) -> np.ndarray:
    """The array of a tensor whose value is known, in a trace too where it is a constant of it.
    Raises TraceError, saying that `what` asked for it."""
    return np.asarray(values._array(what))


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """`data` [sum of batch_sizes, …], `batch_sizes` [longest] int64, falling. `sorted_indices`
    [batch] are the positions the sorted sequences had, `unsorted_indices` where each stands now;
    None where they were sorted. Made by `pack_padded_sequence` and `pack_sequence`."""

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not isinstance(data, list | tuple) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        if not isinstance(batch_sizes, Tensor):
            raise AttributeError(
                f"batch_sizes should be a tensor, got {type(batch_sizes).__name__}"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def sizes(self) -> tuple[int, ...]:
        """`batch_sizes` as numbers."""
        return tuple(known_array(self.batch_sizes, "a PackedSequence's batch_sizes").tolist())

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return False

    def pin_memory(self) -> PackedSequence:
        return self

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data converted as `Tensor.to` does; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self._replace(data=data)

    def type(self, dtype: Any) -> PackedSequence:
        return self.to(dtype=dtype)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self._replace(data=self.data.cuda(*args, **kwargs))

    def double(self) -> PackedSequence:
        return self.to(DType.f64)

    def float(self) -> PackedSequence:
        return self.to(DType.f32)

    def half(self) -> PackedSequence:
        return self.to("float16")

    def long(self) -> PackedSequence:
        return self.to(DType.i64)

    def int(self) -> PackedSequence:
        return self.to(DType.i32)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation` [n]; None for None."""
    if permutation is None:
        return None
    positions = arange(permutation._sizes[0], dtype=permutation.dtype)
    return index_add(zeros_like(permutation), 0, permutation, positions)


def _lengths(lengths: Any) -> np.ndarray:
    """Lengths as an int64 array [batch]; of floats, the whole part."""
    if isinstance(lengths, Tensor):
        array = known_array(lengths, "the lengths of sequences")
    else:
        # PyTorch makes a tensor of the list, so text and the like raise here.
        array = np.asarray(lengths)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"lengths should be numbers, got {lengths!r}")
    if array.ndim != 1:
        kind = SCALAR_NAMES[DType.of(array.dtype)]
        raise fail(
            ShapeError,
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {array.ndim}D cpu "
            f"{kind} tensor",
        )
    return array.astype(np.int64)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The rows of `input` [longest, batch, …] ([batch, longest, …] with `batch_first`) that belong
    to sequences of these `lengths` [batch]. With `enforce_sorted` the lengths have to fall.

    Raises RuntimeError for lengths that are not positive, do not fall, or are not `batch` many.
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            "_pack_padded_sequence(): argument 'input' (position 1) must be Tensor, not "
            f"{type(input).__name__}"
        )
    counts = _lengths(lengths)
    if input.dim() < 2:
        raise IndexError(
            f"pack_padded_sequence: input should have time and batch dimensions, got shape "
            f"{list(input.shape)}"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-counts, kind="stable")
        counts = counts[order]
    steps = transpose(input, 0, 1) if batch_first else input
    longest, batch = steps._sizes[:2]
    _check(counts, steps)
    longest = min(longest, int(counts[0]))
    # Lengths past the end count in batch_sizes only, as in PyTorch.
    sizes = np.array([(counts > step).sum() for step in range(int(counts[0]))], np.int64)
    places = np.arange(batch) if order is None else order
    rows = np.concatenate([step * batch + places[: sizes[step]] for step in range(longest)])
    flat = reshape(steps, -1, *steps._sizes[2:])
    data = index_select(flat, 0, tensor(rows))
    if order is None:
        return PackedSequence(data, tensor(sizes))
    back = np.argsort(order, kind="stable")
    return PackedSequence(data, tensor(sizes), tensor(order), tensor(back))


def _check(counts: np.ndarray, steps: Tensor) -> None:
    batch = steps._sizes[1]
    if steps.numel() == 0:
        raise fail(ShapeError, "Cannot pack empty tensors.")
    if len(counts) != batch:
        raise fail(
            ShapeError,
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} "
            f"(batch_size={batch})",
        )
    if (counts <= 0).any():
        raise fail(
            AttributeValueError,
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0",
        )
    if (np.diff(counts) > 0).any():
        raise fail(AttributeValueError, _UNSORTED)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded sequences [longest, batch, …] ([batch, longest, …] with `batch_first`) in their
    first order, and their lengths [batch]. `total_length` asks for more padding.

    Raises ValueError where `total_length` is less than the longest.
    """
    sizes = np.array(sequence.sizes(), np.int64)
    longest, batch = len(sizes), int(sizes[0])
    total = longest if total_length is None else total_length
    if total < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {longest}"
        )
    starts = np.cumsum(sizes) - sizes
    column = np.arange(batch)
    counts = (sizes[:, None] > column).sum(0)
    # The row behind the last is the padding.
    rows = np.where(sizes[:, None] > column, starts[:, None] + column, int(sizes.sum()))
    rows = np.concatenate([rows, np.full((total - longest, batch), sizes.sum())])
    data = sequence.data
    rest = data._sizes[1:]
    filled = cat([data, full((1, *rest), padding_value, dtype=data.dtype)])
    padded = reshape(index_select(filled, 0, tensor(rows.reshape(-1))), total, batch, *rest)
    lengths = tensor(counts)
    if sequence.unsorted_indices is not None:
        padded = index_select(padded, 1, sequence.unsorted_indices)
        lengths = _taken(lengths, sequence.unsorted_indices)
    return (transpose(padded, 0, 1) if batch_first else padded), lengths


def _taken(lengths: Tensor, order: Tensor) -> Tensor:
    """`lengths[order]`, a constant where both are: lengths are asked for again."""
    mode = STATE.mode
    if mode is None or mode.known(lengths) is None or mode.known(order) is None:
        return index_select(lengths, 0, order)
    return tensor(known_array(lengths, "lengths")[known_array(order, "unsorted_indices")])


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Tensors [length, …] stacked as [longest, batch, …], or [batch, longest, …] with
    `batch_first`; the shorter ones are padded on the "right" or "left". The dtype is the first's.

    Raises RuntimeError for no sequences, TypeError for anything but tensors.
    """
    items = _tensors(sequences)
    if padding_side not in ("left", "right"):
        raise fail(
            AttributeValueError,
            f"Expected padding_side to be one of left or right, but got {padding_side}.",
        )
    first = items[0]
    longest = max(x._sizes[0] for x in items)
    rest = first._sizes[1:]
    padded = []
    for x in items:
        count, *own = x._sizes
        if tuple(own) != rest:
            raise fail(
                ShapeError,
                f"pad_sequence: the sizes behind the length differ: {list(x.shape)} and "
                f"{list(first.shape)}",
            )
        fill = full((longest - count, *rest), padding_value, dtype=first.dtype)
        x = x.to(first.dtype)
        parts = [fill, x] if padding_side == "left" else [x, fill]
        padded.append(x if count == longest else cat(parts))
    return stack(padded, 0 if batch_first else 1)


def _tensors(sequences: Any) -> list[Tensor]:
    """The sequences of `pad_sequence`: a tensor's rows, or the tensors of an iterable."""
    if isinstance(sequences, Tensor):
        return [sequences[i] for i in range(len(sequences))]
    if not isinstance(sequences, Iterable):
        raise fail(
            AttributeValueError,
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}",
        )
    items = list(sequences)
    for position, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {position} in argument 0, but got "
                f"{type(item).__name__}"
            )
        if item.dim() == 0:
            raise fail(ShapeError, f"pad_sequence: sequence {position} has no dimension")
    if not items:
        raise fail(AttributeValueError, "received an empty list of sequences")
    return items


def unpad_sequence(
    padded_sequences: Tensor, lengths: Any, batch_first: bool = False
) -> list[Tensor]:
    """The sequences [length, …] without padding (on the right) of `padded_sequences` [longest,
    batch, …], or [batch, longest, …] with `batch_first`."""
    counts = _lengths(lengths).tolist()
    steps = padded_sequences if batch_first else transpose(padded_sequences, 0, 1)
    batch, longest = steps._sizes[:2]
    if len(counts) != batch:
        raise ValueError(f"unpad_sequence: {len(counts)} lengths for a batch of {batch}")
    return [narrow(steps[i], 0, 0, min(count, longest)) for i, count in enumerate(counts)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors [length, …] packed; with `enforce_sorted` their lengths have to fall."""
    items = list(sequences)
    lengths = [x._sizes[0] for x in items]
    return pack_padded_sequence(pad_sequence(items), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences [length, …] that were packed, in their first order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
