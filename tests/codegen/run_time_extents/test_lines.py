"""Scans and sorts of any number of lines, of any length."""

from __future__ import annotations

import numpy as np
import pytest

from graphc import ops
from graphc.ir.dims import dim
from tests.codegen.run_time_extents.kernels import Array, M, N, compare

PAIRS = [{"n": n, "m": m} for n, m in [(0, 3), (3, 0), (1, 1), (2, 17), (5, 4), (16, 5)]]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["cumsum", "argcummax"])
def test_scans(op: str, axis: int) -> None:
    compare(lambda x: getattr(ops, op)(x, axis=axis), [(N, M)], PAIRS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts(axis: int, descending: bool) -> None:
    def repeated(draw: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        return [draw.integers(0, 4, (sizes["n"], sizes["m"])).astype(np.float32)]

    compare(lambda x: ops.argsort(x, axis=axis, descending=descending), [(N, M)], PAIRS, repeated)
    options = {"axis": axis, "descending": descending}
    shape = (dim("n", 2), dim("m", 2))
    pairs = [pair for pair in PAIRS if min(pair.values()) > 1]
    for count in (2, shape[axis]):
        compare(lambda x, k=count: ops.argtopk(x, **options, count=k), [shape], pairs, repeated)
