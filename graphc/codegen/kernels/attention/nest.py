"""The nest around attention's leaves: heads, and of each of them blocks of rows.

in : an `AttentionContext`, and what stands in the loops
out: `attention_nest`; stages and leaves that name what they do, and do it head by head

Axes are elements: an output has those that it is along, and what it sums over is its leaf's. The
tiles inside of a block stay the leaves' own (parts.py): of a causal matrix where they begin, and
how wide they are, is computed for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from graphc.codegen.kernels.attention.heads import AttentionContext, Head, HeadRows
from graphc.codegen.kernels.attention.plan import AttentionPlan
from graphc.codegen.nests.nest import (
    OF_NUMBERS,
    Axis,
    Compute,
    Effect,
    ForEach,
    Holds,
    Nest,
    NestOutput,
    NestPlace,
    Role,
    Room,
    Split,
    Stage,
    Statement,
)
from graphc.codegen.nests.tails import Tail
from graphc.ir.dims import known_number
from graphc.records import record, replace
from graphc.schedule.access import unflatten

K = TypeVar("K")


@record
class HeadStage:
    """Scratch of one head, or of a block of its rows. `copied`: writes what fills it, and gives
    what readers read it by; of what leaves fill nothing. `cleared`: writes zeros."""

    name: str
    holds: Holds
    text: str
    room: Room
    whole: tuple[str, ...]
    scratch: Callable[[AttentionContext], Any]
    copied: Callable[[AttentionContext, NestPlace], Any] | None = None
    cleared: Callable[[AttentionContext, NestPlace], None] | None = None

    def declare(self, context: AttentionContext) -> Any:
        return self.scratch(context)

    def clear(self, context: AttentionContext, place: NestPlace) -> None:
        assert self.cleared is not None, f"{self.name} is written, never cleared"
        self.cleared(context, place)

    def fill(self, context: AttentionContext, place: NestPlace) -> Any:
        return None if self.copied is None else self.copied(context, place)


@record
class HeadLeaf:
    """What is done with one head, or with a block of its rows."""

    text: str
    does: Effect
    written: Callable[[AttentionContext, NestPlace], None]

    @property
    def effect(self) -> Effect:
        return replace(self.does, tails=OF_NUMBERS | {Tail.STEPPED})

    def write(self, context: AttentionContext, place: NestPlace) -> None:
        self.written(context, place)


def leaf_of(
    kernel: Callable[[AttentionContext, NestPlace], K], text: str, effect: Effect,
    written: Callable[[K], None],
) -> Compute:  # fmt: skip
    """A leaf that a kernel of the place at hand writes."""
    return Compute(HeadLeaf(text, effect, lambda context, place: written(kernel(context, place))))


def head_of(context: AttentionContext, place: NestPlace) -> Head:
    """The head that the loop is at."""
    addresses, number = context.evaluator.addresses, place["head"].number
    lead = unflatten(number, context.plan.heads)
    every = [target for targets in context.outputs.values() for target in targets]
    starts = {t: addresses.number(t.start(lead))[0] for t in every}
    return Head(addresses.scalar(number), lead, starts)


def rows_of(context: AttentionContext, place: NestPlace) -> HeadRows:
    """The rows of the block that the loop is at; written once, where a block begins."""
    plan, n, span = context.plan, context.builder.numbers, place["block"]
    rest = known_number(plan.rows % plan.tile_rows)
    if span.bounds is None:
        assert rest is not None
        return HeadRows(0, span.size, span.size // plan.tile_rows, rest, int(rest > 0))
    first, end = span.bounds
    count = n.sub(end, first)
    tiles = n.div(count, plan.tile_rows)
    left = n.sub(count, n.mul(tiles, plan.tile_rows))
    if rest is not None:
        left = n.minimum(left, int(rest > 0))
    return HeadRows(first, count, tiles, rest, left)


def attention_nest(
    context: AttentionContext, note: str, outputs: Sequence[NestOutput], stages: Sequence[Stage],
    ahead: Sequence[Statement], of_block: Sequence[Statement], behind: Sequence[Statement] = (),
) -> Nest:  # fmt: skip
    """For each head what is `ahead` of its blocks of rows, these, and what is `behind` them."""
    plan = context.plan
    extents = {
        "head": math.prod(plan.heads), "row": plan.rows, "column": plan.columns,
        "depth": plan.depth, "width": plan.width,
    }  # fmt: skip
    axes = {name: Axis(name, n, Role.ELEMENTS, i) for i, (name, n) in enumerate(extents.items())}
    head = Split("head", axes["head"], 1, Tail.EXACT)
    blocks = ForEach(_blocks(plan, axes["row"]), tuple(of_block))
    return Nest(
        context.body.name, ((Role.ELEMENTS, math.prod(extents.values())),), tuple(axes.values()),
        tuple(stages), (head,), (ForEach(head, (*ahead, blocks, *behind)),), note,
        outputs=tuple(outputs),
    )  # fmt: skip


def _blocks(plan: AttentionPlan, rows: Axis) -> Split:
    """Of one block the number of rows is known where its code is written."""
    size = max(plan.block, 1)  # of no rows there is no block
    one = Split("block", rows, size, Tail.WHOLE_AND_REST)
    return one if one.is_one_tile and one.refusal is None else replace(one, tail=Tail.STEPPED)
