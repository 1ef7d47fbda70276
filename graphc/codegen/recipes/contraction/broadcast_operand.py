"""The operand of a contraction whose elements fill all lanes: one element for each row of a tile.

It is read where it lies, or, where it is turned, from a copy [batch axes it has, runs of k, groups
of tiles of rows, k, row].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from graphc.codegen.evaluate.copier import Copier
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.contraction.choice import Choice
from graphc.codegen.recipes.contraction.panel import Panel, Tiles
from graphc.codegen.recipes.contraction.view import operand_value
from graphc.ops.kinds.index_expr import Expr, Variable, flatten, of
from graphc.schedule.access import Index, unflatten


@dataclass(frozen=True)
class Run:
    """A run of k in the copy: row `first` + k holds index k of the first group of rows; the run has
    `count` indices for each group."""

    first: Expr
    count: int


Runs = Callable[[Callable[[Expr, int], None]], None]
"""Calls its argument, with the first k and their number, for runs that follow one another."""


class BroadcastOperand:
    """Reads the operand, and copies it where the choice says so."""

    def __init__(self, copier: Copier, choice: Choice) -> None:
        self.copier = copier
        self.builder, self.evaluator = copier.builder, copier.evaluator
        self.view, self.choice = choice.view, choice
        self.tile_rows = choice.tile.rows
        self.rows: int = math.prod(self.view.m)
        self.depth: int = math.prod(self.view.k)
        width = choice.left_width
        self.group: int = width // self.tile_rows if width % self.tile_rows == 0 else 1
        """Tiles of rows side by side in the copy."""
        self.panel: Panel | None = None
        self.batch: tuple[Index, tuple[int, ...]] = ((), ())
        self.whole = Run(of(0), self.depth)

    @property
    def group_rows(self) -> int:
        return self.tile_rows * self.group

    @property
    def groups(self) -> int:
        """Groups of tiles of rows, as many rows each as fill the width of the copy."""
        return -(-self.rows // self.group_rows)

    # -- the copy ----------------------------------------------------------------------------

    def new_panel(self, depth: int) -> None:
        self.panel = Panel(self.copier, self.view, "left", depth, self.choice.left_width)

    def copy_all(self, batch: Index, loops: list[Variable], runs: Runs) -> None:
        """All of it, ahead of the loops over these variables of the batch: a convolution's weight
        is copied once, not once per image."""
        probe = self.view.broadcast(batch, self._m(of(0)), unflatten(of(0), self.view.k))
        used = [v for v in loops if probe is None or any(v in i.variables() for i in probe.index)]
        extents = tuple(variable.extent for variable in used)
        self.new_panel(self.groups * math.prod(extents) * self.depth)
        self.batch = (tuple(of(variable) for variable in used), extents)
        self._copy_over(used, batch, runs)
        assert self.panel is not None
        # Readers stand inside no loop of the copying.
        self.panel.filled_in = self.builder.block

    def _copy_over(self, variables: list[Variable], batch: Index, runs: Runs) -> None:
        if variables:
            with self.builder.loop(0, variables[0].extent, hint="p") as loop:
                self.evaluator.integers.bind(variables[0], loop.variable, self.builder.block)
                self._copy_over(variables[1:], batch, runs)
            return
        start = self._batch_start
        whole, rest = divmod(self.rows, self.group_rows)

        def run(begin: Expr, count: int) -> None:
            def place(group: Expr) -> Expr:
                return start + begin * self.groups + group * count

            if whole:
                groups = partial(self.copier.loop, whole, "pt")
                self.copy(batch, groups, self.group_rows, place, begin, count)
            if rest:
                self.copy(batch, lambda one: one(of(whole)), rest, place, begin, count)

        runs(run)

    def copy(
        self, batch: Index, groups: Tiles, rows: int, place: Callable[[Expr], Expr], begin: Expr,
        count: int,
    ) -> None:  # fmt: skip
        """The first `rows` rows of some groups, `count` elements of k from `begin` on, the first of
        these as row place(group) of the copy."""
        panel = self.panel
        assert panel is not None
        panel.depth = count
        panel.fill(
            groups, rows,
            lambda group, k, r: self.view.broadcast(
                batch, self._m(group * self.group_rows + r), self._k(begin + k)
            ),
            lambda group: place(group) * panel.columns,
        )  # fmt: skip

    @property
    def _batch_start(self) -> Expr:
        """The row of the copy where a batch element starts."""
        start: Expr = flatten(*self.batch) * (self.groups * self.depth)
        return start

    @property
    def _order(self) -> tuple[int, ...]:
        """The axes of k as the copy has them. Phases use some kernel positions each, so there these
        come first."""
        axes = tuple(range(len(self.view.k)))
        first = self.choice.unrolled if len(self.choice.phases) > 1 else 0
        return axes[first:] + axes[:first]

    def _k(self, flat: Expr) -> Index:
        order = self._order
        found = dict(zip(order, unflatten(flat, tuple(self.view.k[a] for a in order)), strict=True))
        return tuple(found[axis] for axis in range(len(order)))

    def _position(self, k: Index) -> Expr:
        order = self._order
        return flatten([k[axis] for axis in order], [self.view.k[axis] for axis in order])

    def _m(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.m)

    # -- reading -----------------------------------------------------------------------------

    def element(
        self, batch: Index, m: Index, k: Index, tile: Expr, row: int, run: Run | None = None
    ) -> LoopValue:
        """The element at a row and k, in all lanes; in the copy it is that of row `row` of `tile`,
        and k lies in `run` (by default: all of k)."""
        lanes = self.choice.lanes
        if self.panel is None:
            case = self.view.broadcast(batch, m, k)
            assert case is not None
            return self.builder.splat(operand_value(self.evaluator, self.view, case), lanes)
        run = run or self.whole
        at = self._batch_start + run.first + tile // self.group * run.count + self._position(k)
        at = at * self.panel.columns
        element = self.panel.load(at + tile % self.group * self.tile_rows + row)
        return self.builder.splat(element, lanes)
