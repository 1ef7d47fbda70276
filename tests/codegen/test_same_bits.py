"""Compiled graphs give the same bits on every target this machine runs: drawn graphs. (Samples of
the op table take turns with the targets in tests/test_op_table.py.) Plans are made for each target
anew, so tiles and layouts differ too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.target import executable

pytestmark = pytest.mark.skipif(len(executable()) < 2, reason="this machine runs one target only")
Array = np.ndarray[Any, Any]
FUNCTIONS = [
    "sin",
    "cos",
    "tan",
    "exp",
    "log",
    "tanh",
    "erf",
    "erfc",
    "sigmoid",
    "sqrt",
    "abs",
    "atan",
    "sinh",
    "asinh",
    "expm1",
]


def check(graph: graphc.Graph, arrays: list[Array], same_bits: Callable[..., None]) -> None:
    first, *others = executable()
    expected = graphc.compile(graph, target=first)(*[array.copy() for array in arrays])
    for target in others:
        computed = graphc.compile(graph, target=target)(*[array.copy() for array in arrays])
        same_bits(computed, expected, f"{first.name} and {target.name}\n{graph}")


@pytest.mark.parametrize("seed", range(12))
def test_drawn_graphs(seed: int, same_bits: Callable[..., None]) -> None:
    """Products, sums and functions, fused as they come."""
    random = np.random.default_rng(seed)
    rows, columns = random.integers(1, 90, 2)
    b = graphc.GraphBuilder("drawn")
    values = [b.input(name, f"f32[{rows},{columns}]") for name in "xy"]
    for _ in range(9):
        one, other = (values[i] for i in random.integers(0, len(values), 2))
        kind = random.integers(0, 4)
        if kind == 0:
            values.append(one * other + 0.5)
        elif kind == 1:
            square = one @ ops.transpose(other, permutation=(1, 0))
            values.append(ops.tanh(square * 0.1) @ one)
        elif kind == 2:
            axis = int(random.integers(0, 2))
            kept = tuple(1 if i == axis else dim for i, dim in enumerate(one.shape))
            total = ops.reshape(ops.sum(one, axes=(axis,)), shape=kept)
            values.append(other - ops.broadcast(total, shape=one.shape))
        else:
            values.append(getattr(ops, str(random.choice(FUNCTIONS)))(one))
    graph = b.finish(*values[-3:])
    arrays = [random.standard_normal((rows, columns)).astype(np.float32) * 3 for _ in range(2)]
    check(graph, arrays, same_bits)
