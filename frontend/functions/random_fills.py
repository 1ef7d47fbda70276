"""Draws of f32 by native code: a kernel for each distribution, of a fixed number of elements, made
once in a process, fills them block by block.

Element i of a draw depends on (seed, counter + i) alone, so a block is a draw with the counter
further on, and the numbers are those of one draw. Uniform ones have the same bits as elsewhere; of
others, logarithms and cosines are those of compiled code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.eager.blocked import block_of
from frontend.tensors.generator import Generator, default_generator
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor, make
from graphc.ir.builder import GraphBuilder
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops.generate import random_uniform
from graphc.ops.movement import broadcast
from graphc.ops.scalar_functions import special
from graphc.system import IMPORTING

SMALL = 1 << 8
"""Elements of the kernel for biases; `block_of` says those of others."""
LEAST = 1 << 6
"""Below so many elements native code need not be loaded. Uniform numbers, which have the same bits
either way, are drawn natively once that is there."""

Formula = Callable[..., Any]


def _uniform(draws: list[Any], low: Any, width: Any) -> Any:
    return draws[0] * width + low


_SINE = (6.2831852802614145, -41.34168066806291, 81.6024807428489, -76.58128455898559,
         39.760722073269854)  # fmt: skip
"""sin(2πs) / s as a polynomial of s², fitted at Chebyshev's points of |s| <= 1/4."""


def cosine_of_turns(turns: Any) -> Any:
    """cos(2π · turns) for turns in [0, 1), to 2e-7: of f32 numbers, or of values of a graph."""
    s = 0.25 - e.abs(turns - 0.5)  # exact, and cos(2π · turns) is -sin(2πs)
    square = s * s
    sine = square * _SINE[4] + _SINE[3]
    for coefficient in _SINE[2::-1]:
        sine = sine * square + coefficient
    return -(sine * s)


def box_muller(first: Any, second: Any) -> Any:
    """Standard normal numbers from two draws of uniform ones, in f32 or as values of a graph."""
    return e.sqrt(e.log(1 - first) * -2) * cosine_of_turns(second)


def _normal(draws: list[Any], mean: Any, deviation: Any) -> Any:
    return box_muller(*draws) * deviation + mean


def _truncated(
    draws: list[Any], low: Any, width: Any, mean: Any, scale: Any, least: Any, most: Any
) -> Any:
    numbers = special.erfinv(draws[0] * width + low) * scale + mean
    return e.clamp(numbers, least, most)


@functools.cache
def _kernel(formula: Formula, draws: int, numbers: int, block: int) -> Any:
    """Native code: from the states of the draws and 0-d numbers to a block of elements."""
    with IMPORTING:
        from graphc.runtime.compile import compile  # not before it is needed: loads LLVM

    builder = GraphBuilder(formula.__name__.lstrip("_"))
    with builder.at(None):
        states = [builder.input(f"state{i}", "i64[2]") for i in range(draws)]
        attributes = {"shape": (block,), "dtype": DType.f32}
        drawn = [builder.apply(random_uniform, (state,), attributes)[0] for state in states]
        spread = [
            broadcast(builder.input(f"number{i}", "f32[]"), shape=(block,)) for i in range(numbers)
        ]
        graph = builder.finish(formula(drawn, *spread))
    return compile(graph, threads=1).run


def _filled(
    formula: Formula, draws: int, shape: tuple[int, ...], generator: Generator | None,
    numbers: tuple[float, ...],
) -> Tensor | None:  # fmt: skip
    """A draw by a kernel; None where it is too small, or for a trace to record."""
    source = generator or default_generator
    if STATE.mode is not None or source.state.is_meta:
        return None
    count = math.prod(shape)
    ready = formula is _uniform and _kernel.cache_info().currsize
    small = not count or (count < LEAST and not ready)
    if small:
        return None
    state = source.state._array("a random draw")
    block = SMALL if count <= SMALL else block_of(count)
    run = _kernel(formula, draws, len(numbers), block)
    arguments = [np.array(number, np.float32) for number in numbers]
    if count <= block:
        result = run([*_states(state, draws, count, 0), *arguments])[0]
        if count < block:
            result = result[:count].copy()  # a view would keep all of the block
    else:
        result = np.empty(count, np.float32)
        for start in range(0, count, block):
            part = run([*_states(state, draws, count, start), *arguments])[0]
            result[start : start + block] = part[: count - start]
    source.advance(draws * count)
    return make(result.reshape(shape), TensorType(DType.f32, shape))


def _states(state: Any, draws: int, count: int, start: int) -> list[Any]:
    """The states from which each of several draws takes its numbers from `start` on: each takes
    `count` numbers of the stream (seed, counter)."""
    states = []
    for numbers in range(start, start + draws * count, count):
        if numbers:
            moved = state.copy()
            moved[1] += numbers
        states.append(moved if numbers else state)
    return states


def uniform_fill(
    shape: tuple[int, ...], low: float, high: float, generator: Generator | None
) -> Tensor | None:
    """U(low, high) in f32, or None."""
    return _filled(_uniform, 1, shape, generator, (low, high - low))


def normal_fill(
    shape: tuple[int, ...], mean: float, deviation: float, generator: Generator | None
) -> Tensor | None:
    """N(mean, deviation²) in f32, or None."""
    return _filled(_normal, 2, shape, generator, (mean, deviation))


def truncated_fill(
    shape: tuple[int, ...], numbers: tuple[float, ...], generator: Generator | None
) -> Tensor | None:
    """`numbers` = (low, width, mean, scale, least, most): erfinv(U(low, low + width)) · scale +
    mean in f32, within [least, most]; or None."""
    return _filled(_truncated, 1, shape, generator, numbers)
