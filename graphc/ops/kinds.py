"""The kinds of ops. Each turns a declaration into inference, eager computation and reference.

| kind | a declaration says | examples |
|---|---|---|
| elementwise | a scalar rule over a small algebra | add, exp, where |
| reduce | how two partial results combine, and the identity | sum, max |
| movement | which element of which operand each result element is | reshape, pad, concat |
| contract | an index expression over a reduction | matmul, conv2d |
| index | like movement, with data-dependent coordinates | gather, scatter_add |
| scan | how what came before along an axis combines with one element more | cumsum, argcummax |
| sort | nothing: the order of the elements along an axis | argsort |
| generate | an element as a function of its own position | iota, random_uniform |
| composite | a graph over other ops | softmax, layer_norm |
| region | when the graphs that its nodes hold run, and on what | cond, while_loop, scan |
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops.numpy_algebra import NUMPY
from graphc.ops.op import ANY, REQUIRED, Array, Arrays, Op, Types, keyword_parameters


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
            made = self.scalar(_CALLS, *operands, **attributes)
        except TypeError:  # an operator on an operand, or an algebra method with a number
            made = None
        # A rule that is one call on its operands is that function.
        if isinstance(made, tuple) and made[1:] == operands:
            return getattr(NUMPY, made[0])  # type: ignore[no-any-return]
        return partial(self.scalar, NUMPY, **attributes)


class _Calls:
    """An algebra whose methods return their name and what they were called with."""

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        return lambda *arguments: (name, *arguments)


_CALLS = _Calls()


class Reduce(Op):
    """Combines the elements along `axes` (removed from the shape). `combine(s, a, b)` is
    associative and commutative; the order native code uses is fixed: see docs/arithmetic.md."""

    kind = "reduce"

    def __init__(
        self,
        name: str,
        combine: Callable[..., Any],
        identity: Callable[[DType], Any],
        numpy: Callable[..., Any],
        *,
        dtypes: tuple[DType, ...],
        needs_elements: bool = False,
        **rest: Any,
    ):
        super().__init__(name, parameters={"axes": REQUIRED}, **rest)
        self.combine = combine
        self.identity = identity
        self.numpy = numpy
        self.dtypes = dtypes
        self.needs_elements = needs_elements

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 1)
        self.expect_dtype(types[0], self.dtypes)
        return (TensorType(types[0].dtype, self._kept(types[0], attributes)),)

    def _kept(self, type: TensorType, attributes: dict[str, Any]) -> Shape:
        axes = attributes["axes"]
        if list(axes) != sorted(set(axes)) or any(not 0 <= axis < type.rank for axis in axes):
            raise ShapeError(
                f"{self.name}: axes {list(axes)} do not fit {type}",
                hint="sorted, each once, counted from the front",
            )
        if self.needs_elements and any(type.shape[axis] == 0 for axis in axes):
            raise ShapeError(f"{self.name} of no elements: {type} over axes {list(axes)}")
        return tuple(dim for axis, dim in enumerate(type.shape) if axis not in axes)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        return (np.asarray(self.numpy(x, axis=attributes["axes"]), dtype=x.dtype),)


class ArgReduce(Reduce):
    """The position of the first best element along one axis, in the attribute `dtype` (i64, or i32
    where positions are kept for later and memory counts). NaN beats all numbers."""

    kind = "argreduce"

    def __init__(
        self, name: str, better: Callable[..., Any], numpy: Callable[..., Any], **rest: Any
    ):
        """`better(s, a, b)`: a is strictly better than b, for numbers."""
        super().__init__(
            name, better, identity=lambda dtype: None, numpy=numpy, needs_elements=True, **rest
        )
        self.parameters = {**self.parameters, "dtype": DType.i64}

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        if len(attributes["axes"]) != 1:
            raise ShapeError(f"{self.name} takes one axis, not {list(attributes['axes'])}")
        (kept,) = super().infer(types, attributes)
        dtype, extent = attributes["dtype"], types[0].shape[attributes["axes"][0]]
        if dtype not in (DType.i64, DType.i32):
            raise DTypeError(f"{self.name} gives positions as i64 or i32, not {dtype.value}")
        if extent - 1 > np.iinfo(dtype.numpy).max:
            raise ShapeError(f"{self.name} of {extent} elements: positions exceed {dtype.value}")
        return (TensorType(dtype, kept.shape),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (axis,) = attributes["axes"]
        positions = self.numpy(arrays[0], axis=axis)
        return (np.asarray(positions, dtype=attributes["dtype"].numpy),)


@dataclass(frozen=True, slots=True)
class Case:
    """One source of a movement's elements: coordinate `index` of operand `operand`, where every
    guard (expression, low, high) has low <= expression < high."""

    operand: int
    index: tuple[Any, ...]
    guards: tuple[tuple[Any, int, int], ...] = ()


class Movement(Op):
    """`cases(index, types, **attributes)` says where the element at `index` comes from: the first
    case whose guards hold; for every index one does. `index` holds index expressions or NumPy
    arrays. `shape(types, **attributes)` is the result's shape, `view` the fast NumPy form."""

    kind = "movement"

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


def guards_hold(guards: tuple[tuple[Any, int, int], ...], shape: Shape) -> Array:
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


BLOCK = 24 << 10
"""Elements that are generated together: fewer make more calls of NumPy than they take time, more
make arrays that the C library maps anew each time."""


class Generate(Op):
    """`element(s, index, read, types, **attributes)` computes the results' elements from their
    coordinate, as one thunk per result: `index` holds i64 values of the algebra,
    `read(operand, coordinate)` an operand's element at constant coordinates.
    `result(types, **attributes)` gives the result types."""

    kind = "generate"

    def __init__(
        self,
        name: str,
        result: Callable[..., Types],
        element: Callable[..., tuple[Any, ...]],
        *,
        cost: int = 1,
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(result), **rest)
        self.result_rule = result
        self.element = element
        self.cost = cost

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        return self.result_rule(types, **attributes)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        types = tuple(TensorType.of(array) for array in arrays)
        results = []
        for position, type in enumerate(self.infer(types, attributes)):
            made = np.empty(type.shape, type.dtype.numpy)
            # In blocks that stay in the cache: a random number is a hundred operations.
            rows = max(1, BLOCK // max(1, math.prod(type.shape[1:])))
            for start in range(0, type.shape[0] if type.shape else 1, rows):
                block = made[start : start + rows] if type.shape else made
                grid: tuple[Any, ...] = np.indices(block.shape, sparse=True)
                if grid:
                    grid = (grid[0] + start, *grid[1:])
                elements = self.element(
                    NUMPY, grid, lambda operand, at: arrays[operand][at], types, **attributes
                )
                block[...] = elements[position]()
            results.append(made)
        return tuple(results)
