"""Numbers and lanes as index expressions, each under a name of its own.

in : the addresses of a kernel, and a name
out: `LoopPositions`: expressions of numbers that loops and arithmetic give, and of lanes
"""

from __future__ import annotations

import itertools

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.loop_ir.numbers import Number, is_known
from graphc.ir.dims import Extent
from graphc.ops.kinds.index_expr import Expr, Variable, of


class LoopPositions:
    """Those of one kernel: their names do not depend on what was lowered before."""

    def __init__(self, addresses: Addresses, name: str):
        self.addresses = addresses
        self._name = name
        self._count = itertools.count()

    def expression(self, number: Number, extent: Extent) -> Expr:
        """A number below `extent`."""
        if is_known(number):
            return of(number)
        variable = self._variable(extent)
        self.addresses.bind(variable, number, self.addresses.builder.block)  # type: ignore[arg-type]
        return of(variable)

    def lane(self, lanes: int) -> Expr:
        """The lanes of a vector."""
        variable = self._variable(lanes)
        self.addresses.bind_lane(variable, self.addresses.builder.block)
        return of(variable)

    def _variable(self, extent: Extent) -> Variable:
        return Variable(f"{self._name}{next(self._count)}", extent)
