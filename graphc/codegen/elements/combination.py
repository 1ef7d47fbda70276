"""What a reduction combines, and how two partial results become one.

In: the elements of what is reduced, as loop values. Out: their combinations: a `Parts` is one
partial result, of an argreduce the best element and its position.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.codegen.elements.addresses import Guard, position_type
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.elements.memory import MemoryAccess
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.ir.dims import Extent, known_number
from graphc.ir.nodes import Node
from graphc.ir.types import TensorType
from graphc.ops.kinds.index_expr import Expr, of
from graphc.ops.kinds.reduce import ArgReduce, Reduce
from graphc.ops.reduce import highest, lowest
from graphc.schedule.access import Index, outer_axes, reduced_index, unflatten

LANES = 64
# Elements of a run up to which it is not cut: a lane adds a thousand one after the other.
RUN_BLOCK = 1 << 16

Parts = tuple[LoopValue, ...]
ElementAt = Callable[[Index, tuple[Guard, ...]], LoopValue]
"""An element of what is reduced, unspecified where a guard fails."""


class Combination:
    """The elements of one reduction at `index`, and how they combine.

    `outer` counts the outer indices, pieces of the run among them where it is cut."""

    def __init__(
        self, access: MemoryAccess, op: Reduce, node: Node, source: TensorType, element: ElementAt,
        index: Index, guards: tuple[Guard, ...],
    ):  # fmt: skip
        self.access = access
        self.builder = access.builder
        self.op = op
        self.source_element = element
        self.index = index
        self.guards = guards
        self.axes = node.attribute("axes")
        self.dtype = source.dtype
        self.any_order = not (self.dtype.is_float or isinstance(op, ArgReduce))
        """Whether the same comes out in any order: integers wrap."""
        outer = len(outer_axes(source.shape, self.axes))
        shape = tuple(source.shape[axis] for axis in self.axes)
        self.outer_shape, self.run_shape = shape[:outer], shape[outer:]
        self.run = _product(self.run_shape)
        cut = LoopCut(self.run, RUN_BLOCK)
        self.pieces = 1 if cut.is_one_tile else cut.tiles
        self.whole_run = known_number(self.run) if self.pieces == 1 else None
        """Elements of a run that is not cut, where they are a number."""
        self.outer = _product(self.outer_shape) * self.pieces
        self.count = _product(shape)
        self.result = node.types[0].dtype
        # LoopPositions are counted in as few bits as hold them, which leaves vectors wide.
        self.counted = position_type(of(self.count))

    # -- elements ----------------------------------------------------------------------------

    def _element(self, outer: Expr, at: Expr, guards: tuple[Guard, ...] = ()) -> Parts:
        """Element `at` of the run, or of its piece, at an outer index."""
        at = self._start_of_piece(outer) + at
        if self.pieces != 1:
            outer = outer // self.pieces if self.outer_shape else of(0)
        position = unflatten(outer, self.outer_shape) + unflatten(at, self.run_shape)
        index = reduced_index(self.op, self.axes, self.index, position)
        value = self.source_element(index, self.guards + guards)
        if not isinstance(self.op, ArgReduce):
            return (value,)
        return (value, self._number(outer * self.run + at))

    def _wide(self, outer: Expr, at: Expr, width: int, guards: tuple[Guard, ...] = ()) -> Parts:
        return tuple(self.builder.splat(part, width) for part in self._element(outer, at, guards))

    def _start_of_piece(self, outer: Expr) -> Expr:
        """Where in the run the piece of an outer index starts."""
        if self.pieces == 1:
            return of(0)
        return (outer % self.pieces if self.outer_shape else outer) * RUN_BLOCK

    # -- combining ---------------------------------------------------------------------------

    def _number(self, position: Expr) -> LoopValue:
        addresses = self.access.addresses
        if position.is_constant:
            return self.builder.size(position.constant, self.counted)
        if addresses.is_vector(position):
            return self.builder.convert(addresses.positions(position, 0)[0], self.counted)
        return self.builder.convert(addresses.number(position)[0], self.counted)

    def _identity(self) -> Parts:
        if not isinstance(self.op, ArgReduce):
            return (self.builder.const(self.dtype, self.op.identity(self.dtype)),)
        worst = lowest if self.op.name == "argmax" else highest
        last = self.builder.const(self.counted, highest(self.counted))
        return (self.builder.const(self.dtype, worst(self.dtype)), last)

    def _combine(self, left: Parts, right: Parts) -> Parts:
        algebra = self.access.algebra
        if not isinstance(self.op, ArgReduce):
            return (self.op.combine(algebra, left[0], right[0]),)
        (a, at_a), (b, at_b) = left, right
        tie = algebra.eq(a, b)
        if self.dtype.is_float:
            tie = algebra.logical_or(tie, algebra.logical_and(algebra.ne(a, a), algebra.ne(b, b)))
        takes = algebra.logical_or(
            self._beats(b, a), algebra.logical_and(tie, algebra.lt(at_b, at_a))
        )
        return algebra.select(takes, b, a), algebra.select(takes, at_b, at_a)

    def _beats(self, b: LoopValue, a: LoopValue) -> LoopValue:
        """Whether b is strictly better than a. NaN beats all numbers, and nothing beats NaN."""
        algebra = self.access.algebra
        if not self.dtype.is_float:
            return self.op.combine(algebra, b, a)  # type: ignore[no-any-return]
        # "a is at least as good" is one comparison, and false where one of them is NaN.
        holds = algebra.logical_or(self.op.combine(algebra, a, b), algebra.eq(a, b))
        return algebra.logical_and(algebra.logical_not(holds), algebra.eq(a, a))

    def _tree(self, lanes: list[Parts], full: int) -> Parts:
        """Of `full` lanes lane i with lane i + full/2, and so on; those behind the last one of the
        list hold nothing and are left out, and so may be those that nothing was combined with."""
        identity = self._identity()
        while full > 1:
            full //= 2
            for i in range(max(len(lanes) - full, 0)):
                lanes[i] = self._joined(lanes[i], lanes[i + full], identity)
            lanes = lanes[:full]
        return lanes[0]

    def _joined(self, left: Parts, right: Parts, identity: Parts) -> Parts:
        """`_combine` of two where one may be the identity itself: a lane at its start, a tap on
        padding. No bit changes but a -0 at the start of a sum, and -0 is in no sum after that."""
        if right == identity:
            return left
        starts_with_zero = self.op.name == "sum" and self.dtype.is_float
        if left == identity and not starts_with_zero:
            return right
        return self._combine(left, right)

    def _first_best(self, outers: int, run: int) -> Parts:
        """Element by element in order, so that a later one must be strictly better: which of equal
        elements is taken depends on no order, and this one takes the fewest operations."""
        algebra = self.access.algebra
        best, where = self._element(of(0), of(0))
        for position in range(1, outers * run):
            outer, at = divmod(position, run)
            element, here = self._element(of(outer), of(at))
            takes = self._beats(element, best)
            best = algebra.select(takes, element, best)
            where = algebra.select(takes, here, where)
        return best, where


def _product(extents: tuple[Extent, ...]) -> Extent:
    product: Extent = 1
    for extent in extents:
        product = product * extent
    return product
