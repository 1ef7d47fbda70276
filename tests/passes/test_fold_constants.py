"""Constant folding: what is computed, what is left, and that the bits are the same."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph
from graphc.ir.parser import parse
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ir.verifier import verify
from graphc.ops.interpreter import run
from graphc.passes.dead_code import dead_code
from graphc.passes.fold_constants import GENERATE_LIMIT, SIZE_LIMIT, fold_constants


def ops(graph: Graph) -> list[str]:
    return [node.op for node in dead_code(graph).nodes]


def folded(op: str, *arrays: object, **attributes: object) -> list[str]:
    """The ops left of an op on constants."""
    builder = GraphBuilder()
    constants = [builder.constant(np.asarray(array)) for array in arrays]
    (result,) = builder.apply(lookup(op), tuple(constants), dict(attributes))
    graph = builder.finish(result)
    after = verify(fold_constants(graph))
    assert [a.tobytes() for a in run(graph)] == [a.tobytes() for a in run(after)]
    return ops(after)


def test_ops_on_constants_are_computed() -> None:
    before = parse("""
        graph g(%x: f32[2]) {
          %1 = constant f32[2] [1.0, 2.0]
          %2 = neg(%1) : f32[2]
          %3 = constant f32[] [3.0]
          %4 = broadcast(%3) shape=[2] : f32[2]
          %5 = mul(%2, %4) : f32[2]
          %6 = add(%x, %5) : f32[2]
          return %6
        }""")
    expected = parse("""
        graph g(%x: f32[2]) {
          %1 = constant f32[2] [-3.0, -6.0]
          %2 = add(%x, %1) : f32[2]
          return %2
        }""")
    assert dead_code(fold_constants(before)) == expected


def test_a_uniform_result_is_a_broadcast_scalar() -> None:
    before = parse("""
        graph g() {
          %0 = constant f32[100000] splat 2.0
          %1 = constant f32[] [3.0]
          %2 = broadcast(%1) shape=[100000] : f32[100000]
          %3 = add(%0, %2) : f32[100000]
          return %3
        }""")
    expected = parse("""
        graph g() {
          %0 = constant f32[] [5.0]
          %1 = broadcast(%0) shape=[100000] : f32[100000]
          return %1
        }""")
    assert dead_code(fold_constants(before)) == expected


@pytest.mark.parametrize("op", ["exp", "tanh", "rsqrt", "erf"])
def test_ops_that_are_not_exactly_rounded_stay(op: str) -> None:
    assert op in folded(op, np.float32([1, 2]))


def test_exactly_rounded_ops_go() -> None:
    pair = np.float32([1, 3])
    assert folded("sqrt", pair) == ["constant"]
    assert folded("div", pair, np.float32([3, 7])) == ["constant"]
    assert folded("cast", np.float64([0.1, 1e300]), dtype=DType.f32) == ["constant"]
    assert folded("transpose", np.arange(6.0).reshape(2, 3), permutation=(1, 0)) == ["constant"]
    assert folded("iota", shape=(5,), axis=0, dtype=DType.i64) == ["constant"]


def test_sums_products_and_random_numbers_stay() -> None:
    assert "sum" in folded("sum", np.float32([1, 2]), axes=(0,))
    matrix = np.arange(4.0).reshape(2, 2)
    assert "matmul" in folded("matmul", matrix, matrix)


def test_the_library_of_the_machine_decides_neither_zero_signs_nor_remainders() -> None:
    assert "maximum" in folded("maximum", np.float32([-0.0, 1]), np.float32([0.0, 2]))
    assert folded("maximum", np.float32([-1, 1]), np.float32([2, 3])) == ["constant"]
    assert "floordiv" in folded("floordiv", np.float32([7, 8]), np.float32([2, 3]))
    assert folded("floordiv", np.int32([-7, 8]), np.int32([2, 3])) == ["constant"]


def test_a_failing_check_is_left_to_run_time() -> None:
    graph = parse("""
        graph g() {
          %0 = constant i32[2] [1, 2]
          %1 = constant i32[2] [1, 0]
          %2 = floordiv(%0, %1) : i32[2]
          return %2
        }""")
    assert ops(fold_constants(graph)) == ["constant", "constant", "floordiv"]


def test_results_stay_small() -> None:
    wide, tall = np.arange(200.0)[None], np.arange(200.0)[:, None]
    assert folded("neg", np.arange(10.0 * SIZE_LIMIT)) == ["constant"]  # no larger than its operand
    assert folded("broadcast", wide, shape=(200, 200)) == ["constant", "broadcast"]
    low, none = (0, 0), (0, 0)
    assert "pad" in folded("pad", tall, np.float64(1), low=low, high=(0, 199), interior=none)
    assert folded("iota", shape=(GENERATE_LIMIT + 1,), axis=0, dtype=DType.i32) == ["iota"]
