"""Ops of the kind `host`, which Python computes: compiled programs that call back."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.program import host_kernels
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.debug.dump import dump
from graphc.ops import control
from graphc.ops.elementwise import eq, exp
from graphc.ops.kinds.host import Host
from graphc.ops.linear_algebra import lapack
from graphc.schedule.run_plan import run_plan

RANDOM = np.random.default_rng(0)


def system(updates: bool = False) -> graphc.Graph:
    """x = (2a)⁻¹·exp(b), checked; with `updates` b becomes x."""
    g = graphc.GraphBuilder("system")
    a, b = g.input("a", "f32[3,3]"), g.input("b", "f32[3,2]")
    x, info = lapack.solve(a * 2.0, exp(b))
    zero = g.constant(np.zeros((), np.int32))
    fine = graphc.ops.movement.broadcast(eq(info, zero), shape=(3, 2))
    x = lapack.check_success(fine, x, message="singular")
    return g.finish(x + 1.0, aliases=[(0, 1)] if updates else [])


def operands() -> list[Any]:
    a = RANDOM.standard_normal((3, 3)) + 3 * np.eye(3)
    return [a.astype(np.float32), RANDOM.standard_normal((3, 2)).astype(np.float32)]


def test_every_level_calls_the_same_function() -> None:
    graph, arrays = system(), operands()
    executable = graphc.compile(graph)
    (result,) = executable(*arrays)
    solved = np.linalg.solve(2 * arrays[0], np.exp(arrays[1]))
    np.testing.assert_allclose(result, solved + 1, rtol=1e-5)
    for other in (
        graphc.compile(graph, "none")(*arrays), graphc.compile(graph, "relaxed")(*arrays),
        run_plan_by_loops(executable.plan, tuple(arrays)),
    ):  # fmt: skip
        np.testing.assert_array_equal(other[0], result)
    (reference,) = run_plan(executable.plan, tuple(arrays))
    np.testing.assert_allclose(reference, result, rtol=1e-6)
    assert graphc.parse(str(graph)) == graph


def test_a_check_of_what_lapack_says_comes_before_any_write() -> None:
    executable = graphc.compile(system(updates=True))
    a, b = operands()
    before = b.copy()
    with pytest.raises(graphc.errors.LinAlgError, match="singular"):
        executable(np.zeros_like(a), b)
    np.testing.assert_array_equal(b, before)
    (updated,) = executable(a, b)
    assert updated is b and not np.array_equal(b, before)


def test_many_threads_call_back_at_once() -> None:
    executable = graphc.compile(system(), threads=2)
    arrays = [operands() for _ in range(40)]
    expected = [executable(*each)[0] for each in arrays]
    with ThreadPoolExecutor(8) as pool:
        for got, want in zip(pool.map(lambda each: executable(*each)[0], arrays), expected):
            np.testing.assert_array_equal(got, want)


def test_a_loop_calls_back_in_every_round() -> None:
    body = graphc.GraphBuilder("body")
    c, m = body.input("c", "f64[2,1]"), body.input("m", "f64[2,2]")
    step = body.finish(lapack.solve(m, c)[0])
    g = graphc.GraphBuilder("loop")
    start, matrices = g.input("start", "f64[2,1]"), g.input("matrices", "f64[5,2,2]")
    last = control.scan(
        start, matrices, body=step, carry=1, sequences=1, length=5, reverse=False, saved=0
    )
    graph = g.finish(last)
    arrays = np.ones((2, 1)), RANDOM.standard_normal((5, 2, 2)) + 3 * np.eye(2)
    expected = arrays[0]
    for matrix in arrays[1]:
        expected = np.linalg.solve(matrix, expected)
    np.testing.assert_array_equal(graphc.compile(graph)(*arrays)[0], expected)


@pytest.fixture
def failing() -> Any:
    """An op of Python, and what it raises next."""
    failures: list[BaseException] = []

    def function(x: np.ndarray) -> np.ndarray:
        if failures:
            raise failures.pop()
        return x + 1

    op = Host("failing_host", function, lambda x: x, samples=None)
    yield op, failures
    graphc.ir.registry.unregister("failing_host")


def test_an_interrupt_ends_the_call_with_its_results(failing: Any) -> None:
    op, failures = failing
    g = graphc.GraphBuilder("failing")
    x = g.input("x", "f32[3]")
    executable = graphc.compile(g.finish(op(x) * 2.0, aliases=[(0, 0)]))
    failures.append(KeyboardInterrupt())
    array = np.ones(3, np.float32)
    with pytest.raises(KeyboardInterrupt) as caught:
        executable(array)
    np.testing.assert_array_equal(array, [4, 4, 4])
    assert caught.value.written[0] is array and not host_kernels._noted
    failures.append(MemoryError("no room"))
    with pytest.raises(MemoryError, match="no room"):
        executable(array)
    assert np.isnan(array).all()  # what was written cannot be taken for a result
    np.testing.assert_array_equal(executable(np.zeros(3, np.float32))[0], [2, 2, 2])


def test_a_graph_has_no_gradient_of_it() -> None:
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[2,2]")
    with pytest.raises(graphc.errors.GradientError, match="linalg_inv has no gradient in graphs"):
        graphc.joint(g.finish(lapack.inv(x)[0]), wrt=["x"])


@pytest.mark.slow
def test_a_program_from_disk_calls_back(tmp_path: Any) -> None:
    text = (
        "import sys, numpy as np, graphc; graph = graphc.parse(sys.stdin.read());"
        "executable = graphc.compile(graph); print(sorted(executable.timings));"
        "print(executable(np.eye(3, dtype='f'), np.zeros((3, 2), 'f'))[0].tolist())"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", text], input=str(system()), capture_output=True, text=True,
            check=True, env={**os.environ, "GRAPHC_CACHE": str(tmp_path)},
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert printed[0][1] == printed[1][1] == str([[1.5, 1.5]] * 3)
    assert "plan" in printed[0][0] and printed[1][0] == "['load']"


def test_what_is_shown_of_it() -> None:
    graph = system()
    plan = "\n".join(dump(graph, "plan"))
    assert "_linalg_solve (host) graph" in plan
    loops = "\n".join(dump(graph, "loops"))
    assert "linalg_solve" not in loops
