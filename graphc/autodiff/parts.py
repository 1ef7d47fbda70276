"""Gradients by the value they belong to. Those of parts of one value are joined, not added up.

The gradient of a slice is zero but for the slice. Where several slices are taken of one value
(`split`, `chunk`, `unbind`, `x[:, t]` in a loop over t) each would be padded to the size of the
whole, and added: T slices would move T times the memory of the whole, to add zeros. So a slice's
gradient stays a `Part` until the gradient of the whole is asked for. Parts that lie behind each
other along one axis are then one `concat`, with zeros in the gaps; others are padded and added.
In PyTorch the gradient of `split` is a concatenation too; here that of any slices is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import Shape, TensorType
from graphc.ops.movement import concat, pad
from graphc.records import field, record

Add = Callable[[Any, Any], Any]


@record(frozen=False)
class OutputPart:
    """`gradient` of the elements from `start` on of a value of type `tensor_type`; elsewhere zero.
    `place()` is the context (a source line) in which the gradient of the whole is made."""

    tensor_type: TensorType
    start: Shape
    gradient: Any
    place: Callable[[], AbstractContextManager[Any]]

    def whole(self) -> Any:
        """The gradient with its zeros."""
        shape, size = self.tensor_type.shape, self.gradient.shape
        high = tuple(n - a - b for n, a, b in zip(shape, self.start, size, strict=True))
        with self.place():
            return pad(
                self.gradient, lift(0, self.gradient), low=self.start, high=high,
                interior=(0,) * len(shape),
            )  # fmt: skip


@record(frozen=False)
class _Collected:
    """The gradients of one value: `total` is the sum of those of all of it."""

    parts: list[OutputPart] = field(default_factory=list)
    total: Any = None


class Gradients(dict[Any, Any]):
    """Gradients by key. What is read is the whole gradient of a value; what is given may be a
    `Part`. `added(left, right)` is the sum of two gradients of one type."""

    def __init__(self, added: Add) -> None:
        super().__init__()
        self._added = added

    def give(self, key: Hashable, gradient: Any) -> None:
        """Add a gradient, or a part of one, to what is there for `key`."""
        earlier = dict.get(self, key)
        if earlier is None and type(gradient) is not OutputPart:
            self[key] = gradient
            return
        if type(earlier) is not _Collected:
            if type(gradient) is not OutputPart:
                self[key] = self._added(earlier, gradient)
                return
            earlier = self[key] = _Collected(total=earlier)
        if type(gradient) is OutputPart:
            earlier.parts.append(gradient)
        else:
            total = earlier.total
            earlier.total = gradient if total is None else self._added(total, gradient)

    def __getitem__(self, key: Hashable) -> Any:
        gradient = dict.__getitem__(self, key)
        if type(gradient) is _Collected:
            gradient = self[key] = self._whole(gradient)
        return gradient

    def get(self, key: Hashable, default: Any = None) -> Any:
        gradient = dict.get(self, key, default)
        return self[key] if type(gradient) is _Collected else gradient

    def pop(self, key: Hashable, default: Any = None) -> Any:
        gradient = dict.pop(self, key, default)
        return self._whole(gradient) if type(gradient) is _Collected else gradient

    def _whole(self, collected: _Collected) -> Any:
        total, parts = collected.total, collected.parts
        along = _axis(parts)
        wholes = [part.whole() for part in parts] if along is None else [_joined(parts, along)]
        with parts[-1].place():
            for whole in wholes:
                total = whole if total is None else self._added(total, whole)
        return total


def _axis(parts: list[OutputPart]) -> int | None:
    """The one axis along which several parts are cut, where none overlaps another."""
    whole = parts[0].tensor_type.shape
    axes = {
        axis
        for part in parts
        for axis, (size, dim) in enumerate(zip(part.gradient.shape, whole, strict=True))
        if size != dim
    }
    if len(parts) < 2 or len(axes) != 1:
        return None
    (axis,) = axes
    ends = 0
    for part in sorted(parts, key=lambda part: part.start[axis]):
        if part.start[axis] < ends:
            return None
        ends = part.start[axis] + part.gradient.shape[axis]
    return axis


def _joined(parts: list[OutputPart], axis: int) -> Any:
    """Parts as one `concat` along an axis, with zeros in the gaps."""
    whole = parts[0].tensor_type.shape
    with parts[-1].place():
        zero = lift(0, parts[0].gradient)
        pieces: list[Any] = []
        end = 0

        def gap(start: int) -> None:
            if start > end:
                shape = (*whole[:axis], start - end, *whole[axis + 1 :])
                pieces.append(broadcast_to(zero, shape))

        for part in sorted(parts, key=lambda part: part.start[axis]):
            gap(part.start[axis])
            pieces.append(part.gradient)
            end = part.start[axis] + part.gradient.shape[axis]
        gap(whole[axis])
        return concat(*pieces, axis=axis)
