"""The interpreter and native code give the same bits, opcode by opcode and for random programs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from graphc.codegen import target
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.loop_ir.nodes import Kernel, LoopValue, VectorType, result_type
from graphc.errors import VerifyError
from graphc.ir.types import COMPILED, DType
from graphc.ops.kinds.numpy_fma import fma32

F32, F64, I32, I64, BOOL = DType.f32, DType.f64, DType.i32, DType.i64, DType.bool
DTYPES = [F32, F64, I32, I64, BOOL]
STORAGE = [dtype for dtype in COMPILED if dtype.is_storage]


TARGETS = target.executable()


def bits(array: np.ndarray) -> np.ndarray:
    """The array's bits, every NaN as the same one."""
    if not DType.of(array.dtype).is_float:
        return array.view(np.uint8)
    same = array.copy()
    with np.errstate(invalid="ignore"):
        same[np.isnan(same)] = np.nan
    return same.view(f"u{array.itemsize}")


def agree(kernel: Kernel, arrays: list[np.ndarray], begin: int = 0, end: int | None = None) -> None:
    expected = [array.copy() for array in arrays]
    run(kernel, expected, begin, end)
    for each in TARGETS:
        actual = [array.copy() for array in arrays]
        jit.call_kernel(kernel, actual, begin, end, each)
        for buffer, have, want in zip(kernel.buffers, actual, expected, strict=True):
            np.testing.assert_array_equal(
                bits(have), bits(want), err_msg=f"{buffer} on {each.name}\n{kernel}"
            )


SPECIAL = {
    F32: [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, 2.0**31,
          -(2.0**31), 2.0**63, -(2.0**63), 1e30, 0.49999997, 8388609.0, 16777215.0],
    F64: [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1.7e308,
          2.0**31, 2147483647.5, -(2.0**31) - 1, 2.0**63, -(2.0**63), 1e30, 0.49999999999999994],
    I32: [0, 1, -1, 2, 7, -7, 31, 32, 33, -(2**31), 2**31 - 1, 1000, -1000],
    I64: [0, 1, -1, 2, 7, -7, 63, 64, 65, -(2**63), 2**63 - 1, 2**31, 2**53 + 1, 2**40 + 2**16 + 1],
    BOOL: [False, True],
    DType.f16: [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 6e-8, -1e-5, 65504.0, 0.1, 300.0],
    DType.bf16: [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -3e38, 0.1, 300.0, 1e10],
    DType.u8: [0, 1, 127, 128, 255],
    DType.i8: [0, 1, -1, 127, -128],
    DType.i16: [0, 1, -1, 255, 256, -32768, 32767],
    DType.u64: [0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    DType.u16: [0, 1, 255, 256, 2**15, 2**16 - 1],
    DType.u32: [0, 1, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1],
}  # fmt: skip


def sample(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Half special values, half random bits or moderate numbers."""
    random = np.random.default_rng(seed)
    picks = np.array(SPECIAL[dtype], dtype.numpy)[random.integers(len(SPECIAL[dtype]), size=count)]
    if dtype is BOOL:
        return picks
    if dtype.is_float:
        wide = random.normal(size=count) * 10.0 ** random.integers(-6, 7, count)
        with np.errstate(over="ignore"):
            other = wide.astype(dtype.numpy)
    elif dtype.is_storage:
        limits = np.iinfo(dtype.numpy)
        other = random.integers(limits.min, limits.max, count, dtype.numpy, endpoint=True)
    else:
        half = 1 << random.integers(2, 8 * dtype.itemsize - 2)
        other = random.integers(-half, half, count).astype(dtype.numpy)
    return np.where(random.random(count) < 0.5, picks, other)


def check_elementwise(opcode: str, types: list[DType], attribute: object = None) -> None:
    """y = opcode(x0, x1, …), a third of the elements each in scalars, narrow and wide vectors."""
    b = LoopBuilder(opcode)
    size = 3 * 96
    inputs = [b.buffer(f"x{n}", dtype, size, "read") for n, dtype in enumerate(types)]
    values = [VectorType(dtype) for dtype in types]
    output = b.buffer("y", result_type(opcode, tuple(values), attribute).dtype, size, "write")
    for part, lanes in enumerate((1, 4, 16)):
        with b.loop(0, 96, lanes) as loop:
            index = b.index(96 * part, loop.variable)
            loaded = [b.load(each, index, lanes) for each in inputs]
            b.store(output, index, b.op(opcode, *loaded, attribute=attribute))
    kernel = b.finish(1)
    agree(kernel, [sample(each.dtype, size, seed) for seed, each in enumerate(kernel.buffers)])


NUMERIC = [F32, F64, I32, I64]
SAME_TYPE = (
    [
        (name, dtype)
        for name in ("add", "sub", "mul", "div", "rem", "minimum", "maximum")
        for dtype in NUMERIC
    ]
    + [(name, dtype) for name in ("floordiv", "mod", "shl", "lshr", "ashr") for dtype in (I32, I64)]
    + [(name, dtype) for name in ("eq", "ne", "lt", "le", "gt", "ge") for dtype in DTYPES]
    + [(name, dtype) for name in ("and", "or", "xor") for dtype in (I32, I64, BOOL)]
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("opcode", "dtype"), SAME_TYPE)
def test_two_operands(opcode: str, dtype: DType) -> None:
    check_elementwise(opcode, [dtype, dtype])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("opcode", "dtype"),
    [(name, dtype) for name in ("neg", "abs") for dtype in NUMERIC]
    + [
        (name, dtype)
        for name in ("sqrt", "floor", "ceil", "trunc", "round")
        for dtype in (F32, F64)
    ]
    + [("not", dtype) for dtype in (I32, I64, BOOL)],
)
def test_one_operand(opcode: str, dtype: DType) -> None:
    check_elementwise(opcode, [dtype])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target_dtype", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_convert(source: DType, target_dtype: DType) -> None:
    check_elementwise("convert", [source], target_dtype)


TABLE = (5, -1, 2**31 - 1, -(2**31), 0, 7, 100, -8)


def test_lookup() -> None:
    check_elementwise("lookup", [I32], TABLE)


@pytest.mark.parametrize("lanes", [2, 12, 32, 40])
def test_lookup_in_vectors_that_fill_no_register_or_several(lanes: int) -> None:
    b = LoopBuilder("lookup")
    x, y = b.buffer("x", I32, lanes, "read"), b.buffer("y", I32, lanes, "write")
    b.store(y, 0, b.op("lookup", b.load(x, 0, lanes), attribute=TABLE))
    agree(b.finish(1), [sample(I32, lanes, 0), np.zeros(lanes, np.int32)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", DTYPES + STORAGE)
def test_select(dtype: DType) -> None:
    check_elementwise("select", [BOOL, dtype, dtype])


@pytest.mark.parametrize("pair", [(F32, I32), (I32, F32), (F64, I64), (I64, F64),
                                  (DType.f16, DType.i16), (DType.i16, DType.bf16),
                                  (DType.u8, DType.i8)])  # fmt: skip
def test_bitcast(pair: tuple[DType, DType]) -> None:
    check_elementwise("bitcast", [pair[0]], pair[1])


@pytest.mark.parametrize("dtype", [F32, F64])
def test_fma(dtype: DType) -> None:
    check_elementwise("fma", [dtype] * 3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("function", "arity"), [("exp", 1), ("erf", 1), ("pow", 2), ("expm1", 1), ("atan2", 2)]
)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_call(function: str, arity: int, dtype: DType) -> None:
    check_elementwise("call", [dtype] * arity, function)


def test_calls_of_constants_are_not_folded() -> None:
    b = LoopBuilder("folded")
    y = b.buffer("y", F32, 8, "write")
    x = b.const(F32, 1.7)
    for position, name in enumerate(["exp", "log", "tanh", "sin"]):
        b.store(y, b.index(position), b.call(name, x))
    for position, exponent in enumerate([2.0, 0.5, -1.0, 3.0], 4):
        b.store(y, b.index(position), b.call("pow", x, b.const(F32, exponent)))
    agree(b.finish(1), [np.zeros(8, np.float32)])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("divisor", [1, 2, 7, 16, -1, -3, 0])
@pytest.mark.parametrize("opcode", ["div", "rem", "floordiv", "mod", "shl", "ashr"])
def test_constant_divisors(opcode: str, divisor: int) -> None:
    b = LoopBuilder(opcode)
    x, y = b.buffer("x", I32, 64, "read"), b.buffer("y", I32, 64, "write")
    with b.loop(0, 64, 8) as loop:
        value = b.op(opcode, b.load(x, loop.variable, 8), b.const(I32, divisor))
        b.store(y, loop.variable, value)
    agree(b.finish(1), [sample(I32, 64, 1), np.zeros(64, np.int32)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("opcode", ["minimum", "maximum"])
@pytest.mark.parametrize("constant", [0.0, -0.0, float("nan"), 1.0])
@pytest.mark.parametrize("first", [False, True])
def test_extremum_with_a_constant(opcode: str, constant: float, first: bool) -> None:
    b = LoopBuilder(opcode)
    x, y = b.buffer("x", F32, 64, "read"), b.buffer("y", F32, 64, "write")
    with b.loop(0, 64, 16) as loop:
        pair = [b.load(x, loop.variable, 16), b.const(F32, constant)]
        b.store(y, loop.variable, b.op(opcode, *(reversed(pair) if first else pair)))
    agree(b.finish(1), [sample(F32, 64, 1), np.zeros(64, np.float32)])


def test_fma_rounds_once() -> None:
    random = np.random.default_rng(0)
    count = 2000
    a, c = (random.normal(size=count).astype(np.float32) for _ in range(2))
    b_ = (random.normal(size=count) * 2.0 ** random.integers(-30, 30, count)).astype(np.float32)
    have = fma32(a, b_, c)
    for x, y, z, result in zip(a, b_, c, have, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(result)) - exact)
        for neighbour in (np.nextafter(result, np.float32(s * np.inf)) for s in (-1, 1)):
            assert error <= abs(Fraction(float(neighbour)) - exact)


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", DTYPES + STORAGE)
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_masks(dtype: DType, lanes: int) -> None:
    """A tail of every length: lanes masked off load 0 and are not stored."""
    b = LoopBuilder("masks")
    n = b.buffer("n", I64, 1, "read")
    x, y, z = (b.buffer(name, dtype, 64, "readwrite") for name in "xyz")
    count = b.load(n, 0)
    iota = b.iota(I64, lanes)
    with b.loop(0, 64, lanes) as loop:
        position = b.add(iota, loop.variable)
        mask = b.compare("lt", position, b.splat(count, lanes))
        value = b.load(x, loop.variable, lanes, mask)
        b.store(y, loop.variable, value)
        b.store(z, loop.variable, value, mask)
    kernel = b.finish(1)
    for length in (0, 1, 17, 63, 64):
        arrays = [np.array([length]), *(sample(dtype, 64, seed) for seed in range(3))]
        agree(kernel, arrays)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("index_dtype", [I32, I64])
@pytest.mark.parametrize("dtype", DTYPES + STORAGE)
@pytest.mark.parametrize("lanes", [1, 8])
def test_gather_scatter(dtype: DType, index_dtype: DType, lanes: int) -> None:
    b = LoopBuilder("gather")
    where = b.buffer("where", index_dtype, 64, "read")
    x, y = b.buffer("x", dtype, 40, "read"), b.buffer("y", dtype, 40, "write")
    flags = b.buffer("flags", BOOL, 64, "read")
    with b.loop(0, 64, 2 * lanes) as loop:
        for part in (0, 1):
            index = b.index(part * lanes, loop.variable)
            offsets = b.load(where, index, lanes)
            mask = b.load(flags, index, lanes) if part else None
            b.scatter(y, offsets, b.gather(x, offsets, mask), mask)
    random = np.random.default_rng(0)
    offsets = random.integers(0, 40, 64).astype(index_dtype.numpy)
    agree(b.finish(1), [offsets, sample(dtype, 40, 0), sample(dtype, 40, 1), sample(BOOL, 64, 2)])


def test_scatter_repeated_offsets_keep_the_last_lane() -> None:
    b = LoopBuilder("repeat")
    y = b.buffer("y", I32, 4, "write")
    b.scatter(y, b.op("floordiv", b.iota(I32, 16), b.const(I32, 4)), b.iota(I32, 16))
    kernel = b.finish(1)
    out = np.zeros(4, np.int32)
    agree(kernel, [out])
    run(kernel, [out])
    assert out.tolist() == [3, 7, 11, 15]


def test_scratch_and_in_place() -> None:
    """Scratch of two dtypes, and a buffer that is read and written through two names."""
    b = LoopBuilder("scratch")
    x, y = b.buffer("x", F32, 48, "read"), b.buffer("y", F32, 48, "write")
    first, second = b.scratch("first", F32, 5), b.scratch("second", I64, 9)
    with b.loop(0, 9) as i:
        b.store(second, i.variable, b.mul(i.variable, b.const(I64, 3)))
    with b.loop(0, 5) as i:
        value = b.convert(b.load(second, b.index(4, i.variable)), F32)
        b.store(first, i.variable, b.add(value, b.load(x, b.index(0, (i.variable, 9)))))
    b.barrier()
    b.prefetch(x, 1 << 40)  # far outside the buffer: asking for it is no access
    with b.loop(0, 48) as i:
        picked = b.load(first, b.index(2))
        b.store(y, i.variable, b.fma(picked, b.load(x, i.variable), picked))
    kernel = b.finish(1)
    assert kernel.scratch == (first, second)
    agree(kernel, [sample(F32, 48, 0), sample(F32, 48, 1)])
    shared = np.arange(48, dtype=np.float32)
    apart = [shared.copy(), np.zeros(48, np.float32)]
    run(kernel, apart)
    jit.call_kernel(kernel, [shared, shared])
    np.testing.assert_array_equal(shared, apart[1])


# -- blocks ---------------------------------------------------------------------------------------


def test_loops_carry_values() -> None:
    b = LoopBuilder("sums")
    x, y = b.buffer("x", F32, 12 * 16, "read"), b.buffer("y", F32, 24, "write")
    zero = b.const(F32, 0.0, 16)
    with b.loop(b.begin, b.end) as row:
        with b.loop(0, 1, carried=[zero, b.const(I64, 0)]) as inner:
            value = b.load(x, b.index(0, (row.variable, 16)), 16)
            inner.yield_(b.add(inner.carried[0], value), b.add(inner.carried[1], row.variable))
        total, width = inner.results[0], 16
        while width > 1:
            width //= 2
            lanes = range(width)
            low = b.shuffle(total, total, lanes)
            total = b.add(low, b.shuffle(total, total, [lane + width for lane in lanes]))
        b.store(y, b.index(0, (row.variable, 2)), total)
        b.store(y, b.index(1, (row.variable, 2)), b.convert(inner.results[1], F32))
    kernel = b.finish(12)
    for begin, end in ((0, 12), (3, 7), (5, 5)):
        agree(kernel, [sample(F32, 192, 0), np.zeros(24, np.float32)], begin, end)


@pytest.mark.parametrize(("begin", "end", "step"), [(0, 10, 3), (5, 5, 1), (7, 2, 2), (-4, 4, 4)])
def test_loop_bounds(begin: int, end: int, step: int) -> None:
    b = LoopBuilder("bounds")
    bounds, y = b.buffer("bounds", I64, 2, "read"), b.buffer("y", I64, 2, "write")
    first, last = b.load(bounds, 0), b.load(bounds, 1)
    for place, (low, high) in enumerate([(begin, end), (first, last)]):
        seed = b.const(I64, 1)
        with b.loop(low, high, step, carried=[seed]) as loop:
            seven = b.mul(loop.carried[0], b.const(I64, 7))
            loop.yield_(b.add(seven, loop.variable))
        b.store(y, place, loop.results[0])
    out = np.zeros(2, np.int64)
    kernel = b.finish(1)
    agree(kernel, [np.array([begin, end]), out])
    jit.call_kernel(kernel, [np.array([begin, end]), out])
    assert out[0] == out[1]


def test_if_and_while() -> None:
    """Collatz lengths, and a branch with stores in one arm only."""
    b = LoopBuilder("collatz")
    x, y = b.buffer("x", I64, 32, "read"), b.buffer("y", I64, 64, "write")
    one, two, three = (b.const(I64, n) for n in (1, 2, 3))
    with b.loop(0, 32) as i, b.while_([b.load(x, i.variable), b.const(I64, 0)]) as loop:
        number, count = loop.carried
        with loop.condition():
            loop.test(b.compare("gt", number, one))
        with loop.body():
            odd = b.compare("eq", b.op("and", number, one), one)
            with b.if_(odd) as branch:
                with branch.then():
                    b.store(y, b.index(32, i.variable), number)
                    branch.yield_(b.add(b.mul(number, three), one))
                with branch.otherwise():
                    branch.yield_(b.op("floordiv", number, two))
            loop.yield_(branch.results[0], b.add(count, one))
    b.store(y, 0, b.load(x, 3))
    agree(b.finish(1), [np.arange(32), np.full(64, -1)])


def test_hoisting() -> None:
    b = LoopBuilder("hoist")
    x, y = b.buffer("x", F32, 8, "read"), b.buffer("y", F32, 64, "write")
    with b.loop(0, 8) as i:
        row = b.block
        with b.loop(0, 8) as j:
            with b.at(row):
                root = b.sqrt(b.abs(b.load(x, i.variable)))
            b.store(y, b.index(0, (i.variable, 8), j.variable), root)
    kernel = b.finish(1)
    text = str(kernel)
    assert text.index("sqrt") < text.index("for %i_1")
    agree(kernel, [sample(F32, 8, 0), np.zeros(64, np.float32)])


# -- random programs ------------------------------------------------------------------------------


class Program:
    """A random kernel: straight-line code, loops and branches over values of all types."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.b = LoopBuilder(f"random{seed}")
        self.lanes = int(self.random.choice([1, 2, 3, 4, 8, 16]))
        self.inputs = [self.b.buffer(f"x_{d}", d, 64, "read") for d in DTYPES]
        self.outputs = {d: self.b.buffer(f"y_{d}", d, 64 * 8, "write") for d in DTYPES}
        self.stored = dict.fromkeys(DTYPES, 0)

    def pick(self, values: list[LoopValue], *dtypes: DType) -> LoopValue:
        fitting = [v for v in values if v.type.dtype in dtypes and v.type.lanes == self.lanes]
        return fitting[self.random.integers(len(fitting))]

    def step(self, values: list[LoopValue]) -> LoopValue:
        b, random = self.b, self.random
        kind = random.integers(7)
        if kind <= 1:
            opcode, dtype = SAME_TYPE[random.integers(len(SAME_TYPE))]
            return b.op(opcode, self.pick(values, dtype), self.pick(values, dtype))
        if kind == 2:
            a = self.pick(values, *DTYPES)
            return b.op("convert", a, attribute=DTYPES[random.integers(5)])
        if kind == 3:
            dtype = DTYPES[random.integers(5)]
            pair = self.pick(values, dtype), self.pick(values, dtype)
            return b.select(self.pick(values, BOOL), *pair)
        if kind == 4:
            dtype = [F32, F64][random.integers(2)]
            return b.fma(*(self.pick(values, dtype) for _ in range(3)))
        if kind == 5 and self.lanes > 1:
            dtype = DTYPES[random.integers(5)]
            picks = random.integers(2 * self.lanes, size=self.lanes).tolist()
            return b.shuffle(self.pick(values, dtype), self.pick(values, dtype), picks)
        dtype = NUMERIC[random.integers(4)]
        return b.op(["neg", "abs"][random.integers(2)], self.pick(values, dtype))

    def nest(self, values: list[LoopValue], depth: int) -> list[LoopValue]:
        b = self.b
        before = [self.pick(values, d) for d in DTYPES]
        if self.random.random() < 0.5:
            with b.loop(0, int(self.random.integers(4)), carried=before) as loop:
                loop.yield_(*self.body([*values, *loop.carried], depth + 1))
            return list(loop.results)
        with b.if_(b.op("eq", b.load(self.inputs[4], 0), b.load(self.inputs[4], 1))) as branch:
            with branch.then():
                branch.yield_(*self.body(values, depth + 1))
            with branch.otherwise():
                branch.yield_(*before)
        return list(branch.results)

    def body(self, values: list[LoopValue], depth: int) -> list[LoopValue]:
        values = list(values)
        for _ in range(int(self.random.integers(3, 10))):
            values.append(self.step(values))
        if depth < 2 and self.random.random() < 0.7:
            values += self.nest(values, depth)
        return [self.pick(values[::-1][:12] + values, d) for d in DTYPES]

    def finish(self) -> Kernel:
        b = self.b
        with b.loop(0, 64 - self.lanes + 1, max(self.lanes, 8)) as loop:
            loaded = [b.load(each, loop.variable, self.lanes) for each in self.inputs]
            for value in self.body(loaded, 0):
                b.store(self.outputs[value.type.dtype], loop.variable, value)
        return b.finish(1)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    kernel = Program(seed).finish()
    arrays = [
        sample(buffer.dtype, buffer.size, seed + n) for n, buffer in enumerate(kernel.buffers)
    ]
    agree(kernel, arrays)


def test_out_of_range_raises() -> None:
    b = LoopBuilder("range")
    x, y = b.buffer("x", I32, 4, "read"), b.buffer("y", I32, 4, "write")
    b.scatter(y, b.load(x, 0, 4), b.load(x, 0, 4))
    kernel = b.finish(1)
    with pytest.raises(VerifyError, match=r"R1: element 9 of buffer y.*\n.*scatter y"):
        run(kernel, [np.array([0, 1, 9, 2], np.int32), np.zeros(4, np.int32)])


def test_types_in_messages() -> None:
    assert str(VectorType(F32, 16)) == "f32x16"
