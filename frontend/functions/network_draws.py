"""What is drawn inside networks (dropout and its like), from the default generator's stream of
(seed, counter): element i of a draw depends on (seed, counter + i) alone, so draws are fused into
what reads them and computed again where that is cheaper. The same numbers eager and compiled; not
those that PyTorch draws there.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.kernels.blocked import block_length
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.generator import default_generator, drawn_on
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.builder import GraphBuilder
from graphc.ir.types import DType, TensorType
from graphc.ops.generate import random_uniform
from graphc.system import IMPORTING

SMALL = 1 << 8
"""Elements of the kernel for small draws; `block_of` says those of others."""
LEAST = 1 << 6
"""Below so many elements native code need not be loaded."""


def drawn_inside(shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
    """Numbers in [0, 1), multiples of 2**-24, in f32 or f64."""
    kind = dtype or STATE.default_dtype
    if kind is not DType.f64:
        native = _filled(shape)
        if native is not None:
            return casted(native, kind)
    wide = kind.computes_as
    source = drawn_on(None, None) or default_generator
    with no_grad():
        numbers, state = CONTEXT.apply(
            random_uniform, (source.inside,), {"shape": shape, "dtype": wide}
        )
        source.inside._assign(state)
        return casted(numbers, kind)


def _filled(shape: tuple[int, ...]) -> Tensor | None:
    """A draw in f32 by native code, block by block; None where it is too small, or for a trace to
    record."""
    if STATE.mode is not None:
        return None
    count = math.prod(shape)
    if not count or (count < LEAST and not _kernel.cache_info().currsize):
        return None
    state = default_generator.inside._array("a random draw")
    block = SMALL if count <= SMALL else block_length(count)
    run = _kernel(block)
    if count <= block:
        result = run([state])[0]
        if count < block:
            result = result[:count].copy()  # a view would keep all of the block
    else:
        result = np.empty(count, np.float32)
        for start in range(0, count, block):
            moved = np.array([state[0], state[1] + start])
            result[start : start + block] = run([moved])[0][: count - start]
    default_generator.advance(count)
    return make(result.reshape(shape), TensorType(DType.f32, shape))


@functools.cache
def _kernel(block: int) -> Any:
    """Native code: from a state to a block of numbers."""
    with IMPORTING:
        from graphc.runtime.compile import compile  # not before it is needed: loads LLVM

    builder = GraphBuilder("drawn_inside")
    with builder.at(None):
        attributes = {"shape": (block,), "dtype": DType.f32}
        state = builder.input("state", "i64[2]")
        graph = builder.finish(builder.apply(random_uniform, (state,), attributes)[0])
    return compile(graph, threads=1).run
