"""Bits of integers. A shift by a negative amount, or by the width or more, moves every bit out: to
the left 0 is left, to the right the sign. So it is in PyTorch on the CPU, and C leaves it open."""

from __future__ import annotations

from typing import Any

from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.op import INTEGERS, SampleDrawer


def _pairs(m: SampleDrawer) -> list[Any]:
    return [m(m.integers(2**31, 3, 5, low=-(2**31)), m.integers(2**31, 3, 5)),
            m(m.integers(99), m.integers(99, low=-99)),
            m(m.integers(9, 0), m.integers(9, 0)),
            m(m.integers(99, 37, low=-99), m.integers(99, 37))]  # fmt: skip


def _shifts(m: SampleDrawer) -> list[Any]:
    every = m.integers(2**31, 140, low=-(2**31)), m.integers(70, 140, low=-3)
    return [m(*every), m(m.integers(99), m.integers(9)), m(m.integers(9, 0), m.integers(9, 0)),
            m(m.integers(99, 3, 5, low=-99), m.integers(8, 3, 5))]  # fmt: skip


def _held(s: Any, amount: Any) -> tuple[Any, Any]:
    """Whether an amount is in [0, width), and the greatest such amount."""
    greatest = s.width(amount) - 1
    inside = s.logical_and(
        s.ge(amount, s.constant(0, amount)), s.le(amount, s.constant(greatest, amount))
    )
    return inside, s.constant(greatest, amount)


def _left(s: Any, x: Any, amount: Any) -> Any:
    inside, _ = _held(s, amount)
    return s.select(inside, s.shift_left(x, amount), s.constant(0, x))


def _right(s: Any, x: Any, amount: Any) -> Any:
    inside, greatest = _held(s, amount)
    return s.shift_right(x, s.select(inside, amount, greatest))


bitwise_and = elementwise("bitwise_and", lambda s, x, y: s.bit_and(x, y), dtypes=INTEGERS,
                          samples=_pairs)  # fmt: skip
bitwise_or = elementwise("bitwise_or", lambda s, x, y: s.bit_or(x, y), dtypes=INTEGERS,
                         samples=_pairs)  # fmt: skip
bitwise_xor = elementwise("bitwise_xor", lambda s, x, y: s.xor(x, y), dtypes=INTEGERS,
                          samples=_pairs)  # fmt: skip
bitwise_not = elementwise("bitwise_not", lambda s, x: s.bit_not(x), dtypes=INTEGERS,
                          samples=lambda m: [m(m.integers(99, 3, 7, low=-99)), m(m.integers(9)),
                                             m(m.integers(9, 0))])  # fmt: skip
shift_left = elementwise("shift_left", _left, dtypes=INTEGERS, cost=4, samples=_shifts)
shift_right = elementwise("shift_right", _right, dtypes=INTEGERS, cost=4, samples=_shifts)
