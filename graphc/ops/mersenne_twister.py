"""PyTorch's generator on the CPU, and the permutation made of its words.

MT19937 (Matsumoto, Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform
pseudo-random number generator", 1998). Its state is i32[625]: 624 words, and how many of them have
been used; from 624 on there are none left, and the next ones are made of them first. A seed gives
the words ahead of the first ones, and the count 625.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError
from graphc.ir.dims import Extent
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.op import Array, SampleDrawer, Types
from graphc.ops.kinds.serial import Serial, SerialMemory

WORDS = 624
STATE = WORDS + 1
"""Elements of a state: the words, and the count of those that were used."""
AS_SEEDED = STATE
"""The count where a seed gave the words: none of them is drawn."""
MIDDLE = 397


def _signed(word: int) -> int:
    """A 32-bit word as the i32 of the same bits."""
    return word - 2**32 if word >= 2**31 else word


def _twist(s: Any, memory: SerialMemory) -> None:
    """The next 624 words, in place of the last ones."""

    def renew(at: Any, following: Any, later: Any) -> None:
        word = memory.load(at)
        upper = s.bit_and(word, s.constant(_signed(0x80000000), word))
        bits = s.bit_or(upper, s.bit_and(memory.load(following), s.constant(0x7FFFFFFF, word)))
        odd = s.ne(s.bit_and(bits, s.constant(1, word)), s.constant(0, word))
        matrix = s.select(odd, s.constant(_signed(0x9908B0DF), word), s.constant(0, word))
        memory.store(at, s.xor(s.xor(memory.load(later), s.lshr(bits, 1)), matrix))

    number, rest = memory.number, WORDS - MIDDLE

    def ahead(at: Any) -> None:
        renew(at, s.add(at, number(1)), s.add(at, number(MIDDLE)))

    def behind(at: Any) -> None:
        renew(at, s.add(at, number(1)), s.sub(at, number(rest)))

    memory.loop(0, rest, ahead)
    memory.loop(rest, WORDS - 1, behind)
    renew(number(WORDS - 1), number(0), number(MIDDLE - 1))


def _tempered(s: Any, word: Any) -> Any:
    word = s.xor(word, s.lshr(word, 11))
    for shift, mask in ((7, 0x9D2C5680), (15, 0xEFC60000)):
        moved = s.shift_left(word, s.constant(shift, word))
        word = s.xor(word, s.bit_and(moved, s.constant(_signed(mask), word)))
    return s.xor(word, s.lshr(word, 18))


def _write_words(s: Any, memory: SerialMemory, *, count: Extent) -> None:
    memory.loop(0, STATE, lambda at: memory.store(at, memory.read(0, at)))
    number = memory.number

    def renewed() -> Any:
        _twist(s, memory)
        return number(0)

    def word(at: Any, used: Any) -> Any:
        # Whatever the state holds, places are within it.
        left = s.logical_and(s.ge(used, number(0)), s.lt(used, number(WORDS)))
        place = memory.branch(left, lambda: used, renewed)
        memory.store(s.add(at, number(STATE)), _tempered(s, memory.load(place)))
        return s.add(place, number(1))

    used = memory.loop(0, count, word, s.convert(memory.read(0, number(WORDS)), DType.i64))
    memory.store(number(WORDS), s.convert(used, DType.i32))


def _words(state: Array, *, count: int) -> Array:
    result = np.empty(STATE + count, np.int32)
    result[:STATE] = state
    if count:
        used = int(state[WORDS])
        used = used if 0 <= used < WORDS else WORDS
        key = np.ascontiguousarray(state[:WORDS]).view(np.uint32)
        engine = np.random.MT19937(0)
        engine.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": used}}
        result[STATE:] = engine.random_raw(count).astype(np.uint32).view(np.int32)
        after = engine.state["state"]
        result[:WORDS], result[WORDS] = after["key"].view(np.int32), after["pos"]
    return result


def seeded(seed: int) -> Array:
    """The state that a seed, of which 32 bits count, begins with."""
    word, words = seed % 2**32, []
    for place in range(1, STATE):
        words.append(word)
        word = (1812433253 * (word ^ (word >> 30)) + place) % 2**32
    return np.array([*words, AS_SEEDED], np.uint32).view(np.int32)


def _words_type(types: Types, *, count: int) -> TensorType:
    if len(types) != 1 or types[0] != TensorType(DType.i32, (STATE,)):
        operands = ", ".join(map(str, types))
        raise DTypeError(f"mersenne_twister takes one state i32[{STATE}], got {operands}")
    if type(count) is int and count < 0:
        raise AttributeValueError(f"mersenne_twister of {count} words")
    return TensorType(DType.i32, (STATE + count,))


def _word_samples(m: SampleDrawer) -> Any:
    partly = seeded(3)
    partly[WORDS] = 620
    return [m(seeded(7), count=5), m(partly, count=630), m(seeded(0), count=0)]


mersenne_twister = Serial(
    "mersenne_twister", _words_type, _write_words, _words, vjp=None, samples=_word_samples,
)  # fmt: skip
"""The state behind `count` words, and then these words: i32[625 + count]."""


# -- permutations --------------------------------------------------------------------------------


def _write_order(s: Any, memory: SerialMemory) -> None:
    words = memory.extent(0)
    memory.loop(0, words + 1, lambda at: memory.store(at, at))
    count = memory.number(words + 1)

    def swap(at: Any) -> None:
        word = s.convert(memory.read(0, at), DType.i64)
        unsigned = s.bit_and(word, s.constant(2**32 - 1, word))
        other = s.add(at, s.mod(unsigned, s.sub(count, at)))
        first, second = memory.load(at), memory.load(other)
        memory.store(at, second)
        memory.store(other, first)

    memory.loop(0, words, swap)


def _order(words: Array) -> Array:
    order = list(range(len(words) + 1))
    left = np.arange(len(order), 1, -1)
    for at, other in enumerate(((words.astype(np.int64) & (2**32 - 1)) % left).tolist()):
        other += at
        order[at], order[other] = order[other], order[at]
    return np.array(order, np.int64)


def _order_type(types: Types) -> TensorType:
    if len(types) != 1 or types[0].dtype is not DType.i32 or types[0].rank != 1:
        operands = ", ".join(map(str, types))
        raise DTypeError(f"shuffled takes words in i32 of one dimension, got {operands}")
    return TensorType(DType.i64, (types[0].shape[0] + 1,))


shuffled = Serial(
    "shuffled", _order_type, _write_order, _order, vjp=None,
    samples=lambda m: [m(seeded(5)[:count]) for count in (624, 3, 1, 0)],
)  # fmt: skip
"""0 … n, where there are n words, in the order of Fisher and Yates' shuffle: place i is swapped
with the one that word i, modulo the places that are left, counts from it. i64[n + 1]."""
