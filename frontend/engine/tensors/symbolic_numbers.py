"""Sizes and numbers of a trace that are known only when the compiled function is called.

`x.shape[0]` is then a `SymInt`: an int to whoever asks (`isinstance(n, int)`), whose arithmetic
gives further ones, and floats (graphc.ir.size_floats). A comparison is answered by the sizes of the
trace, and the compiled code is for calls that give the same answer. `int(n)`, `range(n)` and a use
as a key make a number of it, and the compiled code is for calls with that number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.ir.dims import Dim, Extent
from graphc.ir.size_floats import SizeFloat, names_in, operated, text_of, value_at
from graphc.ir.size_guards import answered, equal
from graphc.ir.stand_in import StandIn
from graphc.ir.undecided import answers_now, number_of


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


_MOST_POWER = 16
"""Up to which a whole power of a size is a polynomial."""


def _arithmetic(name: str, apply: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
    def method(self: SymInt, other: Any) -> Any:
        extent = _of(other)
        if extent is None:
            if not isinstance(other, float):
                return NotImplemented
            return operated(name, other, self) if swapped else operated(name, self, other)
        left, right = (extent, self.extent) if swapped else (self.extent, extent)
        if apply is operator.floordiv or apply is operator.mod:
            if not answered(right, ">", 0):
                divisor = right if isinstance(right, int) else number_of(right)
                if divisor == 0:  # Python's error
                    return apply(left if isinstance(left, int) else number_of(left), divisor)
                left, right = -left, -divisor
                result = apply(left, right)
                return shown(result if apply is operator.floordiv else -result)
        return shown(apply(left, right))

    return method


def _power(base: Any, power: Any) -> Any:
    """A size to a power, or a number to that of a size: Python's integer where both are whole and
    the power is not negative, else its float."""
    if isinstance(power, int) and power >= 0:
        if not _is_size(power) and power <= _MOST_POWER and _is_size(base):
            return shown(math.prod([base.extent] * int(power)))
        if isinstance(base, int):
            # An integer of any length.
            return _number(base, "an integer power") ** _number(power, "an integer power")
    return operated("pow", base, power)


def _is_size(value: Any) -> bool:
    return type(value) is SymInt


def _number(value: Any, how: str) -> Any:
    return number_of(value.extent, how) if _is_size(value) else value


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


def _by_number(apply: Callable[..., Any], swapped: bool = False) -> Any:
    """What asks for the number itself."""

    def method(self: SymInt, *others: Any) -> Any:
        number = int(self)
        return apply(*others, number) if swapped else apply(number, *others)

    return method


class SymInt(metaclass=StandIn):
    """A size of a trace, with its polynomial `extent`."""

    __slots__ = ("extent",)
    stands_for = int

    def __init__(self, extent: Dim):
        self.extent = extent

    # isinstance(n, int) asks for it.
    __class__ = property(lambda self: int)

    __add__ = _arithmetic("add", operator.add)
    __radd__ = _arithmetic("add", operator.add, swapped=True)
    __sub__ = _arithmetic("sub", operator.sub)
    __rsub__ = _arithmetic("sub", operator.sub, swapped=True)
    __mul__ = _arithmetic("mul", operator.mul)
    __rmul__ = _arithmetic("mul", operator.mul, swapped=True)
    __floordiv__ = _arithmetic("floordiv", operator.floordiv)
    __rfloordiv__ = _arithmetic("floordiv", operator.floordiv, swapped=True)
    __mod__ = _arithmetic("mod", operator.mod)
    __rmod__ = _arithmetic("mod", operator.mod, swapped=True)
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

    def __pow__(self, power: Any, modulo: Any = None) -> Any:
        if not isinstance(power, int | float):
            return NotImplemented
        return _power(self, power) if modulo is None else pow(int(self), power, modulo)

    def __rpow__(self, base: Any) -> Any:
        return _power(base, self) if isinstance(base, int | float) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return operated("div", self, other) if isinstance(other, int | float) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return operated("div", other, self) if isinstance(other, int | float) else NotImplemented

    def __index__(self) -> int:
        return int(number_of(self.extent))

    __int__ = __index__

    def __float__(self) -> float:
        return float(number_of(self.extent, "float()"))

    def __hash__(self) -> int:
        """That of a number, which the size then is; where none is to become one, there is none."""
        if _stays_open():
            raise TypeError("unhashable type: a size that is left open")
        return hash(number_of(self.extent))

    def __bool__(self) -> bool:
        return self != 0

    def __ceil__(self) -> Any:
        return self

    __floor__ = __trunc__ = __ceil__

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    def __str__(self) -> str:
        """That of a number, which the size then is; where none is to become one (in an export),
        its name: messages of assertions print shapes."""
        return text_of(self.extent) if _stays_open() else str(number_of(self.extent, "its text"))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        if _stays_open():
            return str(self)
        return format(number_of(self.extent, "its text"), spec)

    __and__, __rand__ = _by_number(operator.and_), _by_number(operator.and_, swapped=True)
    __or__, __ror__ = _by_number(operator.or_), _by_number(operator.or_, swapped=True)
    __xor__, __rxor__ = _by_number(operator.xor), _by_number(operator.xor, swapped=True)
    __lshift__, __rlshift__ = _by_number(operator.lshift), _by_number(operator.lshift, swapped=True)
    __rshift__, __rrshift__ = _by_number(operator.rshift), _by_number(operator.rshift, swapped=True)
    __invert__ = _by_number(operator.invert)

    __array_ufunc__ = SizeFloat.__array_ufunc__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(0, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(int(self), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(int(self), dtype)

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def is_integer(self) -> bool:
        return True

    def item(self) -> Any:
        return self


def opened(number: Any) -> Any:
    """An extent or number as Python code gets to see it."""
    return shown(number) if isinstance(number, Dim) else number


def number_at(part: Any, sizes: Mapping[str, Any]) -> Any:
    """A part of a structure (tracing.tree) with what it is at these sizes in place of an open
    number."""
    if part[1] in (SymInt, SizeFloat):
        value = value_at(extents_in(part[2]), sizes)
        return ("static", type(value), value)
    return part


def names_of(part: Any) -> frozenset[str]:
    """The sizes and numbers that a part of a structure depends on."""
    return names_in(extents_in(part[2])) if part[1] in (SymInt, SizeFloat) else frozenset()


def whole(size: Any) -> Any:
    """A size (of a library, or an extent) as an int, or as the `SymInt` it is."""
    if type(size) is SymInt:
        return size
    return SymInt(size) if type(size) is Dim else int(size)


def _stays_open() -> bool:
    return bool(getattr(answers_now(), "stay_open", False))


def is_open(number: Any) -> bool:
    """Whether a number is known only when the compiled function is called."""
    return type(number) in (SymInt, SizeFloat)


def known(number: Any, how: str = "") -> Any:
    """An open number as that of the call under way, for which what is traced then is; others as
    they are."""
    if type(number) is SymInt:
        return number_of(number.extent, how)
    return number_of(number, how) if type(number) is SizeFloat else number


def as_float(number: Any) -> Any:
    """`float(number)`, which an open number stays open in."""
    return operated("float", number) if is_open(number) else float(number)


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


def outermost_first(strides: Sequence[int]) -> list[int]:
    """The axes of an array with these strides, from the outermost in memory."""
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])
