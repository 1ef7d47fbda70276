"""Kernels that are better lowered for sizes from some number on.

In: a kernel of sizes known only at run time. Out: which size, and from what number on another plan
is cheaper; and the kernel with that bound. Images along vectors are the case: with fewer of them
than lanes most lanes would be empty, so a kernel for any number of images cannot have them there.
A driver has both kernels and takes one by the size of the call; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.table import choose
from graphc.codegen.target import Target
from graphc.ir.dims import Symbol, dim, symbol_of
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.symbols import symbols_of
from graphc.ir.undecided import granted
from graphc.records import record, replace
from graphc.schedule.plan import KernelSpec

WORTH = 0.8
"""Of the cost for any size, what a plan for many has to stay below to be worth its code."""


@record
class SizeClass:
    """Sizes of this name from `least` on."""

    name: str
    least: int


@lru_cache(maxsize=256)
def size_class(spec: KernelSpec, target: Target) -> SizeClass | None:
    """The sizes for which a kernel is better lowered apart; None where one kernel serves all."""
    if spec.recipe != "contract" or not symbols_of(spec.body):
        return None
    lanes = lanes_for(spec.body, target)
    general = None
    for symbol in dict.fromkeys(_along_vectors(spec.body, lanes)):
        if symbol.least >= lanes or (symbol.most is not None and symbol.most < lanes):
            continue
        general = general or choose(spec.body, lanes, target)
        chosen = SizeClass(symbol.name, lanes)
        apart = choose(within(spec, chosen).body, lanes, target)
        if type(apart) is not type(general) and apart.cost < WORTH * general.cost:
            return chosen
    return None


def _along_vectors(body: Graph, lanes: int) -> Iterator[Symbol]:
    """The sizes that stand where a plan may have images or channels along vectors."""
    view = next(problems(body, lanes)).view
    for extent in (*view.batch[:1], *view.n[:1]):
        if (symbol := symbol_of(extent)) is not None:
            yield symbol


def within(spec: KernelSpec, of: SizeClass) -> KernelSpec:
    """The kernel for these sizes."""
    bounds = {symbol.name: (symbol.least, symbol.most) for symbol in symbols_of(spec.body)}
    bounds[of.name] = (of.least, bounds[of.name][1])
    with granted():
        return replace(spec, body=at_sizes(spec.body, {n: dim(n, *b) for n, b in bounds.items()}))
