"""Native conversions give the bits of graphc.ops.conversion, and call no library function."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.codegen import target
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.ir.types import COMPILED, DType
from graphc.ops.conversion import convert

HALVES = (DType.f16, DType.bf16)
STORAGE = [dtype for dtype in COMPILED if dtype.is_storage]
PAIRS = [(a, b) for a in COMPILED for b in COMPILED if a.is_storage or b.is_storage]
LANES = 16


def kernel_of(source: DType, to: DType, count: int, lanes: int) -> Kernel:
    b = LoopBuilder("conversion")
    x, y = b.buffer("x", source, count, "read"), b.buffer("y", to, count, "write")
    with b.loop(b.begin, b.end) as loop:
        at = b.index(0, (loop.variable, lanes))
        b.store(y, at, b.convert(b.load(x, at, lanes), to))
    return b.finish(count // lanes)


def values(dtype: DType) -> np.ndarray:
    """All values of a short type; of others those around which rounding turns, random bits too."""
    if dtype is DType.bool:
        return np.tile([True, False], LANES)
    if dtype.itemsize <= 2:
        return np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype.numpy)
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**64, 4096, dtype=np.uint64)
    if not dtype.is_float:
        short = bits.view(np.int64) >> random.integers(0, 60, bits.size)
        return np.concatenate([bits.view(np.int64), short, short + 1]).astype(dtype.numpy)
    parts = [bits.view(dtype.numpy)]
    for half in HALVES:
        stored = np.arange(65536, dtype=np.uint16).view(half.numpy).astype(np.float64)
        following = np.roll(stored, -1)
        middle = (stored / 2 + following / 2)[np.isfinite(stored) & np.isfinite(following)][::3]
        middle = middle.astype(dtype.numpy)
        parts += [middle, *(np.nextafter(middle, dtype.numpy.type(to)) for to in (1e38, -1e38))]
    whole = random.standard_normal(4096) * 10.0 ** random.integers(0, 20, 4096)
    special = [65504, 65519.996, 65520, -65520, 3.4e38, np.inf, -np.inf, np.nan, 0.0, -0.0]
    numbers = np.concatenate([*parts, whole.astype(dtype.numpy), np.array(special, dtype.numpy)])
    return numbers[: numbers.size // LANES * LANES]


def same(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where the bits are equal, one NaN as good as another."""
    equal = got.view(f"u{got.itemsize}") == want.view(f"u{want.itemsize}")
    return equal | ((got != got) & (want != want))


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("source", "to"), PAIRS, ids=lambda dtype: dtype.value)
def test_native_conversions_give_the_same_bits(source: DType, to: DType) -> None:
    """With instructions for f16, and in the integer form of processors without."""
    targets = [target.running()]
    if DType.f16 in (source, to):
        targets += target.executable()
    with np.errstate(all="ignore"):
        x = values(source)
        want = convert(x, to)
        for each in targets:
            kernel = kernel_of(source, to, x.size, LANES)
            got = np.zeros(x.size, to.numpy)
            jit.call_kernel(kernel, [x, got], target=each)
            wrong = np.flatnonzero(~same(got, want))[:5]
            assert not wrong.size, f"{each.name}: {x[wrong]} gave {got[wrong]}, not {want[wrong]}"


@pytest.mark.parametrize("to", HALVES, ids=lambda dtype: dtype.value)
def test_scalars_convert_as_vectors_do(to: DType) -> None:
    for source in COMPILED:
        with np.errstate(all="ignore"):
            x = values(source)[-4096:]
            got = np.zeros(x.size, to.numpy)
            jit.call_kernel(kernel_of(source, to, x.size, 1), [x, got])
            assert same(got, convert(x, to)).all(), source


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_no_conversion_calls_a_library_function(name: str) -> None:
    for source, to in PAIRS:
        if DType.f16 not in (source, to) and DType.bf16 not in (source, to):
            continue
        for lanes in (1, 8):
            text = jit.assembly(kernel_of(source, to, 64, lanes), target.named(name))
            called = [line for line in text.splitlines() if line.split()[:1] in (["callq"], ["bl"])]
            assert not called, (source, to, lanes)
