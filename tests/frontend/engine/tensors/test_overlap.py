"""Arguments that share memory: an error where one of them is changed in place."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from graphc.errors import ArgumentError


def parts(first: slice, second: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors over one array."""
    array = np.arange(12, dtype=np.float32)
    return torch.from_numpy(array[first]), torch.from_numpy(array[second])


@pytest.mark.parametrize("swapped", [False, True])
def test_a_changed_argument_that_overlaps_another_is_named_first(swapped: bool) -> None:
    one, other = parts(slice(0, 6), slice(5, 12))
    changed, read = (other, one) if swapped else (one, other)
    function = torch.compile(lambda p, q: p.add_(q[0]))
    with pytest.raises(ArgumentError, match="'p' is changed in place and shares memory with 'q'"):
        function(changed, read)
    assert changed.tolist() == list(range(5, 12) if swapped else range(6))


def test_neighbours_in_memory_do_not_overlap() -> None:
    changed, read = parts(slice(0, 6), slice(6, 12))
    torch.compile(lambda p, q: p.add_(q))(changed, read)
    assert changed.tolist() == [6, 8, 10, 12, 14, 16]


def test_arguments_that_are_only_read_may_overlap() -> None:
    one, other = parts(slice(0, 6), slice(2, 8))
    assert torch.compile(lambda p, q: p + q)(one, other).tolist() == [2, 4, 6, 8, 10, 12]


def test_an_empty_argument_overlaps_nothing() -> None:
    changed, empty = parts(slice(0, 6), slice(3, 3))
    torch.compile(lambda p, q: p.add_(q.sum()))(changed, empty)
    assert changed.tolist() == list(range(6))
