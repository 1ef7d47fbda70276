"""Packed and padded sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.nn.utils import rnn
from graphc.errors import TraceError


def reference(x: np.ndarray, lengths: list[int]) -> tuple[np.ndarray, list[int], list[int]]:
    """Rows of x [longest, batch, …] step by step, how many per step, and the order taken."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    rows, sizes = [], []
    for step in range(max(lengths)):
        taken = [i for i in order if lengths[i] > step]
        rows += [x[step, i] for i in taken]
        sizes.append(len(taken))
    return np.array(rows), sizes, order


@pytest.mark.sampled(4)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[4, 3, 1], [1, 4, 4], [2], [1, 1]], ids=str)
def test_packing_and_back(lengths: list[int], batch_first: bool, compiled: bool) -> None:
    x = np.random.default_rng(0).standard_normal((max(lengths), len(lengths), 2))

    def run(x: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
        return packed, rnn.pad_packed_sequence(packed, batch_first, 9.0, 5)

    run = torch.compile(run) if compiled else run
    tensor = torch.tensor(x.transpose(1, 0, 2) if batch_first else x)
    packed, (padded, counts) = run(tensor)
    rows, sizes, order = reference(x, lengths)
    np.testing.assert_array_equal(packed.data, rows)
    assert packed.batch_sizes.tolist() == sizes and counts.tolist() == lengths
    assert packed.sorted_indices.tolist() == order
    assert [order[i] for i in packed.unsorted_indices.tolist()] == list(range(len(lengths)))
    back = np.array(padded).transpose(1, 0, 2) if batch_first else np.array(padded)
    for i, length in enumerate(lengths):
        np.testing.assert_array_equal(back[:length, i], x[:length, i])
        assert (back[length:, i] == 9).all()


def test_gradients_pass() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    packed = rnn.pack_padded_sequence(x, [3, 1])
    padded, _ = rnn.pad_packed_sequence(packed)
    (padded * 2).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 0.0], [2.0, 0.0]]


def test_padding() -> None:
    sequences = [torch.arange(3.0), torch.arange(1.0)]
    assert rnn.pad_sequence(sequences, True, -1.0).tolist() == [[0, 1, 2], [0, -1, -1]]
    assert rnn.pad_sequence(sequences, True, -1.0, "left").tolist() == [[0, 1, 2], [-1, -1, 0]]
    assert rnn.pad_sequence(sequences).shape == (3, 2)
    back = rnn.unpad_sequence(rnn.pad_sequence(sequences), torch.tensor([3, 1]))
    assert [x.tolist() for x in back] == [[0, 1, 2], [0]]
    assert [x.tolist() for x in rnn.unpack_sequence(rnn.pack_sequence(sequences))] == [
        [0, 1, 2],
        [0],
    ]


def test_lengths_have_to_be_known_in_a_trace() -> None:
    run = torch.compile(
        lambda x, lengths: rnn.pack_padded_sequence(x, lengths).data, fullgraph=True
    )
    with pytest.raises(TraceError, match="the lengths of sequences needs the value"):
        run(torch.ones(3, 2), torch.tensor([3, 1]))
    known = torch.compile(
        lambda x: rnn.pack_padded_sequence(x, torch.tensor([3, 1])).data, fullgraph=True
    )
    assert known(torch.ones(3, 2)).shape == (4,)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([1, 3], "must be sorted in decreasing order"),
        ([3], r"Expected `len\(lengths\)` to be equal to batch_size, but got 1 \(batch_size=2\)"),
        ([3, 0], "has to be greater than 0"),
        ([[3, 1]], "should be a 1D CPU int64 tensor, but got 2D cpu Long tensor"),
    ],
)
def test_wrong_lengths(lengths: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        rnn.pack_padded_sequence(torch.ones(3, 2), lengths)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        rnn.pack_padded_sequence(torch.ones(3, 0), [])
    with pytest.raises(RuntimeError, match="received an empty list of sequences"):
        rnn.pad_sequence([])
    with pytest.raises(RuntimeError, match="padding_side to be one of left or right, but got top"):
        rnn.pad_sequence([torch.ones(1)], padding_side="top")
    with pytest.raises(ValueError, match="total_length=1 and max sequence length being 2"):
        rnn.pad_packed_sequence(rnn.pack_sequence([torch.ones(2)]), total_length=1)
    with pytest.raises(AssertionError, match="list or tuple of length 2"):
        rnn.PackedSequence(torch.ones(2))


def test_packed_sequences_convert_and_pass_through_compiled_functions() -> None:
    packed = rnn.pack_sequence([torch.ones(2), torch.ones(1)])
    assert packed.double().data.dtype is torch.float64 and packed.to("cpu") is packed
    result = torch.compile(lambda p: p._replace(data=p.data * 2))(packed)
    assert type(result) is rnn.PackedSequence and result.data.tolist() == [2.0, 2.0, 2.0]
    assert result.batch_sizes.tolist() == [2, 1] and result.unsorted_indices is None
