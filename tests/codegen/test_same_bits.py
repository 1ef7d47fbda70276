"""Compiled graphs give the same bits on every target this machine runs: drawn graphs (by the fuzzer
`targets`). Samples of the op table take turns with the targets in tests/test_op_table.py."""

from __future__ import annotations

import pytest

from tests.fuzz import targets


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
def test_drawn_graphs(seed: int) -> None:
    """Products, sums and functions, fused as they come."""
    targets.check((seed, 8))
