"""The recipe `nest` where what is read depends on quotients of the position: by phases.

Gradients of windows, upsampling by repetition and dilation read element `x // 2`, or only where
`x % 2` is 0. Vectors along x would gather, and test each lane. So the domain is cut into cells of
as many neighbours as the period: the loops run over cells, and inside a cell each phase is a
computation of its own, in which quotients are affine and remainders are numbers:

    for each vector of cells q:
      even = y[2*q]      computed with x = 2*q:     x // 2 is q, x % 2 is 0
      odd  = y[2*q + 1]  computed with x = 2*q + 1: x // 2 is q, x % 2 is 1
      store the two, interleaved by shuffles
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from graphc.codegen.evaluate.addresses import Guard
from graphc.codegen.evaluate.evaluator import Evaluator
from graphc.codegen.evaluate.reduction import UNROLL_LIMIT
from graphc.codegen.evaluate.shuffles import pick
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.recipes.nest.destinations import StoreDestination
from graphc.codegen.recipes.nest.rows import AxisLoop, Nest, longest_shape
from graphc.ir.dims import fixed, is_symbolic
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Quotient, flatten, of
from graphc.ops.kinds.reduce import Reduce
from graphc.schedule.access import Index, coordinates, reads, unflatten

# Phases along one axis: as many vectors are shuffled to store one. And of a cell: its code is
# written out for each.
LONGEST_PERIOD = 4
MOST_PHASES = 16


class PhasedNest(Nest):
    """A nest whose `domain` counts cells; `period` is their size along each axis of `shape`."""

    def __init__(
        self,
        builder: LoopBuilder,
        evaluator: Evaluator,
        body: Graph,
        outputs: list[StoreDestination],
        period: Shape,
    ):
        self.period = period
        self.shape = longest_shape(body)
        super().__init__(builder, evaluator, body, outputs)

    @staticmethod
    def instead_of(nest: Nest) -> PhasedNest | None:
        """Instead of a nest all of whose outputs have one shape, where vectors along its last axis
        meet quotients in addresses, and cells resolve them."""
        body, shape = nest.body, nest.domain
        if nest.lanes < 2 or 0 in shape or is_symbolic(shape) or nest.is_affine():
            return None
        if any(type.shape != shape for type in body.output_types):
            return None
        if any(destination.is_part for destination in nest.outputs):
            return None
        if any(_reduces_many(body, node) for node in body.nodes):
            return None
        for period in _candidates(body, shape):
            phased = PhasedNest(nest.builder, nest.evaluator, body, nest.outputs, period)
            if phased.lanes > 1 and phased.is_affine():
                return phased
        return None

    # -- choices -----------------------------------------------------------------------------

    def _domain(self) -> Shape:
        return tuple(-(-dim // p) for dim, p in zip(self.shape, self.period, strict=True))

    def _index(self, loops: tuple[AxisLoop, ...]) -> Index:
        return self._element(super()._index(loops), (0,) * len(self.period))

    def _is_affine(self, loops: tuple[AxisLoop, ...]) -> bool:
        """Also of what is stored: neighbouring cells must be neighbours in memory."""
        stored = flatten(self._index(loops), self.shape)
        along = stored.coefficient(loops[-1].variable)
        return along == self.period[-1] and super()._is_affine(loops)

    # -- cells -------------------------------------------------------------------------------

    def _keep_rows(self, loop: AxisLoop, index: Index) -> None:
        """Nothing: a row is swept once."""

    def _element(self, cell: Index, phases: tuple[int, ...]) -> Index:
        """The index of one of the elements of a cell."""
        steps = zip(cell, self.period, phases, strict=True)
        return tuple(item * period + phase for item, period, phase in steps)

    def _store_inner(
        self, loop: AxisLoop, index: Index, position: Expr, guards: tuple[Guard, ...]
    ) -> None:
        cell = index + unflatten(position, self.domain[loop.first : loop.last + 1])
        *outer, last = (range(period) for period in self.period)
        for phases in itertools.product(*outer):
            elements = [self._element(cell, (*phases, phase)) for phase in last]
            inside = [guards + self._inside(element) for element in elements]
            # All values first: an output may take the place of something another still reads.
            ready = [
                [
                    self.evaluator.value(output, *where)
                    for where in zip(elements, inside, strict=True)
                ]
                for output in self.body.outputs
            ]
            for output, values in enumerate(ready):
                self._store_cells(output, elements, values, guards)

    def _inside(self, element: Index) -> tuple[Guard, ...]:
        """Guards along the axes whose last cell is cut off, of those that `element` has."""
        limits = zip(element, self.shape, self.period, strict=False)
        return tuple((item, 0, dim) for item, dim, period in limits if dim % period)

    def _store_cells(
        self, output: int, elements: list[Index], values: list[LoopValue], guards: tuple[Guard, ...]
    ) -> None:
        """Stores a value for each phase along the last axis, at `elements`, into an output."""
        evaluator, buffer = self.evaluator, self.outputs[output].buffer
        first = flatten(elements[0], self.shape)
        lane = evaluator.integers.lane_of(first)
        if lane is None:
            for element, value in zip(elements, values, strict=True):
                evaluator.store(buffer, flatten(element, self.shape), value, self._inside(element))
            return
        every = evaluator.integers.every_lane(lane)
        period, lanes = len(elements), fixed(every.extent)
        parts = [self.builder.splat(value, lanes) for value in values]
        for start in range(0, period * lanes, lanes):
            # From `start` on behind the first cell neighbours are stored, so one by one.
            def along(expr: Expr, start: int = start) -> Expr:
                return expr.substitute({lane: of(every)}) + of(every) * (1 - period) + start

            there = [(along(e * period), low * period, high * period) for e, low, high in guards]
            there += self._inside(elements[0][:-1])
            if self.shape[-1] % period:
                there.append((along(elements[0][-1]), 0, self.shape[-1]))
            if any(e.at_least(high) for e, _, high in there):
                continue
            order = [(i % period, i // period) for i in range(start, start + lanes)]
            vector = pick(self.builder, parts, order)
            evaluator.store(buffer, along(first), vector, tuple(there))


def _candidates(body: Graph, shape: Shape) -> Iterator[Shape]:
    """Sizes of cells, as long along each axis as one of the remainders that addresses depend on
    takes to come again. The least are tried first: of nested quotients that is the innermost."""
    at = coordinates(shape)
    periods: list[set[int]] = [set() for _ in shape]
    for output in body.outputs:
        for read in reads(body, output, at, lambda value: body.nodes[value.node].op == INPUT):
            for quotient in _quotients(flatten(read.index, body.type_of(read.value).shape)):
                for axis, item in enumerate(at):
                    slope = _slope(quotient.dividend, item)
                    divisor = fixed(quotient.divisor)
                    periods[axis].add(divisor // math.gcd(divisor, slope))
    short = [{p for p in axis if 1 < p <= LONGEST_PERIOD} or {1} for axis in periods]
    for choice in (min, max):
        period = tuple(choice(axis) for axis in short)
        if period[-1] > 1 and math.prod(period) <= MOST_PHASES:
            yield period


def _slope(expr: Expr, item: Expr) -> int:
    """How fast `expr` grows with a coordinate; 0 where a quotient inside it does not tell."""
    return sum(fixed(expr.coefficient(variable) or 0) for variable in item.variables())


def _quotients(expr: Expr) -> Iterator[Quotient]:
    for atom, _ in expr.terms:
        if isinstance(atom, Quotient):
            yield atom
            yield from _quotients(atom.dividend)


def _reduces_many(body: Graph, node: Node) -> bool:
    """Whether a node is a reduction that is written as a loop: no number of a tap is known."""
    if node.op in (INPUT, CONSTANT) or not isinstance(lookup(node.op), Reduce):
        return False
    shape = body.type_of(node.operands[0]).shape
    axes: Shape = node.attribute("axes")
    return math.prod(shape[axis] for axis in axes) > UNROLL_LIMIT
