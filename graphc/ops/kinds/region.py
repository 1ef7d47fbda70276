"""The kind `region`: ops that hold graphs and say when those run: branches and loops.

A region is a closed graph: what it reads from around the op is an operand of the op. So a pass, the
verifier or the interpreter treats it like any other graph. Among an op's attributes regions go by
name (`body=...`); in a node they stand apart from the attributes, in the order of `region_names`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.errors import AttributeValueError, DTypeError, GraphError, ShapeError
from graphc.ir.dims import Dim
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.op import EVERY, REQUIRED, Arrays, Op, Parameters, Types
from graphc.system import IMPORTING

GRADIENT_RULES: dict[str, Callable[..., Any]] = {}
"""Gradient rules of region ops by name. They derive gradients of graphs, which `graphc.autodiff`
does: it stands above the ops, and fills this when it is imported."""

RECORDED_FORMS: dict[str, Callable[..., dict[str, Any]]] = {}
"""By name of a region op: `(types, attributes) -> attributes` of the form whose further results
hold what the gradient rule needs. The results of the plain form come first."""


class Region(Op):
    """An op over graphs. `meaning(run, arrays, attributes)` computes it, where
    `run(region, arrays)` are a region's outputs."""

    kind = "region"
    dtypes = EVERY

    def __init__(self, name: str, **rest: Any):
        super().__init__(name, **rest)
        self.region_names = tuple(n for n in self.parameters if n in REGION_NAMES)

    def is_plain(self, attributes: dict[str, Any]) -> bool:
        """Whether the form that is differentiated may be another one."""
        return self.name in RECORDED_FORMS and not attributes.get("saved")

    def recorded(self, types: Types, attributes: dict[str, Any]) -> dict[str, Any]:
        """The attributes of the form that is differentiated."""
        form = RECORDED_FORMS.get(self.name)
        return form(types, attributes) if form else attributes

    def meaning(self, run: Any, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        raise NotImplementedError(f"region op {self.name} has no meaning")

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return self.meaning(_runner(reference=False), arrays, attributes)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return self.meaning(_runner(reference=True), arrays, attributes)

    def expect_region(self, name: str, region: Any, operands: Sequence[TensorType]) -> Graph:
        """Raise unless `region` is a graph over operands of these types that updates nothing."""
        if not isinstance(region, Graph):
            raise AttributeValueError(f"{self.name}: {name} is {region!r}, not a graph")
        if region.aliases:
            raise GraphError(f"{self.name}: {name} updates its inputs in place")
        if region.input_types != tuple(operands):
            raise _mismatch(
                f"{self.name}: {name} takes {_listed(region.input_types)}, "
                f"but is given {_listed(operands)}", region.input_types, operands,
            )  # fmt: skip
        return region

    def expect_results(self, what: str, results: Sequence[TensorType], want: Types) -> None:
        if tuple(results) != tuple(want):
            raise _mismatch(
                f"{self.name}: {what} gives {_listed(results)}, expected {_listed(want)}",
                results, want,
            )  # fmt: skip


REGION_NAMES = ("then", "otherwise", "condition", "body")


def _mismatch(message: str, got: Sequence[TensorType], want: Sequence[TensorType]) -> GraphError:
    """The error for types that differ: by dtype where only those do."""
    shapes = [type.shape for type in got] != [type.shape for type in want]
    return (ShapeError if shapes else DTypeError)(message)


def _listed(types: Sequence[TensorType]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def _runner(*, reference: bool) -> Callable[[Graph, Sequence[Any]], Arrays]:
    with IMPORTING:
        from graphc.ops.interpreter import evaluate

    return lambda region, arrays: evaluate(region, tuple(arrays), reference=reference)


class Cond(Region):
    """`cond(predicate, *operands)`: the results of `then` on the operands where the bool
    `predicate` holds, else those of `otherwise`. Only one of them runs."""

    def __init__(self, name: str, **rest: Any):
        super().__init__(
            name, parameters=Parameters({"then": REQUIRED, "otherwise": REQUIRED}), **rest
        )

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        if not types or types[0] != TensorType(DType.bool, ()):
            raise DTypeError(f"{self.name} takes a bool[] first, got {_listed(types[:1])}")
        then = self.expect_region("then", attributes["then"], types[1:])
        otherwise = self.expect_region("otherwise", attributes["otherwise"], types[1:])
        self.expect_results("otherwise", otherwise.output_types, then.output_types)
        if not then.outputs:
            raise GraphError(f"{self.name}: the branches return nothing")
        return then.output_types

    def meaning(self, run: Any, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        chosen = attributes["then" if arrays[0] else "otherwise"]
        return tuple(map(np.asarray, run(chosen, arrays[1:])))


class WhileLoop(Region):
    """`while_loop(*carry, *invariants)`: while `condition(*carry, *invariants)` holds, `carry =
    body(*carry, *invariants)`. Results: the carry. `carry` says how many operands it has."""

    def __init__(self, name: str, **rest: Any):
        parameters = {"carry": REQUIRED, "condition": REQUIRED, "body": REQUIRED}
        super().__init__(name, parameters=Parameters(parameters, ["carry"]), **rest)

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        count = _count(self.name, "carry", attributes["carry"], 1, len(types))
        condition = self.expect_region("condition", attributes["condition"], types)
        body = self.expect_region("body", attributes["body"], types)
        self.expect_results("condition", condition.output_types, (TensorType(DType.bool, ()),))
        self.expect_results("body", body.output_types, types[:count])
        return types[:count]

    def meaning(self, run: Any, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        count = attributes["carry"]
        carry, rest = tuple(arrays[:count]), arrays[count:]
        while run(attributes["condition"], (*carry, *rest))[0]:
            carry = run(attributes["body"], (*carry, *rest))
        return tuple(map(np.asarray, carry))


class TimeLoop(Region):
    """`scan(*carry, *xs, *invariants)`: for t from 0 to `length` (backwards with `reverse`)
    `(*carry, *y_t) = body(*carry, *x_t, *invariants)`, where x_t is slice t along the first axis
    of x. Results: the last carry, then for each y the slices along a new first axis, y_t at t.

    `carry` and `sequences` say how many operands those are. The last `saved` ys are there for
    the gradient."""

    def __init__(self, name: str, **rest: Any):
        parameters = {
            "carry": REQUIRED, "sequences": REQUIRED, "length": REQUIRED, "reverse": False,
            "saved": 0, "body": REQUIRED,
        }  # fmt: skip
        counts = ("carry", "sequences", "length", "saved")
        super().__init__(name, parameters=Parameters(parameters, counts), **rest)

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        carry = _count(self.name, "carry", attributes["carry"], 0, len(types))
        sequences = _count(self.name, "sequences", attributes["sequences"], 0, len(types) - carry)
        length = _count(self.name, "length", attributes["length"], 0, None)
        xs = types[carry : carry + sequences]
        for position, type in enumerate(xs):
            if not type.shape or type.shape[0] != length:
                raise ShapeError(
                    f"{self.name}: sequence {position} is {type}, its first axis must be {length}"
                )
        slices = tuple(TensorType(type.dtype, type.shape[1:]) for type in xs)
        arguments = (*types[:carry], *slices, *types[carry + sequences :])
        body = self.expect_region("body", attributes["body"], arguments)
        results = body.output_types
        self.expect_results("body", results[:carry], types[:carry])
        if not results:
            raise GraphError(f"{self.name}: the body returns nothing")
        _count(self.name, "saved", attributes["saved"], 0, len(results) - carry)
        ys = [TensorType(type.dtype, (length, *type.shape)) for type in results[carry:]]
        return (*types[:carry], *ys)

    def meaning(self, run: Any, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        count, sequences = attributes["carry"], attributes["sequences"]
        body, length = attributes["body"], attributes["length"]
        carry = tuple(arrays[:count])
        xs, rest = arrays[count : count + sequences], arrays[count + sequences :]
        ys = [
            np.empty((length, *type.shape), type.dtype.numpy) for type in body.output_types[count:]
        ]
        order = reversed(range(length)) if attributes["reverse"] else range(length)
        for t in order:
            results = run(body, (*carry, *(np.asarray(x[t]) for x in xs), *rest))
            carry = results[:count]
            for y, result in zip(ys, results[count:]):
                y[t] = result
        return (*map(np.asarray, carry), *ys)


def _count(op: str, name: str, value: Any, low: int, high: int | None) -> Any:
    if isinstance(value, Dim) and value >= low and (high is None or value <= high):
        return value
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= low
    if not fits or (high is not None and value > high):
        bounds = f"from {low}" + (f" to {high}" if high is not None else "")
        raise AttributeValueError(f"{op}: {name} must be a whole number {bounds}, not {value!r}")
    return int(value)
