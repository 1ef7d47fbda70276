"""The base of every op: one declaration from which all else is read.

A kind (elementwise, reduce, movement, …) is a subclass that turns the few things a declaration
says into inference, an eager implementation and a reference; codegen lowers by kind.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any

import numpy as np

from graphc.errors import (
    AttributeValueError,
    ContentError,
    DTypeError,
    GraphError,
    IndexRangeError,
)
from graphc.ir.dims import Dim
from graphc.ir.handle import apply
from graphc.ir.nodes import Constant, Graph
from graphc.ir.registry import register
from graphc.ir.size_floats import SizeFloat
from graphc.ir.types import COMPILED, DType, TensorType
from graphc.ir.undecided import number_of
from graphc.records import field, record

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]
Types = tuple[TensorType, ...]

FLOATS = (DType.f32, DType.f64)
INTEGERS = (DType.i32, DType.i64)
NUMBERS = FLOATS + INTEGERS
ANY = (*NUMBERS, DType.bool)
EVERY = COMPILED
"""The types ops compute with, and the storage types, which they only move and cast."""

REQUIRED: Any = object()


@record(slots=False)
class Sample:
    """Operands and attributes an op is tested with. Float operands are float64: tests cast them
    to each float dtype. `differentiable` is False for points at a kink."""

    operands: tuple[Array, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    differentiable: bool = True


class SampleDrawer:
    """Draws sample operands from a fixed seed; `sampler(x, axis=1)` makes a Sample."""

    def __init__(self, seed: int = 0):
        self.random = np.random.default_rng(seed)

    def __call__(self, *operands: Array, differentiable: bool = True, **attributes: Any) -> Sample:
        return Sample(tuple(map(np.asarray, operands)), attributes, differentiable)

    def normal(self, *shape: int) -> Array:
        return np.asarray(self.random.standard_normal(shape))

    def positive(self, *shape: int) -> Array:
        return np.asarray(self.random.uniform(0.1, 4.0, shape))

    def apart(self, *shape: int) -> Array:
        """Distinct values, none near zero, so that no maximum, sign or clamp is at a kink."""
        count = int(np.prod(shape))
        values = (np.arange(count) - count // 2 + 0.5) / max(count, 1) * 4
        return np.asarray(self.random.permutation(values)).reshape(shape)

    def integers(self, high: int, *shape: int, low: int = 0) -> Array:
        return np.asarray(self.random.integers(low, high, shape))

    def bytes(self, *shape: int) -> Array:
        """Elements of i8."""
        return self.integers(128, *shape, low=-128).astype(np.int8)

    def bools(self, *shape: int) -> Array:
        return np.asarray(self.random.integers(0, 2, shape).astype(bool))


@record(slots=False)
class ContentCheck:
    """A condition on an operand's content that must hold before the op runs: every element in
    [0, bound), or, with `bound` None, no element zero. `{}` in `message` stands for the element
    that broke it. `raises`: the error instead of ContentError, with `bound` None."""

    operand: int
    bound: int | None
    message: str
    raises: type[GraphError] = ContentError

    def holds(self, array: Array) -> bool:
        """Whether an operand is as it has to be."""
        if self.bound is None:
            return bool(array.all())
        return not array.size or bool(array.min() >= 0 and array.max() < self.bound)


Samples = Callable[[SampleDrawer], Iterable[Sample]]


class Op:
    """One op. Calling it on handles emits it: `exp(x)`, `sum(x, axes=(0,))`."""

    kind = "op"
    results = 1
    region_names: tuple[str, ...] = ()
    dtypes: tuple[DType, ...] = ANY
    """The types that operands may have; positions and conditions have types of their own."""

    def __init__(
        self,
        name: str,
        *,
        parameters: Parameters,
        vjp: Callable[..., tuple[Any, ...]] | None,
        samples: Samples | None,
        differentiable: bool = True,
        checks: Callable[..., tuple[ContentCheck, ...]] | None = None,
        ulps: int = 0,
        exempt: dict[str, str] | None = None,
    ):
        """`vjp(g, out, *operands, **attributes)` returns the operands' gradients: a handle, a
        thunk that makes one (called only where that gradient is wanted), or None where there is
        none; with several results g and out are tuples. `ulps` bounds the float32 error
        in units in the last place. `exempt` names table-test checks to skip, each with a reason.
        """
        self.name = name
        self.parameters = parameters
        self.whole = parameters.whole
        self.vjp = vjp
        self.samples = samples
        self.differentiable = differentiable and vjp is not None
        self.check_rule = checks
        self.ulps = ulps
        self.exempt = exempt or {}
        register(self)

    def __repr__(self) -> str:
        return f"<{self.kind} op {self.name}>"

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        return apply(self, *operands, **attributes)

    # -- attributes --------------------------------------------------------------------------

    def canonical(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes with defaults filled in, sequences as tuples, numbers as Python's."""
        if not self.parameters and not attributes:
            return attributes
        unknown = attributes.keys() - self.parameters.keys()
        if unknown:
            raise AttributeValueError(
                f"{self.name} has no attribute {sorted(unknown)[0]!r}",
                hint=f"it takes {', '.join(self.parameters) or 'none'}",
            )
        result = {}
        for name, default in self.parameters.items():
            value = attributes.get(name, default)
            if value is REQUIRED:
                raise AttributeValueError(f"{self.name} needs the attribute {name!r}")
            result[name] = plain = _plain(self.name, name, value)
            if name in self.whole and not _is_whole(plain):
                raise AttributeValueError(
                    f"{self.name}: attribute {name} is {plain!r}", hint="it takes whole numbers"
                )
        return result

    # -- meaning; kinds define these ---------------------------------------------------------

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        """Result types. Raises GraphError where the operands do not fit."""
        raise NotImplementedError(f"kind {self.kind} infers nothing")

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        """The op on NumPy arrays, fast: what eager mode runs. Results may be views."""
        raise NotImplementedError(f"kind {self.kind} computes nothing")

    def direct(self, attributes: dict[str, Any]) -> Callable[..., Any]:
        """`compute` with these attributes, as a function of the arrays that gives the one result
        (an array, or a NumPy scalar where it is 0-d)."""
        return lambda *arrays: self.compute(arrays, attributes)[0]

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        """The op on NumPy arrays, from its declared meaning: what the reference runs."""
        return self.compute(arrays, attributes)

    # -- shared ------------------------------------------------------------------------------

    @property
    def takes_stored(self) -> bool:
        """Whether it takes operands of storage types as they are. Eager mode widens those of other
        ops to what they compute as."""
        return any(dtype.is_storage for dtype in self.dtypes)

    def checks(self, types: Types, attributes: dict[str, Any]) -> tuple[ContentCheck, ...]:
        """Conditions on the content of operands, tested before anything is written."""
        return self.check_rule(types, **attributes) if self.check_rule else ()

    def run(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        """`compute` behind the content checks, without NumPy's floating-point warnings."""
        if self.check_rule is not None:
            self.run_checks(arrays, attributes)
        with np.errstate(all="ignore"):
            return self.compute(arrays, attributes)

    def run_checks(self, arrays: Arrays, attributes: dict[str, Any]) -> None:
        """Raise IndexRangeError where a content check fails."""
        for check in self.checks(tuple(TensorType.of(array) for array in arrays), attributes):
            raise_if_broken(check, arrays[check.operand], self.name)

    def expect(self, types: Types, count: int) -> None:
        if len(types) != count:
            raise GraphError(f"{self.name} takes {count} operands, not {len(types)}")

    def expect_dtype(self, type: TensorType, allowed: tuple[DType, ...], position: int = 0) -> None:
        if type.dtype not in allowed:
            raise DTypeError(
                f"{self.name} does not take {type} as operand {position}",
                hint=f"one of {', '.join(dtype.value for dtype in allowed)}",
            )


def raise_if_broken(check: ContentCheck, array: Array, name: str) -> None:
    """Raise what PyTorch raises for an index out of range or a zero divisor."""
    if check.holds(array):
        return
    if check.bound is None:
        raise check.raises(check_text(name, check.message))
    bad = array[(array < 0) | (array >= check.bound)].flat[0]
    raise broken(check_text(name, check.message), check.bound, bad)


def check_text(name: str, message: str) -> str:
    """The message of a check of op `name`. Ops that do nothing but check are not named."""
    return message if name.startswith("check_") else f"{name}: {message}"


def broken(
    message: str, bound: int | None, bad: Any, location: object = None,
    raises: type[GraphError] = ContentError,
) -> GraphError:  # fmt: skip
    """The error of a content check that `bad` broke."""
    if bound is None:
        return raises(message, location=location)
    if "{}" not in message:
        message += f": {{}} is not in [0, {bound})"
    return IndexRangeError(message.replace("{}", str(bad)), location=location)


_PLAIN = {int, bool, str, NoneType, DType}


def _plain(op: str, name: str, value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple and all([type(item) is int for item in value]):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is SizeFloat:
        value = float(number_of(value, f"an attribute of {op}"))
    elif isinstance(value, int) and type(value) not in (int, bool):
        value = operator.index(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(op, name, item) for item in value)
    if isinstance(value, float) and value != value:
        raise AttributeValueError(f"{op}: attribute {name} is NaN", hint="pass it as an operand")
    if value is None or isinstance(
        value, int | float | bool | str | Dim | DType | Constant | Graph
    ):
        return value
    raise AttributeValueError(f"{op}: attribute {name} cannot be {value!r}")


def _is_whole(value: Any) -> bool:
    """Whether there is neither a float nor a text in an attribute; sizes may be open."""
    if type(value) is tuple:
        return all([type(item) is int or _is_whole(item) for item in value])
    return not isinstance(value, float | str)


class Parameters(dict[str, Any]):
    """The attributes of an op with their defaults; `whole`: those that are whole numbers."""

    def __init__(self, defaults: dict[str, Any], whole: Iterable[str] = ()):
        super().__init__(defaults)
        self.whole = frozenset(whole)


WHOLE = frozenset(("Axes", "Extent", "Shape", "int"))
"""The types of whole numbers in the annotations of rules, where they stand alone or beside
NUMBERLESS."""
NUMBERLESS = frozenset(("tuple", "None"))


def keyword_parameters(function: Callable[..., Any]) -> Parameters:
    """The keyword-only parameters of a rule: the attributes of its op, with their defaults."""
    function = inspect.unwrap(function)  # `inspect.signature` is tenths of the time of an import
    code, defaults = function.__code__, function.__kwdefaults__ or {}
    names = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    types = {name: {*re.findall(r"\w+", str(function.__annotations__.get(name)))} for name in names}
    return Parameters(
        {name: defaults.get(name, REQUIRED) for name in names},
        [name for name, words in types.items() if words & WHOLE and words <= WHOLE | NUMBERLESS],
    )
