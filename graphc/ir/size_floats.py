"""Floats of sizes known only at run time: `1 / n`, `2.5 * n / (n - 1)`.

A `SizeFloat` is a float to whoever asks (`isinstance(x, float)`). Met by a handle it becomes f64
arithmetic of the graph on the size of the call, rounded once to the handle's dtype: the bits that
Python's arithmetic on the number gives. Whatever needs a number of it gets that of the example
(graphc.ir.undecided), and what is made then holds for that size.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from graphc.ir.undecided import Undecided, number_of

_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
}  # fmt: skip
_NUMBERS = (int, float, Undecided)


def _operation(name: str, swapped: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not (isinstance(other, _NUMBERS) or type(other) is SizeFloat):
            return NotImplemented
        return SizeFloat(name, other, self) if swapped else SizeFloat(name, self, other)

    return method


def _comparison(compare: Callable[[Any, Any], Any]) -> Any:
    return lambda self, other: compare(float(self), other)


class SizeFloat:
    """The result of one operation, `add`, `sub`, `mul` or `div`, on numbers, extents and others of
    its kind."""

    __slots__ = ("left", "name", "right")

    def __init__(self, name: str, left: Any, right: Any):
        self.name = name
        self.left = left
        self.right = right

    # isinstance(x, float) asks for it.
    __class__ = property(lambda self: float)

    __add__, __radd__ = _operation("add"), _operation("add", swapped=True)
    __sub__, __rsub__ = _operation("sub"), _operation("sub", swapped=True)
    __mul__, __rmul__ = _operation("mul"), _operation("mul", swapped=True)
    __truediv__, __rtruediv__ = _operation("div"), _operation("div", swapped=True)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)
    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)

    def __neg__(self) -> SizeFloat:
        return SizeFloat("mul", self, -1.0)

    def __float__(self) -> float:
        """The number in the example."""
        return self.at(number_of)

    def at(self, number: Callable[[Any], int]) -> float:
        """The number where `number` gives that of an extent."""

        def known(part: Any) -> Any:
            if isinstance(part, Undecided):
                return number(part)
            return part.at(number) if type(part) is SizeFloat else part

        return float(_APPLY[self.name](known(self.left), known(self.right)))

    def __int__(self) -> int:
        return int(float(self))

    def __bool__(self) -> bool:
        return bool(float(self))

    def __hash__(self) -> int:
        return hash(float(self))

    def __pow__(self, power: Any) -> Any:
        return float(self) ** power

    def __rpow__(self, base: Any) -> Any:
        return base ** float(self)

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"

    __repr__ = __str__

    def emitted(self, leaf: Callable[[Any], Any], apply: Callable[[str, Any, Any], Any]) -> Any:
        """The value by `leaf`, which makes one of a number or extent, and `apply`, which makes one
        of the name of an op and two others."""
        left, right = (
            part.emitted(leaf, apply) if type(part) is SizeFloat else leaf(part)
            for part in (self.left, self.right)
        )
        return apply(self.name, left, right)
