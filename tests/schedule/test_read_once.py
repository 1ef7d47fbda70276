"""What makes the matrix of a one-row product element by element is computed where it is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.ir.types import DType
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch

Make = Callable[[Any], Any]


def launches(graph: graphc.Graph) -> int:
    _, plan = plan_graph(graph)
    return sum(isinstance(step, Launch) for step in plan.steps)


def product(
    make: Make, rows: int = 1, dtype: str = "i8", twice: bool = False
) -> tuple[graphc.Graph, list[Any]]:
    """x times the transpose of what `make` makes of w."""
    b = graphc.GraphBuilder("product")
    x, w = b.input("x", f"f32[{rows},40]"), b.input("w", f"{dtype}[70,40]")
    matrix = make(w)
    result = ops.matmul(x, ops.transpose(matrix, permutation=(1, 0)))
    graph = b.finish(result, ops.sum(matrix, axes=(0,))) if twice else b.finish(result)
    random = np.random.default_rng(2)
    w_array = random.integers(-100, 100, (70, 40)).astype(graph.input_types[1].dtype.numpy)
    return graph, [random.standard_normal((rows, 40)).astype(np.float32), w_array]


def widened(w: Any) -> Any:
    return ops.cast(w, dtype=DType.f32)


MAKES: dict[str, tuple[Make, Callable[[Any], Any]]] = {
    "cast": (widened, lambda w: w),
    "cast, doubled": (lambda w: widened(w) * 2.0, lambda w: w * 2),
    "negative": (lambda w: ops.neg(widened(w)), lambda w: -w),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("dtype", ["i8", "u8", "bf16", "f16", "i32"])
@pytest.mark.parametrize("name", MAKES)
def test_a_cast_of_a_weight_is_not_stored(name: str, dtype: str, native_target: Any) -> None:
    make, meaning = MAKES[name]
    graph, (x, w) = product(make, dtype=dtype)
    assert launches(graph) == 1
    (got,) = graphc.compile(graph, target=native_target)(x, w)
    exact = meaning(w.astype(np.float64))
    bound = 41 * 2.0**-24 * (np.abs(x).astype(np.float64) @ np.abs(exact).T)
    assert (np.abs(got - x.astype(np.float64) @ exact.T) <= bound).all()


def test_what_others_read_too_is_stored() -> None:
    assert launches(product(widened, twice=True)[0]) == 3


def test_what_several_rows_read_is_stored() -> None:
    assert launches(product(widened, rows=2)[0]) == 2


def test_costly_work_is_stored() -> None:
    assert launches(product(lambda w: ops.tanh(widened(w)))[0]) == 2


def test_what_is_made_of_two_matrices_is_stored() -> None:
    assert launches(product(lambda w: widened(w) * widened(w))[0]) == 2
