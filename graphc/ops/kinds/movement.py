"""Movements: which element of which operand each element of the result is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.dims import Extent
from graphc.ir.types import Shape, TensorType
from graphc.ops.kinds.op import EVERY, Array, Arrays, Op, Types, keyword_parameters
from graphc.records import record


@record
class Case:
    """One source of a movement's elements: coordinate `index` of operand `operand`, where every
    guard (expression, low, high) has low <= expression < high."""

    operand: int
    index: tuple[Any, ...]
    guards: tuple[tuple[Any, Extent, Extent], ...] = ()


class Movement(Op):
    """`cases(index, types, **attributes)` says where the element at `index` comes from: the first
    case whose guards hold; for every index one does. `index` holds index expressions or NumPy
    arrays. `shape(types, **attributes)` is the result's shape, `view` the fast NumPy form."""

    kind = "movement"
    dtypes = EVERY

    def __init__(
        self,
        name: str,
        shape: Callable[..., Shape],
        cases: Callable[..., tuple[Case, ...]],
        view: Callable[..., Array],
        *,
        arity: int | None = 1,
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(shape), **rest)
        self.shape_rule = shape
        self.cases = cases
        self.view = view
        self.arity = arity

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        if self.arity is not None:
            self.expect(types, self.arity)
        elif not types:
            raise ShapeError(f"{self.name} needs at least one operand")
        for type in types:
            if type.dtype is not types[0].dtype:
                listed = ", ".join(map(str, types))
                raise DTypeError(f"{self.name} takes operands of one dtype, got {listed}")
        return (TensorType(types[0].dtype, self.shape_rule(types, **attributes)),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (np.asarray(self.view(*arrays, **attributes)),)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        types = tuple(TensorType.of(array) for array in arrays)
        (result,) = self.infer(types, attributes)
        index = tuple(np.indices(result.shape))
        out = np.zeros(result.shape, result.dtype.numpy)
        left = np.ones(result.shape, bool)
        for case in self.cases(index, types, **attributes):
            held = left & guards_hold(case.guards, result.shape)
            out = np.where(held, take_where(arrays[case.operand], case.index, held), out)
            left &= ~held
        return (out,)


def guards_hold(guards: tuple[tuple[Any, Extent, Extent], ...], shape: Shape) -> Array:
    """Where all guards hold, as a bool array (NumPy form of a case's guards)."""
    held = np.ones(shape, bool)
    for expression, low, high in guards:
        held &= (low <= expression) & (expression < high)
    return held


def take_where(array: Array, index: tuple[Any, ...], held: Array) -> Array:
    """`array[index]` where `held`, some other element elsewhere (0 where there is none)."""
    if array.size == 0:
        return np.zeros(held.shape, array.dtype)
    return np.asarray(array[tuple(np.where(held, coordinate, 0) for coordinate in index)])
