"""Contractions: matrix product and convolution, with the two adjoints that convolution needs.

The three convolutions are bilinear and closed under differentiation: the gradient of each is made
of the other two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, ShapeError
from graphc.ir.handle import cast_to
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.contract import Contract, Space
from graphc.ops.kinds.movement import Case
from graphc.ops.kinds.numpy_convolution import (
    conv_compute,
    input_grad_compute,
    position_counts,
    weight_grad_compute,
)
from graphc.ops.kinds.op import FLOATS, NUMBERS, SampleDrawer, Types
from graphc.ops.movement import transpose
from graphc.ops.windows import positions

Index = tuple[Any, ...]


# -- matrix product ------------------------------------------------------------------------------


def _matmul_shape(types: Types) -> Shape:
    x, y = types
    fits = x.rank >= 2 and x.rank == y.rank and x.shape[:-2] == y.shape[:-2]
    if not fits or x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul of {x} and {y}: shapes cannot be multiplied",
            hint="the last axis of the first must equal the second-last of the second",
        )
    return (*x.shape[:-1], y.shape[-1])


def swapped(x: Any) -> Any:
    """Matrices transposed."""
    rank = len(x.shape)
    return transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


matmul: Contract = Contract(
    "matmul",
    _matmul_shape,
    space=lambda types: Space(
        types[0].shape[:-2], types[0].shape[-2:-1], types[1].shape[-1:], types[0].shape[-1:]
    ),
    left=lambda b, m, k, types: Case(0, (*b, *m, *k)),
    right=lambda b, n, k, types: Case(1, (*b, *k, *n)),
    out=lambda b, m, n, types: (*b, *m, *n),
    compute=np.matmul,
    dtypes=NUMBERS,
    vjp=lambda g, out, x, y: (lambda: matmul(g, swapped(y)), lambda: matmul(swapped(x), g)),
    samples=lambda m: [
        m(m.normal(3, 4), m.normal(4, 5)), m(m.normal(2, 3, 4), m.normal(2, 4, 5)),
        m(m.normal(1, 7), m.normal(7, 1)), m(m.normal(0, 3), m.normal(3, 2)),
        m(m.normal(3, 0), m.normal(0, 2)), m(m.normal(17, 33), m.normal(33, 50)),
        m(m.normal(2, 2, 1, 3), m.normal(2, 2, 3, 18)), m(m.normal(5, 600), m.normal(600, 3)),
    ],
)  # fmt: skip


def _paired_vjp(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    short = cast_to(g, x.dtype)
    return (
        lambda: cast_to(paired_matmul(short, swapped(y)), x.dtype),
        lambda: cast_to(paired_matmul(swapped(x), short), y.dtype),
    )


paired_matmul: Contract = Contract(
    "paired_matmul",
    _matmul_shape,
    space=matmul.space,
    left=matmul.left,
    right=matmul.right,
    out=matmul.out,
    compute=np.matmul,
    dtypes=(*FLOATS, DType.f16, DType.bf16),
    pairs=True,
    vjp=_paired_vjp,
    samples=matmul.samples,
)
"""The matrix product of f16 or bf16, summed in f32 as instructions for pairs of bf16 sum."""


def _tree_shape(types: Types, *, chains: int) -> Shape:
    if chains < 1 or chains & (chains - 1):
        raise AttributeValueError(f"tree_matmul: {chains} chains", hint="a power of two")
    shape = _matmul_shape(types)
    if types[0].rank != 2:
        raise ShapeError(f"tree_matmul of {types[0]} and {types[1]}: takes matrices")
    if types[0].shape[-1] % chains != 0:
        raise ShapeError(f"tree_matmul of {types[0]} and {types[1]}: no {chains} equal chains")
    return shape


def _tree_product(x: Any, y: Any, chains: int) -> Any:
    rows, depth = x.shape
    lefts = x.reshape(rows, chains, depth // chains).swapaxes(0, 1)
    sums = np.matmul(lefts, y.reshape(chains, depth // chains, y.shape[1]))
    while len(sums) > 1:
        sums = sums[::2] + sums[1::2]
    return sums[0]


tree_matmul: Contract = Contract(
    "tree_matmul",
    _tree_shape,
    space=lambda types, chains: matmul.space(types),
    left=lambda b, m, k, types, chains: Case(0, (*m, *k)),
    right=lambda b, n, k, types, chains: Case(1, (*k, *n)),
    out=lambda b, m, n, types, chains: (*m, *n),
    compute=_tree_product,
    dtypes=NUMBERS,
    chains=True,
    vjp=lambda g, out, x, y, chains: (
        lambda: matmul(g, swapped(y)), lambda: matmul(swapped(x), g)
    ),
    samples=lambda m: [
        m(m.normal(3, 8), m.normal(8, 5), chains=4), m(m.normal(1, 6), m.normal(6, 1), chains=2),
        m(m.normal(17, 32), m.normal(32, 50), chains=8),
        m(m.normal(0, 4), m.normal(4, 2), chains=4), m(m.normal(3, 0), m.normal(0, 2), chains=4),
        m(m.normal(5, 1200), m.normal(1200, 3), chains=2),
        m(m.normal(2, 3), m.normal(3, 4), chains=1),
    ],
)  # fmt: skip
"""The matrix product [m, k] by [k, n] that sums k in so many `chains` of equal length, and adds
their sums as a binary tree: what a tree of additions makes of as many products."""


def _integer_product(x: Any, y: Any) -> Any:
    """The product of i32 that hold bytes, modulo 2^32. Sums of less than 2^38 products of bytes are
    exact in f64, and BLAS multiplies no integers."""
    wide = np.matmul(x.astype(np.float64), y.astype(np.float64))
    return wide.astype(np.int64).astype(np.int32)


int_matmul: Contract = Contract(
    "int_matmul",
    _matmul_shape,
    space=matmul.space,
    left=matmul.left,
    right=matmul.right,
    out=matmul.out,
    compute=_integer_product,
    dtypes=(DType.i8, DType.u8),
    right_dtypes=(DType.i8,),
    vjp=None,
    samples=lambda m: [
        m(m.bytes(*x), m.bytes(*y))
        for x, y in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 7), (7, 1)), ((0, 3), (3, 2)),
                     ((3, 0), (0, 2)), ((17, 33), (33, 50)), ((5, 600), (600, 3)))
    ],
)  # fmt: skip
"""The matrix product of i8 or u8 with i8, in i32, modulo 2^32. It can wrap from 131,072 products
on, those of u8 from 65,794 on."""


# -- convolution ---------------------------------------------------------------------------------
# x: [N, C, *size], w: [O, C/groups, *kernel], result: [N, O, *positions]. Any number of axes.


def _check_channels(x: Shape, w: Shape, groups: int) -> None:
    if groups < 1 or x[1] % groups or w[0] % groups:
        raise ShapeError(f"convolution: {groups} groups do not divide {x[1]} and {w[0]} channels")
    if x[1] // groups != w[1]:
        raise ShapeError(
            f"convolution of input {list(x)} with weight {list(w)}, {groups} groups: "
            f"expected {w[1] * groups} input channels, got {x[1]}"
        )


def _conv_shape(types: Types, *, stride: Shape, padding: Shape, dilation: Shape, groups: int
                ) -> Shape:  # fmt: skip
    x, w = types[0].shape, types[1].shape
    if len(x) != len(w) or len(x) < 3:
        raise ShapeError(f"convolution of {types[0]} with {types[1]}: ranks differ or are below 3")
    _check_channels(x, w, groups)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation}
    return (x[0], w[0], *position_counts(x[2:], w[2:], geometry))


def _input_grad_shape(
    types: Types, *, size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Shape:
    g, w = types[0].shape, types[1].shape
    result = (g[0], w[1] * groups, *size)
    _check_channels(result, w, groups)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation}
    if g != (g[0], w[0], *position_counts(size, w[2:], geometry)):
        raise ShapeError(f"conv_input_grad: {types[0]} is no result for {types[1]}, {list(size)}")
    return result


def _weight_grad_shape(
    types: Types, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Shape:
    x, g = types[0].shape, types[1].shape
    result = (g[1], x[1] // groups, *kernel)
    _check_channels(x, result, groups)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation}
    if g != (x[0], g[1], *position_counts(x[2:], kernel, geometry)):
        raise ShapeError(f"conv_weight_grad: {types[1]} is no result for {types[0]}, {kernel}")
    return result


def _tap_case(
    operand: int, lead: Index, position: Index, tap: Index, size: Shape, geometry: dict[str, Any]
) -> Case:
    """x at the element that `tap` of the window at `position` reads."""
    moved = tuple(
        p * s + t * d - pad
        for p, t, s, d, pad in zip(
            position, tap, geometry["stride"], geometry["dilation"], geometry["padding"],
            strict=True,
        )
    )  # fmt: skip
    guards = tuple((i, 0, dim) for i, dim in zip(moved, size, strict=True))
    return Case(operand, (*lead, *moved), guards)


def _back_case(lead: Index, place: Index, tap: Index, counts: Shape, geometry: dict[str, Any]
               ) -> Case:  # fmt: skip
    """g at the window whose `tap` reads the element at `place`."""
    coordinates, guards = [], []
    for i, t, n, s, d, pad in zip(
        place, tap, counts, geometry["stride"], geometry["dilation"], geometry["padding"],
        strict=True,
    ):  # fmt: skip
        moved = i + pad - t * d
        if s > 1:
            guards.append((moved % s, 0, 1))
            moved = moved // s
        guards.append((moved, 0, n))
        coordinates.append(moved)
    return Case(0, (*lead, *coordinates), tuple(guards))


def geometry_of(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes that all three ops of a convolution have."""
    return {name: attributes[name] for name in ("stride", "padding", "dilation", "groups")}


def _conv_vjp(g: Any, out: Any, x: Any, w: Any, **attributes: Any) -> tuple[Any, Any]:
    return (
        lambda: conv_input_grad(g, w, size=x.shape[2:], **attributes),
        lambda: conv_weight_grad(x, g, kernel=w.shape[2:], **attributes),
    )


def _input_grad_vjp(h: Any, out: Any, g: Any, w: Any, **attributes: Any) -> tuple[Any, Any]:
    geometry = geometry_of(attributes)
    return (
        lambda: conv(h, w, **geometry),
        lambda: conv_weight_grad(h, g, kernel=w.shape[2:], **geometry),
    )


def _weight_grad_vjp(h: Any, out: Any, x: Any, g: Any, **attributes: Any) -> tuple[Any, Any]:
    geometry = geometry_of(attributes)
    return (
        lambda: conv_input_grad(g, h, size=x.shape[2:], **geometry),
        lambda: conv(x, h, **geometry),
    )


conv = Contract(
    "conv",
    _conv_shape,
    space=lambda types, stride, padding, dilation, groups: Space(
        (types[0].shape[0], groups),
        (types[1].shape[0] // groups,),
        tuple(map(positions, types[0].shape[2:], types[1].shape[2:], stride, padding, dilation)),
        types[1].shape[1:],
    ),
    left=lambda b, m, k, types, groups, **_: Case(
        1, (b[1] * (types[1].shape[0] // groups) + m[0], *k)
    ),
    right=lambda b, n, k, types, groups, **geometry: _tap_case(
        0, (b[0], b[1] * types[1].shape[1] + k[0]), n, k[1:], types[0].shape[2:], geometry
    ),
    out=lambda b, m, n, types, groups, **_: (
        b[0], b[1] * (types[1].shape[0] // groups) + m[0], *n
    ),
    compute=conv_compute,
    dtypes=NUMBERS,
    vjp=_conv_vjp,
    samples=lambda m: _conv_samples(m),
)  # fmt: skip

conv_input_grad = Contract(
    "conv_input_grad",
    _input_grad_shape,
    space=lambda types, size, groups, **_: Space(
        (types[0].shape[0], groups),
        (types[1].shape[1],),
        size,
        (types[1].shape[0] // groups, *types[1].shape[2:]),
    ),
    left=lambda b, m, k, types, groups, **_: Case(
        1, (b[1] * (types[1].shape[0] // groups) + k[0], m[0], *k[1:])
    ),
    right=lambda b, n, k, types, groups, **geometry: _back_case(
        (b[0], b[1] * (types[1].shape[0] // groups) + k[0]),
        n,
        k[1:],
        types[0].shape[2:],
        geometry,
    ),
    out=lambda b, m, n, types, **_: (b[0], b[1] * types[1].shape[1] + m[0], *n),
    phases=lambda types, stride, **_: stride,
    compute=input_grad_compute,
    dtypes=NUMBERS,
    vjp=_input_grad_vjp,
    samples=lambda m: _input_grad_samples(m),
)

conv_weight_grad = Contract(
    "conv_weight_grad",
    _weight_grad_shape,
    space=lambda types, kernel, groups, **_: Space(
        (groups,),
        (types[1].shape[1] // groups,),
        (types[0].shape[1] // groups, *kernel),
        (types[1].shape[0], *types[1].shape[2:]),
    ),
    left=lambda b, m, k, types, groups, **_: Case(
        1, (k[0], b[0] * (types[1].shape[1] // groups) + m[0], *k[1:])
    ),
    right=lambda b, n, k, types, groups, **geometry: _tap_case(
        0, (k[0], b[0] * (types[0].shape[1] // groups) + n[0]), k[1:], n[1:],
        types[0].shape[2:], geometry,
    ),
    out=lambda b, m, n, types, groups, **_: (b[0] * (types[1].shape[1] // groups) + m[0], *n),
    compute=weight_grad_compute,
    dtypes=FLOATS,
    vjp=_weight_grad_vjp,
    samples=lambda m: _weight_grad_samples(m),
)  # fmt: skip

# Sample geometries: (x, w, stride, padding, dilation, groups).
_GEOMETRIES: list[tuple[Shape, Shape, Shape, Shape, Shape, int]] = [
    ((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 4, 7, 6), (6, 2, 3, 2), (2, 1), (0, 1), (1, 2), 2),
    ((2, 3, 4, 4), (3, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((2, 2, 9), (3, 2, 3), (2,), (2,), (2,), 1),
    ((1, 2, 4, 20), (17, 2, 1, 1), (1, 1), (0, 0), (1, 1), 1),
]


def _attributes(stride: Shape, padding: Shape, dilation: Shape, groups: int) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _conv_samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(*x), m.normal(*w), **_attributes(s, p, d, groups))
        for x, w, s, p, d, groups in _GEOMETRIES
    ]


def _positions(x: Shape, w: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Shape:
    return position_counts(x[2:], w[2:], _attributes(stride, padding, dilation, 1))


def _input_grad_samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(x[0], w[0], *_positions(x, w, s, p, d)), m.normal(*w), size=x[2:],
          **_attributes(s, p, d, groups))
        for x, w, s, p, d, groups in _GEOMETRIES
    ]  # fmt: skip


def _weight_grad_samples(m: SampleDrawer) -> list[Any]:
    return [
        m(m.normal(*x), m.normal(x[0], w[0], *_positions(x, w, s, p, d)), kernel=w[2:],
          **_attributes(s, p, d, groups))
        for x, w, s, p, d, groups in _GEOMETRIES
    ]  # fmt: skip
