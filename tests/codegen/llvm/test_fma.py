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
from graphc.codegen.target import executable, named
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


DEFINED = "".join({k: text for each in COMPUTED.values() for k, text in each.items()}.values())
MACHINES = [name for name in ("host", "x86-64-v2") if named(name) in {named("host"), *executable()}]


def on_arrays(text: str, machine: str) -> Any:
    """What computes a * b + c on arrays of f32 or f64, by a module's two functions."""
    names = ["of_floats", "of_doubles"]
    addresses = functions_of(compile_text(text, named(machine)), names)
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


@pytest.fixture(scope="module", params=MACHINES)
def computed(request: Any) -> Any:
    """That of this module, in the instructions of a machine."""
    return on_arrays(DEFINED + CALLS + DOUBLES, request.param)


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


@pytest.mark.slow
def test_halves_that_a_product_only_just_misses(computed: Any) -> None:
    """(1 - d)(1 + d) is a half's size but for d * d: the sum of f64 cannot hold that, at any place
    between the greatest f32 and what is subnormal; each lane by itself, others left as they are."""
    cases = []
    for bits, place, sign, odd in itertools.product(
        (15, 18, 20, 22), (-150, -149, -140, -127, -126, -125, -60, 0, 60, 102), (1, -1), (0, 1, 5)
    ):
        d = 2.0**-bits
        half = 2.0 ** (place + 1) if place > -150 else 2.0**-149  # the unit is twice the half
        for up in range(14, 26):  # those below 24 are subnormal at the least place
            whole = 2.0 ** min(place + up, 127) + odd * half
            cases.append((sign * (1 - d) * 2.0 ** (place // 2), 1 + d, whole, place - place // 2))
            cases.append((sign * 2.0 ** (place // 2), 1.0, whole, place - place // 2))
    a = np.array([case[0] for case in cases], np.float32)
    b = np.array([case[1] * 2.0 ** case[3] for case in cases], np.float32)
    c = np.array([case[2] for case in cases], np.float32)
    for lane in range(4):
        first, second, third = (np.ones(4 * len(cases), np.float32) for _ in range(3))
        first[lane::4], second[lane::4], third[lane::4] = a, b, c
        assert same(computed(first, second, third), once_rounded(first, second, third)), lane


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_numbers_beside_this_machine(dtype: Any, computed: Any) -> None:
    """Its processor or its C library computes them otherwise. Numbers of few bits are often half
    way; those around the least are subnormal, those of any bits all there are."""
    text = (CALLS + DOUBLES).replace("graphc.fma", "llvm.fma")
    theirs = on_arrays(text, "host")
    generator, info = np.random.default_rng(1), np.finfo(dtype)
    unsigned, count = np.dtype(f"u{np.dtype(dtype).itemsize}"), 1 << 18
    digits, least = info.nmant + 1, info.minexp - info.nmant

    def drawn(bits: int, spread: int, place: int) -> Any:
        whole = generator.integers(-(1 << bits), 1 << bits, count, endpoint=True)
        exponents = place - bits + generator.integers(-spread, spread, count, endpoint=True)
        return np.ldexp(whole.astype(dtype), exponents.astype(np.int32))

    def hold(a: Any, b: Any, c: Any) -> None:
        given, expected = computed(a, b, c), theirs(a, b, c)
        numbers = ~np.isnan(expected)
        assert (np.isnan(given) == ~numbers).all()
        assert same(given[numbers], expected[numbers])

    with np.errstate(all="ignore"):
        for bits in (digits, digits // 2 + 1, 6, 2):
            for spread in (0, 2, digits + 2, 3 * digits):
                for place in (0, least, least + digits // 2, info.minexp, info.maxexp - 3):
                    a, b = drawn(bits, spread, place // 2), drawn(bits, spread, place - place // 2)
                    for c in (drawn(digits, 2, place), drawn(3, spread, place), -a * b):
                        hold(a, b, c)
        for _ in range(8):
            words = [generator.integers(0, 256, count * dtype().itemsize, np.uint8) for _ in "abc"]
            hold(*(each.view(unsigned).view(dtype) for each in words))
