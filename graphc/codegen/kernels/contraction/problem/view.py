"""A contraction as its recipe sees it: one operand broadcast, the other read by vectors.

In: a kernel's body around one contraction. Out: a `ContractionView`: extents, and where each
operand's element lies, with the two operands in their roles.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.typical import IMAGES, ROWS, typical_size
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.dims import ceil_div, known_number
from graphc.ir.nodes import INPUT, Graph
from graphc.ir.nodes import Value as GraphValue
from graphc.ir.registry import lookup
from graphc.ir.types import DType, Shape
from graphc.ops.kinds.contract import Contract
from graphc.ops.kinds.index_expr import Expr, Quotient, Variable, flatten, of
from graphc.ops.kinds.movement import Case
from graphc.ops.kinds.op import Types
from graphc.records import record
from graphc.schedule.access import Index, as_index, reads, unflatten


@record
class ResidueClass:
    """The results whose n coordinates are `step·i + offset` for i in `extents`."""

    extents: Shape
    steps: Shape
    offsets: Shape

    def index(self, at: Index) -> Index:
        return tuple(
            i * step + offset for i, step, offset in zip(at, self.steps, self.offsets, strict=True)
        )


class ContractionView:
    """The contraction of `body`. `swapped`: the op's first operand is read by vectors, its second
    broadcast.

    A convolution with a kernel of one element that reads every position is a product: its positions
    are one coordinate here, however many axes they have, and k is the channel. `pairs`: whether
    neighbours along k, one coordinate, are added as pairs. `chains`: how many sums, of equal parts
    of k, are added as a tree."""

    def __init__(self, body: Graph, swapped: bool = False) -> None:
        self.body = body
        self.anchor = next(
            GraphValue(i) for i, node in enumerate(body.nodes)
            if node.op not in (INPUT, "constant") and isinstance(lookup(node.op), Contract)
        )  # fmt: skip
        self.node = body.nodes[self.anchor.node]
        self.op, self.types, self.attributes = self._contraction()
        self.dtype = self.node.types[0].dtype
        self.swapped = swapped
        space = self.op.space(self.types, **self.attributes)
        self.batch, self.k = space.batch, space.k
        self.m, self.n = (space.n, space.m) if swapped else (space.m, space.n)
        self._space = (self.m, self.n, self.k)
        self._in_pairs = self.op.pairing is not None
        self.pairs = self.op.pairs and not self._in_pairs
        self.chains: int = self.attributes["chains"] if self.op.chains else 1
        if len(self.k) > 1 and self._is_product():
            self.m, self.n = ((math.prod(each),) if each else each for each in (self.m, self.n))
            self.pairs = self.op.pairs
            self.k = (self.k[0] * 2,) if self._in_pairs else self.k[:1]
        self.typical_size = typical_size(
            (*self.batch, *self.m, *self.n), IMAGES if len(self.k) > 1 else ROWS
        )

    @property
    def element_dtype(self) -> DType:
        """That of copies of operands."""
        return self.dtype

    @property
    def has_windows(self) -> bool:
        """Whether the op is a convolution, be its kernel one element."""
        return len(self._space[2]) > 1

    @property
    def singly(self) -> ContractionView:
        """The same with each product on its own."""
        return self

    def widens(self, broadcast: bool) -> bool:
        """Whether elements of the operand that is broadcast, or read by vectors, are stored in
        another dtype than they are multiplied in."""
        return self.types[int(broadcast == self.swapped)].dtype is not self.dtype

    products_each: ClassVar[int] = 1
    """Products that an index of k stands for."""

    def _contraction(self) -> tuple[Contract, Types, dict[str, Any]]:
        """The op, its operands' types and its attributes."""
        types = tuple(self.body.type_of(operand) for operand in self.node.operands)
        return lookup(self.node.op), types, dict(self.node.attributes)

    def broadcast(self, b: Index, m: Index, k: Index) -> Case | None:
        """The element of the operand that is broadcast; None where it is certainly skipped."""
        rule = self.op.right if self.swapped else self.op.left
        m, k = _unmerged(m, self._space[0]), self._unmerged_k(k)
        return settled(rule(b, m, k, self.types, **self.attributes))

    def vector(self, b: Index, n: Index, k: Index) -> Case | None:
        """The element of the operand that is read by vectors; None where certainly skipped."""
        rule = self.op.left if self.swapped else self.op.right
        n, k = _unmerged(n, self._space[1]), self._unmerged_k(k)
        return settled(rule(b, n, k, self.types, **self.attributes))

    def out(self, b: Index, m: Index, n: Index) -> Index:
        """The coordinate of a result."""
        m, n = _unmerged(m, self._space[0]), _unmerged(n, self._space[1])
        first, second = (n, m) if self.swapped else (m, n)
        return as_index(self.op.out(b, first, second, self.types, **self.attributes))

    def _unmerged_k(self, k: Index) -> Index:
        """Of a flat index of pairs the odd one is the first of its pair."""
        extents = self._space[2]
        if len(k) == len(extents) or not self._in_pairs:
            return _unmerged(k, extents)
        pair, odd = k[0] // 2, k[0] % 2
        return (pair, *(of(0) for _ in extents[1:-1]), 1 - odd)

    def _is_product(self) -> bool:
        """Whether k is one coordinate, and positions are the last axes of operand and result."""
        taps = self.k[1:-1] if self._in_pairs else self.k[1:]
        if math.prod(taps) != 1 or 0 in (*self.m, *self.n, *self.k):
            return False
        b, m, n, k = (
            tuple(of(Variable(f"probe_{name}{axis}", dim)) for axis, dim in enumerate(dims))
            for name, dims in (("b", self.batch), ("m", self.m), ("n", self.n), ("k", self.k))
        )
        places = m if self.swapped else n
        case = self.broadcast(b, m, k) if self.swapped else self.vector(b, n, k)
        if case is None or case.guards or not places:
            return False
        return case.index[-len(places) :] == places == self.out(b, m, n)[-len(places) :]

    @property
    def steps(self) -> Shape:
        """For each coordinate of n the step between results that have the same products."""
        rank = len(self.n)
        if self.op.phases is not None and not self.swapped and rank == len(self._space[1]):
            return self.op.phases(self.types, **self.attributes)
        return (1,) * rank

    def all_residues(self) -> list[ResidueClass]:
        """The n coordinates by their remainders, where those have different products: even and odd
        ones in the gradient of a convolution of stride 2."""
        steps = self.steps
        classes = []
        for flat in range(math.prod(steps)):
            offsets = tuple(item.number for item in unflatten(of(flat), steps))
            extents = tuple(
                -(-(dim - offset) // step)
                for dim, offset, step in zip(self.n, offsets, steps, strict=True)
            )
            classes.append(ResidueClass(extents, steps, offsets))
        return classes

    def residue_classes(self) -> list[ResidueClass]:
        """Those of `all_residues` that have coordinates."""
        return [each for each in self.all_residues() if min(each.extents, default=1) > 0]

    # -- memory ------------------------------------------------------------------------------

    def element(
        self, evaluator: Evaluator, case: Case, guards: tuple[Guard, ...] = ()
    ) -> LoopValue:
        """An operand's element as it is multiplied; where the case's guards fail, unspecified."""
        value = stored_value(evaluator, self, case, guards)
        if value.type.dtype is self.dtype:
            return value
        block = evaluator.block_of(value)
        with evaluator.builder.at(block):
            return evaluator.note(evaluator.builder.convert(value, self.dtype), block)

    def linear(self, case: Case) -> Expr | None:
        """The address of an element that is one unguarded read of an input, else None."""
        place = self.place(case)
        return None if place is None else place[1]

    def place(self, case: Case) -> tuple[int, Expr] | None:
        """The input of which an element is one unguarded read, and its address there."""
        places = self.places(case)
        return places[0] if len(places) == 1 else None

    def places(self, case: Case) -> list[tuple[int, Expr]]:
        """The inputs that an element is computed from, and its addresses there; none where a read
        is guarded or reduced."""
        operand = self.node.operands[case.operand]
        if self.is_input(operand):
            sources = [(operand, as_index(case.index), False)]
        else:
            sources = [
                (read.value, read.index, read.guarded or read.reduced)
                for read in reads(self.body, operand, as_index(case.index), self.is_input)
            ]
        if any(unknown for *_, unknown in sources):
            return []
        return [
            (value.node, flatten(index, self.body.type_of(value).shape))
            for value, index, _ in sources
        ]

    def dequantized_from(self, case: Case | None) -> list[tuple[int, Expr]]:
        """The several reads that an element is computed from, where integers of a byte are among
        them; else none."""
        places = [] if case is None or case.guards else self.places(case)
        read = [self.body.nodes[number].types[0].dtype for number, _ in places]
        narrow = any(dtype.is_integer and dtype.itemsize == 1 for dtype in read)
        return places if narrow and len(places) > 1 else []

    def is_stored(self, case: Case) -> bool:
        """Whether the operand's elements are an input's, moved and otherwise as they are."""
        value = self.node.operands[case.operand]
        while not self.is_input(value):
            node = self.body.nodes[value.node]
            if lookup(node.op).kind != "movement":
                return False
            value = node.operands[0]
        return True

    @property
    def epilogue_reads(self) -> bool:
        """Whether what the body computes from the results reads inputs besides."""
        body, seen, todo = self.body, {self.anchor}, list(self.body.outputs)
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            if self.is_input(value):
                return True
            seen.add(value)
            todo += body.nodes[value.node].operands
        return False

    def is_input(self, value: GraphValue) -> bool:
        return self.body.nodes[value.node].op == INPUT

    def stride(self, case: Case | None, along: Variable) -> int | None:
        """Elements from one value of `along` to the next in memory: None where the operand is
        guarded, or its address is not affine in it. Of what is computed from several reads those
        that step count, if they step alike."""
        if case is None or case.guards:
            return None
        steps = {linear.coefficient(along) for _, linear in self.places(case)}
        steps = steps - {0} if len(steps) > 1 else steps
        return known_number(next(iter(steps))) if len(steps) == 1 else None

    def runs_along(self, case: Case | None, along: Variable) -> bool:
        """Whether elements lie side by side in one input for the values of `along`, all of which
        are there where one is; the others that an element is read from do not depend on it."""
        if case is None or case.guards:
            return False
        steps = set()
        operand, index = self.node.operands[case.operand], as_index(case.index)
        for read in reads(self.body, operand, index, self.is_input):
            if read.reduced or any(along in guard[0].variables() for guard in read.guards):
                return False
            shape = self.body.type_of(read.value).shape
            steps.add(known_number(flatten(read.index, shape).coefficient(along)))
        return steps - {0} == {1}

    def is_affine(self, case: Case | None) -> bool:
        """Whether the element is one unguarded read, its address free of quotients."""
        if case is None or case.guards:
            return False
        linear = self.linear(case)
        return linear is not None and not any(isinstance(a, Quotient) for a, _ in linear.terms)


def batch_variables(view: ContractionView) -> tuple[Variable, ...]:
    """The variables the recipe's loops over the batch bind."""
    return tuple(Variable(f"b{axis}", dim) for axis, dim in enumerate(view.batch))


def group_variable(view: ContractionView, group: int) -> Variable:
    """The variable the recipe's loop over groups of k binds."""
    return Variable("group", ceil_div(view.k[0], group))


def channel_variable(view: ContractionView) -> Variable:
    """The variable for the first of the neighbours along the last axis of the batch that share a
    vector."""
    return Variable("channel", view.batch[-1])


def _unmerged(index: Index, extents: Shape) -> Index:
    """The coordinate that a flat position stands for."""
    return index if len(index) == len(extents) else unflatten(index[0], extents)


def settled(case: Case) -> Case | None:
    """The case without guards that always hold; None where one never does."""
    guards: list[Guard] = []
    for item, low, high in case.guards:
        expression = of(item)
        if expression.below(low) or expression.at_least(high):
            return None
        if not expression.within(low, high):
            guards.append((expression, low, high))
    return Case(case.operand, as_index(case.index), tuple(guards))


def operand_value(
    evaluator: Evaluator, view: ContractionView, case: Case, guards: tuple[Guard, ...] = ()
) -> LoopValue:
    """An operand's element as it is multiplied; where the case's guards fail, unspecified."""
    return view.element(evaluator, case, guards)


def stored_value(
    evaluator: Evaluator, view: ContractionView, case: Case, guards: tuple[Guard, ...] = ()
) -> LoopValue:
    """An operand's element as it is in memory; where the case's guards fail, unspecified."""
    operand = view.node.operands[case.operand]
    return evaluator.value(operand, as_index(case.index), guards + tuple(case.guards))
