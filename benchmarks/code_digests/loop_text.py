"""Kernels as text in which no name counts.

in : a kernel of the loop IR
out: its statements, values and scratch numbered in the order in which they come, sizes by name
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.records import fields


def loop_text(kernel: Kernel) -> str:
    """Equal for kernels that differ in names alone, and in their notes."""
    numbers: dict[Any, int] = {}
    sizes = frozenset(size.name for size in kernel.dims)
    parts = (kernel.dims, kernel.buffers, kernel.scratch, kernel.begin, kernel.end, kernel.extent)
    return " ".join([*_tokens(parts, numbers, sizes), *_tokens(kernel.body, numbers, sizes)])


def _tokens(part: Any, numbers: dict[Any, int], sizes: frozenset[str]) -> Iterator[str]:
    if isinstance(part, tuple):
        yield "("
        for each in part:
            yield from _tokens(each, numbers, sizes)
        yield ")"
    elif isinstance(part, LoopValue):
        known = part.name in sizes
        yield part.name if known else f"%{numbers.setdefault(part.name, len(numbers))}:{part.type}"
    elif isinstance(part, Buffer):
        number = numbers.setdefault(part, len(numbers))
        yield f"@{number}:{part.access}:{part.dtype.value}[{part.size}]"
    elif type(part).__module__ == LoopValue.__module__:  # a statement, or an index
        yield type(part).__name__
        for field in fields(part):
            yield from _tokens(getattr(part, field.name), numbers, sizes)
    else:
        yield part.hex() if isinstance(part, float) else str(part)
