"""Windows, pads, slices and concatenations whose offsets are sizes."""

from __future__ import annotations

from graphc import ops
from graphc.ir.builder import Var
from graphc.ir.dims import dim
from graphc.ops.movement import pad, slice_
from graphc.ops.windows import unwindows, windows
from tests.codegen.run_time_extents.kernels import M, N, along, compare

PAIRS = [{"n": n, "m": m} for n, m in [(0, 3), (3, 0), (1, 1), (2, 17), (5, 4), (16, 5)]]


def test_slices_at_sizes() -> None:
    def tail(x: Var) -> Var:
        return ops.exp(slice_(x, start=(N, 1), size=(M, 3), step=(1, 1)))

    compare(tail, [(N + M, 5)], PAIRS)
    first = dim("n", 0, 40)  # as of position embeddings
    compare(
        lambda x: -slice_(x, start=(0, 0), size=(first, 7), step=(1, 1)), [(40, 7)],
        along(0, 1, 16, 17, 40),
    )  # fmt: skip


def test_pads_by_sizes() -> None:
    def padded(x: Var, fill: Var) -> Var:
        return pad(x, fill, low=(M, 0), high=(1, N), interior=(0, 0)) * 2.0

    compare(padded, [(N, 5), ()], PAIRS)


def test_concatenations() -> None:
    compare(lambda x, y: -ops.concat(x, y, axis=0), [(N, 5), (M, 5)], PAIRS)
    compare(lambda x, y: -ops.concat(x, y, axis=1), [(N, 3), (N, M)], PAIRS)


def test_reshapes() -> None:
    """Heads, and back: coordinates that a size divides."""
    compare(lambda x: -ops.reshape(x, shape=(N, 2, 3, M)), [(N * 6, M)], PAIRS)
    compare(lambda x: -ops.reshape(x, shape=(N * M, 6)), [(N, M, 2, 3)], PAIRS)

    def heads(x: Var) -> Var:
        return -ops.transpose(ops.reshape(x, shape=(N, M, 2, 3)), permutation=(0, 2, 1, 3))

    compare(heads, [(N, M, 6)], PAIRS)


def test_windows_over_images() -> None:
    """A pooling and its gradient."""
    window = {"kernel": (2, 2), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)}

    def pooled(x: Var, fill: Var) -> Var:
        wide = ops.broadcast(ops.reshape(x, shape=(N, 3, 6, 5, 1, 1)), shape=(N, 3, 6, 5, 2, 2))
        return ops.max(windows(wide, fill, **window), axes=(4, 5))

    compare(pooled, [(N, 3, 6, 5), ()], along(0, 1, 3))

    def spread(g: Var, fill: Var) -> Var:
        return ops.sum(unwindows(g, fill, size=(6, 5), **window), axes=(4, 5))

    compare(spread, [(N, 3, 4, 3, 2, 2), ()], along(0, 1, 3))
