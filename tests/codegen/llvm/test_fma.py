"""a * b + c, rounded once, where a processor has no such instruction: what computes it, run on this
machine, against fractions."""

from __future__ import annotations

import ctypes
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from graphc.codegen.llvm.fma import COMPUTED
from graphc.codegen.llvm.native import compile_text
from graphc.codegen.target import host
from tests.build.loaded import functions_of

CALLS = """
define void @of_floats(ptr %a, ptr %b, ptr %c, ptr %to, i64 %count) nounwind {
  %i.at = alloca i64
  store i64 0, ptr %i.at
  br label %head
head:
  %i = load i64, ptr %i.at
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %a.at = getelementptr float, ptr %a, i64 %i
  %b.at = getelementptr float, ptr %b, i64 %i
  %c.at = getelementptr float, ptr %c, i64 %i
  %to.at = getelementptr float, ptr %to, i64 %i
  %x = load <4 x float>, ptr %a.at, align 4
  %y = load <4 x float>, ptr %b.at, align 4
  %z = load <4 x float>, ptr %c.at, align 4
  %r = call <4 x float> @graphc.fma.v4f32(<4 x float> %x, <4 x float> %y, <4 x float> %z)
  store <4 x float> %r, ptr %to.at, align 4
  %next = add i64 %i, 4
  store i64 %next, ptr %i.at
  br label %head
end:
  ret void
}
"""
DOUBLES = CALLS.replace("of_floats", "of_doubles").replace("<4 x float>", "<2 x double>").replace(
    "getelementptr float", "getelementptr double").replace("v4f32", "v2f64").replace(
    "i64 %i, 4", "i64 %i, 2")  # fmt: skip


@pytest.fixture(scope="module")
def computed() -> Any:
    """What computes a * b + c on arrays of f32 or f64."""
    names = ["of_floats", "of_doubles"]
    addresses = functions_of(compile_text(COMPUTED + CALLS + DOUBLES, host()), names)
    pointer = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, pointer, ctypes.c_int64)

    def fma(a: Any, b: Any, c: Any) -> Any:
        name = names[a.dtype == np.float64]
        whole = -(-len(a) // 4) * 4
        padded = [np.resize(x, whole) for x in (a, b, c)]
        result = np.empty(whole, a.dtype)
        kind(addresses[name])(*(x.ctypes.data for x in (*padded, result)), whole)
        return result[: len(a)]

    return fma


def once_rounded(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of finite numbers, by fractions; a sum of 0 has the sign that f64 gives it."""
    dtype, info = a.dtype.type, np.finfo(a.dtype)
    least = Fraction(info.smallest_subnormal.item())
    results = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist()):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            cancels = x != 0 and y != 0
            results.append(dtype(0.0) if cancels else dtype(x) * dtype(y) + dtype(z))
            continue
        size, unit = abs(exact), least
        bits = size.numerator.bit_length() - size.denominator.bit_length() - info.nmant - 1
        unit = max(least, Fraction(2) ** bits)
        while size / unit >= 2 ** (info.nmant + 1):
            unit *= 2
        count = size / unit
        whole = round(count)  # halves to even
        number = whole * unit
        value = np.inf if number > Fraction(info.max.item()) else float(number)
        results.append(dtype(np.copysign(value, -1.0 if exact < 0 else 1.0)))
    return np.array(results, a.dtype)


def same(one: Any, other: Any) -> bool:
    bits = f"u{one.dtype.itemsize}"
    return bool((one.view(bits) == other.view(bits)).all())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_of_all_sizes_are_rounded_once(dtype: Any, computed: Any) -> None:
    generator = np.random.default_rng(0)
    count, info = 3000, np.finfo(dtype)
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")

    def drawn(spread: int) -> Any:
        exponents = generator.integers(-spread, spread + 1, count)
        return np.ldexp(generator.uniform(-2, 2, count), exponents).astype(dtype)

    for spread in (0, 3, 30, info.maxexp // 2):
        a, b, c = (drawn(spread) for _ in range(3))
        assert same(computed(a, b, c), once_rounded(a, b, c)), spread
        with np.errstate(all="ignore"):
            near = -(a * b)  # what is left is what the product lost
        keep = np.isfinite(near)
        moved = (near.view(unsigned) + generator.integers(0, 3, count).astype(unsigned)).view(dtype)
        for last in (near, moved):
            finite = keep & np.isfinite(last)
            given = a[finite], b[finite], last[finite]
            assert same(computed(*given), once_rounded(*given)), spread
    # Results that are subnormal, or next to nothing beside c.
    a = drawn(2) * dtype(2.0 ** (info.minexp // 2))
    b = drawn(2) * dtype(2.0 ** (info.minexp // 2 - 2))
    c = (generator.integers(-9, 9, count) * info.smallest_subnormal).astype(dtype)
    assert same(computed(a, b, c), once_rounded(a, b, c))
    halves = generator.integers(1, 2**20, count).astype(dtype) + dtype(0.5)
    small = np.full(count, info.smallest_subnormal, dtype)
    assert same(computed(halves, small, c), once_rounded(halves, small, c))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_infinities_and_nans(dtype: Any, computed: Any) -> None:
    info = np.finfo(dtype)
    values = [0.0, 1.0, 1.5, info.max.item(), info.tiny.item(), info.smallest_subnormal.item()]
    signed = [sign * value for value in values for sign in (1.0, -1.0)]
    a, b, c = np.array(list(itertools.product(signed, repeat=3)), dtype).T.copy()
    assert same(computed(a, b, c), once_rounded(a, b, c))
    wild = [*signed, np.inf, -np.inf, np.nan]
    a, b, c = np.array(list(itertools.product(wild, repeat=3)), dtype).T.copy()
    some = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    a, b, c = a[some], b[some], c[some]
    with np.errstate(all="ignore"):
        product = np.where(np.isfinite(a) & np.isfinite(b), dtype(0), a * b)
        expected = product + c
    got = computed(a, b, c)
    assert (np.isnan(got) == np.isnan(expected)).all()
    assert same(got[~np.isnan(got)], expected[~np.isnan(got)])
