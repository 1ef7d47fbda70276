"""Kernels whose extents are known only when they are called, beside those lowered for one size.
What the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from graphc.codegen.kernels.contraction.strategies import table as strategies
from graphc.codegen.kernels.contraction.strategies.table import Strategy
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import Target, executable, named
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.dims import Extent, dim, evaluate
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.registry import lookup
from graphc.ir.types import DType, TensorType
from graphc.schedule.access import ANCHORS
from graphc.schedule.bodies import recipe_of
from graphc.schedule.plan import KernelSpec

Array = np.ndarray[Any, Any]
Shape = tuple[Extent, ...]
Program = Callable[..., Var | tuple[Var, ...]]
Operand = Shape | tuple[DType, Shape]
"""A shape, of f32 where no dtype is said."""
Draw = Callable[[np.random.Generator, dict[str, int]], list[Array]]
"""Draws the operands at certain sizes."""

N, M = dim("n"), dim("m")
TARGETS = [named("x86-64-v2"), named("x86-64-v4")]


def along(*sizes: int) -> list[dict[str, int]]:
    return [{"n": n} for n in sizes]


def typed(operand: Operand) -> TensorType:
    if operand and isinstance(operand[0], DType):
        return TensorType(*operand)  # type: ignore[arg-type]
    return TensorType(DType.f32, operand)  # type: ignore[arg-type]


def body_of(program: Program, operands: list[Operand]) -> Graph:
    builder = GraphBuilder("body")
    inputs = [builder.input(f"x{i}", typed(operand)) for i, operand in enumerate(operands)]
    results = program(*inputs)
    return builder.finish(*(results if isinstance(results, tuple) else (results,)))


def lowered(body: Graph, target: Target) -> Kernel:
    """The kernel of a body, around what it has but what nests compute, if anything."""
    ops = [None if node.op in (INPUT, CONSTANT) else lookup(node.op) for node in body.nodes]
    anchors = [i for i, op in enumerate(ops) if op is not None and op.kind in ANCHORS]
    recipe = recipe_of(body, anchors[0] if anchors else None)
    return lower(KernelSpec(recipe, body), target)


def results_of(body: Graph, sizes: dict[str, int]) -> list[Array]:
    return [
        np.empty([evaluate(extent, sizes) for extent in type.shape], type.dtype.numpy)
        for type in body.output_types
    ]


def interpreted(
    kernel: Kernel, body: Graph, arrays: list[Array], sizes: dict[str, int]
) -> list[Array]:
    results = results_of(body, sizes)
    interpreter.run(kernel, [*arrays, *results], sizes=sizes, fills=True)
    return results


def native(
    kernel: Kernel, body: Graph, arrays: list[Array], sizes: dict[str, int], target: Target
) -> list[Array]:
    """In two parts, as threads share them."""
    results, extent = results_of(body, sizes), evaluate(kernel.extent, sizes)
    for begin, end in ((0, extent // 2), (extent // 2, extent)):
        if begin < end:
            jit.call_kernel(kernel, [*arrays, *results], begin, end, target, sizes)
    return results


def drawn(types: list[TensorType]) -> list[Array]:
    draw = np.random.default_rng(7)
    return [draw.standard_normal(type.shape).astype(type.dtype.numpy) for type in types]


def compare(
    program: Program, operands: list[Operand], sizes: list[dict[str, int]],
    draw: Draw | None = None, strategy: Strategy | None = None,
    targets: list[Target] = TARGETS,
) -> None:  # fmt: skip
    """One kernel for each target at all sizes, interpreted and native, against the kernel lowered
    for each size. `strategy`: the only one that the kernels at all sizes may be of."""
    symbolic = body_of(program, operands)
    kernels = []
    with only(strategy) if strategy is not None else nullcontext():
        kernels += [(target, lowered(symbolic, target)) for target in targets]
    for number, each in enumerate(sizes):
        fixed = at_sizes(symbolic, each)
        numbers = list(fixed.input_types)
        arrays = drawn(numbers) if draw is None else draw(np.random.default_rng(7), each)
        # Static kernels have the same bits on all targets: this one is interpreted soonest.
        expected = interpreted(lowered(fixed, TARGETS[-1]), fixed, arrays, {})
        for target, kernel in kernels:
            runs = []
            if target in executable():
                runs.append(native(kernel, symbolic, arrays, each, target))
            # Short vectors take long to interpret: they are at the first sizes.
            if number < 2 or target is TARGETS[-1] or not runs:
                runs.append(interpreted(kernel, symbolic, arrays, each))
            for actual, wanted in pairs(runs, expected):
                assert actual.dtype == wanted.dtype
                same = actual.tobytes() == wanted.tobytes()
                assert same, f"at {each} on {target.name}: {actual} instead of {wanted}"


@contextmanager
def only(strategy: Strategy) -> Iterator[None]:
    """Contractions are lowered by this strategy, or not at all."""
    table = strategies.STRATEGIES
    assert strategy in table
    strategies.STRATEGIES = (strategy,)
    try:
        yield
    finally:
        strategies.STRATEGIES = table


def pairs(runs: list[list[Array]], expected: list[Array]) -> Iterator[tuple[Array, Array]]:
    for run in runs:
        yield from zip(run, expected, strict=True)
