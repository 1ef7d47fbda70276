"""Boxes that overlap: which of them stay where the better of two that cover each other is kept.

Greedy non-maximum suppression: boxes are taken in order, and each that stays takes away those
behind it that it overlaps by more than a threshold, as intersection over union.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.op import FLOATS, Array, SampleDrawer, Types
from graphc.ops.kinds.serial import Serial, SerialMemory


def _kept_type(types: Types, *, threshold: float) -> TensorType:
    operands = ", ".join(map(str, types))
    if len(types) != 4 or types[0].dtype not in FLOATS or len({x.dtype for x in types}) > 1:
        raise DTypeError(f"kept_boxes takes x1, y1, x2, y2 in one float dtype, got {operands}")
    if any(type.shape != types[0].shape or type.rank != 1 for type in types):
        raise ShapeError(f"kept_boxes takes coordinates of one dimension, got {operands}")
    if not isinstance(threshold, float):
        raise AttributeValueError(f"kept_boxes: the threshold {threshold!r} is no float")
    return TensorType(DType.bool, types[0].shape)


def _write_kept(s: Any, memory: SerialMemory, *, threshold: float) -> None:
    number, count = memory.number, memory.extent(0)

    def corners(box: Any) -> list[Any]:
        return [memory.read(i, box) for i in range(4)]

    def area(x1: Any, y1: Any, x2: Any, y2: Any) -> Any:
        return s.mul(s.sub(x2, x1), s.sub(y2, y1))

    def take_away(box: Any) -> Any:
        x1, y1, x2, y2 = corners(box)
        own = area(x1, y1, x2, y2)
        zero = s.constant(0, x1)

        def compare(other: Any) -> None:
            u1, v1, u2, v2 = corners(other)
            width = s.maximum(zero, s.sub(s.minimum(x2, u2), s.maximum(x1, u1)))
            height = s.maximum(zero, s.sub(s.minimum(y2, v2), s.maximum(y1, v1)))
            common = s.mul(width, height)
            union = s.sub(s.add(own, area(u1, v1, u2, v2)), common)
            # In double precision, as the threshold is given.
            share = s.convert(s.div(common, union), DType.f64)
            covered = s.gt(share, s.constant(threshold, share))
            memory.store(other, s.logical_and(memory.load(other), s.logical_not(covered)))

        memory.loop(s.add(box, number(1)), count, compare)
        return number(0)

    def visit(box: Any) -> None:
        memory.branch(memory.load(box), lambda: take_away(box), lambda: number(0))

    def begin(box: Any) -> None:
        memory.store(box, s.eq(box, box))

    memory.loop(0, count, begin)
    memory.loop(0, count, visit)


def _kept(x1: Array, y1: Array, x2: Array, y2: Array, *, threshold: float) -> Array:
    low, high = np.stack([x1, y1]), np.stack([x2, y2])
    areas = (x2 - x1) * (y2 - y1)
    kept = np.ones(len(x1), np.bool_)
    for i in range(len(x1)):
        if not kept[i]:
            continue
        behind = slice(i + 1, None)
        size = np.minimum(high[:, i, None], high[:, behind])
        size -= np.maximum(low[:, i, None], low[:, behind])
        common = np.maximum(size, 0).prod(axis=0)
        share = common / (areas[i] + areas[behind] - common)
        kept[behind] &= ~(share.astype(np.float64) > threshold)
    return kept


def _samples(m: SampleDrawer) -> list[Any]:
    def boxes(count: int) -> list[Array]:
        x, y = m.positive(count), m.positive(count)
        return [x, y, x + m.positive(count), y + m.positive(count)]

    return [m(*boxes(n), threshold=t) for n, t in ((30, 0.3), (9, 0.5), (1, 0.7), (0, 0.5))]


kept_boxes = Serial(
    "kept_boxes", _kept_type, _write_kept, _kept, vjp=None, samples=_samples,
)  # fmt: skip
"""x1, y1, x2, y2 [N] of boxes, the best first: which of them stay, bool [N]."""
