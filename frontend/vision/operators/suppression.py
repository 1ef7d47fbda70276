"""`nms`: of boxes that overlap, the best."""

from __future__ import annotations

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from graphc.ops.kinds.op import FLOATS
from graphc.ops.nn.boxes import kept_boxes


@full_precision
def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Greedy non-maximum suppression.

    `dets` [N, 4] are boxes (x1, y1, x2, y2), `scores` [N], both of one float dtype. Gives the
    positions i64 [K] of the boxes that stay, the highest score first, of equal ones the first: each
    takes away those after it whose intersection over union with it is above `iou_threshold`.

    Raises RuntimeError for other shapes, NotImplementedError for other dtypes; TraceError in a
    trace, since the number of boxes that stay depends on data."""
    _check(dets, scores)
    eager_only("nms")
    order = scores.detach().argsort(descending=True, stable=True)
    corners = dets.detach()[order].unbind(1)
    (kept,) = CONTEXT.apply(kept_boxes, corners, {"threshold": float(iou_threshold)})
    result: Tensor = order[kept]
    return result


def _check(dets: Tensor, scores: Tensor) -> None:
    if dets.dim() != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {dets.dim()}D")
    if dets.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}")
    if scores.dim() != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {scores.dim()}D")
    if dets.shape[0] != scores.shape[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{dets.shape[0]} and {scores.shape[0]}"
        )
    if dets.dtype is not scores.dtype:
        raise RuntimeError("dets should have the same type as scores")
    if dets.dtype not in FLOATS:
        raise NotImplementedError(f"\"nms\" not implemented for '{SCALAR_NAMES[dets.dtype]}'")
