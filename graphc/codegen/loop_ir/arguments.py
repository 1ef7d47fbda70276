"""What a call of a kernel is given: sizes by name, and an array for each buffer.

In: a kernel and its arguments. Out: how long its buffers are at these sizes. Raises ArgumentError
for arguments that do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.codegen.loop_ir.nodes import Kernel
from graphc.errors import ArgumentError
from graphc.ir.dims import evaluate
from graphc.ir.types import DType


def buffer_lengths(
    kernel: Kernel, arrays: Sequence[np.ndarray[Any, Any]], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Elements of each buffer and scratch buffer by name."""
    missing = [value.name for value in kernel.dims if value.name not in sizes]
    if missing:
        raise ArgumentError(f"kernel {kernel.name} wants a size for {', '.join(missing)}")
    if len(arrays) != len(kernel.buffers):
        raise ArgumentError(f"{len(kernel.buffers)} buffers, {len(arrays)} arrays")
    lengths = {
        buffer.name: evaluate(buffer.size, sizes) for buffer in kernel.buffers + kernel.scratch
    }
    for buffer, array in zip(kernel.buffers, arrays):
        if DType.of(array.dtype) is not buffer.dtype or array.size < lengths[buffer.name]:
            raise ArgumentError(
                f"buffer {buffer} wants {lengths[buffer.name]} elements of {buffer.dtype.value}, "
                f"the array has {array.size} of {array.dtype}"
            )
        if not array.flags.c_contiguous:
            raise ArgumentError(f"the array for buffer {buffer} is not contiguous")
    return lengths
