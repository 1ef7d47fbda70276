"""Floats of sizes and numbers known only at run time: `1 / n`, `0.9 ** step`, `lr * 2.5`.

A `SizeFloat` is a float to whoever asks (`isinstance(x, float)`): a tree of Python's operations on
numbers, extents and named float arguments. It is evaluated by Python for each call, so that it has
the bits of the same code run on numbers. Quotients, sums and products of extents alone may become
f64 arithmetic of the graph instead (`emitted`), which has the same bits. Whatever needs a number of
it gets that of the example (graphc.ir.undecided), and what is made then holds for that number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphc.ir.stand_in import StandIn
from graphc.ir.undecided import Undecided, answers_now, number_of, undecided

_NATIVE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
}  # fmt: skip
_APPLY: dict[str, Callable[..., Any]] = {
    **_NATIVE, "pow": operator.pow, "floordiv": operator.floordiv, "mod": operator.mod,
    "abs": operator.abs, "float": float,
}  # fmt: skip
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "mod": "%"}
_DIVIDES = ("div", "floordiv", "mod")
_UFUNC = "numpy."
ARGUMENT = "argument"
"""The name of a leaf that is a float given to the program, under the name in `left`."""


def float_argument(name: str) -> SizeFloat:
    """The float that a program is given under this name."""
    return SizeFloat(ARGUMENT, name)


def operated(name: str, *parts: Any) -> Any:
    """The operation on numbers, extents and floats of them. While Python code is traced, what it
    raises in the example is raised, and where it gives no float there it gives that number; what
    is made then holds for the numbers of the example."""
    parts = tuple([getattr(part, "extent", part) for part in parts])
    example = getattr(answers_now(), "traced", None)
    if example is None:
        return SizeFloat(name, *parts)
    if name in _DIVIDES and isinstance(parts[1], _OPEN) and not parts[1]:
        return _applied(name, *map(_known, parts))
    result = SizeFloat(name, *parts)
    try:
        is_float = isinstance(result.at(example), float)
    except ArithmeticError:
        is_float = False
    return result if is_float else _applied(name, *map(_known, parts))


def _known(part: Any) -> Any:
    return number_of(part) if isinstance(part, _OPEN) else part


def _applied(name: str, *numbers: Any) -> Any:
    if name.startswith(_UFUNC):
        return getattr(np, name.removeprefix(_UFUNC))(*numbers)
    return _APPLY[name](*numbers)


def _takes(other: Any) -> bool:
    return isinstance(other, int | float | Undecided)


def _operation(name: str, swapped: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not _takes(other):
            return NotImplemented
        return operated(name, other, self) if swapped else operated(name, self, other)

    return method


def _comparison(sign: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return undecided(self, sign, getattr(other, "extent", other)) if _takes(other) else (
            NotImplemented
        )  # fmt: skip

    return method


def _by_numpy(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """`np.cos(step / 100)` stays open; anything beside one number of numbers is computed now."""
    plain = method == "__call__" and not options and ufunc.nout == 1
    name = str(ufunc.__name__) if plain else ""
    if plain and getattr(np, name, None) is ufunc and all(map(_takes, inputs)):
        return operated(_UFUNC + name, *inputs)
    numbers = [_known(getattr(part, "extent", part)) for part in inputs]
    return getattr(ufunc, method)(*numbers, **options)


class SizeFloat(metaclass=StandIn):
    """The result of an operation on numbers, extents and others of its kind; `name` is one of
    `_APPLY`, a function of NumPy (`numpy.cos`), or `ARGUMENT`."""

    __slots__ = ("left", "name", "right")
    stands_for = float

    def __init__(self, name: str, left: Any, right: Any = None):
        self.name = name
        self.left = left
        self.right = right

    # isinstance(x, float) asks for it.
    __class__ = property(lambda self: float)

    __add__, __radd__ = _operation("add"), _operation("add", swapped=True)
    __sub__, __rsub__ = _operation("sub"), _operation("sub", swapped=True)
    __mul__, __rmul__ = _operation("mul"), _operation("mul", swapped=True)
    __truediv__, __rtruediv__ = _operation("div"), _operation("div", swapped=True)
    __floordiv__, __rfloordiv__ = _operation("floordiv"), _operation("floordiv", swapped=True)
    __mod__, __rmod__ = _operation("mod"), _operation("mod", swapped=True)
    __pow__, __rpow__ = _operation("pow"), _operation("pow", swapped=True)
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __array_ufunc__ = _by_numpy

    def __reduce__(self) -> Any:
        return SizeFloat, (self.name, self.left, self.right)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __neg__(self) -> Any:
        return operated("mul", self, -1.0)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return operated("abs", self)

    def item(self) -> Any:
        return operated("float", self)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What it is an operation on."""
        if self.name == ARGUMENT:
            return ()
        return (self.left,) if self.right is None else (self.left, self.right)

    def names(self) -> frozenset[str]:
        """The sizes and numbers that it depends on."""
        if self.name == ARGUMENT:
            return frozenset((self.left,))
        return frozenset().union(*map(names_in, self.parts))

    def at(self, numbers: Mapping[str, Any]) -> Any:
        """The number that Python gives for these sizes and numbers, by name. Raises what Python
        raises, and KeyError where one is missing."""
        if self.name == ARGUMENT:
            return numbers[self.left]
        return _applied(self.name, *[value_at(part, numbers) for part in self.parts])

    # -- what makes it the number of the example ---------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(number_of(self), dtype)

    def __float__(self) -> float:
        return float(number_of(self, "float()"))

    def __int__(self) -> int:
        return int(number_of(self, "int()"))

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __hash__(self) -> int:
        return hash(number_of(self))

    def __round__(self, digits: Any = None) -> Any:
        return round(number_of(self, "round()"), digits)

    def __trunc__(self) -> int:
        return int(number_of(self, "int()"))

    def __floor__(self) -> int:
        return int(number_of(self, "floor()") // 1)

    def __ceil__(self) -> int:
        return -int(-number_of(self, "ceil()") // 1)

    def __str__(self) -> str:
        return str(number_of(self, "its text"))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(number_of(self, "its text"), spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(0.0, name):
            raise AttributeError(name)
        return getattr(number_of(self), name)

    # -- text and code -----------------------------------------------------------------------

    @property
    def text(self) -> str:
        """What it is, as Python writes it, of the names it depends on."""
        if self.name == ARGUMENT:
            return str(self.left)
        parts = [text_of(part) for part in self.parts]
        if self.name in _SIGNS:
            is_sum = [isinstance(part, Undecided) and " " in str(part) for part in self.parts]
            left, right = (f"({text})" if sum_ else text for text, sum_ in zip(parts, is_sum))
            return f"({left} {_SIGNS[self.name]} {right})"
        return f"{self.name}({', '.join(parts)})"

    @property
    def is_native(self) -> bool:
        """Whether graphs have the operations, with the same bits."""
        return self.name in _NATIVE and all(
            part.is_native for part in self.parts if type(part) is SizeFloat
        )

    def emitted(self, leaf: Callable[[Any], Any], apply: Callable[[str, Any, Any], Any]) -> Any:
        """The value by `leaf`, which makes one of a number or extent, and `apply`, which makes one
        of the name of an op and two others."""
        left, right = (
            part.emitted(leaf, apply) if type(part) is SizeFloat else leaf(part)
            for part in self.parts
        )
        return apply(self.name, left, right)


_OPEN = (Undecided, SizeFloat)


def is_open(value: Any) -> bool:
    """Whether it is an extent or a float of extents."""
    return type(value) is SizeFloat or isinstance(value, Undecided)


def value_at(value: Any, numbers: Mapping[str, Any]) -> Any:
    """The number that an extent, or a float of extents, is where names stand for these; numbers as
    they are."""
    return value.at(numbers) if is_open(value) else value


def names_in(value: Any) -> frozenset[str]:
    """The names of the sizes and numbers that a number depends on."""
    if type(value) is SizeFloat:
        return value.names()
    if isinstance(value, Undecided):
        return frozenset([symbol.name for symbol in value.symbols()])  # type: ignore[attr-defined]
    return frozenset()


def text_of(value: Any) -> str:
    """A number, an extent, or what a float of extents is, as text."""
    return value.text if type(value) is SizeFloat else str(value)
