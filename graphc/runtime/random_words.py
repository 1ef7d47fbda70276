"""MT19937 in native code, for draws outside of graphs: one call fills an array with what a stream
gives next, and takes the stream's state on in place.

In: a state, i32[625] as in `graphc.ops.mersenne_twister`, and an array to fill, both contiguous,
aligned and writable, which is the caller's business. The GIL is held, so a call is one step for all
other threads; who draws much calls several times.

`LANES` elements are made together where the state has words left for them, else a single one. All
have the bits that `graphc.ops` says, on every target: nothing is rounded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver
from graphc.codegen.target import running
from graphc.ops.mersenne_twister import AS_SEEDED, MIDDLE, WORDS
from graphc.runtime.direct_call import SEVERAL_OBJECTS
from graphc.runtime.native_call import (
    DATA,
    DIMENSIONS,
    RANK,
    again,
    built_in,
    counting,
    loaded,
    method_of,
    python_functions,
)

LANES = 8
POSITION = 4 * WORDS
"""Where in a state the count of used words lies, in bytes."""

Fill = Callable[..., np.ndarray]


class RandomWords(NamedTuple):
    """Functions that return the array they filled."""

    seed: Fill
    """(state, seed): the state that a seed begins with; 32 bits of it count."""
    words: Fill
    """(state, i64 array): words, 0 to 2**32 - 1."""
    fractions: Fill
    """(state, f32 array): the low 24 bits of a word, times 2**-24."""
    long_fractions: Fill
    """(state, f64 array): 53 bits of two words, the first the upper half, times 2**-53."""
    remainders: Fill
    """(state, i64 array, span, first): a word modulo `span`, plus `first`."""
    long_remainders: Fill
    """The same of two words, the first the upper half. A span of 0 is one of 2**64."""
    order: Fill
    """(state, i64[n], start, stop): 0 to n - 1 with the places from `start` to `stop` swapped, as
    `graphc.ops.mersenne_twister.shuffled` does. Calls go from 0 on."""


@functools.cache
def random_words() -> RandomWords:
    """These functions, for the life of the process."""
    code = _functions()
    table = (ctypes.c_int64 * len(RandomWords._fields))()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)(ctypes.addressof(table))
    functions = [LoadedFunction(address, (code,)) for address in table]
    return RandomWords(*[built_in(method_of(f, SEVERAL_OBJECTS), None) for f in functions])


@functools.cache
def _functions() -> LoadedFunction:
    callees = python_functions(("PyLong_AsUnsignedLongLongMask", "Py_IncRef"))
    return compile_driver(_text(running().triple), callees, "functions", store=user_cache())


# -- words ---------------------------------------------------------------------------------------


class _Block:
    """LLVM IR without jumps, on numbers or on vectors of so many. Its values are named `prefix` and
    a count."""

    def __init__(self, prefix: str, lanes: int = 1):
        self.prefix, self.lanes = prefix, lanes
        self.lines: list[str] = []

    def of(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def constant(self, number: int | str, element: str = "i32") -> str:
        return str(number) if self.lanes == 1 else f"splat ({element} {number})"

    def do(self, text: str) -> str:
        """The value that an instruction gives."""
        name = f"%{self.prefix}.{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def by(self, name: str, left: str, right: str | int) -> str:
        """An operation of i32, of two values or of one and a number."""
        other = self.constant(right) if isinstance(right, int) else right
        return self.do(f"{name} {self.of('i32')} {left}, {other}")

    def converted(self, name: str, value: str, to: str) -> str:
        return self.do(f"{name} {self.of('i32')} {value} to {self.of(to)}")

    def halved(self, value: str, type: str, times: int) -> str:
        """A float, so many times: 2 to that power keeps all of its digits."""
        power = self.constant(f"0x{1023 - times << 52:016X}", type)
        return self.do(f"fmul {self.of(type)} {value}, {power}")

    def load(self, at: str) -> str:
        """Words of the state."""
        pointer = self.do(f"getelementptr i32, ptr %state, i64 {at}")
        return self.do(f"load {self.of('i32')}, ptr {pointer}, align 4")

    def store(self, value: str, base: str, at: str, element: str = "i32", align: int = 4) -> None:
        pointer = self.do(f"getelementptr {element}, ptr %{base}, i64 {at}")
        self.lines.append(f"  store {self.of(element)} {value}, ptr {pointer}, align {align}")

    def text(self) -> str:
        return "\n".join(self.lines)


def _tempered(b: _Block, word: str) -> str:
    word = b.by("xor", word, b.by("lshr", word, 11))
    for shift, mask in ((7, 0x9D2C5680), (15, 0xEFC60000)):
        word = b.by("xor", word, b.by("and", b.by("shl", word, shift), mask))
    return b.by("xor", word, b.by("lshr", word, 18))


def _renewed(b: _Block, at: str, following: str, later: str) -> None:
    upper = b.by("and", b.load(at), 0x80000000)
    bits = b.by("or", upper, b.by("and", b.load(following), 0x7FFFFFFF))
    odd = b.by("sub", b.constant(0), b.by("and", bits, 1))
    word = b.by("xor", b.load(later), b.by("lshr", bits, 1))
    b.store(b.by("xor", word, b.by("and", odd, 0x9908B0DF)), "state", at)


def _renewing(name: str, lanes: int, first: int, last: int, offset: int, next: str) -> str:
    """The LLVM IR of a loop over places, each renewed by the word so far behind it."""
    b = _Block(name, lanes)
    following, later = (b.do(f"add i64 %{name}, {step}") for step in (1, offset))
    _renewed(b, f"%{name}", following, later)
    return f"""{name}.head:
  br label %{name}.loop

{name}.loop:
  %{name} = phi i64 [ {first}, %{name}.head ], [ %{name}.next, %{name}.loop ]
{b.text()}
  %{name}.next = add i64 %{name}, {lanes}
  %{name}.more = icmp slt i64 %{name}.next, {last}
  br i1 %{name}.more, label %{name}.loop, label %{next}
"""


def _renew() -> str:
    """The LLVM IR of `renew`: the next words of a state, in place of the last ones."""
    middle = WORDS - MIDDLE
    ahead, behind = (n // LANES * LANES for n in (middle, WORDS - 1 - middle))
    end = _Block("end")
    _renewed(end, str(WORDS - 1), "0", str(MIDDLE - 1))
    return f"""
define internal void @renew(ptr %state) nounwind {{
  br label %a.head

{_renewing("a", LANES, 0, ahead, MIDDLE, "b.head")}
{_renewing("b", 1, ahead, middle, MIDDLE, "c.head")}
{_renewing("c", LANES, middle, middle + behind, -middle, "d.head")}
{_renewing("d", 1, middle + behind, WORDS - 1, -middle, "end")}
end:
{end.text()}
  ret void
}}
"""


def _next() -> str:
    """The LLVM IR of `next`, the next word, and of `next.long`, the next two as one. Whatever a
    state says, places are within it."""
    b = _Block("word")
    word = _tempered(b, b.load("%place"))
    return f"""
define internal i32 @next(ptr %state) nounwind {{
entry:
{loaded("used", "state", POSITION, "i32")}
  %left = icmp ult i32 %used, {WORDS}
  br i1 %left, label %take, label %none

none:
  call void @renew(ptr %state)
  br label %take

take:
  %at = phi i32 [ %used, %entry ], [ 0, %none ]
  %place = zext i32 %at to i64
{b.text()}
  %now = add i32 %at, 1
  store i32 %now, ptr %used.p
  ret i32 {word}
}}

define internal i64 @next.long(ptr %state) nounwind {{
  %first = call i32 @next(ptr %state)
  %second = call i32 @next(ptr %state)
  %upper = zext i32 %first to i64
  %lower = zext i32 %second to i64
  %moved = shl i64 %upper, 32
  %both = or i64 %moved, %lower
  ret i64 %both
}}
"""


def _elements() -> str:
    return f"""
define internal i64 @elements(ptr %array) nounwind {{
entry:
{loaded("rank.32", "array", RANK, "i32")}
  %rank = zext i32 %rank.32 to i64
{loaded("sizes", "array", DIMENSIONS)}
  br label %loop

loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %one ]
  %product = phi i64 [ 1, %entry ], [ %product.next, %one ]
  %more = icmp slt i64 %i, %rank
  br i1 %more, label %one, label %done

one:
{loaded("size", "sizes", "%i", "i64", "i64")}
  %product.next = mul i64 %product, %size
{again("loop", "i")}

done:
  ret i64 %product
}}
"""


# -- what fills arrays ---------------------------------------------------------------------------

Made = Callable[[_Block, list[str]], str]
"""An element, or a vector of them, of the words that it takes."""


def _whole_words(b: _Block, words: list[str]) -> str:
    return b.converted("zext", words[0], "i64")


def _fractions(b: _Block, words: list[str]) -> str:
    number = b.converted("sitofp", b.by("and", words[0], 0xFFFFFF), "float")
    return b.halved(number, "float", 24)


def _long_fractions(b: _Block, words: list[str]) -> str:
    upper = b.converted("uitofp", b.by("and", words[0], 2**21 - 1), "double")
    lower = b.converted("uitofp", words[1], "double")
    left, right = b.halved(upper, "double", 21), b.halved(lower, "double", 53)
    return b.do(f"fadd {b.of('double')} {left}, {right}")


def _opening(name: str) -> str:
    """LLVM IR: the head of a function, and what all of them ask of their arguments."""
    return f"""
define internal ptr @{name}(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  %state.array = load ptr, ptr %given
{loaded("state", "state.array", DATA)}
{loaded("array", "given", 1, "ptr", "ptr")}
"""


def _numbers(*names: str) -> str:
    """LLVM IR: the further arguments, modulo 2**64."""
    return "\n".join([
        f"""{loaded(f"{name}.o", "given", place, "ptr", "ptr")}
  %{name} = call i64 @PyLong_AsUnsignedLongLongMask(ptr %{name}.o)"""
        for place, name in enumerate(names, 2)
    ])  # fmt: skip


_CLOSING = """
done:
  call void @Py_IncRef(ptr %array)
  ret ptr %array
}
"""


def _filling(name: str, element: str, per: int, element_of: Made) -> str:
    """The LLVM IR of a function whose elements take so many words each."""
    size = 8 if element in ("i64", "double") else 4
    several = _Block("several", per * LANES)
    word = _tempered(several, several.load("%place"))
    vector, words = _Block("vector", LANES), [word]
    if per > 1:
        lanes = [", ".join([f"i32 {per * n + at}" for n in range(LANES)]) for at in range(per)]
        type = several.of("i32")
        words = [
            vector.do(f"shufflevector {type} {word}, {type} poison, <{LANES} x i32> <{each}>")
            for each in lanes
        ]
    vector.store(element_of(vector, words), "out", "%at", element, size)
    one = _Block("one")
    words = [one.do("call i32 @next(ptr %state)") for _ in range(per)]
    one.store(element_of(one, words), "out", "%at", element, size)
    return f"""{_opening(name)}
{loaded("out", "array", DATA)}
  %total = call i64 @elements(ptr %array)
  %used.p = getelementptr i8, ptr %state, i64 {POSITION}
  br label %loop

loop:
  %at = phi i64 [ 0, %entry ], [ %at.vector, %vector ], [ %at.one, %one ]
  %left = sub i64 %total, %at
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %look, label %done

look:
  %used = load i32, ptr %used.p
  %wanted = icmp sge i64 %left, {LANES}
  %there = icmp ule i32 %used, {WORDS - per * LANES}
  %both = and i1 %wanted, %there
  br i1 %both, label %vector, label %one

vector:
  %place = zext i32 %used to i64
{several.text()}
{vector.text()}
  %used.now = add i32 %used, {per * LANES}
  store i32 %used.now, ptr %used.p
  %at.vector = add i64 %at, {LANES}
  br label %loop

one:
{one.text()}
  %at.one = add i64 %at, 1
  br label %loop
{_CLOSING}"""


def _remainders(name: str, word: str) -> str:
    """The LLVM IR of the function of words modulo a span; `word` is LLVM IR for one, i64."""
    return f"""{_opening(name)}
{loaded("out", "array", DATA)}
{_numbers("span", "first")}
  %total = call i64 @elements(ptr %array)
  %whole = icmp eq i64 %span, 0
  br label %loop

{counting("loop", "at", "total", "one", "done", "entry", "put")}

one:
{word}
  br i1 %whole, label %put, label %divide

divide:
  %rest = urem i64 %word, %span
  br label %put

put:
  %part = phi i64 [ %word, %one ], [ %rest, %divide ]
  %number = add i64 %part, %first
  %place = getelementptr i64, ptr %out, i64 %at
  store i64 %number, ptr %place
{again("loop", "at")}
{_CLOSING}"""


def _order() -> str:
    return f"""{_opening("order")}
{loaded("out", "array", DATA)}
{_numbers("start", "stop")}
  %total = call i64 @elements(ptr %array)
  %begins = icmp eq i64 %start, 0
  br i1 %begins, label %count.up, label %swaps

{counting("count.up", "i", "total", "place", "swaps", "entry", "place")}

place:
  %place.p = getelementptr i64, ptr %out, i64 %i
  store i64 %i, ptr %place.p
{again("count.up", "i")}

swaps:
  %at = phi i64 [ %start, %entry ], [ %start, %count.up ], [ %at.next, %swap ]
  %more = icmp slt i64 %at, %stop
  br i1 %more, label %swap, label %done

swap:
  %word.32 = call i32 @next(ptr %state)
  %word = zext i32 %word.32 to i64
  %left = sub i64 %total, %at
  %ahead = urem i64 %word, %left
  %other = add i64 %at, %ahead
  %one.p = getelementptr i64, ptr %out, i64 %at
  %other.p = getelementptr i64, ptr %out, i64 %other
  %one.value = load i64, ptr %one.p
  %other.value = load i64, ptr %other.p
  store i64 %other.value, ptr %one.p
  store i64 %one.value, ptr %other.p
  %at.next = add i64 %at, 1
  br label %swaps
{_CLOSING}"""


def _seed() -> str:
    return f"""
define internal ptr @seed(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
  %array = load ptr, ptr %given
{loaded("state", "array", DATA)}
{loaded("seed.o", "given", 1, "ptr", "ptr")}
  %seed = call i64 @PyLong_AsUnsignedLongLongMask(ptr %seed.o)
  %first = trunc i64 %seed to i32
  %end = getelementptr i8, ptr %state, i64 {POSITION}
  store i32 {AS_SEEDED}, ptr %end
  br label %loop

loop:
  %at = phi i64 [ 0, %entry ], [ %at.next, %loop ]
  %word = phi i32 [ %first, %entry ], [ %word.next, %loop ]
  %place = getelementptr i32, ptr %state, i64 %at
  store i32 %word, ptr %place
  %at.next = add i64 %at, 1
  %upper = lshr i32 %word, 30
  %mixed = xor i32 %word, %upper
  %product = mul i32 %mixed, 1812433253
  %number = trunc i64 %at.next to i32
  %word.next = add i32 %product, %number
  %more = icmp slt i64 %at.next, {WORDS}
  br i1 %more, label %loop, label %done
{_CLOSING}"""


def _text(triple: str) -> str:
    """The LLVM IR of all functions, and of `functions`, which tells where they are."""
    word = """  %drawn = call i32 @next(ptr %state)
  %word = zext i32 %drawn to i64"""
    parts = (
        _renew(), _next(), _elements(), _seed(), _order(),
        _filling("words", "i64", 1, _whole_words),
        _filling("fractions", "float", 1, _fractions),
        _filling("long_fractions", "double", 2, _long_fractions),
        _remainders("remainders", word),
        _remainders("long_remainders", "  %word = call i64 @next.long(ptr %state)"),
    )  # fmt: skip
    told = "\n".join([
        f"""  %entry.{at} = getelementptr ptr, ptr %table, i64 {at}
  store ptr @{name}, ptr %entry.{at}"""
        for at, name in enumerate(RandomWords._fields)
    ])  # fmt: skip
    return f"""target triple = "{triple}"

declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare void @Py_IncRef(ptr)
{"".join(parts)}
define void @functions(ptr %table) nounwind {{
{told}
  ret void
}}
"""
