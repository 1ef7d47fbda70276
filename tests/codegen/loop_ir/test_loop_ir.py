"""The loop IR: its text, its builder, its key, and one failing example per rule of its verifier."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from graphc.codegen.llvm.kernel import scratch_layout
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import (
    INDEX_TYPE,
    OPCODES,
    Barrier,
    Buffer,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    LoopValue,
    Statement,
    Store,
    VectorType,
    While,
    operands,
    results,
    walk,
)
from graphc.codegen.loop_ir.verifier import verify
from graphc.errors import VerifyError
from graphc.ir.types import DType
from graphc.records import replace

F32, I32, I64, BOOL = DType.f32, DType.i32, DType.i64, DType.bool
X = Buffer("x", F32, 16, "read")
Y = Buffer("y", F32, 16, "write")
BEGIN, END = LoopValue("begin", INDEX_TYPE), LoopValue("end", INDEX_TYPE)


def value(name: str, dtype: DType = F32, lanes: int = 1) -> LoopValue:
    return LoopValue(name, VectorType(dtype, lanes))


def const(name: str, number: float, dtype: DType = F32, lanes: int = 1) -> Let:
    return Let(value(name, dtype, lanes), "const", (), number)


def kernel(*body: Statement, buffers: tuple[Buffer, ...] = (X, Y)) -> Kernel:
    return Kernel("k", buffers, (), body, BEGIN, END, 4)


def example(name: str = "example", hint: str = "i", buffer: str = "x") -> Kernel:
    b = LoopBuilder(name)
    x, y = b.buffer(buffer, F32, 64, "read"), b.buffer("y", F32, 64, "readwrite")
    t = b.scratch("t", BOOL, 16)
    zero = b.const(F32, -0.0, 16)
    with b.loop(b.begin, b.end, hint=hint) as row:
        with b.loop(0, 2, carried=[zero]) as loop:
            element = b.load(x, b.index(0, (row.variable, 16)), 16)
            loop.yield_(b.fma(element, element, loop.carried[0]))
        small = b.compare("lt", loop.results[0], zero)
        b.store(t, 0, small)
        b.prefetch(x, b.index(999, row.variable))
        b.store(y, b.index(0, (row.variable, 16)), loop.results[0], mask=small)
        picked = b.gather(y, b.iota(I32, 16))
        b.scatter(y, b.iota(I32, 16), b.shuffle(picked, picked, range(16)), small)
    with b.while_([b.begin]) as loop:
        with loop.condition():
            below = b.compare("lt", loop.carried[0], b.end)
            loop.test(below)
        with loop.body():
            with b.if_(below) as branch, branch.then():
                b.barrier()
            loop.yield_(b.add(loop.carried[0], b.const(I64, 1)))
    return b.finish(4)


TEXT = """\
kernel example(x: read f32[64], y: readwrite f32[64], t: scratch bool[16]) over begin to end of 4 {
  %0: f32x16 = const -0.0
  %5: i32x16 = iota i32x16
  %9: i64 = const 1
  for %i = %begin to %end step 1 {
    for %i_1 = 0 to 2 step 1 carry (%carry: f32x16 = %0) {
      %1: f32x16 = load x[16*i]
      %2: f32x16 = fma %1, %1, %carry
      yield %2
    } -> (%3: f32x16)
    %4: boolx16 = lt %3, %0
    store t[0], %4
    prefetch x[i + 999]
    store y[16*i], %3 mask %4
    %6: f32x16 = gather y[%5]
    %7: f32x16 = shuffle %6, %6, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    scatter y[%5], %7 mask %4
  }
  while carry (%carry_1: i64 = %begin) {
    %8: bool = lt %carry_1, %end
  } test %8 {
    if %8 {
      barrier
    } else {
    }
    %10: i64 = add %carry_1, %9
    yield %10
  } -> (%11: i64)
}"""


def test_text() -> None:
    assert str(example()) == TEXT


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (Index(), "0"),
        (Index.of(3, (value("i", I64), 64), value("j", I64)), "64*i + j + 3"),
        (Index.of(-3, (value("i", I64), -1)), "-i - 3"),
        (Index.of(0, (value("i", I64), 2), (value("i", I64), -2)), "0"),
        (Index.of(1, value("i", I64)).scaled(4) + value("i", I64) + 2, "5*i + 6"),
    ],
)
def test_index_text(index: Index, text: str) -> None:
    assert str(index) == text


def test_walk_and_operands_see_every_statement() -> None:
    statements = list(walk(example().body))
    kinds = {type(statement).__name__ for statement in statements}
    assert kinds == {
        "Let", "Load", "Store", "VectorGather", "VectorScatter", "Prefetch", "For", "If", "While",
        "Barrier",
    }  # fmt: skip
    used = {each for statement in statements for each in operands(statement)}
    defined = {each for statement in statements for each in results(statement)}
    assert {each.name for each in used - defined} >= {"begin", "end"}


def test_scratch_layout() -> None:
    b = LoopBuilder("scratch")
    b.scratch("a", F32, 17)
    b.scratch("b", BOOL, 1)
    b.scratch("c", DType.f64, 8)
    assert scratch_layout(b.finish(1)) == ((0, 128, 192), 256)


def test_importing_the_loop_ir_imports_no_llvm() -> None:
    script = (
        "import sys, graphc.codegen.loop_ir.builder, graphc.codegen.loop_ir.interpreter\n"
        "import graphc.codegen.llvm.kernel\n"
        "import graphc.codegen.libm.vector_math, graphc.codegen.llvm.jit\n"
        "sys.exit('llvmlite' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# -- builder --------------------------------------------------------------------------------------


def test_scalars_are_splat_among_vectors() -> None:
    b = LoopBuilder("splat")
    vector, scalar = b.const(F32, 1.0, 8), b.const(F32, 2.0)
    assert b.mul(scalar, vector).type == vector.type
    flag = b.compare("lt", scalar, scalar)
    assert b.select(flag, scalar, vector).type == vector.type
    splats = [s for s in b.finish(1).body if isinstance(s, Let) and s.opcode == "splat"]
    assert len(splats) == 1  # both uses share it; the condition of a select may be scalar


def test_constants_are_written_once_and_first() -> None:
    b = LoopBuilder("constants")
    with b.loop(0, 2):
        inner = b.const(F32, 1.0)
        assert b.const(F32, 1.0) is inner
        assert b.iota(I32, 4) is b.iota(I32, 4)
        assert b.const(F32, -0.0) != b.const(F32, 0.0)
    *leading, loop = b.finish(1).body
    assert isinstance(loop, For)
    assert [s.opcode for s in leading if isinstance(s, Let)] == ["const", "iota", "const", "const"]


@pytest.mark.parametrize(
    ("opcode", "types", "attribute", "message"),
    [
        ("add", [F32, I32], None, r"add: operands differ in type: f32, i32"),
        ("add", [BOOL, BOOL], None, r"bool has no arithmetic"),
        ("add", [F32], None, r"add takes 2 operands, has 1"),
        ("sqrt", [I32], None, r"wants f32 or f64, has i32"),
        ("mod", [F32, F32], None, r"wants i32 or i64, has f32"),
        ("xor", [F32, F32], None, r"wants integers or bool, has f32"),
        ("select", [F32, F32, F32], None, r"condition f32 does not select among f32"),
        ("bitcast", [F32], I64, r"f32 and i64 differ in width"),
        ("extract", [F32], 0, r"a scalar has no lanes"),
        ("call", [F32], "sing", r"'sing' is no known libm function"),
        ("call", [F32], "pow", r"pow takes 2 operands, has 1"),
        ("wibble", [F32], None, r"'wibble' is no opcode"),
        ("lookup", [F32], (0,) * 8, r"lookup: wants i32, has f32"),
        ("lookup", [I32], (0,) * 4, r"lookup: the attribute is a tuple of 8 numbers"),
        ("lookup", [I32], (0,) * 7 + (2**31,), r"is no value of i32"),
    ],
)
def test_types_are_checked_where_an_op_is_written(
    opcode: str, types: list[DType], attribute: object, message: str
) -> None:
    b = LoopBuilder("types")
    values = [b.load(b.buffer(f"x{n}", dtype, 1, "read"), 0) for n, dtype in enumerate(types)]
    with pytest.raises(VerifyError, match=message):
        b.op(opcode, *values, attribute=attribute)


def test_only_open_enclosing_blocks_can_be_written_to() -> None:
    b = LoopBuilder("blocks")
    with b.loop(0, 2):
        closed = b.block
        assert closed.depth == 1
    with pytest.raises(VerifyError, match="only an open block"), b.at(closed):
        pass


def test_yields_must_match() -> None:
    b = LoopBuilder("yields")
    with pytest.raises(VerifyError, match=r"the loop yields \(\), not \(f32\)"):
        with b.loop(0, 2, carried=[b.const(F32, 1.0)]):
            pass
    with pytest.raises(VerifyError, match="a while loop without a condition"):
        with b.while_([]):
            pass


def test_constants_are_rounded() -> None:
    b = LoopBuilder("constants")
    b.const(F32, 0.1)
    (statement,) = b.finish(1).body
    assert isinstance(statement, Let)
    assert statement.attribute == 0.10000000149011612
    with pytest.raises(OverflowError, match="out of bounds for int32"):
        b.const(I32, 1 << 31)


# -- verifier -------------------------------------------------------------------------------------

A, B, C, STEP, COUNT = value("a"), value("b"), value("c"), value("i", I64), value("n", I64)
FLAG = value("flag", BOOL)


def loop(
    *body: Statement, begin: int | LoopValue = 0, end: int | LoopValue = 4, step: int = 1
) -> For:
    return For(STEP, begin, end, step, (), body, (), ())


BROKEN: dict[str, list[Callable[[], Kernel]]] = {
    "L1: %a is defined twice": [
        lambda: kernel(const("a", 1.0), const("a", 1.0)),
        lambda: kernel(loop(const("a", 1.0)), const("a", 1.0)),
    ],
    "L2: %a is not defined": [lambda: kernel(Let(B, "neg", (A,)))],
    "L2: %a is out of scope": [
        lambda: kernel(loop(const("a", 1.0)), Let(B, "neg", (A,))),
        lambda: kernel(
            const("flag", True, BOOL),
            If(FLAG, (const("a", 1.0),), (), (Let(B, "neg", (A,)),), (), ()),
        ),
    ],
    "L2: %i is out of scope": [lambda: kernel(loop(), Load(A, X, Index.of(0, STEP)))],
    "L2: %a is f32, used as i32": [
        lambda: kernel(const("a", 1.0), Let(value("b", I32), "neg", (value("a", I32),)))
    ],
    "L3: add gives f32": [
        lambda: kernel(const("a", 1.0), Let(value("b", I32), "add", (A, A))),
    ],
    "L3: add: operands differ in type": [
        lambda: kernel(const("a", 1.0), const("n", 1, I64), Let(C, "add", (A, COUNT)))
    ],
    "L4: buffer x is declared twice": [lambda: kernel(buffers=(X, X))],
    "L4: buffer x is not declared like this": [
        lambda: kernel(Load(A, X, Index()), buffers=(Y,)),
        lambda: kernel(Load(A, replace(X, size=99), Index())),
    ],
    "L4: buffer t with access scratch is misplaced": [
        lambda: kernel(buffers=(Buffer("t", F32, 1, "scratch"),))
    ],
    "L4: buffer x has size -1": [lambda: kernel(buffers=(replace(X, size=-1),))],
    "L5: buffer y is declared `write`": [lambda: kernel(Load(A, Y, Index()))],
    "L5: buffer x is declared `read`": [lambda: kernel(const("a", 1.0), Store(X, Index(), A))],
    "L6: %n is i64, buffer x holds f32": [lambda: kernel(Load(COUNT, X, Index()))],
    "L6: the mask %flag is bool for 4 lanes": [
        lambda: kernel(const("flag", True, BOOL), Load(value("a", F32, 4), X, Index(), FLAG))
    ],
    "L7: index term %a is f32": [
        lambda: kernel(const("a", 1.0), Load(B, X, Index.of(0, A))),
    ],
    r"L8: elements \[16, 17\) of buffer x with 16": [lambda: kernel(Load(A, X, Index(16)))],
    r"L8: elements \[0, 19\) of buffer x with 16": [
        lambda: kernel(loop(Load(value("a", F32, 4), X, Index.of(0, (STEP, 5)))))
    ],
    r"L8: elements \[-3, 1\) of buffer x with 16": [
        lambda: kernel(loop(Load(A, X, Index.of(0, (STEP, -1)))))
    ],
    r"L8: elements \[0, 22\) of buffer x with 16": [
        lambda: kernel(loop(Load(A, X, Index.of(0, (STEP, 7))), begin=BEGIN, end=END))
    ],
    "L9: the step is 0": [lambda: kernel(loop(step=0))],
    "L9: %a is f32, not a scalar i64": [lambda: kernel(const("a", 1.0), loop(end=A))],
    r"L10: yields are \(\), not \(f32\)": [
        lambda: kernel(const("a", 1.0), For(STEP, 0, 4, 1, ((B, A),), (), (), (C,)))
    ],
    r"L10: results are \(\), not \(f32\)": [
        lambda: kernel(const("flag", True, BOOL), const("a", 1.0), If(FLAG, (), (A,), (), (A,), ()))
    ],
    r"L10: initial values are \(f32\), not \(i64\)": [
        lambda: kernel(const("a", 1.0), For(STEP, 0, 4, 1, ((COUNT, A),), (), (COUNT,), (C,)))
    ],
    "L11: the condition %a is f32": [
        lambda: kernel(const("a", 1.0), If(A, (), (), (), (), ())),
        lambda: kernel(While((), (const("a", 1.0),), A, (), (), ())),
    ],
    "L12: const: 0.1 is no value of f32": [lambda: kernel(const("a", 0.1))],
    "L12: const: 1 is no value of bool": [lambda: kernel(const("flag", 1, BOOL))],
    "L12: const: 2147483648 is no value of i32": [lambda: kernel(const("a", 1 << 31, I32))],
}


@pytest.mark.parametrize(
    ("message", "make"), [(message, make) for message, all_ in BROKEN.items() for make in all_]
)
def test_broken_kernels_are_refused(message: str, make: Callable[[], Kernel]) -> None:
    broken = make()
    with pytest.raises(VerifyError, match=f"^{message}"):
        verify(broken)


def test_every_rule_has_a_failing_example() -> None:
    assert {message.split(":")[0] for message in BROKEN} == {f"L{n}" for n in range(1, 13)}


@pytest.mark.parametrize(
    "fine",
    [
        kernel(loop(Load(A, X, Index.of(12, STEP)))),
        kernel(loop(Load(value("a", F32, 4), X, Index.of(0, (STEP, 4))))),
        kernel(loop(Load(A, X, Index.of(99, STEP)), begin=3, end=3)),
        kernel(loop(Load(A, X, Index.of(99, STEP)), end=END)),
        kernel(const("flag", True, BOOL), If(FLAG, (Load(A, X, Index(99)),), (), (), (), ())),
        kernel(const("flag", True, BOOL), Load(A, X, Index(99), FLAG)),
        kernel(Barrier()),
    ],
)
def test_guarded_masked_and_exact_accesses_are_accepted(fine: Kernel) -> None:
    verify(fine)


def test_all_opcodes_have_a_native_and_an_interpreted_form() -> None:
    from graphc.codegen.llvm.ops import _EMITTERS
    from graphc.codegen.loop_ir.operations import OPERATIONS

    assert set(_EMITTERS) == set(OPCODES)
    assert set(OPERATIONS) | {"const", "iota"} == set(OPCODES)
