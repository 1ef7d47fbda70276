"""Sliding windows as index maps: what pooling and patches are made of.

A window slides over the axes before the taps: element (position, tap) of the windows is element
(position·stride + tap·dilation - padding, tap) of the operand. A plain array is first broadcast
along the taps, which costs nothing since it is only an index map. `unwindows` is the adjoint.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.handle import lift
from graphc.ir.types import Shape
from graphc.ops.kinds.movement import Case, Movement
from graphc.ops.kinds.op import Types
from graphc.ops.movement import rest_of

Index = tuple[Any, ...]


def window_count(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Positions of a window along an axis. Raises ShapeError where not one fits."""
    span = dilation * (kernel - 1) + 1
    if kernel < 1 or stride < 1 or dilation < 1 or padding < 0:
        raise AttributeValueError(
            f"window of size {kernel}, stride {stride}, padding {padding}, dilation {dilation}"
        )
    if size + 2 * padding < span:
        raise ShapeError(
            f"window of span {span} does not fit an axis of size {size} padded by {padding}"
        )
    return positions(size, kernel, stride, padding, dilation)


def positions(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Those of a window that fits, which is known of types that were checked: a kernel with an open
    size does not know what its graph's guards say of that."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _windows_shape(
    types: Types, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    x, fill = types
    lead, size, taps = _split(x.shape, len(kernel), "windows", x)
    if taps != kernel or fill.shape != ():
        raise ShapeError(f"windows of {x}: the last axes are not the kernel {list(kernel)}")
    return (*lead, *map(window_count, size, kernel, stride, padding, dilation), *kernel)


def _split(shape: Shape, count: int, op: str, type: Any) -> tuple[Shape, Shape, Shape]:
    """Leading axes, the axes windows slide over, the taps."""
    if len(shape) < 2 * count:
        raise ShapeError(f"{op} of {type}: needs {count} axes and {count} of taps")
    lead = len(shape) - 2 * count
    return shape[:lead], shape[lead : lead + count], shape[lead + count :]


def _windows_cases(
    index: Index, types: Types, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[Case, Case]:
    lead, size, _ = _split(types[0].shape, len(kernel), "windows", types[0])
    coordinates, guards = list(index[: len(lead)]), []
    for axis, dim in enumerate(size):
        position, tap = index[len(lead) + axis], index[len(lead) + len(size) + axis]
        moved = position * stride[axis] + tap * dilation[axis] - padding[axis]
        coordinates.append(moved)
        guards.append((moved, 0, dim))
    coordinates += index[len(lead) + len(size) :]
    return Case(0, tuple(coordinates), tuple(guards)), Case(1, ())


def _tap_places(
    taps: Shape, stride: Shape, padding: Shape, dilation: Shape, counts: Shape, size: Shape
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """For one tap: the positions that fall inside the axes, and the places they fall on."""
    positions, places = [], []
    for t, s, p, d, n, dim in zip(taps, stride, padding, dilation, counts, size, strict=True):
        offset = t * d - p
        first = max(0, -(offset // s))
        last = min(n - 1, (dim - 1 - offset) // s)
        count = max(last - first + 1, 0)
        start = first * s + offset
        positions.append(slice(first, first + count))
        places.append(slice(start, start + (count - 1) * s + 1, s) if count else slice(0, 0))
    return tuple(positions), tuple(places)


def _windows_view(
    x: Any, fill: Any, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Any:
    lead, size, _ = _split(x.shape, len(kernel), "windows", x)
    counts = tuple(map(window_count, size, kernel, stride, padding, dilation))
    out = np.full((*lead, *counts, *kernel), fill, x.dtype)
    for taps in np.ndindex(*kernel):
        positions, places = _tap_places(taps, stride, padding, dilation, counts, size)
        out[(..., *positions, *taps)] = x[(..., *places, *taps)]
    return out


def _windows_vjp(g: Any, out: Any, x: Any, fill: Any, **window: Shape) -> tuple[Any, Any]:
    _, size, _ = _split(x.shape, len(window["kernel"]), "windows", x)

    def inner() -> Any:
        return unwindows(g, lift(0, g), size=size, **window)

    return inner, lambda: rest_of(g, inner())


windows = Movement(
    "windows",
    _windows_shape,
    _windows_cases,
    _windows_view,
    arity=2,
    vjp=_windows_vjp,
    samples=lambda m: [
        m(m.normal(2, 6, 7, 2, 2), m.normal(), **_window((2, 2), (2, 2), (0, 0), (1, 1))),
        m(m.normal(5, 5, 3, 3), m.normal(), **_window((3, 3), (1, 2), (1, 1), (1, 1))),
        m(m.normal(9, 3), m.normal(), **_window((3,), (2,), (2,), (2,))),
        m(m.normal(2, 20, 3), m.normal(), **_window((3,), (1,), (1,), (1,))),
    ],
)


def _window(kernel: Shape, stride: Shape, padding: Shape, dilation: Shape) -> dict[str, Shape]:
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}


def _unwindows_shape(
    types: Types, *, size: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    x, fill = types
    lead, counts, taps = _split(x.shape, len(kernel), "unwindows", x)
    expected = tuple(map(window_count, size, kernel, stride, padding, dilation))
    if counts != expected or taps != kernel or fill.shape != ():
        raise ShapeError(f"unwindows of {x}: expected windows {[*expected, *kernel]}")
    return (*lead, *size, *kernel)


def _unwindows_cases(
    index: Index, types: Types, *, size: Shape, kernel: Shape, stride: Shape, padding: Shape,
    dilation: Shape,
) -> tuple[Case, Case]:  # fmt: skip
    lead, counts, _ = _split(types[0].shape, len(kernel), "unwindows", types[0])
    coordinates, guards = list(index[: len(lead)]), []
    for axis, count in enumerate(counts):
        place, tap = index[len(lead) + axis], index[len(lead) + len(counts) + axis]
        moved = place + padding[axis] - tap * dilation[axis]
        if stride[axis] > 1:
            guards.append((moved % stride[axis], 0, 1))
            moved = moved // stride[axis]
        guards.append((moved, 0, count))
        coordinates.append(moved)
    coordinates += index[len(lead) + len(counts) :]
    return Case(0, tuple(coordinates), tuple(guards)), Case(1, ())


def _unwindows_view(
    x: Any, fill: Any, *, size: Shape, kernel: Shape, stride: Shape, padding: Shape,
    dilation: Shape,
) -> Any:  # fmt: skip
    lead, counts, _ = _split(x.shape, len(kernel), "unwindows", x)
    out = np.full((*lead, *size, *kernel), fill, x.dtype)
    for taps in np.ndindex(*kernel):
        positions, places = _tap_places(taps, stride, padding, dilation, counts, size)
        out[(..., *places, *taps)] = x[(..., *positions, *taps)]
    return out


def _unwindows_vjp(
    g: Any, out: Any, x: Any, fill: Any, *, size: Shape, **window: Shape
) -> tuple[Any, Any]:
    def inner() -> Any:
        return windows(g, lift(0, g), **window)

    return inner, lambda: rest_of(g, inner())


unwindows = Movement(
    "unwindows",
    _unwindows_shape,
    _unwindows_cases,
    _unwindows_view,
    arity=2,
    vjp=_unwindows_vjp,
    samples=lambda m: [
        m(m.normal(2, 3, 3, 2, 2), m.normal(), size=(6, 7),
          **_window((2, 2), (2, 2), (0, 0), (1, 1))),
        m(m.normal(5, 3), m.normal(), size=(9,), **_window((3,), (2,), (2,), (2,))),
    ],
)  # fmt: skip
