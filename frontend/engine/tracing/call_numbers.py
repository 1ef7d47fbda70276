"""Numbers that Python computes for each call of a compiled function: `beta ** step`, `lr * 0.5`, a
factor `k`. They are 0-d inputs of the graph, which stays the same for all of them.

in : while tracing, expressions of sizes and numbers that are left open, and the dtypes they take
out: for the sizes and numbers of a call the arrays that native code gets
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from frontend.engine.outside.source import ComputedSource, PlaceSource
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.sizes.places import OpenPlaces
from frontend.engine.tensors.symbolic_numbers import opened
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tracing.assigned import Assigned, by_expression
from frontend.engine.tracing.current_trace import CurrentTrace
from graphc.ir.handle import lift
from graphc.ir.size_floats import SizeFloat, is_open, names_in, text_of, value_at
from graphc.ir.types import DType, TensorType


class CallValues(NamedTuple):
    """What Python computes for a call: arrays that native code gets, and what is assigned when it
    has run, a value for each of `CallNumbers.places_assigned`."""

    arrays: list[np.ndarray]
    assigned: list[Any]


class CallNumbers:
    """The numbers of one trace, in the order they were met. `names` are those of those that are
    no axis of a tensor: arguments, and what stands in `places`."""

    def __init__(self, sizes: SizedArguments | None):
        self.names = frozenset[str]() if sizes is None else sizes.names_of_numbers
        places = () if sizes is None else sizes.places
        self.places = OpenPlaces([(place, opened(symbol)) for place, symbol in places])
        self._known: dict[tuple[str, DType], Tensor] = {}
        self._made: list[tuple[Any, np.dtype[Any]]] = []
        self._assigned: list[Any] = []
        self.places_assigned: list[list[PlaceSource]] = []
        """The places that are given one value, for each value."""

    def assign(self, assigned: Iterable[Assigned]) -> None:
        """Each call assigns this."""
        pairs = by_expression(assigned)
        self._assigned = [value for value, _ in pairs]
        self.places_assigned = [places for _, places in pairs]

    def takes(self, number: Any) -> bool:
        """Whether Python computes it: what depends on a number among the arguments, or is no
        arithmetic that graphs have. (Quotients and products of sizes alone, a mean's, are nodes.)
        """
        native = type(number) is not SizeFloat or number.is_native
        return not native or not self.names.isdisjoint(names_in(number))

    def value(self, trace: CurrentTrace, number: Any, dtype: DType) -> Any:
        """A variable of the trace that is a number in a dtype."""
        if self.takes(number):
            tensor = self._input(trace, number, dtype)
            if tensor is not None:
                return trace.value(tensor)
        return lift(number, trace.builder.constant(np.zeros((), dtype.numpy)))

    def _input(self, trace: CurrentTrace, number: Any, dtype: DType) -> Tensor | None:
        """The input that stands for a number in a dtype; None for a new one in the derivative of a
        trace that has ended."""
        key = (text_of(number), dtype)
        tensor = self._known.get(key)
        if tensor is None and not trace.ended:
            tensor = self._known[key] = make(None, TensorType(dtype, ()))
            self._made.append((number, dtype.numpy))
            name = str(key[0]) if key[0].isidentifier() else f"number{len(self._made)}"
            tensor._value = trace.add_input(name, ComputedSource(), tensor).var
        return tensor

    @property
    def expressions(self) -> list[Any]:
        """What the numbers are, in the order of their inputs."""
        return [expression for expression, _ in self._made]

    @property
    def told(self) -> list[str]:
        """What is assigned, as text."""
        pairs = zip(self.places_assigned, self._assigned)
        return [
            f"{', '.join(place.label for place in places)} = {_shown(value)}"
            for places, value in pairs
        ]

    def values(self, numbers: Mapping[str, Any]) -> CallValues | None:
        """For these sizes and numbers, by name: arrays with the bits that the number has where it
        stands in the code, and what is assigned. None where Python raises an error in computing
        one, or gives no number of the kind it gave in the trace."""
        try:
            arrays = [_array(expression, dtype, numbers) for expression, dtype in self._made]
            return CallValues(arrays, [_value(each, numbers) for each in self._assigned])
        except (ArithmeticError, TypeError):
            return None


def _value(expression: Any, numbers: Mapping[str, Any]) -> Any:
    if not is_open(expression):  # a list its place has for itself
        return deepcopy(expression) if type(expression) in (list, dict, set) else expression
    value = value_at(expression, numbers)
    if type(expression) is SizeFloat and not isinstance(value, float):
        raise TypeError("no float")
    return value


def _shown(value: Any) -> str:
    return text_of(value) if is_open(value) else repr(value)


def _array(expression: Any, dtype: Any, numbers: Mapping[str, Any]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(_value(expression, numbers)).astype(dtype)
