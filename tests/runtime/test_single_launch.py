"""Programs of one launch: one driver for all of as many arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType


def unary(op: Any, *shape: Any) -> graphc.Graph:
    g = graphc.GraphBuilder(op.name)
    return g.finish(op(g.input("x", TensorType(DType.f32, shape))))


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def native(executable: Any) -> Any:
    return executable._program.native


def test_programs_of_as_many_arrays_have_the_same_driver() -> None:
    first = graphc.compile(unary(ops.neg, 5), threads=1)
    second = graphc.compile(unary(ops.abs, 3, 4), threads=1)
    assert native(first).address == native(second).address
    assert native(first).kernel != native(second).kernel and not native(first).drivers
    assert (first(drawn(5))[0] == -drawn(5)).all()
    assert (second(drawn(3, 4))[0] == abs(drawn(3, 4))).all()


def test_a_program_of_sizes_has_it_too() -> None:
    executable = graphc.compile(unary(ops.neg, dim("n"), 3), threads=1, example={"n": 4})
    for n in (0, 1, 4, 9):
        assert (executable(drawn(n, 3))[0] == -drawn(n, 3)).all()
        assert native(executable.at(n=n)).kernel


def test_it_is_loaded_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path))
    graph = unary(ops.tanh, 7)
    fresh, kept = (graphc.compile(graph, threads=1) for _ in range(2))
    assert "plan" in fresh.timings and "load" in kept.timings and native(kept).kernel
    assert fresh(drawn(7))[0].tobytes() == kept(drawn(7))[0].tobytes()


@pytest.mark.parametrize("form", ["unused", "constant", "updated", "swapped", "copied"])
def test_what_a_kernel_does_not_take_as_it_comes_has_a_driver_of_its_own(form: str) -> None:
    g = graphc.GraphBuilder(form)
    x, y = g.input("x", "f32[6]"), g.input("y", "f32[6]")
    one, other = drawn(2, 6)
    if form == "unused":
        graph, expected = g.finish(-y), (-other,)
    elif form == "constant":
        graph, expected = g.finish(x - y * g.constant(drawn(6))), (one - other * drawn(6),)
    elif form == "updated":
        graph, expected = g.finish(x - y, aliases=((0, 0),)), (one - other,)
    elif form == "swapped":
        graph, expected = g.finish(y - x, y + x), (other - one, other + one)
    else:
        graph, expected = g.finish(x, -y), (one.copy(), -other)
    results = graphc.compile(graph, threads=1)(one.copy(), other.copy())
    for result, wanted in zip(results, expected, strict=True):
        assert np.allclose(result, wanted, atol=1e-6)
