"""Functions of floats that NumPy computes element by element: neighbours, mantissas and exponents,
incomplete gamma functions; the exclusive or of their bits; and how many lie in each of several
intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.op import FLOATS
from graphc.ops.scalar_functions.incomplete_gamma import incomplete_gamma

Array = np.ndarray[Any, Any]


def _alike(x: TensorType, *others: TensorType) -> TensorType:
    if x.dtype not in FLOATS:
        raise DTypeError(f"floats of 32 or 64 bits wanted, not {x}")
    return _of_one_type(x, *others)


def _of_one_type(x: TensorType, *others: TensorType) -> TensorType:
    if not x.dtype.is_float:
        raise DTypeError(f"floats wanted, not {x}")
    if any(other != x for other in others):
        raise ShapeError(f"operands of one type wanted, not {x} and {others[0]}")
    return x


def _frexp(x: Array) -> tuple[Array, Array]:
    mantissas, exponents = np.frexp(x)
    return np.asarray(mantissas), np.asarray(exponents, np.int32)


nextafter = Host(
    "nextafter", lambda x, y: np.asarray(np.nextafter(x, y)), _of_one_type, cost=20,
    exempt={"gradient": "the step to the neighbour has none"},
    samples=lambda m: [m(np.float32(x), np.float32(x)) for x in (m.normal(3, 4), 0.0, m.normal(0))],
)  # fmt: skip
frexp = Host(
    "frexp", _frexp, lambda x: (_alike(x), TensorType(DType.i32, x.shape)), cost=10,
    samples=lambda m: [m(m.normal(3, 4)), m(np.zeros(())), m(np.array([np.inf, -np.inf, 0.5]))],
)  # fmt: skip
igamma = Host(
    "igamma", lambda a, x: incomplete_gamma(a, x)[0].astype(a.dtype), _alike, cost=2000,
    samples=lambda m: [m(m.positive(3, 4), m.positive(3, 4)), m(m.positive(), m.positive())],
)  # fmt: skip
igammac = Host(
    "igammac", lambda a, x: incomplete_gamma(a, x)[1].astype(a.dtype), _alike, cost=2000,
    samples=lambda m: [m(m.positive(3, 4), m.positive(3, 4)), m(m.positive(0), m.positive(0))],
)  # fmt: skip

# -- bits ----------------------------------------------------------------------------------------


def _xor_of_bits(x: Array, *, axes: tuple[int, ...]) -> Array:
    bits = np.ascontiguousarray(x).view(np.uint64).reshape(x.shape)
    return np.asarray(np.bitwise_xor.reduce(bits, axis=axes)) if axes else bits.copy()


def _xor_type(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    if x.dtype not in (DType.f64, DType.i64):
        raise DTypeError(f"f64 or i64 wanted, not {x}")
    if any(not 0 <= axis < x.rank for axis in axes) or len(set(axes)) < len(axes):
        raise ShapeError(f"{x} has no axes {axes}")
    kept = [size for axis, size in enumerate(x.shape) if axis not in axes]
    return TensorType(DType.u64, tuple(kept))


xor_of_bits = Host(
    "xor_of_bits", _xor_of_bits, _xor_type, cost=2,
    samples=lambda m: [
        m(m.integers(9, 3, 4, 5, low=-9), axes=(0, 2)), m(m.integers(9, 3, 0), axes=(1,)),
        m(m.integers(9), axes=()),
    ],
    exempt={"gradient": "the result is a whole number"},
)  # fmt: skip
"""The exclusive or of the 64 bits of all elements along `axes`."""

# -- histograms ----------------------------------------------------------------------------------


def _edges(
    column: Array, *, bins: int, low: float | None, high: float | None
) -> tuple[Array, Array]:
    """`bins` + 1 edges over a range (by default that of the elements), and whether it is finite."""
    if low is None or high is None:
        edges = (column.min(), column.max()) if column.size else (0.0, 1.0)
        low, high = map(float, edges)
    finite = bool(np.isfinite(low) and np.isfinite(high))
    if not finite:
        return np.full(bins + 1, np.nan, column.dtype), np.asarray(False)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1, dtype=column.dtype), np.asarray(True)


def _edge_types(
    column: TensorType, *, bins: int, low: float | None, high: float | None
) -> tuple[TensorType, TensorType]:
    _alike(column)
    return TensorType(column.dtype, (bins + 1,)), TensorType(DType.bool, ())


def _histogram(points: Array, weights: Array, *edges: Array, density: bool) -> Array:
    """Sums of the weights of the points, [n, d], in the cells of a grid of d rows of edges."""
    sizes = [len(edge) - 1 for edge in edges]
    places = np.zeros(len(points), np.int64)
    inside = np.ones(len(points), bool)
    for column, edge, size in zip(points.T, edges, sizes):
        inside &= (column >= edge[0]) & (column <= edge[-1])
        index = np.searchsorted(edge, column, side="right") - 1
        places = places * size + np.clip(index, 0, size - 1)
    total = math.prod(sizes)
    counts = np.bincount(places[inside], weights[inside].astype(np.float64), minlength=total)
    counts = counts.reshape(sizes)
    if density:
        counts = counts / counts.sum()
        for axis, edge in enumerate(edges):
            shape = [-1 if i == axis else 1 for i in range(len(sizes))]
            counts = counts / np.diff(edge).reshape(shape)
    counted: Array = counts.astype(points.dtype)
    return counted


def _histogram_type(
    points: TensorType, weights: TensorType, *edges: TensorType, density: bool
) -> TensorType:
    _alike(points)
    if points.rank != 2 or points.shape[1] != len(edges) or weights.shape != points.shape[:1]:
        raise ShapeError(f"points {points} with weights {weights} over {len(edges)} edges")
    return TensorType(points.dtype, tuple(edge.shape[0] - 1 for edge in edges))


def _histogram_samples(m: Any) -> Any:
    edges = np.array([-1.0, -0.5, 0.0, 2.0])
    yield m(m.normal(9, 1), np.ones(9), edges, density=False)
    yield m(m.normal(9, 2), m.positive(9), edges, edges[:2], density=True)


histogram_edges = Host(
    "histogram_edges", _edges, _edge_types, cost=2,
    samples=lambda m: [
        m(m.normal(9), bins=4, low=None, high=None), m(m.normal(9), bins=2, low=0.0, high=1.0)
    ],
)  # fmt: skip
histogram = Host("histogram", _histogram, _histogram_type, cost=20, samples=_histogram_samples)
