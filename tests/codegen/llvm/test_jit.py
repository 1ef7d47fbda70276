"""Native code: memory that is never touched, kernels compiled once, drivers, and other targets."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from graphc.codegen import target
from graphc.codegen.llvm import jit, loading, native
from graphc.codegen.llvm.kernel import emit_modules
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.errors import ArgumentError, LoweringError
from graphc.ir.types import COMPILED, DType

F32, I64 = DType.f32, DType.i64


def scale(name: str = "scale", factor: float = 3.0) -> Kernel:
    b = LoopBuilder(name)
    x, y = b.buffer("x", F32, 64, "read"), b.buffer("y", F32, 64, "write")
    with b.loop(b.begin, b.end) as loop:
        index = b.index(0, (loop.variable, 8))
        b.store(y, index, b.mul(b.load(x, index, 8), b.const(F32, factor)))
    return b.finish(8)


@pytest.fixture
def guarded() -> Iterator[np.ndarray]:
    """A page of bytes with a page behind it that must not be touched: that ends the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.PAGESIZE
    block = mmap.mmap(-1, 2 * page)
    behind = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(block)) + page)
    no_access = 0
    assert libc.mprotect(behind, page, no_access) == 0
    yield np.frombuffer(block, np.uint8)[:page]
    assert libc.mprotect(behind, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dtype", list(COMPILED))
@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("fixed", [False, True])
def test_masked_tails_touch_nothing_beyond(
    guarded: np.ndarray, dtype: DType, lanes: int, fixed: bool
) -> None:
    """Vectors of which only some lanes lie inside; the length is a constant or is loaded."""
    for length in {lanes // 2 + 1, 2 * lanes + 1}:
        b = LoopBuilder("tail")
        x = b.buffer("x", dtype, length, "readwrite")
        size = b.buffer("size", I64, 1, "read")
        count = b.const(I64, length) if fixed else b.load(size, 0)
        with b.loop(0, length, lanes) as loop:
            place = b.add(b.iota(I64, lanes), loop.variable)
            mask = b.compare("lt", place, count)
            value = b.load(x, loop.variable, lanes, mask)
            other = b.gather(x, place, mask)
            if dtype.is_storage:
                one = b.select(mask, other, value)
            else:
                one = b.op("and" if dtype is DType.bool else "mul", value, other)
            b.store(x, loop.variable, one, mask)
            b.scatter(x, place, one, mask)
        kernel = b.finish(1)
        array = guarded[-length * dtype.itemsize :].view(dtype.numpy)
        for each in target.executable():
            array[:] = 1
            jit.call_kernel(kernel, [array, np.array([length])], target=each)
            assert (array == 1).all()


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64, DType.i32, DType.i64])
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_lanes_that_are_never_there_are_not_loaded(dtype: DType, lanes: int) -> None:
    """Under a condition of the call and a length that is known: registers without a lane of it are
    in memory, and must be zeros."""
    for length in (1, lanes // 4, lanes // 2, lanes // 2 + 1, lanes - 1):
        b = LoopBuilder("part")
        x = b.buffer("x", dtype, lanes, "read")
        wanted = b.buffer("wanted", I64, 1, "read")
        y, z = (b.buffer(name, dtype, lanes, "write") for name in "yz")
        place = b.iota(I64, lanes)
        there = b.compare("ge", b.load(wanted, 0), b.const(I64, 0))
        known = b.compare("lt", place, b.const(I64, length))
        mask = b.op("and", b.splat(there, lanes), known)
        b.store(y, 0, b.load(x, 0, lanes, mask))
        b.store(z, 0, b.gather(x, place, mask))
        kernel = b.finish(1)
        array = np.arange(1, lanes + 1).astype(dtype.numpy)
        for each in target.executable():
            for sign, count in ((1, length), (-1, 0)):
                loaded, gathered = np.full((2, lanes), 99, dtype.numpy)
                buffers = [array, np.array([sign]), loaded, gathered]
                jit.call_kernel(kernel, buffers, target=each)
                expected = [*array[:count], *[0] * (lanes - count)]
                assert loaded.tolist() == gathered.tolist() == expected, each.name


def test_equal_kernels_are_compiled_and_loaded_once() -> None:
    first, second = jit.compile_kernel(scale("one")), jit.compile_kernel(scale("two"))
    assert first is second
    assert jit.kernel_function(scale("one")) is jit.kernel_function(scale("two"))
    assert jit.compile_kernel(scale(factor=4.0)).symbol != first.symbol
    zeros = [jit.compile_kernel(scale(factor=zero)).symbol for zero in (0.0, -0.0)]
    assert zeros[0] != zeros[1]


def test_object_code_can_come_from_a_store() -> None:
    class Store:
        def __init__(self) -> None:
            self.kept: dict[str, bytes] = {}

        def get(self, symbol: str) -> bytes | None:
            return self.kept.get(symbol)

        def put(self, symbol: str, object: bytes, facts: object) -> None:
            self.kept[symbol] = object

    store = Store()
    kernel = scale(factor=5.0)
    compiled = jit.compile_kernel(kernel, store=store)
    assert store.kept == {compiled.symbol: compiled.object}
    jit._compiled.pop(compiled.symbol)
    again = jit.compile_kernel(kernel, store=store)
    assert again.object == compiled.object
    assert again.timings == {}


def test_a_driver_calls_kernels() -> None:
    """One entry that runs a kernel on one half, then another on the other half."""
    symbols = {
        "first": jit.kernel_function(scale(factor=2.0)),
        "second": jit.kernel_function(scale(factor=-1.0)),
    }
    text = """
    declare void @first(ptr, ptr, i64, i64, ptr)
    declare void @second(ptr, ptr, i64, i64, ptr)
    define void @driver(ptr %buffers) {
      call void @first(ptr %buffers, ptr null, i64 0, i64 4, ptr null)
      call void @second(ptr %buffers, ptr null, i64 4, i64 8, ptr null)
      ret void
    }
    """
    driver = loading.compile_driver(text, symbols)
    assert loading.compile_driver(text, symbols) is driver
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    table = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(driver.address)(table)
    np.testing.assert_array_equal(y, np.where(np.arange(64) < 32, 2 * x, -x))


def test_objects_loaded_together_call_each_other() -> None:
    """As on a warm start: a driver and its kernels, one of which is loaded already."""
    loaded, fresh = scale(factor=6.0), scale(factor=7.0)
    held = jit.kernel_function(loaded)
    compiled = [jit.compile_kernel(loaded), jit.compile_kernel(fresh)]
    calls = "".join(
        f"  call void @{each.symbol}(ptr %b, ptr null, i64 {n}, i64 {n + 1}, ptr null)\n"
        for n, each in enumerate(compiled)
    )
    declared = "".join(
        f"declare void @{each.symbol}(ptr, ptr, i64, i64, ptr)\n" for each in compiled
    )
    text = f"{declared}define void @together_driver(ptr %b) {{\n{calls}  ret void\n}}\n"
    objects = {each.symbol: each.object for each in compiled}
    objects["together_driver"] = native.compile_text(text, target.running())
    functions = loading.load(objects)
    assert functions[compiled[0].symbol] is held
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    table = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions["together_driver"].address)(table)
    assert y[::8].tolist() == [6, 7, 0, 0, 0, 0, 0, 0]


def test_malformed_modules_raise() -> None:
    with pytest.raises(LoweringError, match="malformed LLVM IR"):
        loading.compile_driver("define void @driver() { ret i32 0 }", {})
    with pytest.raises(LoweringError, match="malformed LLVM IR"):
        loading.compile_driver("define i32 @driver(i1 %c) { %x = add i32 %x, 1 ret i32 %x }", {})


def test_wrong_arrays_raise() -> None:
    good = np.zeros(64, np.float32)
    for arrays, words in (
        ([good], "2 buffers, 1 arrays"),
        ([good, good[:32]], "wants 64 elements of f32, the array has 32 of float32"),
        ([good, good.astype(np.float64)], "the array has 64 of float64"),
        ([good, good[::-1]], "is not contiguous"),
    ):
        with pytest.raises(ArgumentError, match=words):
            jit.call_kernel(scale(), arrays)


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("x86-64-v3", "%ymm"), ("x86-64-v4", "vmulps"), ("x86-64-v2", "mulps"), ("aarch64", "fmul")],
)
def test_assembly_for_other_targets(name: str, instruction: str) -> None:
    listing = jit.assembly(scale(), target.named(name))
    assert instruction in listing
    assert "scale:" in listing


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("x86-64-v2", "blendvps"),
        ("x86-64-v3", "vpermps"),
        ("x86-64-v4", "%zmm"),
        ("aarch64", "bsl"),
    ],
)
def test_a_lookup_is_a_permutation_where_the_processor_has_one(name: str, instruction: str) -> None:
    b = LoopBuilder("lookup")
    x = b.buffer("x", DType.i32, 16, "read")
    y = b.buffer("y", DType.i32, 16, "write")
    b.store(y, 0, b.op("lookup", b.load(x, 0, 16), attribute=tuple(range(8))))
    listing = jit.assembly(b.finish(1), target.named(name))
    assert instruction in listing
    assert ("vperm" in listing) == (name in ("x86-64-v3", "x86-64-v4"))


@pytest.mark.parametrize(
    ("name", "lanes", "attribute"),
    [
        ("x86-64-v3", 32, " alignstack(32) {"),
        ("x86-64-v4", 32, " alignstack(64) {"),
        ("x86-64-v3", 8, " nounwind {"),
        ("x86-64-v2", 32, " nounwind {"),
    ],
)
def test_the_stack_is_aligned_where_values_fill_several_registers(
    name: str, lanes: int, attribute: str
) -> None:
    b = LoopBuilder("copy")
    x = b.buffer("x", DType.f32, 32, "read")
    y = b.buffer("y", DType.f32, 32, "write")
    b.store(y, 0, b.load(x, 0, lanes))
    text = jit.llvm_text(b.finish(1), target.named(name))
    (line,) = (line for line in text.splitlines() if line.startswith("define"))
    assert line.endswith(attribute)


def test_texts() -> None:
    plain = jit.llvm_text(scale(), target.named("x86-64-v3"))
    assert [plain] == emit_modules(scale(), "scale", target.named("x86-64-v3"))
    assert "fmul <8 x float>" in plain
    assert "inttoptr" not in plain


def test_targets() -> None:
    host = target.named("host")
    assert host is target.host()
    assert host.vector_bytes in (16, 32, 64)
    assert host.lanes(F32) == 2 * host.lanes(I64)
    with pytest.raises(LoweringError, match="'x86-65' is no known target"):
        target.named("x86-65")


FORK = """
import os, threading, time, warnings
import numpy as np, graphc
from graphc.codegen.llvm.native import LOCK

held = threading.Event()
threading.Thread(
    target=lambda: (LOCK.acquire(), held.set(), time.sleep(60)), daemon=True
).start()
held.wait()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[3]")
    made = graphc.compile(g.finish(x * 2.0))(np.ones(3, np.float32))[0]
    os._exit(0 if made.tolist() == [2.0, 2.0, 2.0] else 1)
print(os.waitpid(child, 0)[1])
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_a_thread_compiles_can_compile() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60,
        env={**os.environ, "GRAPHC_CACHE": "off"},
    )  # fmt: skip
    assert done.stdout.strip() == "0", done.stderr


def test_addresses_walk_along_with_an_innermost_loop() -> None:
    """Two strides, one of them of two buffers, a begin that is not 0, and steps of 2."""
    b = LoopBuilder("walks")
    x, y = b.buffer("x", F32, 200, "read"), b.buffer("y", F32, 400, "read")
    z = b.buffer("z", F32, 200, "write")
    with b.loop(0, 2, hint="outer") as outer, b.loop(b.begin, b.end, step=2, hint="k") as loop:
        place = b.index(3, (outer.variable, 100), (loop.variable, 9))
        far = b.index(0, (outer.variable, 200), (loop.variable, 18))
        b.store(z, place, b.add(b.load(x, place), b.load(y, far)))
    kernel = b.finish(10)
    text = jit.llvm_text(kernel)
    inner = text[text.index("%v.k = phi") : text.index("br label %for2", text.index("%v.k = phi"))]
    assert " mul " not in inner
    assert inner.count("phi") == 3  # the variable, a pointer, an offset of two buffers
    arrays = [np.arange(200, dtype=np.float32), np.arange(400, dtype=np.float32) / 7]
    out = np.zeros(200, np.float32)
    jit.call_kernel(kernel, [*arrays, out], begin=3, end=10)
    want = np.zeros(200, np.float32)
    for outer_at in range(2):
        for k in range(3, 10, 2):
            at = 3 + 100 * outer_at + 9 * k
            want[at] = arrays[0][at] + arrays[1][200 * outer_at + 18 * k]
    assert (out == want).all()
