"""Which extents of an op's call are sizes that its kernel leaves open.

in : an op, the extents of a call (those of its operands, then of an attribute that is a shape), and
     how its operands lie in memory
out: for each extent the name of a size, or the number it stays; several proposals

An extent of 0 or 1 is a number: the latter is what is broadcast. What a model fixes by its weights
stays a number too, since code for the number is faster: columns, and what is summed over in a
product by a weight; channels; the last axis, until it was seen to differ (`general`). Which extents
are one size follows from the op where it is listed here; for others it is guessed from those that
are equal, and inference says whether the guess holds. A wrong guess costs generality, never a
result: sizes that do not fit what was compiled get a kernel of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from frontend.engine.eager.kernels.gradient_rule import GradientRule
from frontend.engine.eager.kernels.layouts import Layouts
from graphc.ops.contract import conv, conv_input_grad, conv_weight_grad, matmul, paired_matmul
from graphc.ops.generate import iota, random_uniform
from graphc.ops.kinds.op import Op, Types
from graphc.ops.kinds.region import Region
from graphc.ops.nn.attention import attention, attention_grad
from graphc.ops.nn.products import addmm
from graphc.ops.paired_convolution import (
    paired_conv,
    paired_conv_input_grad,
    paired_conv_weight_grad,
)

Slots = tuple[str | int, ...]
Place = tuple[int, int]
"""An operand and one of its axes."""

SHAPED: dict[Op, str] = {iota: "shape", random_uniform: "shape"}
"""Ops that make their result from no operand of its shape, and the attribute that says it."""

BATCHED: dict[Op, tuple[int, ...]] = {
    conv: (0,), conv_input_grad: (0,), conv_weight_grad: (0, 1),
    paired_conv: (0,), paired_conv_input_grad: (0,), paired_conv_weight_grad: (0, 1),
    attention: (0, 1, 2), attention_grad: (0, 1, 2, 3, 4, 5),
}  # fmt: skip
"""Operands whose first axis counts examples, which is all that their kernels leave open. So do
those of all other ops with windows."""

CONVOLUTIONS = (
    conv, conv_input_grad, conv_weight_grad,
    paired_conv, paired_conv_input_grad, paired_conv_weight_grad,
)  # fmt: skip
"""Ops that may have another kernel from some number of images on."""

FACTORS: dict[Op, tuple[int, int]] = {
    matmul: (0, 1), paired_matmul: (0, 1), addmm: (1, 2)
}  # fmt: skip
"""The two operands of a matrix product."""


def extents(op: Op, types: Types, attributes: dict[str, Any]) -> list[int]:
    """All extents that slots stand for."""
    of_types = [extent for type in types for extent in type.shape]
    name = SHAPED.get(op)
    return of_types if name is None else [*of_types, *attributes[name]]


def openings(
    op: Op, types: Types, numbers: Sequence[int], layouts: Layouts, general: bool
) -> Iterator[Slots]:
    """Slots for a call with these extents, the last ones all numbers. `general`: sizes were seen to
    differ where they were taken for numbers."""
    places = [(i, axis) for i, type in enumerate(types) for axis in range(len(type.shape))]
    if op in SHAPED:
        last = len(numbers) - (not general)
        yield _slots(numbers, lambda at: f"n{at}" if len(places) <= at < last else None)
    elif op in FACTORS:
        names = _factors(types, layouts, *FACTORS[op], general)
        yield _slots(numbers, lambda at: names.get(places[at]))
    elif op in (attention, attention_grad) and general:  # a context that grows
        yield _guess(types, places, numbers, general=False)
        yield from _of_examples(op, types, places, numbers)
    elif op in BATCHED or "kernel" in op.parameters:
        yield from _of_examples(op, types, places, numbers)
    elif not isinstance(op, Region):  # their bodies are graphs of certain sizes
        yield _guess(types, places, numbers, general)
        yield _slots(
            numbers,
            lambda at: "n0" if places[at][1] == 0 and numbers[at] == numbers[0] else None,
        )
    yield tuple(numbers)


def _of_examples(
    op: Op, types: Types, places: list[Place], numbers: Sequence[int]
) -> Iterator[Slots]:
    """The number of examples open: the first axis of some operands."""
    operands = BATCHED.get(op, (0,))
    if isinstance(op, GradientRule):  # what has the rank of the first gradient
        rank = len(types[0].shape)
        operands = tuple([i for i, type in enumerate(types) if len(type.shape) == rank])
    examples = [(operand, 0) for operand in operands]
    yield _slots(numbers, lambda at: "n0" if places[at] in examples else None)


def _guess(types: Types, places: list[Place], numbers: Sequence[int], general: bool) -> Slots:
    """All axes open, but for the last of operands of more than one (`general`: these too). Equal
    extents of two operands are taken for one size."""
    names: list[str | None] = []
    for at, (operand, axis) in enumerate(places):
        same = [p for p in range(at) if places[p][0] < operand and numbers[p] == numbers[at]]
        # An axis of the same number says more than any other.
        same.sort(key=lambda p: places[p][1] != axis)
        last = axis == len(types[operand].shape) - 1 and not general
        name = names[same[0]] if same else None if last and axis else f"n{at}"
        names.append(name)
    return _slots(numbers, names.__getitem__)


def _factors(
    types: Types, layouts: Layouts, left: int, right: int, general: bool
) -> dict[Place, str]:
    """Names for the batch, and for the rows, or, where the left operand lies in columns (the
    gradient of a weight), for what is summed over. `general`: for both."""
    rank = len(types[left].shape)
    names = {(left, axis): f"n{axis}" for axis in range(rank - 2)}
    names |= {(right, axis): f"n{axis}" for axis in range(rank - 2)}
    order = () if (layout := layouts[left]) is None else layout.order
    in_columns = order[-1:] == (rank - 2,)
    if general or not in_columns:
        names[left, rank - 2] = f"n{rank - 2}"
    if general or in_columns:
        names |= {(left, rank - 1): f"n{rank - 1}", (right, rank - 2): f"n{rank - 1}"}
    return names


def _slots(numbers: Sequence[int], name: Callable[[int], str | None]) -> Slots:
    return tuple([n if n < 2 else (name(at) or n) for at, n in enumerate(numbers)])
