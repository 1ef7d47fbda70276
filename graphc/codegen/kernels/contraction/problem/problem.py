"""What a strategy is asked about.

In: a kernel's body around one contraction, and the lanes of a full vector. Out: `problems`, one for
each of the two ways to give the operands their roles: which one is broadcast, and which is read by
vectors. Nothing of them is changed later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from graphc.codegen.kernels.common import lanes_within
from graphc.codegen.kernels.contraction.problem.coordinates import Coordinates
from graphc.codegen.kernels.contraction.problem.view import ContractionView, batch_variables
from graphc.codegen.kernels.typical import typical
from graphc.ir.dims import Extent, symbols_in
from graphc.ir.nodes import Graph
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable, of
from graphc.records import field, record
from graphc.schedule.access import Index, unflatten


@record(eq=False)
class ContractionProblem:
    """out[b, m, n] = Σ_k broadcast operand[b, m, k] · vector operand[b, n, k]."""

    view: ContractionView
    lanes: int
    """Those of a full vector of what the body computes with; a strategy may take fewer."""
    tilings: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What `tilings.py` was asked before."""

    @property
    def name(self) -> str:
        return self.view.op.name + (" swapped" if self.view.swapped else "")

    @property
    def dtype(self) -> DType:
        return self.view.dtype

    @property
    def pairs(self) -> bool:
        """Whether products are added two at a time, that of the odd index first."""
        return self.view.pairs

    @property
    def rows(self) -> int:
        return math.prod(self.view.m)

    @property
    def depth(self) -> int:
        return math.prod(self.view.k)

    @property
    def batch_count(self) -> int:
        return math.prod(self.view.batch)

    @property
    def open(self) -> Coordinates:
        """Those among whose extents are sizes known only at run time."""
        view, kinds = self.view, Coordinates.NONE
        for kind, extents in (
            (Coordinates.IMAGES, view.batch[:1]), (Coordinates.GROUPS, view.batch[1:]),
            (Coordinates.ROWS, view.m), (Coordinates.COLUMNS, view.n),
            (Coordinates.DEPTH, view.k[:1]), (Coordinates.TAPS, view.k[1:]),
        ):  # fmt: skip
            kinds |= kind if symbols_in(*extents) else Coordinates.NONE
        return kinds

    @property
    def has_sizes(self) -> bool:
        """Whether rows, columns, or reduced coordinates are known only at run time."""
        return self.open not in Coordinates.BATCH

    @property
    def sum_grows(self) -> bool:
        """Whether a copy of all of k would grow with a size known only at run time."""
        return bool(self.open & Coordinates.SUM)

    def typical(self, extent: Extent, at_least: int = 0) -> int:
        """A number for an extent, to compare costs for; of a size no less than `at_least`."""
        return typical(extent, self.view.typical_size, at_least)

    @property
    def batch(self) -> Index:
        """The index of the batch element at hand, in the variables that loops bind."""
        return tuple(of(variable) for variable in batch_variables(self.view))

    @property
    def has_results(self) -> bool:
        return 0 not in (*self.view.batch, *self.view.m, *self.view.n)

    def lanes_for(self, extent: Extent) -> int:
        """Lanes of the narrowest vector that always holds so many results, at most a full one."""
        return lanes_within(self.lanes, extent)

    def m(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.m)

    def k(self, flat: Expr) -> Index:
        return unflatten(flat, self.view.k)


def problems(body: Graph, lanes: int) -> Iterator[ContractionProblem]:
    """The contraction of `body` in both roles, as the op has its operands first."""
    for swapped in (False, True):
        yield ContractionProblem(ContractionView(body, swapped), lanes)


def k_variables(view: ContractionView) -> tuple[Variable, ...]:
    """Variables for the reduced coordinates, for asking where elements lie."""
    return tuple(Variable(f"probe_k{axis}", dim) for axis, dim in enumerate(view.k))
