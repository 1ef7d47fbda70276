"""Branches that rarely run are functions of their own; what is constant is folded."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.codegen.llvm import jit, native
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import named
from graphc.ir.types import DType

SIZE = 12
V3 = named("x86-64-v3")


def again(cold: bool = True, twice: bool = False, bias: float = 1.0) -> Kernel:
    """Where x[0] is NaN, y is what a loop leaves in scratch; else it is x."""
    b = LoopBuilder("again")
    x = b.buffer("x", DType.f32, SIZE, "read")
    y = b.buffer("y", DType.f32, 2 * SIZE, "write")
    kept = b.scratch("kept", DType.f32, SIZE)
    for part in range(1 + twice):
        first = b.load(x, 0)
        with b.if_(b.compare("ne", first, first), cold=cold) as branch:
            with branch.then():
                with b.loop(0, SIZE) as loop:
                    value = b.load(x, b.index(0, loop.variable))
                    b.store(kept, b.index(0, loop.variable), b.add(value, b.const(DType.f32, bias)))
                branch.yield_(b.load(kept, 4, 8))
            with branch.otherwise():
                branch.yield_(b.load(x, 0, 8))
        b.store(y, part * SIZE, branch.results[0])
    return b.finish(1)


@pytest.mark.parametrize("first", [2.0, np.nan])
def test_a_cold_branch_does_what_it_would_do_in_place(first: float) -> None:
    x = np.arange(SIZE, dtype=np.float32)
    x[0] = first
    for kernel in (again(), again(cold=False), again(twice=True)):
        native_y, run_y = np.zeros((2, 2 * SIZE), np.float32)
        jit.call_kernel(kernel, [x, native_y])
        interpreter.run(kernel, [x, run_y])
        assert native_y.tobytes() == run_y.tobytes()
        expected = x[:8] if first == first else x[4:] + 1
        assert np.array_equal(native_y[:8], expected, equal_nan=True)
    assert "cold if" in str(again()) and "cold" not in str(again(cold=False))


def test_equal_cold_branches_are_one_function_in_a_module_of_its_own() -> None:
    main, cold = jit.emit_modules(again(twice=True), "again", V3)
    assert main.count("call void @again.cold0(") == 2 and "define void @again.cold" not in main
    assert cold.count("define") == 1 and "define void @again.cold0(" in cold
    assert len(jit.emit_modules(again(cold=False), "again", V3)) == 1
    compiled = jit.compile_kernel(again())
    assert len(native.pieces(compiled.object)) == 2
    assert compiled.symbol != jit.compile_kernel(again(bias=2.0)).symbol


def test_a_cold_branch_whose_values_are_read_outside_stays_in_place() -> None:
    b = LoopBuilder("carried")
    x = b.buffer("x", DType.f32, SIZE, "read")
    y = b.buffer("y", DType.f32, 1, "write")
    first = b.load(x, 0)
    with b.if_(b.compare("ne", first, first), cold=True) as branch:
        with branch.then():
            with b.loop(1, SIZE, carried=[b.const(DType.f32, 0.0)]) as loop:
                loop.yield_(b.add(loop.carried[0], b.load(x, b.index(0, loop.variable))))
            branch.yield_(loop.results[0])
        with branch.otherwise():
            branch.yield_(first)
    b.store(y, 0, branch.results[0])
    kernel = b.finish(1)
    assert len(jit.emit_modules(kernel, "carried", V3)) == 1
    array, result = np.ones(SIZE, np.float32), np.zeros(1, np.float32)
    array[0] = np.nan
    jit.call_kernel(kernel, [array, result])
    assert result[0] == SIZE - 1


def test_a_cold_branch_may_hold_another() -> None:
    b = LoopBuilder("nested")
    x = b.buffer("x", DType.f32, SIZE, "read")
    y = b.buffer("y", DType.f32, 2, "write")
    first, second = b.load(x, 0), b.load(x, 1)
    with b.if_(b.compare("ne", first, first), cold=True) as outer, outer.then():
        b.store(y, 0, second)
        with b.if_(b.compare("ne", second, second), cold=True) as inner, inner.then():
            b.store(y, 1, b.const(DType.f32, 7.0))
    kernel = b.finish(1)
    assert jit.emit_modules(kernel, "nested", V3)[1].count("define void @nested.cold") == 2
    array, result = np.full(SIZE, np.nan, np.float32), np.zeros(2, np.float32)
    jit.call_kernel(kernel, [array, result])
    assert np.isnan(result[0]) and result[1] == 7


def test_lanes_that_are_known_are_folded() -> None:
    b = LoopBuilder("lanes")
    x = b.buffer("x", DType.f32, 64, "read")
    y = b.buffer("y", DType.f32, 8, "write")
    lanes = b.iota(DType.i32, 8)
    places = b.add(b.mul(lanes, b.const(DType.i32, 5, 8)), b.const(DType.i32, 3, 8))
    some = b.compare("lt", lanes, b.const(DType.i32, 3, 8))
    every = b.compare("ge", lanes, b.const(DType.i32, 0, 8))
    gathered = b.gather(x, places, b.op("and", some, every))
    b.store(y, 0, gathered)
    kernel = b.finish(1)
    (text,) = jit.emit_modules(kernel, "lanes", V3)
    assert "icmp" not in text and "mul" not in text and "<i32 3, i32 8, i32 13," in text
    assert "<i1 true, i1 true, i1 true, i1 false," in text
    array, result = np.arange(64, dtype=np.float32), np.ones(8, np.float32)
    jit.call_kernel(kernel, [array, result])
    assert result.tolist() == [3, 8, 13, 0, 0, 0, 0, 0]
