"""What every order of loops of a contraction needs: extents, ranges of tiles, indices, outputs.

An order of loops says which results are computed when, and which parts of the operands are copied
ahead of that. There are seven (`recipe.py` picks one); those around the register tile share
`tiled.py` as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.copier import Copier
from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Buffer, Kernel, LoopValue
from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.guarded_sums import GuardedSums
from graphc.codegen.recipes.contraction.tiles import TileRun
from graphc.codegen.recipes.contraction.view import ContractionView, batch_variables
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index, behind_reshape, unflatten


class LoopOrder(ABC):
    """One order of loops: batch elements outside, what a subclass makes of each inside."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, outputs: list[Buffer], choice: Choice
    ) -> None:
        self.builder = builder
        self.evaluator = evaluator
        self.integers = evaluator.integers
        self.outputs = outputs
        self.choice = choice
        self.view: ContractionView = choice.view
        self.body = self.view.body
        self.dtype = self.view.dtype
        self.tile = choice.tile
        self.lanes = choice.lanes
        self.copier = Copier(builder, evaluator, self.lanes)
        self.rows: int = math.prod(self.view.m)
        self.depth = math.prod(self.view.k)
        zero = builder.const(self.dtype, 0)
        self.guarded = GuardedSums(self.copier, self.view, builder.splat(zero, self.lanes))
        self.zeros = [builder.splat(zero, self.lanes)] * (self.tile.rows * self.tile.vectors)

    def build(self) -> Kernel:
        """The kernel. Its range is that of the outermost loop over the batch, or, where the batch
        is one element, what `batch_element` divides."""
        if 0 in (self.rows, math.prod(self.view.n)) or 0 in self.view.batch:
            return self.finished(1)
        batch = tuple(of(variable) for variable in batch_variables(self.view))
        loops = [variable for variable in self.outer_variables() if variable.extent != 1]
        self.prepare(batch, loops)
        if not loops:
            return self.finished(self.batch_element(batch, split=True))
        with self.builder.loop(self.builder.begin, self.builder.end, hint="b") as outer:
            self.integers.bind(loops[0], outer.variable, self.builder.block)
            self.over(loops[1:], "b", lambda: self.batch_element(batch, split=False))
        return self.finished(loops[0].extent)

    def outer_variables(self) -> Sequence[Variable]:
        """The variables of the loops around `batch_element`."""
        return batch_variables(self.view)

    def prepare(self, batch: Index, loops: list[Variable]) -> None:
        """Scratch, and what is copied ahead of all loops."""
        return

    @abstractmethod
    def batch_element(self, batch: Index, split: bool) -> int:
        """All results of one batch element; with `split`, the part begin…end of this call. Gives
        into how many parts they can be divided."""

    def finished(self, extent: int) -> Kernel:
        return self.builder.finish(extent, self.choice.reason)

    def over(self, variables: Sequence[Variable], name: str, body: Callable[[], object]) -> None:
        """`body` inside a loop for each of the variables."""
        if not variables:
            body()
            return
        with self.builder.loop(0, variables[0].extent, hint=name) as loop:
            self.integers.bind(variables[0], loop.variable, self.builder.block)
            self.over(variables[1:], name, body)

    # -- ranges ------------------------------------------------------------------------------

    def range_of(
        self, done: int, whole: int, split: bool
    ) -> tuple[int | LoopValue, int | LoopValue]:
        """Of tiles done…done + whole all, or with `split` those in begin…end, counted from
        `done`."""
        if not split:
            return 0, whole
        builder = self.builder
        begin, end = builder.begin, builder.end
        if done:
            offset = builder.const(DType.i64, done)
            begin = builder.op("maximum", builder.sub(begin, offset), builder.const(DType.i64, 0))
            end = builder.sub(end, offset)
        return begin, builder.minimum(end, builder.const(DType.i64, whole))

    def run(self, part: TileRun, done: int, split: bool, body: Callable[[Expr, int], None]) -> None:
        """`body(first vector, vectors)` for the tiles of a run, or, with `split`, for those in
        begin…end; `done` tiles come before all of them."""
        begin, end = self.range_of(done + part.number, part.count, split)
        if part.count == 1 and not split:
            body(of(part.first), part.vectors)
            return
        with self.builder.loop(begin, end, hint="columns") as loop:
            tile = Variable(f"columns{done + part.number}", part.count)
            self.integers.bind(tile, loop.variable, self.builder.block)
            body(of(tile) * part.vectors + part.first, part.vectors)

    def last(self, number: int | None, body: Callable[[], None]) -> None:
        """`body`, if tile `number` is among those of this call (None: it is)."""
        if number is None:
            return body()
        with self.builder.loop(*self.range_of(number, 1, True), hint="last"):
            body()

    # -- elements ----------------------------------------------------------------------------

    def m(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.m)

    def k(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.k)

    def multiply_add(self, x: LoopValue, y: LoopValue, total: LoopValue) -> LoopValue:
        if self.dtype.is_float:
            return self.builder.fma(x, y, total)
        return self.builder.add(self.builder.mul(x, y), total)

    def clear(self, memory: Buffer, vectors: int, first: Callable[[Expr], Expr]) -> None:
        """Zeros in so many vectors of scratch, the i-th of them at element first(i)."""
        zero = self.builder.const(self.dtype, 0)
        self.copier.loop(
            vectors, "clear",
            lambda at: self.evaluator.store(memory, first(at) + self.copier.lane(), zero),
        )  # fmt: skip

    def finish(self, index: Index, guards: tuple[Guard, ...], total: LoopValue) -> None:
        """Compute and store the body's outputs for one vector of results. A reshaped output has
        its elements where they lie without."""
        self.evaluator.bind(self.view.anchor, index, total, self.builder.block)
        domain = self.body.type_of(self.view.anchor).shape
        ready = []
        for buffer, output in zip(self.outputs, self.body.outputs, strict=True):
            same = self.body.type_of(output).shape == domain
            inner = output if same else behind_reshape(self.body, output)
            value = self.evaluator.value(inner, index, guards)
            ready.append((buffer, flatten(index, domain), value))
        for buffer, linear, value in ready:
            self.evaluator.store(buffer, linear, value, guards)
