"""Ops of the table with a size left open: compiled once, at every size the bits of the kernel that
is compiled for it, on one thread and on three, and nothing written outside of the memory of a call.
Its gradients can be derived where any of these sizes answers what is asked.

A case is a sample of an op in which the axes of one extent become a size, and sizes to run it at.
Where the op cannot be inferred so (its attributes hold the number), or asks for the number itself,
there is nothing to compare; that it cannot be lowered is told.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import graphc
from graphc import ops
from graphc.errors import ContentError, GraphError, IndexRangeError, LoweringError
from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard, answered_by
from graphc.ir.types import DType, TensorType
from graphc.ops.interpreter import run
from graphc.ops.kinds.op import Op, SampleDrawer
from graphc.schedule import threads
from tests.fuzz.fences import fenced
from tests.fuzz.frame import Broken, Fuzzer
from tests.fuzz.narrow_programs import PROGRAMS, Program

Array = np.ndarray[Any, Any]
SPREAD = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 70)
DTYPES = ("f32", "f32", "f32", "bf16", "f16")
"""Of the floats of a sample. An op that does not take one says so."""
AFTER_GRADIENTS = ("unpack",)
"""Ops that passes make: nothing is derived of them."""


@dataclass(frozen=True)
class Case:
    """Sample `number` of an op or program, the extent that is left open, the sizes it is run at,
    and the dtype of its floats."""

    op: str
    number: int
    extent: int
    sizes: tuple[int, ...]
    dtype: str = "f32"


def looked_up(name: str) -> Op | Program:
    return PROGRAMS.get(name) or ops.lookup(name)


def applied(context: Any, op: Op | Program, operands: Any, attributes: Any) -> tuple[Any, ...]:
    """The results of an op or program on handles of a context."""
    if isinstance(op, Program):
        results = op.define(*operands, **attributes)
        return results if isinstance(results, tuple) else (results,)
    results = context.apply(op, tuple(operands), attributes)
    return tuple(results)


@functools.cache
def samples(op: Op | Program, dtype: str = "f32") -> list[tuple[tuple[Array, ...], dict[str, Any]]]:
    """Operands, floats that are float64 as this dtype, and attributes; those without regions."""
    if op.samples is None:
        return []
    narrow = DType[dtype].numpy
    return [
        (
            tuple([x.astype(narrow) if x.dtype == np.float64 else x for x in sample.operands]),
            sample.attributes,
        )
        for sample in op.samples(SampleDrawer())
        if not any(isinstance(value, Graph) for value in sample.attributes.values())
    ]  # fmt: skip


@functools.cache
def openings() -> list[tuple[str, int, int]]:
    """Every op and program, number of a sample, and extent of at least 2 that an axis of an operand
    has."""
    return [
        (op.name, number, extent)
        for op in (*ops.table(), *PROGRAMS.values())
        for number, (operands, _) in enumerate(samples(op))
        for extent in sorted({n for x in operands for n in x.shape if n >= 2})
    ]


def draw(random: np.random.Generator, size: int) -> Case:
    name, number, extent = drawn_opening(random)
    sizes = random.choice(SPREAD, min(size, 5), replace=False)
    return Case(name, number, extent, (extent, *map(int, sizes)), str(random.choice(DTYPES)))


def drawn_opening(random: np.random.Generator) -> tuple[str, int, int]:
    """Every fifth is of a program."""
    of_programs = bool(random.random() < 0.2)
    kinds = [each for each in openings() if (each[0] in PROGRAMS) == of_programs]
    return kinds[int(random.integers(len(kinds)))]


def opened(case: Case) -> tuple[Graph, tuple[SizeGuard, ...]]:
    """The graph of the op, and what it asks of the size. Raises GraphError where it cannot be."""
    op = looked_up(case.op)
    operands, attributes = samples(op, case.dtype)[case.number]
    n = dim("n")

    def shown(shape: Any) -> Any:
        return tuple([n if extent == case.extent else extent for extent in shape])

    builder = GraphBuilder("opened")
    with answered_by({"n": case.extent}) as answers:
        inputs = [
            builder.input(f"x{i}", TensorType.of(x).with_shape(shown(x.shape)))
            for i, x in enumerate(operands)
        ]
        if "shape" in attributes:
            attributes = {**attributes, "shape": shown(attributes["shape"])}
        return builder.finish(*applied(builder, op, inputs, attributes)), answers.guards


def check(case: Case) -> str:
    try:
        graph, guards = opened(case)
    except GraphError:
        return "does not fit"
    for n in case.sizes:
        _derive(case, graph, n)
    sizes = [n for n in case.sizes if all(guard.holds({"n": n}) for guard in guards)]
    if any(guard.sign == "==" for guard in guards):
        return "asks for the number"
    try:
        sized = graphc.compile(graph, threads=1, example={"n": case.extent})
    except GraphError as error:
        if isinstance(error, LoweringError) or "size" in str(error):
            return "refused"
        raise
    with _everything_split():
        several = graphc.compile(graph, threads=3, example={"n": case.extent})
        for n in sizes:
            with fenced():
                _compare(case, graph, (sized, several), n)
    return "compared"


@contextlib.contextmanager
def _everything_split() -> Iterator[None]:
    """Small work is worth threads: each call decides by its own size."""
    free = {"STEP_NS": 0.0, "PART_NS": 0.0, "CALL_NS": -1e9, "BARRIER_NS": 0.0}
    before = {name: getattr(threads, name) for name in free}
    try:
        for name, value in free.items():
            setattr(threads, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(threads, name, value)


def _derive(case: Case, graph: Graph, n: int) -> None:
    """The gradients of the op where `n` answers what its rules ask: of the types of the operands,
    as where the size is a number. A rule may refuse an open size."""
    floats = [i for i, type in enumerate(graph.output_types) if type.dtype.is_float]
    try:
        graphc.joint(at_sizes(graph, {"n": n}), seeds=floats)
    except GraphError:
        return  # no gradient, or no such size
    try:
        with answered_by({"n": n}):
            graphc.verify(graphc.joint(graph, seeds=floats))
    except GraphError as error:
        if "the gradient rule of" in str(error) and case.op not in AFTER_GRADIENTS:
            raise Broken(f"gradients at {n}: {error}") from None


def _compare(case: Case, graph: Graph, compiled: Sequence[Any], n: int) -> None:
    known = at_sizes(graph, {"n": n})
    drawn, _ = samples(looked_up(case.op), case.dtype)[case.number]
    operands = [
        np.resize(x, type.shape) if x.size else np.zeros(type.shape, x.dtype)
        for x, type in zip(drawn, known.input_types)
    ]
    expected = _outcome(graphc.compile(known, threads=1), operands)
    for sized in compiled:
        actual = _outcome(sized, operands)
        # A check goes with a result that nobody reads: which of one element is the greatest.
        goes = isinstance(actual, type) and not isinstance(expected, type)
        if not (goes and actual is _outcome(functools.partial(run, known), operands)):
            _same(n, actual, expected)


def _same(n: int, actual: Any, expected: Any) -> None:
    if isinstance(expected, type) or isinstance(actual, type):
        if expected is not actual:
            raise Broken(f"at {n}: {actual}, for the size alone {expected}")
        return
    for one, other in zip(actual, expected, strict=True):
        if not same_bits(one, other):
            raise Broken(f"at {n}: {one}, for the size alone {other}")


def same_bits(one: Array, other: Array) -> bool:
    """Arrays of one shape, dtype and bits. NaNs are equal whatever their sign: which one 0/0 is, is
    for the processor to say."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if other.dtype == DType.bf16.numpy:  # NumPy's comparison does not know its NaN
        one, other = one.astype(np.float32), other.astype(np.float32)
    floats = other.dtype.kind == "f"
    numbers = ~np.isnan(other) if floats else np.ones(other.shape, bool)
    same = one[numbers].tobytes() == other[numbers].tobytes()
    return same and np.array_equal(one, other, equal_nan=floats)


def _outcome(executable: Any, operands: list[Array]) -> Any:
    """The results, or the class of the error that contents of operands raise."""
    try:
        return executable(*[x.copy() for x in operands])
    except (IndexRangeError, ContentError) as error:
        return type(error)


def smaller(case: Case) -> Iterator[Case]:
    for i in range(1, len(case.sizes)):
        yield replace(case, sizes=case.sizes[:i] + case.sizes[i + 1 :])


FUZZER = Fuzzer("op_sizes", draw, check, lambda case: f"check({case!r})", smaller)
