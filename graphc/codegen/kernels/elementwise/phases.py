"""Strategy: by phases, where what is read depends on quotients of the position.

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
from functools import partial

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.reduction import UNROLL_LIMIT
from graphc.codegen.elements.shuffles import pick
from graphc.codegen.kernels.elementwise.axes import OF_VECTORS, index_at, stored_at, vectors_of
from graphc.codegen.kernels.elementwise.element_nest import element_nest
from graphc.codegen.kernels.elementwise.emitter import NestEmitter
from graphc.codegen.kernels.elementwise.problem import Domain, LoopNest, loop_nest
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.nests.nest import Compute, Effect, ForEach, Nest, NestPlace
from graphc.ir.dims import Extent, known_numbers
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.registry import lookup
from graphc.ir.types import Shape
from graphc.ops.kinds.index_expr import Expr, Quotient, flatten, of
from graphc.ops.kinds.reduce import Reduce
from graphc.records import record
from graphc.schedule.access import Index, coordinates, reads

# Phases along one axis: as many vectors are shuffled to store one. And of a cell: its code is
# written out for each.
LONGEST_PERIOD = 4
MOST_PHASES = 16


@record
class PhasesPlan:
    """Loops over cells, which have a period along each axis."""

    over: LoopNest

    @staticmethod
    def of(over: LoopNest) -> PhasesPlan | None:
        """For a nest all of whose outputs have one shape, where vectors along its last axis meet
        quotients in addresses, and cells along axes whose extents are numbers resolve them."""
        body, shape = over.body, over.domain.shape
        if over.lanes < 2 or 0 in shape or over.is_affine():
            return None
        if any(type.shape != shape for type in body.output_types):
            return None
        if any(destination.is_part for destination in over.problem.outputs):
            return None
        if any(_reduces_many(body, node) for node in body.nodes):
            return None
        for period in _candidates(body, shape):
            phased = loop_nest(Domain(over.problem, period))
            if phased.lanes > 1 and phased.is_affine():
                return PhasesPlan(phased)
        return None

    def nest(self) -> Nest:
        vectors = vectors_of(self.over, self.over.lanes)
        body = (ForEach(vectors, (Compute(StoreCells(self.over)),)),)
        return element_nest(self.over, body, vectors)


@record
class StoreCells:
    """Stores all outputs in a vector of neighbouring cells, phase by phase."""

    over: LoopNest

    @property
    def text(self) -> str:
        cell = " x ".join(map(str, self.over.domain.period))
        return f"cells of {cell}, vectors of {self.over.lanes}"

    @property
    def effect(self) -> Effect:
        outputs = stored_at(self.over, len(self.over.loops))
        return Effect(stores=True, outputs=outputs, tails=OF_VECTORS)

    def write(self, emit: NestEmitter, place: NestPlace) -> None:
        over, span = self.over, place["v"]
        index = index_at(over, place, len(over.loops) - 1)
        store = partial(self._store, emit, index)
        emit.vector(over, over.lanes, span.number, span.rest, store)

    def _store(
        self, emit: NestEmitter, index: Index, position: Expr, guards: tuple[Guard, ...]
    ) -> None:
        domain = self.over.domain
        cell = index + domain.at(self.over.inner, position)
        *outer, last = (range(period) for period in domain.period)
        for phases in itertools.product(*outer):
            elements = [domain.element(cell, (*phases, phase)) for phase in last]
            inside = [guards + self._inside(element) for element in elements]
            # All values first: an output may take the place of something another still reads.
            ready = [
                [
                    emit.evaluator.value(output, *where)
                    for where in zip(elements, inside, strict=True)
                ]
                for output in self.over.body.outputs
            ]
            for output, values in enumerate(ready):
                self._store_cells(emit, output, elements, values, guards)

    def _inside(self, element: Index) -> tuple[Guard, ...]:
        """Guards along the axes whose last cell is cut off, of those that `element` has."""
        limits = zip(element, self.over.problem.shape, self.over.domain.period, strict=False)
        return tuple((item, 0, dim) for item, dim, period in limits if dim % period)

    def _store_cells(
        self, emit: NestEmitter, output: int, elements: list[Index], values: list[LoopValue],
        guards: tuple[Guard, ...],
    ) -> None:  # fmt: skip
        """Stores a value for each phase along the last axis, at `elements`, into an output."""
        evaluator, buffer = emit.evaluator, emit.outputs[output].buffer
        builder, shape = emit.builder, self.over.problem.shape
        first = flatten(elements[0], shape)
        lane = evaluator.addresses.lane_of(first)
        if lane is None:
            for element, value in zip(elements, values, strict=True):
                evaluator.store(buffer, flatten(element, shape), value, self._inside(element))
            return
        every = evaluator.addresses.every_lane(lane)
        period, lanes = len(elements), evaluator.addresses.lanes_of(first)
        parts = [builder.splat(value, lanes) for value in values]
        for start in range(0, period * lanes, lanes):
            # From `start` on behind the first cell neighbours are stored, so one by one.
            def along(expr: Expr, start: int = start) -> Expr:
                return expr.substitute({lane: of(every)}) + of(every) * (1 - period) + start

            there = [(along(e * period), low * period, high * period) for e, low, high in guards]
            there += self._inside(elements[0][:-1])
            if shape[-1] % period:
                there.append((along(elements[0][-1]), 0, shape[-1]))
            if any(e.at_least(high) for e, _, high in there):
                continue
            order = [(i % period, i // period) for i in range(start, start + lanes)]
            vector = pick(builder, parts, order)
            evaluator.store(buffer, along(first), vector, tuple(there))


def _candidates(body: Graph, shape: Shape) -> Iterator[Shape]:
    """Sizes of cells, as long along each axis as one of the remainders that addresses depend on
    takes to come again, and not longer than a row along the last. The least are tried first: of
    nested quotients that is the innermost."""
    at = coordinates(shape)
    periods: list[set[int]] = [set() for _ in shape]
    for output in body.outputs:
        for read in reads(body, output, at, lambda value: body.nodes[value.node].op == INPUT):
            for quotient in _quotients(flatten(read.index, body.type_of(read.value).shape)):
                for axis, item in enumerate(at):
                    slope = _slope(quotient.dividend, item)
                    numbers = known_numbers(quotient.divisor, slope, shape[axis])
                    if numbers is not None:
                        periods[axis].add(numbers[0] // math.gcd(*numbers[:2]))
    # A cell that is longer than a row would have neighbours in memory that are not its own.
    periods[-1] = {p for p in periods[-1] if p <= shape[-1]}
    short = [{p for p in axis if 1 < p <= LONGEST_PERIOD} or {1} for axis in periods]
    for choice in (min, max):
        period = tuple(choice(axis) for axis in short)
        if period[-1] > 1 and math.prod(period) <= MOST_PHASES:
            yield period


def _slope(expr: Expr, item: Expr) -> Extent:
    """How fast `expr` grows with a coordinate; 0 where a quotient inside it does not tell."""
    slopes = [expr.coefficient(variable) for variable in item.variables()]
    return sum(slope for slope in slopes if slope is not None)


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
