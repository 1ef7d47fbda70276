"""The digests that a change of the compiler is held against (benchmarks/machine_code.py): names do
not count, all else does, and whatever eager mode compiles is among what they are of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import named
from graphc.ir.types import DType

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
try:
    from code_digests.digests import Compiler
    from code_digests.loop_text import loop_text
    from code_digests.subjects import subjects
finally:
    sys.path.remove(str(BENCHMARKS))


def scaled(hint: str, factor: float = 2.0, offset: int = 0, by_constant: bool = True) -> Kernel:
    b = LoopBuilder("scaled")
    x, y = b.buffer("x", DType.f32, 65, "read"), b.buffer("y", DType.f32, 65, "write")
    with b.loop(0, 64, hint=hint) as loop:
        element = b.load(x, b.index(offset, loop.variable))
        other = b.const(DType.f32, factor) if by_constant else element
        b.store(y, b.index(0, loop.variable), b.op("mul", element, other))
    return b.finish(extent=1)


def test_names_do_not_count_in_the_text_of_loops() -> None:
    assert str(scaled("i")) != str(scaled("column"))
    assert loop_text(scaled("i")) == loop_text(scaled("column"))


@pytest.mark.parametrize(
    "other", [scaled("i", 3.0), scaled("i", offset=1), scaled("i", 2.0, 0, False)]
)
def test_all_else_counts(other: Kernel) -> None:
    assert loop_text(other) != loop_text(scaled("i"))


@pytest.mark.parametrize("name", ["matmul", "sum", "add"])
def test_what_eager_mode_compiles_of_an_op_has_digests(name: str) -> None:
    (subject,) = (s for s in subjects("ops", f"ops/{name}", small=True) if s.name == f"ops/{name}")
    assert any(example for _, _, example in subject.programs.values()), "one of open sizes"
    compiler = Compiler(named("x86-64-v3"), loops=True)
    program = next(iter(subject.programs.values()))
    assert compiler.program(*program).keys() >= {"plan", "driver", "driver of 4 threads"}
