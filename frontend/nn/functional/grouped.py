"""Products of groups of rows or columns with a matrix each, as in a mixture of experts."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.dtypes import as_dtype
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.matrix import bmm, mm
from frontend.functions.shape import cat, stack
from frontend.nn.checks import fail
from graphc.errors import ShapeError


@public(at="nn.functional", also="_grouped_mm")
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Products of groups, whose ends along a shared dimension `offs` [groups] (int32) are:

    [m, k] · [groups, k, n]: groups of rows, [m, n]; [groups, m, k] · [k, n]: groups of columns,
    [m, n]; [m, k] · [k, n]: groups of what is summed over, [groups, m, n]; two batches: no groups,
    `bmm`. `offs` is read, so a trace raises TraceError but for the last.
    """
    if bias is not None:
        raise fail(ShapeError, "Bias not supported yet")
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        raise fail(ShapeError, "mat_a has to be 2 or 3d and mat_b too")
    if (offs is not None) is (mat_a.dim() == mat_b.dim() == 3):
        raise fail(ShapeError, "Have to provide offsets if and only if there is a 2d matrix")
    result = bmm(mat_a, mat_b) if offs is None else _by_groups(mat_a, mat_b, offs)
    return result if out_dtype is None else casted(result, as_dtype(out_dtype))


def _by_groups(a: Tensor, b: Tensor, offs: Tensor) -> Tensor:
    if offs.dim() != 1:
        raise fail(ShapeError, "offs has to be 1D")
    ends = offs.tolist()
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    batch = a if a.dim() == 3 else b
    if batch.dim() == 3 and batch.shape[0] != len(spans):
        raise fail(ShapeError, "matrix batch sizes have to match")
    if a.dim() == 2 and b.dim() == 2:
        return stack([mm(a[:, i:j], b[i:j]) for i, j in spans])
    if a.dim() == 2:
        parts = [mm(a[i:j], b[group]) for group, (i, j) in enumerate(spans)]
        return cat([*parts, a.new_zeros((a.shape[0] - ends[-1], b.shape[2]))])
    parts = [mm(a[group], b[:, i:j]) for group, (i, j) in enumerate(spans)]
    return cat([*parts, a.new_zeros((a.shape[1], b.shape[1] - ends[-1]))], 1)
