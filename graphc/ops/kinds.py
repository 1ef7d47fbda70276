"""The kinds of ops. Each turns a declaration into inference, eager computation and reference.

| kind | a declaration says | examples |
|---|---|---|
| elementwise | a scalar rule over a small algebra | add, exp, where |
| reduce | how two partial results combine, and the identity | sum, max |
| movement | which element of which operand each result element is | reshape, pad, concat |
| contract | an index expression over a reduction | matmul, conv2d |
| index | like movement, with data-dependent coordinates | gather, scatter_add |
| generate | an element as a function of its own position | iota, random_uniform |
| composite | a graph over other ops | softmax, layer_norm |
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Constant
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
                shapes = ", ".join(str(list(t.shape)) for t in types)
                raise ShapeError(
                    f"{self.name} takes operands of one shape, got {shapes}", hint="broadcast them"
                )
            if self.predicate and position == 0:
                self.expect_dtype(type, (DType.bool,))
                continue
            self.expect_dtype(type, self.dtypes, position)
            if type.dtype is not types[self.predicate].dtype:
                listed = ", ".join(map(str, types))
                raise DTypeError(f"{self.name} takes operands of one dtype, got {listed}",
                                 hint="cast one of them")
        dtype = types[self.predicate].dtype
        if isinstance(self.result, DType):
            dtype = self.result
        elif isinstance(self.result, str):
            dtype = attributes[self.result]
        return (TensorType(dtype, first.shape),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (np.asarray(self.scalar(NUMPY, *arrays, **attributes)),)


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
        return (TensorType(self.result_dtype(types[0].dtype), self._kept(types[0], attributes)),)

    def result_dtype(self, dtype: DType) -> DType:
        return dtype

    def _kept(self, type: TensorType, attributes: dict[str, Any]) -> Shape:
        axes = attributes["axes"]
        if list(axes) != sorted(set(axes)) or any(not 0 <= axis < type.rank for axis in axes):
            raise ShapeError(f"{self.name}: axes {list(axes)} do not fit {type}",
                             hint="sorted, each once, counted from the front")
        if self.needs_elements and any(type.shape[axis] == 0 for axis in axes):
            raise ShapeError(f"{self.name} of no elements: {type} over axes {list(axes)}")
        return tuple(dim for axis, dim in enumerate(type.shape) if axis not in axes)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (x,) = arrays
        return (np.asarray(self.numpy(x, axis=attributes["axes"]), dtype=x.dtype),)


class ArgReduce(Reduce):
    """The position, as i64, of the first best element along one axis. NaN beats all numbers."""

    kind = "argreduce"

    def __init__(self, name: str, better: Callable[..., Any], numpy: Callable[..., Any], **rest: Any):
        """`better(s, a, b)`: a is strictly better than b, for numbers."""
        super().__init__(
            name, better, identity=lambda dtype: None, numpy=numpy, needs_elements=True, **rest
        )

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        if len(attributes["axes"]) != 1:
            raise ShapeError(f"{self.name} takes one axis, not {list(attributes['axes'])}")
        return super().infer(types, attributes)

    def result_dtype(self, dtype: DType) -> DType:
        return DType.i64

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        (axis,) = attributes["axes"]
        return (np.asarray(self.numpy(arrays[0], axis=axis), dtype=np.int64),)


@dataclass(frozen=True)
class Case:
    """One source of a movement's elements: coordinate `index` of operand `operand`, where every
    guard (expression, low, high) has low <= expression < high."""

    operand: int
    index: tuple[Any, ...]
    guards: tuple[tuple[Any, int, int], ...] = ()


class Movement(Op):
    """`cases(index, types, **attributes)` says where the element at `index` comes from: the first
    case whose guards hold; for every index one does. `index` holds index expressions or NumPy arrays.
    `shape(types, **attributes)` is the result's shape, `view` the fast NumPy form."""

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
        for position, type in enumerate(types):
            if type.dtype is not types[0].dtype:
                listed = ", ".join(map(str, types))
                raise DTypeError(f"{self.name} takes operands of one dtype, got {listed}")
            self.expect_dtype(type, ANY, position)
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


@dataclass(frozen=True)
class Space:
    """The index space of a contraction: result coordinates in `batch`, those only the left
    operand has (`m`), those only the right one has (`n`), and the reduced ones (`k`), in the
    order in which products are added."""

    batch: Shape
    m: Shape
    n: Shape
    k: Shape


class Contract(Op):
    """out[batch, m, n] = Σ_k left[batch, m, k] · right[batch, n, k]: products accumulated by FMA
    in the order of k. `space(types, **attributes)` gives the extents; `left(b, m, k)` and
    `right(b, n, k)` the coordinates with guards (a product with a guard that fails counts as 0);
    `out(b, m, n)` the coordinate of the result. The three get `types` and attributes too."""

    kind = "contract"

    def __init__(
        self,
        name: str,
        shape: Callable[..., Shape],
        space: Callable[..., Space],
        left: Callable[..., Case],
        right: Callable[..., Case],
        out: Callable[..., tuple[Any, ...]],
        compute: Callable[..., Array],
        *,
        dtypes: tuple[DType, ...],
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(shape), **rest)
        self.shape_rule = shape
        self.space = space
        self.left = left
        self.right = right
        self.out = out
        self.compute_rule = compute
        self.dtypes = dtypes

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 2)
        for position, type in enumerate(types):
            self.expect_dtype(type, self.dtypes, position)
        if types[0].dtype is not types[1].dtype:
            raise DTypeError(f"{self.name} takes operands of one dtype, got {types[0]}, {types[1]}",
                             hint="cast one of them")
        return (TensorType(types[0].dtype, self.shape_rule(types, **attributes)),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (np.asarray(self.compute_rule(*arrays, **attributes), dtype=arrays[0].dtype),)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        types = tuple(TensorType.of(array) for array in arrays)
        (result,) = self.infer(types, attributes)
        space = self.space(types, **attributes)
        groups = (space.batch, space.m, space.n, space.k)
        grid = np.indices(space.batch + space.m + space.n + space.k, sparse=True)
        parts, start = [], 0
        for group in groups:
            parts.append(tuple(grid[start : start + len(group)]))
            start += len(group)
        b, m, n, k = parts
        total = np.ones(space.batch + space.m + space.n + space.k, arrays[0].dtype)
        for case in (
            self.left(b, m, k, types, **attributes),
            self.right(b, n, k, types, **attributes),
        ):
            array = arrays[case.operand]
            held = guards_hold(case.guards, total.shape)
            index = np.broadcast_arrays(*case.index, total)[:-1]
            total = total * np.where(held, take_where(array, tuple(index), held), array.dtype.type(0))
        axes = tuple(range(total.ndim - len(space.k), total.ndim))
        summed = total.sum(axis=axes, dtype=total.dtype)
        out = np.zeros(result.shape, result.dtype.numpy)
        where = np.indices(summed.shape, sparse=True)
        edges = np.cumsum([0, len(space.batch), len(space.m), len(space.n)])
        coordinate = self.out(
            *(tuple(where[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)),
            types,
            **attributes,
        )
        out[np.broadcast_arrays(*coordinate, summed)[:-1] if coordinate else ()] = summed
        return (out,)


class Gather(Op):
    """An element is read at a data-dependent coordinate. `source(index, types, read)` gives the
    coordinate in operand 0, where `read(coordinate)` is an element of the index operand 1."""

    kind = "gather"

    def __init__(
        self,
        name: str,
        shape: Callable[..., Shape],
        source: Callable[..., tuple[Any, ...]],
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(shape), **rest)
        self.shape_rule = shape
        self.source = source

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 2)
        self.expect_dtype(types[1], (DType.i32, DType.i64), 1)
        return (TensorType(types[0].dtype, self.shape_rule(types, **attributes)),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        x, indices = arrays
        types = tuple(TensorType.of(array) for array in arrays)
        (result,) = self.infer(types, attributes)
        grid = tuple(np.indices(result.shape, sparse=True))
        source = self.source(grid, types, lambda at: indices[at], **attributes)
        picked = x[tuple(source)] if source else x
        return (np.ascontiguousarray(np.broadcast_to(picked, result.shape)),)


class ScatterAdd(Op):
    """operand 0 plus the elements of operand 2, each added at a data-dependent coordinate, in
    row-major order of operand 2. `target(index, types, read)` is that coordinate."""

    kind = "scatter"

    def __init__(
        self,
        name: str,
        validate: Callable[..., None],
        target: Callable[..., tuple[Any, ...]],
        *,
        dtypes: tuple[DType, ...],
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(validate), **rest)
        self.validate = validate
        self.target = target
        self.dtypes = dtypes

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 3)
        self.expect_dtype(types[0], self.dtypes)
        self.expect_dtype(types[1], (DType.i32, DType.i64), 1)
        if types[2].dtype is not types[0].dtype:
            raise DTypeError(f"{self.name} takes operands of one dtype, got {types[0]}, {types[2]}")
        self.validate(types, **attributes)
        return (types[0],)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        x, indices, source = arrays
        types = tuple(TensorType.of(array) for array in arrays)
        out = np.array(x, copy=True)
        grid = tuple(np.indices(source.shape, sparse=True))
        target = self.target(grid, types, lambda at: indices[at], **attributes)
        np.add.at(out, tuple(np.broadcast_arrays(*target, source)[:-1]), source)
        return (out,)


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
            grid = tuple(np.indices(type.shape))
            elements = self.element(
                NUMPY, grid, lambda operand, at: arrays[operand][at], types, **attributes
            )
            made = np.asarray(elements[position](), type.dtype.numpy)
            results.append(made.reshape(type.shape))
        return tuple(results)


class Composite(Op):
    """`define(*handles, **attributes)` writes the op as other ops. Without an own `vjp` its
    gradient is that of the definition."""

    kind = "composite"

    def __init__(self, name: str, define: Callable[..., Any], **rest: Any):
        rest.setdefault("vjp", None)
        own_gradient = rest["vjp"] is not None
        super().__init__(name, parameters=keyword_parameters(define), **rest)
        self.define = define
        self.has_own_gradient = own_gradient
        self.differentiable = rest.get("differentiable", True)
        self._definitions: dict[Any, Any] = {}

    def definition(self, types: Types, attributes: dict[str, Any]) -> Any:
        """The graph of the definition for these types."""
        key = (types, tuple(sorted(attributes.items())))
        if key not in self._definitions:
            builder = GraphBuilder(self.name)
            inputs = [builder.input(f"x{i}", type) for i, type in enumerate(types)]
            results = self.define(*inputs, **attributes)
            self._definitions[key] = builder.finish(
                *(results if isinstance(results, tuple) else (results,))
            )
        return self._definitions[key]

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        return tuple(self.definition(types, attributes).output_types)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        from graphc.ops.interpreter import evaluate

        types = tuple(TensorType.of(array) for array in arrays)
        return evaluate(self.definition(types, attributes), arrays, reference=False)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        from graphc.ops.interpreter import evaluate

        types = tuple(TensorType.of(array) for array in arrays)
        return evaluate(self.definition(types, attributes), arrays, reference=True)


def zero(dtype: DType) -> Constant:
    """The 0-d zero of a dtype."""
    return Constant(np.zeros((), dtype.numpy))
