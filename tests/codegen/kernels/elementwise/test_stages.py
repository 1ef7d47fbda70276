"""Long chains that wait for one another in loops of their own; no bit depends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.elementwise.recipe import lower_nest
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.loop_ir.nodes import Kernel, walk
from graphc.codegen.target import Target, named
from graphc.ops.elementwise import exp, gt, log, sigmoid, tanh, where
from graphc.ops.generate import random_uniform
from graphc.ops.movement import concat, transpose

V3 = named("x86-64-v3")


def body_of(function: Callable[..., Any], *shapes: str) -> graphc.Graph:
    g = graphc.GraphBuilder("body")
    results = function(*(g.input(f"x{i}", shape) for i, shape in enumerate(shapes)))
    return g.finish(*(results if isinstance(results, tuple) else (results,)))


def kernel_of(function: Callable[..., Any], *shapes: str) -> Kernel:
    return lower_nest("kernel", body_of(function, *shapes), V3)


def kept(function: Callable[..., Any], *shapes: str) -> int:
    """Values that are kept for a later stage."""
    return sum(buffer.name.startswith("stage") for buffer in kernel_of(function, *shapes).scratch)


def after_two(x: Any) -> Any:
    return exp(x * sigmoid(x) + tanh(x)) - x * x


def cell(x: Any, y: Any, old: Any) -> Any:
    new = sigmoid(x) * old + tanh(y)
    return new, sigmoid(y) * tanh(new)


def test_one_value_is_kept_where_chains_meet() -> None:
    kernel = kernel_of(after_two, "f32[6400]")
    assert [buffer.size for buffer in kernel.scratch] == [10 * 32]
    assert kernel.extent == 20


def test_what_stages_share_is_kept() -> None:
    shape = "f32[6400]"
    assert kept(lambda x: (lambda s: exp(s) + s)(sigmoid(x)), shape) == 1
    assert kept(lambda x: (lambda s, t: exp(s * t) + s)(sigmoid(x), tanh(x)), shape) == 2
    assert kept(cell, shape, shape, shape) == 2
    assert kept(lambda x: log(exp(sigmoid(x))), shape) == 2


def test_many_values_are_not_kept() -> None:
    def gates(x: Any, y: Any, z: Any) -> Any:
        i, f, g = sigmoid(x), sigmoid(y), tanh(z)
        return i, f, g, tanh(f * x + i * g)

    assert kept(gates, *["f32[6400]"] * 3) == 0


def test_an_output_is_computed_once() -> None:
    def function(x: Any) -> Any:
        gate = sigmoid(x)
        return gate, exp(gate * tanh(x))

    kernel = kernel_of(function, "f32[6400]")
    divisions = [one for one in walk(kernel.body) if getattr(one, "opcode", "") == "div"]
    assert len(divisions) == 2


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: sigmoid(x) + tanh(x), ["f32[6400]"]),
        (lambda x: exp(sigmoid(x)), ["f32[100]"]),
        (lambda x: exp(sigmoid(x)), ["f64[6400]"]),
        (lambda x: exp(transpose(sigmoid(x), permutation=(1, 0))), ["f32[80,80]"]),
        (lambda x, y: where(gt(sigmoid(x), y), exp(sigmoid(x)), y), ["f32[64,64]", "f32[64,64]"]),
    ],
    ids=["side by side", "few", "f64", "transposed", "a condition"],
)
def test_others_have_no_stages(function: Callable[..., Any], shapes: list[str]) -> None:
    assert kept(function, *shapes) == 0


def test_functions_of_random_numbers_wait_for_them() -> None:
    def noise(state: Any) -> Any:
        return log(random_uniform(state, shape=(6400,))[0])

    assert kept(noise, "i64[2]") == 1


def alone(
    function: Callable[..., Any], arrays: list[np.ndarray], target: Target
) -> list[np.ndarray]:
    """Element by element: nothing is long enough to be staged."""
    single = lower_nest("kernel", body_of(function, *["f32[1]"] * len(arrays)), target)
    outputs = [np.empty_like(arrays[0]) for _ in range(len(single.buffers) - len(arrays))]
    call = jit.kernel_caller(single, target)
    for at in range(arrays[0].size):
        call([array.reshape(-1)[at : at + 1] for array in (*arrays, *outputs)])
    return outputs


@pytest.mark.sampled(16)
@pytest.mark.parametrize("function", [after_two, cell], ids=["after two", "cell"])
@pytest.mark.parametrize("shape", ["640", "17,32", "595", "19,37", "8,3,40"])
def test_bits_do_not_depend_on_stages(
    function: Callable[..., Any], shape: str, native_target: Target
) -> None:
    """Whole blocks, a last block of fewer vectors, a masked rest, several axes."""
    count = 1 if function is after_two else 3
    kernel = lower_nest("kernel", body_of(function, *[f"f32[{shape}]"] * count), native_target)
    assert kernel.scratch
    dims = [int(dim) for dim in shape.split(",")]
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(dims).astype(np.float32) * 4 for _ in range(count)]
    want = alone(function, arrays, native_target)
    have, parts, slow = ([np.empty_like(each) for each in want] for _ in range(3))
    call = jit.kernel_caller(kernel, native_target)
    call([*arrays, *have])
    for at in range(kernel.extent):
        call([*arrays, *parts], at, at + 1)
    run(kernel, [*arrays, *slow])
    for actual in (have, parts, slow):
        for one, other in zip(actual, want, strict=True):
            np.testing.assert_array_equal(one.view(np.int32), other.view(np.int32))


def test_in_place(native_target: Target) -> None:
    kernel = lower_nest("kernel", body_of(after_two, "f32[6413]"), native_target)
    x = np.random.default_rng(1).standard_normal(6413).astype(np.float32)
    want = np.empty_like(x)
    jit.call_kernel(kernel, [x, want], target=native_target)
    jit.call_kernel(kernel, [x, x], target=native_target)
    np.testing.assert_array_equal(x, want)


@pytest.mark.sampled(4)
def test_parts_of_a_joined_value(native_target: Target) -> None:
    """Places behind an output's own are stored to as without stages."""

    def joined(x: Any) -> Any:
        return concat(exp(sigmoid(x)), exp(tanh(x)), axis=0)

    body = body_of(joined, "f32[640]")
    x = np.random.default_rng(2).standard_normal(640).astype(np.float32)
    have = np.empty(1280, np.float32)
    kernel = lower_nest("kernel", body, native_target)
    jit.call_kernel(kernel, [x, have], target=native_target)
    for start, function in ((0, sigmoid), (640, tanh)):
        (want,) = alone(lambda v, f=function: exp(f(v)), [x], native_target)
        np.testing.assert_array_equal(have[start : start + 640], want)
