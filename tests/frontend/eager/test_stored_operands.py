"""An op that takes bytes as they are in a graph takes them so in eager mode."""

from __future__ import annotations

import numpy as np

import frontend as torch
from graphc import ops


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
    packed = ops.pack_nibbles(torch.from_numpy(x))
    assert packed.dtype is torch.uint8
    np.testing.assert_array_equal(packed.numpy(), x[:, ::2] + 16 * x[:, 1::2])
    np.testing.assert_array_equal(ops.unpack_nibbles(packed).numpy(), x)
