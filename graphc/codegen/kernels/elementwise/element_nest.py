"""The nest of a domain: loops over all axes, and leaves that store outputs at an element.

In: a `LoopNest`, and what stands inside its outer loops. Out: a nest; outputs of fewer axes than
the domain's are stored on the way in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.codegen.kernels.elementwise.axes import (
    OF_VECTORS,
    axis_of,
    index_at,
    outputs_of,
    split_of,
    stored_at,
)
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.kept_values import KeptValues, redirected
from graphc.codegen.kernels.elementwise.problem import LoopNest
from graphc.codegen.nests.nest import (
    Compute,
    Effect,
    ForEach,
    Nest,
    NestPlace,
    Role,
    Split,
    Stage,
    Statement,
)
from graphc.records import record


@record
class StoreOutputs:
    """Stores the outputs whose last axis the first `level` loops cover, element by element, or, of
    all loops, by vectors of so many `lanes`. `reads`: stages."""

    over: LoopNest
    level: int
    lanes: int = 1
    reads: Sequence[KeptValues] = ()

    @property
    def text(self) -> str:
        return f"vectors of {self.lanes}" if self._is_inner else "one by one"

    @property
    def _is_inner(self) -> bool:
        return self.level == len(self.over.loops) != 0

    @property
    def effect(self) -> Effect:
        return Effect(
            reads=tuple(stage.name for stage in self.reads), stores=True,
            outputs=stored_at(self.over, self.level), tails=OF_VECTORS,
        )  # fmt: skip

    def write(self, emit: NestEmitter, place: NestPlace) -> None:
        outputs = redirected(emit, self.reads, place)
        if not self._is_inner:
            index = index_at(self.over, place, self.level)
            emit.store(self.over, self.level, index, (), outputs)
            return
        prefix, span = index_at(self.over, place, self.level - 1), place["v"]
        emit.vector(
            self.over, self.lanes, span.number, span.rest,
            lambda at, guards: emit.store(
                self.over, self.level, prefix + self.over.domain.at(self.over.inner, at), guards,
                outputs,
            ),
        )  # fmt: skip


def element_nest(
    over: LoopNest, inside: tuple[Statement, ...], parallel: Split | None, depth: int = 1,
    stages: tuple[Stage, ...] = (),
) -> Nest:  # fmt: skip
    """A nest whose last `depth` loops are `inside`, with what stands ahead of them, around it those
    over the others. Threads divide the outermost of these, or where there is none `parallel`."""
    outer = range(len(over.loops) - depth)
    for level in reversed(outer):
        if level + 1 < len(outer):
            inside = (*store_level(over, level + 1), *inside)
        inside = (ForEach(split_of(over, level), inside, always=True),)
    if outer:
        parallel = split_of(over, 0)
    return Nest(
        over.body.name, ((Role.ELEMENTS, math.prod(over.domain.shape)),),
        tuple(axis_of(over, level) for level in range(len(over.loops))), stages,
        () if parallel is None else (parallel,), inside, outputs=tuple(outputs_of(over)),
    )  # fmt: skip


def store_level(
    over: LoopNest, level: int, reads: Sequence[KeptValues] = ()
) -> tuple[Statement, ...]:
    """The outputs that so many of the outer loops cover, where there are any."""
    return (Compute(StoreOutputs(over, level, reads=reads)),) if stored_at(over, level) else ()
