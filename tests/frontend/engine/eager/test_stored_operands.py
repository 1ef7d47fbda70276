"""An op that takes bytes as they are in a graph takes them so in eager mode."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from graphc import DTypeError, ops
from graphc.ir.registry import all_ops


def test_bytes_are_packed_in_quads_as_in_a_graph() -> None:
    x = np.arange(-20, 20).astype(np.int8).reshape(8, 5)
    attributes = {"vectors": 1, "lanes": 4}
    packed = ops.pack_quads(torch.from_numpy(x), **attributes)
    (expected,) = ops.lookup("pack_quads").refer((x,), attributes)
    assert packed.dtype is torch.int8
    np.testing.assert_array_equal(packed.numpy(), expected)
    np.testing.assert_array_equal(ops.unpack_quads(packed, depth=8, size=5).numpy(), x)


def test_nibbles_are_packed_as_bytes() -> None:
    x = np.arange(12, dtype=np.uint8).reshape(2, 6)
    packed = ops.pack_bits(torch.from_numpy(x), bits=4)
    assert packed.dtype is torch.uint8
    np.testing.assert_array_equal(packed.numpy(), x[:, ::2] + 16 * x[:, 1::2])
    np.testing.assert_array_equal(ops.unpack_bits(packed, bits=4).numpy(), x)


def test_what_an_op_declares_says_whether_it_takes_storage_types() -> None:
    kinds = {op.kind for op in all_ops() if op.takes_stored}
    assert kinds == {
        "composite",
        "contract",
        "elementwise",
        "gather",
        "movement",
        "region",
        "scatter",
    }
    taking = {
        op.name for op in all_ops() if op.takes_stored and op.kind in ("elementwise", "scatter")
    }
    assert taking == {"cast", "scatter_set", "index_set"}
    with pytest.raises(DTypeError, match=r"pack_quads does not take i32\[8,5\]"):
        ops.pack_quads(torch.zeros(8, 5, dtype=torch.int32))
