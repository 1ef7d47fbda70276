"""A contraction as its recipe sees it: one operand broadcast, the other read by vectors.

In: a kernel's body around one contraction. Out: a `View`: extents, and where each operand's element
lies, with the two operands in the roles the recipe gives them. Also the order of its sums: `cut`
says where the chains of products end, `chains` writes the loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from graphc.codegen.builder import LoopBuilder
from graphc.codegen.evaluate import Evaluator
from graphc.codegen.integers import Guard
from graphc.codegen.loops import Value
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.ops.index import Expr, Quotient, Variable, flatten, of
from graphc.ops.kind_contract import Contract
from graphc.ops.kinds import Case
from graphc.schedule.access import Index, as_index, reads, unflatten

CHAIN = 256
"""Products of one FMA chain at most; longer sums add chains in order (level exact's arithmetic)."""


@dataclass(frozen=True)
class Phase:
    """The results whose n coordinates are `step·i + offset` for i in `extents`."""

    extents: Shape
    steps: Shape
    offsets: Shape

    def index(self, at: Index) -> Index:
        return tuple(
            i * step + offset for i, step, offset in zip(at, self.steps, self.offsets, strict=True)
        )


class View:
    """The contraction of `body`. `swapped`: what the op calls left is read by vectors here."""

    def __init__(self, body: Graph, swapped: bool = False) -> None:
        self.body = body
        self.anchor = next(
            GraphValue(i) for i, node in enumerate(body.nodes)
            if node.op not in (INPUT, "constant") and isinstance(lookup(node.op), Contract)
        )  # fmt: skip
        self.node = body.nodes[self.anchor.node]
        self.op: Contract = lookup(self.node.op)
        self.types = tuple(body.type_of(operand) for operand in self.node.operands)
        self.attributes = dict(self.node.attributes)
        self.dtype = self.node.types[0].dtype
        self.swapped = swapped
        space = self.op.space(self.types, **self.attributes)
        self.batch, self.k = space.batch, space.k
        self.m, self.n = (space.n, space.m) if swapped else (space.m, space.n)

    def broadcast(self, b: Index, m: Index, k: Index) -> Case | None:
        """The element of the operand that is broadcast; None where it is certainly skipped."""
        rule = self.op.right if self.swapped else self.op.left
        return settled(rule(b, m, k, self.types, **self.attributes))

    def vector(self, b: Index, n: Index, k: Index) -> Case | None:
        """The element of the operand that is read by vectors; None where certainly skipped."""
        rule = self.op.left if self.swapped else self.op.right
        return settled(rule(b, n, k, self.types, **self.attributes))

    def out(self, b: Index, m: Index, n: Index) -> Index:
        """The coordinate of a result."""
        first, second = (n, m) if self.swapped else (m, n)
        return as_index(self.op.out(b, first, second, self.types, **self.attributes))

    def phases(self) -> list[Phase]:
        """The n coordinates, split where results have different guarded products."""
        rank = len(self.n)
        steps = (1,) * rank
        if self.op.phases is not None and not self.swapped:
            steps = self.op.phases(self.types, **self.attributes)
        found = []
        for flat in range(math.prod(steps)):
            offsets = tuple(item.constant for item in unflatten(of(flat), steps))
            extents = tuple(
                -(-(dim - offset) // step)
                for dim, offset, step in zip(self.n, offsets, steps, strict=True)
            )
            if min(extents, default=1) > 0:
                found.append(Phase(extents, steps, offsets))
        return found

    # -- memory ------------------------------------------------------------------------------

    def linear(self, case: Case) -> Expr | None:
        """The address of an element that is one unguarded read of an input, else None."""
        operand = self.node.operands[case.operand]
        if self.is_input(operand):
            found = [(operand, as_index(case.index), False)]
        else:
            found = [
                (read.value, read.index, read.guarded or read.reduced)
                for read in reads(self.body, operand, as_index(case.index), self.is_input)
            ]
        if len(found) != 1 or found[0][2]:
            return None
        return flatten(found[0][1], self.body.type_of(found[0][0]).shape)

    def is_input(self, value: GraphValue) -> bool:
        return self.body.nodes[value.node].op == INPUT

    def stride(self, case: Case | None, along: Variable) -> int | None:
        """Elements from one value of `along` to the next in memory: None where the operand is
        guarded, computed from several reads, or its address is not affine in it."""
        if case is None or case.guards:
            return None
        linear = self.linear(case)
        return None if linear is None else linear.coefficient(along)

    def is_affine(self, case: Case | None) -> bool:
        """Whether the element is one unguarded read, its address free of quotients."""
        if case is None or case.guards:
            return False
        linear = self.linear(case)
        return linear is not None and not any(isinstance(a, Quotient) for a, _ in linear.terms)


def settled(case: Case) -> Case | None:
    """The case without guards that always hold; None where one never does."""
    guards: list[Guard] = []
    for item, low, high in case.guards:
        expression = of(item) if isinstance(item, int) else item
        least, greatest = expression.bounds()
        if greatest < low or least >= high:
            return None
        if not expression.within(low, high):
            guards.append((expression, low, high))
    return Case(case.operand, as_index(case.index), tuple(guards))


def operand_value(
    evaluator: Evaluator, view: View, case: Case, guards: tuple[Guard, ...] = ()
) -> Value:
    """An operand's element; where the case's guards fail, unspecified."""
    operand = view.node.operands[case.operand]
    return evaluator.value(operand, as_index(case.index), guards + tuple(case.guards))


# -- the order of sums -------------------------------------------------------------------------


def cut(k: Shape) -> tuple[int, int]:
    """Where chains end: after each `step` indices of `axis` of the reduced coordinates, with all
    indices of the axes behind it: as many as make at most `CHAIN` products."""
    inner = 1
    for axis in reversed(range(len(k))):
        if inner * k[axis] > CHAIN:
            return axis, max(CHAIN // inner, 1)
        inner *= k[axis]
    return 0, k[0] if k else 1


Accumulate = Callable[[Index, list[Value]], list[Value]]


class Chains:
    """Writes the loops of a sum over k. `body(k, sums)` adds the products at k to all sums; axes
    from `unrolled` on are written out, the others are loops."""

    def __init__(
        self, builder: LoopBuilder, evaluator: Evaluator, k: Shape, unrolled: int, body: Accumulate
    ) -> None:
        self.builder = builder
        self.integers = evaluator.integers
        self.k = k
        self.unrolled = unrolled
        self.body = body
        self.axis, self.step = cut(k)

    def total(
        self,
        zeros: list[Value],
        start: list[Value] | None = None,
        first: int | Value = 0,
        last: int | Value | None = None,
    ) -> list[Value]:
        """The sums, on top of those in `start`; of indices first…last of the first axis only."""
        if 0 in self.k:
            return start or zeros
        if start is None and math.prod(self.k) <= CHAIN:
            return self._nest(0, (), zeros, 0, self.k[0] if self.k else 1)
        self.zeros = zeros
        bounds = (first, self.k[0] if last is None else last)
        return self._chains(0, (), start or zeros, bounds)

    def _chains(
        self, level: int, prefix: Index, totals: list[Value],
        bounds: tuple[int | Value, int | Value],
    ) -> list[Value]:  # fmt: skip
        extent, step = self.k[level], self.step if level == self.axis else 1
        if level == self.axis and bounds == (0, extent) and step >= extent:
            return self._added(totals, self._nest(level, prefix, self.zeros, 0, extent))
        begin, end = bounds
        with self.builder.loop(begin, end, step, carried=totals, hint="chain") as loop:
            variable = Variable(f"chain{level}", extent)
            self.integers.bind(variable, loop.variable, self.builder.block)
            carried = list(loop.carried)
            if level == self.axis:
                limit = self._limit(loop.variable, end, step)
                chain = self._nest(level, prefix, self.zeros, loop.variable, limit)
                loop.yield_(*self._added(carried, chain))
            else:
                inner = (0, self.k[level + 1])
                loop.yield_(*self._chains(level + 1, (*prefix, of(variable)), carried, inner))
        return list(loop.results)

    def _limit(self, begin: Value, end: int | Value, step: int) -> int | Value:
        """Where the chain that starts at `begin` ends."""
        if step == 1 and not isinstance(end, Value):
            return self.builder.add(begin, self.builder.const(DType.i64, 1))
        behind = self.builder.add(begin, self.builder.const(DType.i64, step))
        if isinstance(end, int) and end % step == 0:
            return behind
        bound = end if isinstance(end, Value) else self.builder.const(DType.i64, end)
        return self.builder.minimum(behind, bound)

    def _added(self, totals: list[Value], chain: list[Value]) -> list[Value]:
        return [self.builder.add(a, b) for a, b in zip(totals, chain, strict=True)]

    def _nest(
        self, level: int, prefix: Index, sums: list[Value], begin: int | Value, end: int | Value
    ) -> list[Value]:
        """One chain: indices begin…end of axis `level`, and all of the axes behind it."""
        if level >= len(self.k):
            return self.body(prefix, sums)
        static = isinstance(begin, int) and isinstance(end, int)
        if static and (level >= self.unrolled or end - begin == 1):  # type: ignore[operator]
            for position in range(begin, end):  # type: ignore[arg-type]
                sums = self._inner(level, (*prefix, of(position)), sums)
            return sums
        with self.builder.loop(begin, end, carried=sums, hint=f"k{level}") as loop:
            variable = Variable(f"k{level}", self.k[level])
            self.integers.bind(variable, loop.variable, self.builder.block)
            loop.yield_(*self._inner(level, (*prefix, of(variable)), list(loop.carried)))
        return list(loop.results)

    def _inner(self, level: int, prefix: Index, sums: list[Value]) -> list[Value]:
        if level + 1 == len(self.k):
            return self.body(prefix, sums)
        return self._nest(level + 1, prefix, sums, 0, self.k[level + 1])
