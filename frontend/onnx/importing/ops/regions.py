"""Boxes: which of those that overlap are kept, and what lies in one."""

from __future__ import annotations

from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import Numbers, onnx_op
from frontend.onnx.importing.errors import OnnxNotHere
from frontend.onnx.importing.ops.convolution import between_pixels


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor, scores: Tensor, most: Numbers | None = None, iou: Numbers | None = None,
    least: Numbers | None = None, *, center_point_box: int = 0,
) -> Any:  # fmt: skip
    """Rows of (batch, class, box). How many there are depends on the values: computed by NumPy."""
    places, points = boxes.detach().numpy(), scores.detach().numpy()
    if center_point_box:
        centre, half = places[..., :2], places[..., 2:] / 2
        places = np.concatenate([centre - half, centre + half], -1)
    limit = int(most[0]) if most else 0
    chosen = [
        (batch, kind, box)
        for batch in range(points.shape[0])
        for kind in range(points.shape[1])
        for box in _kept(
            places[batch], points[batch, kind], limit, iou[0] if iou else 0.0,
            least[0] if least else None,
        )
    ]  # fmt: skip
    return torch.tensor(np.array(chosen, np.int64).reshape(-1, 3))


def _kept(boxes: Any, scores: Any, most: int, iou: float, least: float | None) -> list[int]:
    """The best boxes, best first, without those that overlap a better one by more than `iou`."""
    low = np.minimum(boxes[:, :2], boxes[:, 2:])
    high = np.maximum(boxes[:, :2], boxes[:, 2:])
    area = np.prod(high - low, 1)
    kept: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(kept) >= most or (least is not None and scores[box] <= least):
            break
        if kept:
            both = np.minimum(high[box], high[kept]) - np.maximum(low[box], low[kept])
            common = np.prod(np.maximum(both, 0), 1)
            union = area[box] + area[kept] - common
            if (np.where(union > 0, common / np.where(union > 0, union, 1), 0) > iou).any():
                continue
        kept.append(int(box))
    return kept


@onnx_op("RoiAlign")
def roi_align(
    x: Tensor, rois: Tensor, batch: Tensor, *, coordinate_transformation_mode: str | None = None,
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0, node: Any,
) -> Any:  # fmt: skip
    """Each cell of a box is the mean (or greatest) of values read between pixels in it."""
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    shifted = (coordinate_transformation_mode or default) == "half_pixel"
    _height, _width = x.shape[2:]
    boxes = rois * spatial_scale - (0.5 if shifted else 0.0)
    left, top, right, bottom = boxes.unbind(1)
    wide, high = right - left, bottom - top
    if not shifted:
        wide, high = wide.clamp(min=1), high.clamp(min=1)
    cell_h, cell_w = high / output_height, wide / output_width
    if sampling_ratio == 0:
        return _by_box(x, batch, (top, left, cell_h, cell_w), mode, output_height, output_width)
    return _cells(
        x[batch.long()], (top, left, cell_h, cell_w), mode, output_height, output_width,
        sampling_ratio, sampling_ratio,
    )  # fmt: skip


def _by_box(x: Tensor, batch: Tensor, box: Any, mode: str, rows: int, columns: int) -> Tensor:
    """As many samples as a cell has pixels: each box has numbers of its own."""
    counts = [box[2].detach().numpy(), box[3].detach().numpy()]
    results = [
        _cells(
            x[batch[i : i + 1].long()], tuple(part[i : i + 1] for part in box), mode, rows, columns,
            *[max(1, int(np.ceil(each[i]))) for each in counts],
        )
        for i in range(batch.shape[0])
    ]  # fmt: skip
    return torch.cat(results)


def _cells(
    images: Tensor, box: Any, mode: str, rows: int, columns: int, per_row: int, per_column: int
) -> Tensor:
    top, left, cell_h, cell_w = box
    n, c, height, width = images.shape
    y = (torch.arange(rows * per_row) + 0.5) / per_row * cell_h.reshape(-1, 1) + top.reshape(-1, 1)
    x = torch.arange(columns * per_column) + 0.5
    x = x / per_column * cell_w.reshape(-1, 1) + left.reshape(-1, 1)
    ys = y.unsqueeze(2).expand(n, rows * per_row, columns * per_column).reshape(n, 1, -1)
    xs = x.unsqueeze(1).expand(n, rows * per_row, columns * per_column).reshape(n, 1, -1)
    planes = images.reshape(n, 1, c, height * width)
    inside = (ys >= -1) & (ys <= height) & (xs >= -1) & (xs <= width)
    if mode == "max":
        values = _greatest_tap(planes, ys, xs, height, width)
    elif mode == "avg":
        values = between_pixels(planes, ys, xs, height, width, True)
    else:
        raise OnnxNotHere(f"mode {mode!r}")
    values = torch.where(inside.unsqueeze(2), values, 0)
    values = values.reshape(n, c, rows, per_row, columns, per_column)
    return values.amax((3, 5)) if mode == "max" else values.mean((3, 5))


def _greatest_tap(planes: Tensor, y: Tensor, x: Tensor, height: int, width: int) -> Tensor:
    """ONNX's "max": the greatest of the four weighted pixels."""
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor(), x.floor()
    best: Any = None
    for row, row_part in ((top, top + 1 - y), (top + 1, y - top)):
        for column, column_part in ((left, left + 1 - x), (left + 1, x - left)):
            at = row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
            at = at.unsqueeze(2).expand(*planes.shape[:3], y.shape[-1])
            value = planes.gather(3, at) * (row_part * column_part).unsqueeze(2)
            best = value if best is None else torch.maximum(best, value)
    return best
