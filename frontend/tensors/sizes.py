"""Sizes of a trace that are known only when the compiled function is called.

`x.shape[0]` is then a `SymInt`: an int to whoever asks (`isinstance(n, int)`), whose arithmetic
gives further ones. A comparison is answered by the sizes of the trace, and the compiled code is for
calls that give the same answer. `int(n)`, `range(n)` and a use as a key make a number of it, and
the compiled code is for calls with that number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from graphc.ir.dims import Dim, Extent, evaluate
from graphc.ir.size_floats import SizeFloat
from graphc.ir.size_guards import answered, equal, spelled
from graphc.ir.undecided import number_of


def shown(extent: Extent) -> Any:
    """An extent as Python code gets to see it: an int, or a `SymInt`."""
    return SymInt(extent) if isinstance(extent, Dim) else extent


def extents_in(value: Any) -> Any:
    """An argument of an op with extents in place of `SymInt`s, also inside of tuples and lists."""
    kind = type(value)
    if kind is SymInt:
        return value.extent
    if isinstance(value, tuple | list):
        return tuple([extents_in(item) for item in value])
    return value


def _of(value: Any) -> Any:
    """The extent of an int, a SymInt or a Dim; None for anything else."""
    if type(value) is SymInt:
        return value.extent
    return value if isinstance(value, int | Dim) else None


def _arithmetic(apply: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
    def method(self: SymInt, other: Any) -> Any:
        extent = _of(other)
        if extent is None:
            if not isinstance(other, float):
                return NotImplemented
            # Whole numbers of a size are floats as 1·n is.
            number = SizeFloat("div", self.extent, 1)
            return apply(other, number) if swapped else apply(number, other)
        left, right = (extent, self.extent) if swapped else (self.extent, extent)
        if apply is operator.floordiv or apply is operator.mod:
            if not answered(right, ">", 0):
                left, right = -left, -(right if isinstance(right, int) else number_of(right))
                result = apply(left, right)
                return shown(result if apply is operator.floordiv else -result)
        return shown(apply(left, right))

    return method


def _comparison(sign: str) -> Any:
    def method(self: SymInt, other: Any) -> Any:
        extent = _of(other)
        if extent is None:
            number = number_of(self.extent)
            return _SIGNS[sign](number, other)
        if sign in ("==", "!="):
            return equal(self.extent, extent) is (sign == "==")
        return bool(_SIGNS[sign](self.extent, extent))

    return method


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class SymInt:
    """A size of a trace, with its polynomial `extent`."""

    __slots__ = ("extent",)

    def __init__(self, extent: Dim):
        self.extent = extent

    # isinstance(n, int) asks for it.
    __class__ = property(lambda self: int)

    __add__ = _arithmetic(operator.add)
    __radd__ = _arithmetic(operator.add, swapped=True)
    __sub__ = _arithmetic(operator.sub)
    __rsub__ = _arithmetic(operator.sub, swapped=True)
    __mul__ = _arithmetic(operator.mul)
    __rmul__ = _arithmetic(operator.mul, swapped=True)
    __floordiv__ = _arithmetic(operator.floordiv)
    __rfloordiv__ = _arithmetic(operator.floordiv, swapped=True)
    __mod__ = _arithmetic(operator.mod)
    __rmod__ = _arithmetic(operator.mod, swapped=True)
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __eq__ = _comparison("==")
    __ne__ = _comparison("!=")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __neg__(self) -> Any:
        return shown(-self.extent)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, int) and 0 < power < 5:
            return shown(math.prod([self.extent] * int(power)))
        return number_of(self.extent) ** power

    def __truediv__(self, other: Any) -> Any:
        divisor = _of(other)
        return SizeFloat("div", self.extent, other if divisor is None else divisor)

    def __rtruediv__(self, other: Any) -> Any:
        dividend = _of(other)
        return SizeFloat("div", other if dividend is None else dividend, self.extent)

    def __rpow__(self, base: Any) -> Any:
        return base ** number_of(self.extent)

    def __index__(self) -> int:
        return number_of(self.extent)

    __int__ = __index__

    def __float__(self) -> float:
        return float(number_of(self.extent))

    def __hash__(self) -> int:
        return hash(number_of(self.extent))

    def __bool__(self) -> bool:
        return self != 0

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits: Any = None) -> Any:
        return self

    def __str__(self) -> str:
        return str(spelled(self.extent))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec if spec[-1:] not in ("d", "n") else spec[:-1])

    def bit_length(self) -> int:
        return number_of(self.extent).bit_length()

    def is_integer(self) -> bool:
        return True

    def item(self) -> Any:
        return self


def number_at(part: Any, sizes: Mapping[str, int]) -> Any:
    """A part of a structure (tracing.tree) with what it is at these sizes in place of an open
    number."""
    if part[1] is SymInt:
        return ("static", int, evaluate(part[2].extent, sizes))
    if part[1] is SizeFloat:
        value = part[2].at(lambda extent: evaluate(extent, sizes))
        return ("static", float, value)
    return part


def whole(size: Any) -> Any:
    """A size as an int, or as the `SymInt` it is."""
    return size if type(size) is SymInt else int(size)


def is_open(number: Any) -> bool:
    """Whether a number is known only when the compiled function is called."""
    return type(number) in (SymInt, SizeFloat)


def known(number: Any) -> Any:
    """An open number as that of the call under way, for which what is traced then is; others as
    they are."""
    if type(number) is SymInt:
        return int(number)
    return float(number) if type(number) is SizeFloat else number


def slice_ends(item: slice, dim: Any) -> tuple[Any, Any, int]:
    """Start, stop and step of a slice along a dimension, as `slice.indices` gives them, where sizes
    among them may be open."""
    dim = extents_in(dim)
    parts = [extents_in(part) for part in (item.start, item.stop, item.step)]
    if not any(isinstance(part, Dim) for part in (*parts, dim)) or not _is_forward(parts[2]):
        return item.indices(operator.index(dim))
    start, stop = (_end(parts[0], 0, dim), _end(parts[1], dim, dim))
    return shown(start), shown(stop), operator.index(1 if parts[2] is None else parts[2])


def _is_forward(step: Any) -> bool:
    return step is None or (not isinstance(step, Dim) and operator.index(step) > 0)


def _end(part: Any, default: Extent, dim: Extent) -> Extent:
    if part is None:
        return default
    place: Extent = part if isinstance(part, Dim) else operator.index(part)
    if place < 0:
        place = place + dim
        return place if place >= 0 else 0
    return place if place <= dim else dim
