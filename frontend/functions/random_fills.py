"""Normal numbers as PyTorch's CPU code makes them, by Box and Muller's transform ("A note on the
generation of random normal deviates", 1958). Eagerly native code computes it, block by block; in a
trace the same formulas are recorded.

Tensors whose elements follow each other, 16 or more of them, are filled 16 at a time (`in_blocks`);
where they are no multiple of 16, the last 16 are drawn anew. All others take pairs of numbers
computed in f64 (`in_pairs`), of which the generator keeps the second one where it is left.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.kernels.blocked import block_length
from frontend.engine.tensors.generator import Generator, default_generator
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions import drawn_words
from frontend.functions import pointwise as f
from frontend.functions.drawn_words import Values, fractions
from graphc.ir.builder import GraphBuilder
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops import mersenne_twister as twister
from graphc.ops.movement import concat, reshape, slice_
from graphc.ops.scalar_functions.special import log1p
from graphc.system import IMPORTING

ROW = 16
"""Numbers that are made together: the first half gives the radii, the second one the angles."""
SMALL = 1 << 8
"""Elements of the kernel for biases; `block_of` says those of others."""

Formula = Callable[..., Any]


def _part(x: Any, axis: int, start: int, size: int) -> Any:
    shape = x.shape
    starts = tuple([start if a == axis else 0 for a in range(len(shape))])
    sizes = tuple([size if a == axis else dim for a, dim in enumerate(shape)])
    return slice_(x, start=starts, size=sizes, step=(1,) * len(shape))


def _turned(radius: Any, angle: Any, axis: int) -> Any:
    return concat(radius * e.cos(angle), radius * e.sin(angle), axis=axis)


def rows_formula(numbers: Any, rows: int) -> Any:
    """Rows of 16 fractions as standard normal numbers."""
    both = reshape(numbers, shape=(rows, 2, ROW // 2))
    first, second = _part(both, 1, 0, 1), _part(both, 1, 1, 1)
    radius = e.sqrt(e.log(1 - first) * -2)
    return reshape(_turned(radius, second * (2 * math.pi), 1), shape=(rows * ROW,))


def pairs_formula(numbers: Any, pairs: int) -> Any:
    """Pairs of fractions in f64 as standard normal numbers."""
    both = reshape(numbers, shape=(pairs, 2))
    first, second = _part(both, 1, 0, 1), _part(both, 1, 1, 1)
    radius = e.sqrt(log1p(-second) * -2)
    return reshape(_turned(radius, first * (2 * math.pi), 1), shape=(2 * pairs,))


@functools.cache
def _kernel(formula: Formula, dtype: np.dtype[Any], block: int, count: int) -> Any:
    """A function in native code: a formula of a block of numbers, which are `count` rows or
    pairs."""
    with IMPORTING:
        from graphc.runtime.compile import compile  # not before it is needed: loads LLVM
        from graphc.runtime.direct_call import DirectCall
        from graphc.runtime.executable import Executable

    type, builder = TensorType(DType.of(dtype), (block,)), GraphBuilder(formula.__name__)
    with builder.at(None):
        numbers = builder.input("numbers", str(type))
        graph = builder.finish(formula(numbers, count))
    executable = compile(graph, threads=1)
    assert isinstance(executable, Executable), "blocks have one size"
    direct = DirectCall(lambda array: executable.run([array])[0])
    direct.add(executable, (type,), (None,))
    return direct.function


def _applied(formula: Formula, numbers: Values, together: int) -> Values:
    """A formula of numbers of which so many belong together."""
    if not isinstance(numbers, np.ndarray):
        return formula(numbers, numbers.shape[0] // together)
    count = numbers.size
    block = ROW if count <= ROW else SMALL if count <= SMALL else block_length(count)
    run = _kernel(formula, numbers.dtype, block, block // together)
    if count == block:
        return run(numbers)
    result = np.empty_like(numbers)
    for start in range(0, count, block):
        part = numbers[start : start + block]
        if len(part) < block:
            padded = np.zeros(block, numbers.dtype)
            padded[: len(part)] = part
            part = padded
        result[start : start + block] = run(part)[: count - start]
    return result


def _joined(*parts: Values) -> Values:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return CONTEXT.apply(concat, parts, {"axis": 0})[0]


def in_blocks(count: int, kind: DType, generator: Generator | None) -> Values:
    """Standard normal numbers in f32 or f64 (in f32 for f16 and bf16), 16 or more."""
    wide = kind.computes_as
    rest = count % ROW
    if rest == 0:
        return _applied(rows_formula, fractions(count, wide, generator), ROW)
    whole = count - rest
    # The half types take 16 words for each whole row, the others one for each element.
    drawn = fractions((count if wide is kind else whole) + ROW, wide, generator)
    rows = _joined(drawn[:whole], drawn[drawn.shape[0] - ROW :])
    numbers = _applied(rows_formula, rows, ROW)
    return _joined(numbers[: count - ROW], numbers[whole:])


def in_pairs(count: int, generator: Generator | None) -> Values:
    """Standard normal numbers in f64, one or more."""
    source = generator or default_generator
    if drawn_words.is_recorded(source):
        return _recorded_pairs(count, source)
    spare = source.spare._array("a random draw")
    kept = spare[1:].copy() if spare[0] else spare[:0]
    pairs = (count - len(kept) + 1) // 2
    numbers = _applied(pairs_formula, fractions(2 * pairs, DType.f64, source), 2)
    left = 2 * pairs + len(kept) - count
    spare[:] = (1, numbers[-1]) if left else (0, 0)
    count_write(source.spare._counter)
    return np.concatenate([kept, numbers[: 2 * pairs - left]])


def _recorded_pairs(count: int, source: Generator) -> Tensor:
    """The same where it is known at run time only whether a number is left of a pair."""
    pairs = (count + 1) // 2
    state, spare = source.twister, source.spare
    drawn = drawn_words.after(state, 4 * pairs)
    fractions_ = drawn_words.long_fractions(drawn[twister.STATE :], 2 * pairs)
    numbers = pairs_formula(fractions_, pairs)
    left = spare[0] != 0
    result = f.where(left, _joined(spare[1:], numbers)[:count], numbers[:count])
    none = from_data([0.0, 0.0], DType.f64)
    new = _joined(from_data([1.0], DType.f64), numbers[2 * pairs - 1 :])
    end = drawn[: twister.STATE]
    if count % 2:  # one that is left saves a pair, and none is left of the others
        fewer = drawn_words.after(state, 4 * (pairs - 1))[: twister.STATE]
        end, new, none = f.where(left, fewer, end), none, new
    spare._assign(f.where(left, new, none))
    state._assign(end)
    return result
