"""Functions of floats that NumPy computes element by element: neighbours, mantissas and exponents,
incomplete gamma functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.incomplete_gamma import incomplete_gamma
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.op import FLOATS

Array = np.ndarray[Any, Any]


def _alike(x: TensorType, *others: TensorType) -> TensorType:
    if x.dtype not in FLOATS:
        raise DTypeError(f"floats of 32 or 64 bits wanted, not {x}")
    if any(other != x for other in others):
        raise ShapeError(f"operands of one type wanted, not {x} and {others[0]}")
    return x


def _frexp(x: Array) -> tuple[Array, Array]:
    mantissas, exponents = np.frexp(x)
    return np.asarray(mantissas), np.asarray(exponents, np.int32)


nextafter = Host(
    "nextafter", lambda x, y: np.asarray(np.nextafter(x, y)), _alike, cost=20,
    exempt={"gradient": "the step to the neighbour has none"},
    samples=lambda m: [m(np.float32(x), np.float32(x)) for x in (m.normal(3, 4), 0.0, m.normal(0))],
)  # fmt: skip
frexp = Host(
    "frexp", _frexp, lambda x: (_alike(x), TensorType(DType.i32, x.shape)), cost=10,
    samples=lambda m: [m(m.normal(3, 4)), m(np.zeros(())), m(np.array([np.inf, -np.inf, 0.5]))],
)  # fmt: skip
igamma = Host(
    "igamma", lambda a, x: incomplete_gamma(a, x)[0].astype(a.dtype), _alike, cost=2000, ulps=32,
    samples=lambda m: [m(m.positive(3, 4), m.positive(3, 4)), m(m.positive(), m.positive())],
)  # fmt: skip
igammac = Host(
    "igammac", lambda a, x: incomplete_gamma(a, x)[1].astype(a.dtype), _alike, cost=2000, ulps=32,
    samples=lambda m: [m(m.positive(3, 4), m.positive(3, 4)), m(m.positive(0), m.positive(0))],
)  # fmt: skip
