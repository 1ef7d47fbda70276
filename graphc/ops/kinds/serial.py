"""The kind `serial`: a result that is written one element after another, each from those before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from graphc.ir.dims import Extent, fixed
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.numpy_algebra import NUMPY
from graphc.ops.kinds.op import Array, Arrays, Op, Types, keyword_parameters


class SerialMemory(Protocol):
    """What a serial rule works with: the operands, and the result, which it may read back. Places
    are i64 values of the algebra, or numbers; a rule keeps them within the memory, whatever the
    operands hold."""

    def read(self, operand: int, at: Any) -> Any:
        """An element of an operand of one dimension."""

    def extent(self, operand: int) -> Any:
        """How many elements an operand has."""

    def load(self, at: Any) -> Any:
        """What was stored last in the result."""

    def store(self, at: Any, value: Any) -> None:
        """Put an element into the result."""

    def number(self, value: Extent) -> Any:
        """A number, or a size, as an i64."""

    def loop(self, first: Any, end: Extent, body: Callable[..., Any], start: Any = None) -> Any:
        """From a number, a size or an i64 up to a size: `body(i, carried)` gives what the next turn
        takes; what the last one gave. Without `start`, `body(i)` is called for what it stores."""

    def branch(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """What one of the two gives."""


class Serial(Op):
    """`write(s, memory, **attributes)` writes all elements of the result, in the algebra `s`.
    `result(types, **attributes)` gives its type, of one dimension, `numpy(*arrays, **attributes)`
    is the fast form of the same. One thread runs it, and nothing is merged into it."""

    kind = "serial"

    def __init__(
        self, name: str, result: Callable[..., TensorType], write: Callable[..., None],
        numpy: Callable[..., Array], *, cost: int = 10, **rest: Any,
    ):  # fmt: skip
        super().__init__(name, parameters=keyword_parameters(result), **rest)
        self.result_rule = result
        self.write = write
        self.numpy = numpy
        self.cost = cost

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        return (self.result_rule(types, **attributes),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (self.numpy(*arrays, **attributes),)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (type,) = self.infer(tuple(TensorType.of(array) for array in arrays), attributes)
        result = np.zeros(type.shape, type.dtype.numpy)
        self.write(NUMPY, _Arrays(arrays, result), **attributes)
        return (result,)


class _Arrays:
    """Memory of NumPy arrays."""

    def __init__(self, operands: Arrays, result: Array):
        self.operands = operands
        self.result = result

    def read(self, operand: int, at: Any) -> Any:
        return self.operands[operand][at]

    def extent(self, operand: int) -> int:
        return len(self.operands[operand])

    def load(self, at: Any) -> Any:
        return self.result[at]

    def store(self, at: Any, value: Any) -> None:
        self.result[at] = value

    def number(self, value: Extent) -> Any:
        return DType.i64.numpy.type(fixed(value))

    def loop(self, first: Any, end: Extent, body: Callable[..., Any], start: Any = None) -> Any:
        for at in range(first if isinstance(first, np.integer) else fixed(first), fixed(end)):
            if start is None:
                body(np.int64(at))
            else:
                start = body(np.int64(at), start)
        return start

    def branch(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        return then() if condition else otherwise()
