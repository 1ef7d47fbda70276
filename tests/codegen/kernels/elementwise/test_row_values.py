"""Costly values of a row that several sweeps read are computed once."""

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.elementwise.kept_values import ROW_LIMIT
from graphc.codegen.kernels.elementwise.row_values import rows_to_keep
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.target import named
from graphc.ir.handle import broadcast_to
from graphc.ops.composite import log_softmax, softmax
from graphc.ops.elementwise import exp, tanh
from graphc.ops.movement import reshape, slice_
from graphc.ops.reduce import sum as total
from graphc.schedule.build import plan_graph


def softmax_graph(rows: int, columns: int) -> graphc.Graph:
    b = graphc.GraphBuilder("softmax")
    return b.finish(softmax(b.input("x", f"f32[{rows},{columns}]"), axis=1))


def kernel_bodies(graph: graphc.Graph) -> list[graphc.Graph]:
    return [step.kernel.body for step in plan_graph(graph)[1].steps]


def test_the_exponentials_of_a_softmax_are_kept() -> None:
    (body,) = kernel_bodies(softmax_graph(4, 33))
    (value,) = rows_to_keep(body, (4, 33), 1)
    assert body.nodes[value.node].op == "exp"


def test_nothing_is_kept_where_one_sweep_reads_it() -> None:
    b = graphc.GraphBuilder("sums")
    x = b.input("x", "f32[5,40]")
    bodies = kernel_bodies(b.finish(total(exp(x), axes=(1,))))
    assert all(not rows_to_keep(body, (5, 40), 1) for body in bodies)


def test_of_a_chain_the_last_value_is_kept() -> None:
    b = graphc.GraphBuilder("chain")
    x = b.input("x", "f32[5,40]")
    costly = exp(tanh(x))
    row = reshape(total(costly, axes=(1,)), shape=(5, 1))
    (body,) = kernel_bodies(b.finish(costly - broadcast_to(row, (5, 40))))
    kept = [body.nodes[value.node].op for value in rows_to_keep(body, (5, 40), 1)]
    assert kept == ["exp"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("columns", [1, 5, 8, 63, 64, 130, 1000])
def test_the_bits_are_those_of_one_kernel_per_op(columns: int) -> None:
    array = np.random.default_rng(columns).standard_normal((7, columns)).astype(np.float32) * 4
    array[3, 0], array[5, columns - 1] = np.inf, np.nan
    for op in (softmax, log_softmax):
        b = graphc.GraphBuilder("rows")
        graph = b.finish(op(b.input("x", f"f32[7,{columns}]"), axis=1))
        (fused,) = graphc.compile(graph)(array)
        (plain,) = graphc.compile(graph, level="none")(array)
        np.testing.assert_array_equal(fused, plain)


def test_a_sum_that_is_an_output_reads_what_is_kept() -> None:
    """As of a cross-entropy whose gradient is made with it: no second exponential for the sum."""
    b = graphc.GraphBuilder("both")
    power = exp(b.input("x", "f32[5,40]"))
    (step,) = plan_graph(b.finish(power, total(power, axes=(1,))))[1].steps
    text = str(lower(step.kernel, named("x86-64-v3")))
    assert text.count("lshr") == 1  # an exponential has one


def shares(rows: int, columns: int, reads_again: bool) -> graphc.Graph:
    """e^x over the sum of its row; plus x where it `reads_again`."""
    b = graphc.GraphBuilder("shares")
    x = b.input("x", f"f32[{rows},{columns}]")
    power = exp(x)
    row = broadcast_to(reshape(total(power, axes=(1,)), shape=(rows, 1)), (rows, columns))
    return b.finish(power / row + x if reads_again else power / row)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_the_loops_keep_the_row_where_the_output_goes(target: str) -> None:
    (step,) = plan_graph(softmax_graph(3, 37))[1].steps
    kernel = lower(step.kernel, named(target))
    assert kernel.scratch == ()
    assert [buffer.access for buffer in kernel.buffers] == ["read", "readwrite"]
    array = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32)
    actual = np.zeros(3 * 37, np.float32)
    run(kernel, [array.reshape(-1), actual])
    exponentials = np.exp(array - array.max(1, keepdims=True))
    want = exponentials / exponentials.sum(1, keepdims=True)
    np.testing.assert_allclose(actual.reshape(3, 37), want, rtol=1e-5)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_the_loops_keep_the_row_in_scratch_where_an_input_is_read_again(target: str) -> None:
    """The output may be the memory of that input."""
    (step,) = plan_graph(shares(3, 37, True))[1].steps
    kernel = lower(step.kernel, named(target))
    assert [buffer.size for buffer in kernel.scratch] == [37]
    array = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32)
    actual = array.copy().reshape(-1)
    run(kernel, [actual, actual])
    power = np.exp(array)
    want = power / power.sum(1, keepdims=True) + array
    np.testing.assert_allclose(actual.reshape(3, 37), want, rtol=1e-5)


def test_a_row_is_in_scratch_where_the_output_reads_it_in_another_order() -> None:
    b = graphc.GraphBuilder("flipped")
    power = exp(b.input("x", "f32[5,40]"))
    row = broadcast_to(reshape(total(power, axes=(1,)), shape=(5, 1)), (5, 40))
    flipped = slice_(power, start=(0, 39), size=(5, 40), step=(1, -1))
    graph = b.finish(flipped / row)
    for step in plan_graph(graph)[1].steps:
        kernel = lower(step.kernel, named("x86-64-v3"))
        assert all(buffer.access != "readwrite" for buffer in kernel.buffers)
    array = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)
    (fused,) = graphc.compile(graph)(array)
    (plain,) = graphc.compile(graph, level="none")(array)
    np.testing.assert_array_equal(fused, plain)


def test_a_row_beyond_the_limit_is_computed_anew() -> None:
    (step,) = plan_graph(softmax_graph(1, ROW_LIMIT + 1))[1].steps
    assert lower(step.kernel, named("x86-64-v3")).scratch == ()
