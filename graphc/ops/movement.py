"""Movement ops: index maps. Each result element is one operand element, or a fill."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.dims import Extent, always_le, always_lt, exact_quotient, is_symbolic
from graphc.ir.handle import lift, sum_to
from graphc.ir.size_guards import equal
from graphc.ir.types import Shape, row_major_strides
from graphc.ir.undecided import answers_now
from graphc.ops.kinds.movement import Case, Movement
from graphc.ops.kinds.op import Types

Index = tuple[Any, ...]


# -- reshape -------------------------------------------------------------------------------------


def _reshape_shape(types: Types, *, shape: Shape) -> Shape:
    if not equal(math.prod(shape), types[0].numel) or any(dim < 0 for dim in shape):
        raise ShapeError(f"reshape of {types[0]} to {list(shape)}: the element counts differ")
    return shape


def _reshape_cases(index: Index, types: Types, *, shape: Shape) -> tuple[Case]:
    """Neighbouring axes that hold the same elements in both shapes are mapped by themselves, not by
    way of the flat position: a coordinate that only guards keep in range stays as it is."""
    source = types[0].shape
    coordinates: list[Any] = [0] * len(source)
    for written, read in same_elements(shape, source):
        flat: Any = 0
        for axis in written:
            flat = flat * shape[axis] + index[axis]
        sizes = tuple(source[axis] for axis in read)
        for axis, dim, stride in zip(read, sizes, row_major_strides(sizes), strict=True):
            quotient = flat // stride if stride != 0 else flat
            coordinates[axis] = quotient if axis == read[0] or dim == 0 else quotient % dim
    return (Case(0, tuple(coordinates)),)


def same_elements(left: Shape, right: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """The axes of two shapes in the smallest groups of one size; those of size 1 are in none."""
    here = [axis for axis, dim in enumerate(left) if dim != 1]
    there = [axis for axis, dim in enumerate(right) if dim != 1]
    if 0 in left:
        yield here, there
        return
    while here:
        group, others = [here.pop(0)], [there.pop(0)]
        size, other = left[group[0]], right[others[0]]
        while size != other and (here or there):  # none are left of sizes equal by a guard alone
            if here and (not there or _is_part(size, other, bool(here))):
                group.append(here.pop(0))
                size *= left[group[-1]]
            else:
                others.append(there.pop(0))
                other *= right[others[-1]]
        yield group, others


def _is_part(size: Extent, other: Extent, more: bool) -> bool:
    """Whether the group that has `size` elements so far is to grow, rather than that which has
    `other`. Of sizes known only at run time the one that divides; where none does, that which can,
    up to all axes of both."""
    if isinstance(size, int) and isinstance(other, int):
        return size < other
    if exact_quotient(size, other) is not None:
        return False
    return more or exact_quotient(other, size) is not None


reshape: Movement = Movement(
    "reshape",
    _reshape_shape,
    _reshape_cases,
    lambda x, *, shape: x.reshape(shape),
    vjp=lambda g, out, x, *, shape: (reshape(g, shape=x.shape),),
    samples=lambda m: [
        m(m.normal(2, 6), shape=(3, 4)), m(m.normal(24), shape=(2, 3, 4)),
        m(m.normal(2, 3, 4), shape=(24,)), m(m.normal(1), shape=()), m(m.normal(), shape=(1, 1)),
        m(m.normal(0, 3), shape=(5, 0)), m(m.normal(4, 6), shape=(3, 8)),
        m(m.normal(6, 35), shape=(14, 15)),
    ],
)  # fmt: skip


# -- transpose -----------------------------------------------------------------------------------


def _transpose_shape(types: Types, *, permutation: Shape) -> Shape:
    if sorted(permutation) != list(range(types[0].rank)):
        raise ShapeError(f"transpose of {types[0]} by {list(permutation)}: no permutation")
    return tuple(types[0].shape[axis] for axis in permutation)


def inverse_permutation(permutation: Shape) -> Shape:
    """The permutation that undoes this one."""
    return tuple(permutation.index(axis) for axis in range(len(permutation)))


transpose: Movement = Movement(
    "transpose",
    _transpose_shape,
    lambda index, types, *, permutation: (
        Case(0, tuple(index[axis] for axis in inverse_permutation(permutation))),
    ),
    lambda x, *, permutation: x.transpose(permutation),
    vjp=lambda g, out, x, *, permutation: (
        transpose(g, permutation=inverse_permutation(permutation)),
    ),
    samples=lambda m: [
        m(m.normal(3, 5), permutation=(1, 0)), m(m.normal(2, 3, 4), permutation=(2, 0, 1)),
        m(m.normal(), permutation=()), m(m.normal(0, 2), permutation=(1, 0)),
        m(m.normal(20, 37), permutation=(1, 0)),
    ],
)  # fmt: skip


# -- broadcast -----------------------------------------------------------------------------------


def _broadcast_shape(types: Types, *, shape: Shape) -> Shape:
    source = types[0].shape
    tail = shape[len(shape) - len(source) :] if len(source) <= len(shape) else ()
    if len(source) > len(shape) or any(s not in (1, d) for s, d in zip(source, tail, strict=True)):
        raise ShapeError(f"{types[0]} does not broadcast to {list(shape)}")
    return shape


def _broadcast_cases(index: Index, types: Types, *, shape: Shape) -> tuple[Case]:
    source = types[0].shape
    tail = index[len(shape) - len(source) :]
    return (Case(0, tuple(i * 0 if dim == 1 else i for i, dim in zip(tail, source, strict=True))),)


def _broadcast_view(x: np.ndarray, *, shape: Shape) -> np.ndarray:
    """What repeats nothing can be written to as its operand can; else writing is ambiguous."""
    lead = len(shape) - x.ndim
    if shape == (1,) * lead + x.shape:
        return x[(None,) * lead]
    if lead < 0 or not x.flags.c_contiguous or x.dtype.isbuiltin != 1:
        return np.broadcast_to(x, shape)
    # np.broadcast_to, which makes an iterator of it, takes several times as long.
    strides = (0,) * lead
    for size, wanted, step in zip(x.shape, shape[lead:], x.strides):
        if size != wanted and size != 1:
            raise ValueError(f"an array of shape {x.shape} does not broadcast to {shape}")
        strides += (step if size == wanted else 0,)
    view: np.ndarray = np.ndarray(shape, x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view


broadcast = Movement(
    "broadcast",
    _broadcast_shape,
    _broadcast_cases,
    _broadcast_view,
    vjp=lambda g, out, x, *, shape: (sum_to(g, x.shape),),
    samples=lambda m: [
        m(m.normal(5), shape=(3, 5)), m(m.normal(3, 1), shape=(3, 5)), m(m.normal(), shape=(2, 2)),
        m(m.normal(1, 4), shape=(2, 3, 4)), m(m.normal(3), shape=(3,)), m(m.normal(1), shape=(0,)),
        m(m.normal(2, 1, 3), shape=(2, 20, 3)),
    ],
)  # fmt: skip


# -- saved ---------------------------------------------------------------------------------------

saved = Movement(
    "saved",
    lambda types: types[0].shape,
    lambda index, types: (Case(0, index),),
    lambda x: x,
    vjp=lambda g, out, x: (g,),
    samples=lambda m: [m(m.normal(2, 3)), m(m.normal()), m(m.normal(0, 2))],
)  # fmt: skip
"""Its operand, kept from forward to backward: what backward computes from it again is told from
what forward computed (graphc.passes.recompute)."""


# -- slice ---------------------------------------------------------------------------------------


def _slice_shape(types: Types, *, start: Shape, size: Shape, step: Shape) -> Shape:
    source = types[0].shape
    if not len(start) == len(size) == len(step) == len(source):
        raise ShapeError(f"slice of {types[0]}: start, size and step need one item per axis")
    for dim, first, count, stride in zip(source, start, size, step, strict=True):
        last = first + (count - 1) * stride
        if stride == 1 and is_symbolic((dim, first, count)):
            inside = _holds(0, first) and _holds(0, count) and _holds(first + count, dim)
        else:
            inside = count >= 0 and (equal(count, 0) or (0 <= first < dim and 0 <= last < dim))
        if stride == 0 or not inside:
            raise ShapeError(
                f"slice of {types[0]}: start {first}, size {count}, step {stride} leave the axis"
            )
    return size


def _holds(a: Extent, b: Extent) -> bool:
    """Whether a <= b: always, or in the example that answers."""
    return always_le(a, b) or (answers_now() is not None and a <= b)


def _slice_view(x: Any, *, start: Shape, size: Shape, step: Shape) -> Any:
    slices = []
    for first, count, stride in zip(start, size, step, strict=True):
        stop: int | None = first + count * stride
        if count == 0:
            slices.append(slice(0, 0))
            continue
        slices.append(slice(first, stop if stop is None or stop >= 0 else None, stride))
    return x[tuple(slices)]


def _slice_vjp(g: Any, out: Any, x: Any, *, start: Shape, size: Shape, step: Shape) -> tuple[Any]:
    rank = len(size)
    # A backward step is a forward one with the gradient flipped.
    if any(stride < 0 for stride in step):
        g = slice_(
            g,
            start=tuple(max(n - 1, 0) if s < 0 else 0 for n, s in zip(size, step, strict=True)),
            size=size,
            step=tuple(-1 if s < 0 else 1 for s in step),
        )
    low, high, interior = [], [], []
    for axis in range(rank):
        first, count, stride = start[axis], size[axis], step[axis]
        if equal(count, 0):
            # Of no elements: all are padding. `count` may be a size that is 0 only here.
            low.append(x.shape[axis] - count)
            high.append(0)
            interior.append(0)
            continue
        last = first + (count - 1) * stride
        least, greatest = (last, first) if stride < 0 else (first, last)
        low.append(least)
        high.append(x.shape[axis] - 1 - greatest)
        interior.append(-stride - 1 if stride < 0 else stride - 1)
    zero = lift(0, g)
    return (pad(g, zero, low=tuple(low), high=tuple(high), interior=tuple(interior)),)


slice_ = Movement(
    "slice",
    _slice_shape,
    lambda index, types, *, start, size, step: (
        Case(0, tuple(i * s + a for i, a, s in zip(index, start, step, strict=True))),
    ),
    _slice_view,
    vjp=_slice_vjp,
    samples=lambda m: [
        m(m.normal(5, 7), start=(1, 2), size=(3, 4), step=(1, 1)),
        m(m.normal(9), start=(1,), size=(3,), step=(3,)),
        m(m.normal(4, 3), start=(3, 0), size=(4, 3), step=(-1, 1)),
        m(m.normal(9), start=(8,), size=(4,), step=(-2,)),
        m(m.normal(4), start=(0,), size=(0,), step=(1,)), m(m.normal(), start=(), size=(), step=()),
        m(m.normal(3, 50), start=(0, 7), size=(3, 41), step=(1, 1)),
    ],
)  # fmt: skip


# -- pad -----------------------------------------------------------------------------------------


def _pad_shape(types: Types, *, low: Shape, high: Shape, interior: Shape) -> Shape:
    x, fill = types
    if not len(low) == len(high) == len(interior) == x.rank or fill.shape != ():
        raise ShapeError(f"pad of {x} with {fill}: one item per axis, and a 0-d fill")
    if any(n < 0 for n in (*low, *high, *interior)):
        raise AttributeValueError("pad takes no negative padding", hint="slice")
    return tuple(
        a + b + _with_gaps(d, i) for a, b, d, i in zip(low, high, x.shape, interior, strict=True)
    )


def _with_gaps(dim: int, gap: int) -> int:
    """An axis with so many elements between every two."""
    if gap == 0 or (not isinstance(dim, int) and always_lt(0, dim)):
        return dim + (dim - 1) * gap
    return dim + max(dim - 1, 0) * gap


def _pad_cases(
    index: Index, types: Types, *, low: Shape, high: Shape, interior: Shape
) -> tuple[Case, Case]:
    coordinates, guards = [], []
    for i, before, dim, gap in zip(index, low, types[0].shape, interior, strict=True):
        moved = i - before
        guards.append((moved, 0, _with_gaps(dim, gap)))
        if gap:
            guards.append((moved % (gap + 1), 0, 1))
            moved = moved // (gap + 1)
        coordinates.append(moved)
    return Case(0, tuple(coordinates), tuple(guards)), Case(1, ())


def _pad_view(x: Any, fill: Any, *, low: Shape, high: Shape, interior: Shape) -> Any:
    shape = tuple(
        a + b + d + max(d - 1, 0) * i
        for a, b, d, i in zip(low, high, x.shape, interior, strict=True)
    )
    out = np.full(shape, fill, x.dtype)
    out[
        tuple(
            slice(a, a + max(d + (d - 1) * i, 0), i + 1)
            for a, d, i in zip(low, x.shape, interior, strict=True)
        )
    ] = x
    return out


def rest_of(g: Any, inner: Any) -> Any:
    """The part of a gradient that fell on the fill: all of it less what went to the operand."""
    return sum_to(g, ()) - sum_to(inner, ())


def _pad_vjp(
    g: Any, out: Any, x: Any, fill: Any, *, low: Shape, high: Shape, interior: Shape
) -> tuple[Any, Any]:
    inner = slice_(g, start=low, size=x.shape, step=tuple(gap + 1 for gap in interior))
    return inner, lambda: rest_of(g, inner)


pad = Movement(
    "pad",
    _pad_shape,
    _pad_cases,
    _pad_view,
    arity=2,
    vjp=_pad_vjp,
    samples=lambda m: [
        m(m.normal(2, 3), m.normal(), low=(1, 0), high=(0, 2), interior=(0, 0)),
        m(m.normal(4), m.normal(), low=(1,), high=(2,), interior=(2,)),
        m(m.normal(), m.normal(), low=(), high=(), interior=()),
        m(m.normal(0), m.normal(), low=(1,), high=(2,), interior=(0,)),
        m(m.normal(3, 20), m.normal(), low=(0, 3), high=(0, 14), interior=(1, 0)),
    ],
)  # fmt: skip


# -- concat --------------------------------------------------------------------------------------


def _concat_shape(types: Types, *, axis: int) -> Shape:
    first = types[0].shape
    if not 0 <= axis < len(first):
        raise ShapeError(f"concat: axis {axis} is out of range for {types[0]}")
    for type in types:
        if type is types[0]:
            continue
        others = type.shape[:axis] + type.shape[axis + 1 :]
        if len(type.shape) != len(first) or others != first[:axis] + first[axis + 1 :]:
            listed = ", ".join(map(str, types))
            raise ShapeError(f"concat along axis {axis}: {listed} differ in another axis")
    return (*first[:axis], sum(type.shape[axis] for type in types), *first[axis + 1 :])


def _concat_cases(index: Index, types: Types, *, axis: int) -> tuple[Case, ...]:
    cases, start = [], 0
    for operand, type in enumerate(types):
        moved = index[axis] - start
        guards = ((moved, 0, type.shape[axis]),)
        cases.append(Case(operand, (*index[:axis], moved, *index[axis + 1 :]), guards))
        start += type.shape[axis]
    return tuple(cases)


def _concat_vjp(g: Any, out: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    gradients, start = [], 0
    for x in xs:
        first = tuple(start if a == axis else 0 for a in range(len(x.shape)))
        gradients.append(slice_(g, start=first, size=x.shape, step=(1,) * len(x.shape)))
        start += x.shape[axis]
    return tuple(gradients)


def joined(xs: tuple[Any, ...] | list[Any], axis: int) -> Any:
    """Arrays joined along an axis, row by row in memory: NumPy alone keeps the order of axes that
    the arrays have, which here only those with channels last do."""
    whole = np.concatenate(xs, axis)
    if whole.flags.c_contiguous or (
        whole.ndim in (4, 5) and np.moveaxis(whole, 1, -1).flags.c_contiguous
    ):
        return whole
    return np.ascontiguousarray(whole)


concat = Movement(
    "concat",
    _concat_shape,
    _concat_cases,
    lambda *xs, axis: joined(xs, axis),
    arity=None,
    vjp=_concat_vjp,
    samples=lambda m: [
        m(m.normal(2, 3), m.normal(2, 1), axis=1), m(m.normal(2, 3), axis=0),
        m(m.normal(2, 3), m.normal(0, 3), m.normal(4, 3), axis=0),
        m(m.normal(3, 20), m.normal(3, 30), axis=1), m(m.normal(2, 3), m.normal(2, 0), axis=1),
    ],
)  # fmt: skip
