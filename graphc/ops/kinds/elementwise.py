"""Elementwise ops: a scalar rule over a small algebra, for each element."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.numpy_algebra import NUMPY
from graphc.ops.kinds.op import ANY, Arrays, Op, Types, keyword_parameters


class Elementwise(Op):
    """`scalar(s, *operands, **attributes)` over an algebra `s`. All operands have one shape."""

    kind = "elementwise"

    def __init__(
        self,
        name: str,
        scalar: Callable[..., Any],
        *,
        dtypes: tuple[DType, ...] = ANY,
        result: DType | str | None = None,
        predicate: bool = False,
        cost: int = 1,
        **rest: Any,
    ):
        """`result` is the result's dtype: fixed, the name of an attribute that holds it, or None
        for that of the operands. With `predicate` the first operand is bool. `cost` counts in
        additions (a division 8, a transcendental 15), for fusion."""
        super().__init__(name, parameters=keyword_parameters(scalar), **rest)
        self.scalar = scalar
        self.dtypes = dtypes
        self.result = result
        self.predicate = predicate
        self.cost = cost
        positional = inspect.signature(scalar).parameters.values()
        self.arity = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in positional) - 1

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, self.arity)
        first = types[0]
        for position, type in enumerate(types):
            if type.shape != first.shape:
                listed = ", ".join(map(str, types))
                raise ShapeError(
                    f"{self.name} takes operands of one shape, got {listed}", hint="broadcast them"
                )
            if self.predicate and position == 0:
                self.expect_dtype(type, (DType.bool,))
                continue
            self.expect_dtype(type, self.dtypes, position)
            if type.dtype is not types[self.predicate].dtype:
                listed = ", ".join(map(str, types))
                raise DTypeError(
                    f"{self.name} takes operands of one dtype, got {listed}",
                    hint="cast one of them",
                )
        dtype = types[self.predicate].dtype
        if isinstance(self.result, DType):
            dtype = self.result
        elif isinstance(self.result, str):
            dtype = attributes[self.result]
        return (TensorType(dtype, first.shape),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (np.asarray(self.scalar(NUMPY, *arrays, **attributes)),)

    def direct(self, attributes: dict[str, Any]) -> Callable[..., Any]:
        operands = tuple(object() for _ in range(self.arity))
        try:
            call = self.scalar(_CALLS, *operands, **attributes)
        except TypeError:  # an operator on an operand, or an algebra method with a number
            call = None
        # A rule that is one call on its operands is that function.
        if isinstance(call, tuple) and call[1:] == operands:
            return getattr(NUMPY, call[0])  # type: ignore[no-any-return]
        return partial(self.scalar, NUMPY, **attributes)


class _Calls:
    """An algebra whose methods return their name and what they were called with."""

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        return lambda *arguments: (name, *arguments)


_CALLS = _Calls()
