"""Storages, and what puts a tensor on other memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError


def test_a_storage_is_the_memory_of_all_views() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    y = x[1:, 1]
    assert (y.storage_offset(), y.storage()[5], len(y.storage())) == (5, 5.0, 12)
    assert isinstance(y.storage(), torch.FloatStorage)
    assert y.untyped_storage().data_ptr() == x.data_ptr() != y.data_ptr()
    y.storage()[5] = -1
    x.untyped_storage()[0:4] = np.frombuffer(np.float32(7).tobytes(), np.uint8)
    assert y[0] == -1 and x[0, 0] == 7
    assert torch.UntypedStorage(4).fill_(1).tolist() == [1] * 4
    with pytest.raises(RuntimeError, match="takes no 4 bytes"):
        x.untyped_storage().copy_(torch.UntypedStorage(4))
    with pytest.raises(NotImplementedError, match="has one size"):
        x.untyped_storage().resize_(0)


def test_resizing() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    row, version = x[1], x._version
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]] and x._version > version
    x.fill_(9)
    assert row.tolist() == [9, 4, 5]  # the same memory
    assert x.resize_(2, 4)[1].tolist() == [4, 5, 0, 0]  # more than there was
    assert torch.empty(2, device="meta").resize_(3, 3).shape == (3, 3)
    assert torch.ones(5).resize_as_(torch.ones(2, 2)).shape == (2, 2)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(TraceError, match="shape of a tensor from before the trace"):
        torch.compile(lambda y: y.resize_(1), fullgraph=True)(torch.ones(2))


def test_resizing_inside_a_compiled_function() -> None:
    def function(x: Any) -> tuple[Any, ...]:
        less, more, row = x.clone(), x * 2, x * 1
        second, first, place = less[1], more[0], row[1]
        less.resize_(2, 2).add_(10)  # the same memory
        more.resize_(4, 3).sub_(1)  # memory of its own
        first.mul_(3)
        place.resize_(1, 2).fill_(7)
        return less, second, more, first, row, place, x.clone().resize_as_(place)

    x = torch.arange(6.0).reshape(2, 3)
    want = [each.tolist() for each in function(x)]
    assert want[0] == [[10, 11], [12, 13]] and want[1] == [13, 4, 5]
    assert want[2][2] == [-1, -1, -1] and want[4] == [[0, 1, 2], [7, 7, 5]]
    assert [each.tolist() for each in torch.compile(function)(x)] == want


def test_setting_memory() -> None:
    x = torch.arange(12.0)
    part = torch.empty(0).set_(x.untyped_storage(), 2, (2, 2), (4, 1))
    part.mul_(-1)
    assert x.tolist()[2:8] == [-2, -3, 4, 5, -6, -7]
    assert torch.empty(0).set_(x).is_set_to(x) and not part.is_set_to(x)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 48"):
        torch.empty(0).set_(x.storage(), 11, (2,))
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        torch.empty(0, dtype=torch.int32).set_(x)


def test_the_bytes_as_another_dtype() -> None:
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    bits = x.view(torch.int32)
    np.testing.assert_array_equal(bits.numpy(), x.numpy().view(np.int32))
    bits[0, 0] = 0
    assert x[0, 0] == 0 and bits._base is x
    assert x.view(torch.uint8).shape == (2, 8) and x.view(torch.float64).shape == (2, 1)
    assert x.view(torch.uint8).view(torch.float32).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="cannot be 0 to view"):
        x[0, 0].view(torch.int8)
    with pytest.raises(RuntimeError, match="must be divisible by 2"):
        x[:, :1].view(torch.float64)
    with pytest.raises(TraceError, match="runs eagerly only"):
        torch.compile(lambda y: y.view(torch.int32), fullgraph=True)(x)
