"""Vectors of several registers: where elementwise loops have them; no bit depends on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.elementwise.recipe import lower_nest
from graphc.codegen.kernels.elementwise.widths import CHAIN, MOST_REGISTERS, operations
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir.nodes import Store, walk
from graphc.codegen.target import Target, named
from graphc.ir.types import DType
from graphc.ops.elementwise import exp, sigmoid, sin, tanh
from graphc.ops.generate import random_uniform
from graphc.ops.movement import concat, slice_

F32 = DType.f32
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]


def widest(body: graphc.Graph, target: str = "x86-64-v3") -> int:
    """Registers of the widest vector that is stored."""
    kernel = lower_nest("kernel", body, named(target))
    stored = [one.value.type for one in walk(kernel.body) if isinstance(one, Store)]
    return max(type.lanes // named(target).lanes(type.dtype) for type in stored)


def body_of(function: Callable[[Any], Any], shape: str) -> graphc.Graph:
    g = graphc.GraphBuilder("body")
    return g.finish(function(g.input("x", shape)))


def test_operations_are_counted_and_long_chains_of_f64_told() -> None:
    assert operations("add", (F32, F32), ()) == 1
    assert operations("sqrt", (F32,), ()) == operations("add", (DType.f64,) * 2, ()) == 1
    for op in ("exp", "sigmoid", "tanh", "erf", "log", "silu"):
        assert operations(op, (F32,), ()) >= CHAIN
    assert operations("sin", (F32,), ()) == operations("exp", (DType.f64,), ()) == -1


@pytest.mark.parametrize("target", TARGETS)
def test_a_long_chain_has_several_registers(target: str) -> None:
    assert widest(body_of(exp, "f32[100,100]"), target) == MOST_REGISTERS


def test_random_numbers_have_several_registers() -> None:
    body = body_of(lambda state: random_uniform(state, shape=(1000,))[0], "i64[2]")
    assert widest(body) == MOST_REGISTERS


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x + x, "f32[10000]"),
        (sin, "f32[10000]"),
        (lambda x: exp(x) + sin(x), "f32[10000]"),
        (exp, "f64[10000]"),
        (exp, "f32[60]"),
        (lambda x: exp(slice_(x, start=(0,), size=(5000,), step=(2,))), "f32[10000]"),
        (lambda x: exp(concat(x, x, axis=0)), "f32[10000]"),
    ],
    ids=["short", "in f64", "both", "f64", "few", "strided", "guarded"],
)
def test_others_have_one(function: Callable[[Any], Any], shape: str) -> None:
    assert widest(body_of(function, shape)) == 1


def test_few_elements_have_fewer_registers() -> None:
    assert widest(body_of(exp, "f32[140]")) == 2


@pytest.mark.sampled(16)
@pytest.mark.parametrize("count", [60, 139, 255, 256, 257, 264, 272, 1000, 1023])
def test_bits_do_not_depend_on_the_width(count: int, native_target: Target) -> None:
    """The rest behind whole vectors too: against each element in a kernel of its own width."""

    def function(x: Any) -> Any:
        return sigmoid(x) * tanh(x) + exp(x)

    body = body_of(function, f"f32[{count}]")
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32) * 8
    wide, narrow = np.empty_like(x), np.empty_like(x)
    kernel = lower_nest("kernel", body, native_target)
    jit.call_kernel(kernel, [x, wide], target=native_target)
    single = lower_nest("kernel", body_of(function, "f32[1]"), native_target)
    call = jit.kernel_caller(single, native_target)
    for at in range(count):
        call([x[at : at + 1], narrow[at : at + 1]])
    np.testing.assert_array_equal(wide.view(np.int32), narrow.view(np.int32))
