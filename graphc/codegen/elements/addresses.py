"""Index expressions as loop values: addresses, positions per lane, masks.

in : expressions over variables that are bound to loop variables, lanes, or loaded integers
out: affine offsets for loads and stores, integer vectors for gathers, bool values for guards
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Index, LoopValue
from graphc.codegen.loop_ir.open_blocks import OpenBlock
from graphc.ir.dims import Extent, known_number, number_and_size, number_times_size, rank
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Atom, Expr, Quotient, Variable, of

Guard = tuple[Expr, Extent, Extent]

_NARROW = 1 << 31
_NONE = (0, 0, "")


def position_type(position: Expr) -> DType:
    """The integers of the fewest bits that hold all values of an expression: i32, or i64."""
    return DType.i32 if position.within(-_NARROW, _NARROW) else DType.i64


class Addresses:
    """Emits integer arithmetic, each result in the outermost block that knows its variables."""

    def __init__(self, builder: LoopBuilder):
        self.builder = builder
        self.root = builder.block
        self._bound: dict[Variable, tuple[LoopValue, OpenBlock]] = {}
        self._lanes: dict[Variable, OpenBlock] = {}
        self._every: dict[Variable, Variable] = {}
        self._order: dict[Variable, int] = {}
        self._bindings = itertools.count()
        self._memo: dict[object, list[tuple[LoopValue, OpenBlock]]] = {}

    def bind(self, variable: Variable, value: LoopValue, block: OpenBlock) -> None:
        """`variable` is this i64 value, scalar or vector, inside `block`."""
        self._bound[variable] = (value, block)
        self._order[variable] = next(self._bindings)

    def bind_lane(
        self, variable: Variable, block: OpenBlock, every: Variable | None = None
    ) -> None:
        """`variable` is the lane number, for as many lanes as its extent. Or for those of `every`,
        a lane variable too: then lanes from `variable.extent` on are not there, a guard on `every`
        says so, and index expressions need not provide for them."""
        self._lanes[variable] = block
        self._order[variable] = next(self._bindings)
        if every is not None:
            self._every[variable] = every

    def every_lane(self, variable: Variable) -> Variable:
        """The variable whose extent is the number of lanes."""
        return self._every.get(variable, variable)

    def _rank(self, term: tuple[Atom, Extent]) -> tuple[Any, ...]:
        """A term's rank in a sum: in the order in which variables were bound. Names, which depend
        on what was lowered before, would make the text of equal kernels differ."""
        atom, coefficient = term
        if isinstance(atom, Variable):
            return self._order[atom], 0, _NONE, _NONE, rank(coefficient)
        # A quotient of sizes alone, which bounds do not settle, comes first.
        last = max([self._order[variable] for variable in atom.dividend.variables()], default=-1)
        inside = sorted(map(self._rank, atom.dividend.terms))
        numbers = map(rank, (atom.divisor, atom.dividend.constant, coefficient))
        return last, 1, *numbers, inside

    # -- what an expression is ---------------------------------------------------------------

    def is_vector(self, expr: Expr) -> bool:
        return any(self._is_vector_variable(variable) for variable in expr.variables())

    def _is_vector_variable(self, variable: Variable) -> bool:
        return variable in self._lanes or not self._bound[variable][0].type.is_scalar

    def lanes_of(self, expr: Expr) -> int:
        for variable in expr.variables():
            if variable in self._lanes:
                return operator.index(self.every_lane(variable).extent)  # raises for a size
            if not self._bound[variable][0].type.is_scalar:
                return self._bound[variable][0].type.lanes
        return 1

    def stride(self, linear: Expr) -> int | None:
        """0 where all lanes have one address, 1 where they are contiguous, else None."""
        vectors = [v for v in linear.variables() if self._is_vector_variable(v)]
        if not vectors:
            return 0
        if len(vectors) == 1 and vectors[0] in self._lanes:
            return 1 if linear.coefficient(vectors[0]) == 1 else None
        return None

    def lane_step(self, linear: Expr) -> int | None:
        """Elements from one lane to the next, where it is the same number for all."""
        lane = self.lane_of(linear)
        return None if lane is None else known_number(linear.coefficient(lane))

    def lane_of(self, linear: Expr) -> Variable | None:
        """The lane variable, where nothing else of the expression is a vector."""
        vectors = [v for v in linear.variables() if self._is_vector_variable(v)]
        if len(vectors) != 1 or vectors[0] not in self._lanes:
            return None
        return vectors[0]

    def spread(
        self, guards: tuple[Guard, ...], lane: Variable, step: int, start: int
    ) -> tuple[Guard, ...] | None:
        """The guards of lanes' elements that lie `step` apart as guards of as many neighbours, from
        the element `start` behind lane 0's on. Between two lanes whose guards hold they hold. None
        where a guard is not affine in the lane."""
        every = self.every_lane(lane)
        neighbours = []
        for expr, low, high in guards:
            along = expr.substitute({lane: of(every)})
            slope = along.coefficient(every)
            if slope is None:
                return None
            # In steps, so that the neighbours of whole lanes have whole numbers.
            moved = along * step + (of(every) * (1 - step) + start) * slope
            inside = (moved, low * step, (high - 1) * step + 1)
            neighbours.append(inside if slope else (expr, low, high))
        return tuple(neighbours)

    def block_of(self, expr: Expr) -> OpenBlock:
        """The innermost of the blocks that bind the expression's variables."""
        blocks = [
            self._lanes[v] if v in self._lanes else self._bound[v][1] for v in expr.variables()
        ]
        return max(blocks, key=lambda block: block.depth, default=self.root)

    # -- scalars -----------------------------------------------------------------------------

    def offset(self, linear: Expr) -> tuple[Index, OpenBlock]:
        """The affine offset of lane 0, and the block it needs."""
        terms = []
        for atom, coefficient in sorted(linear.terms, key=self._rank):
            if isinstance(atom, Variable) and atom in self._lanes:
                continue
            factor, size = number_times_size(coefficient)
            terms.append((self._term(atom, size), factor))
        # Its number apart: addresses that differ by one share the rest.
        number, size = number_and_size(linear.constant)
        if size != 0:
            terms.append((self.builder.size(size), 1))
        return Index(number, tuple(terms)), self.block_of(linear)

    def _term(self, atom: Atom, coefficient: Extent) -> LoopValue:
        """`coefficient` times an atom without lanes, as an i64 value."""
        if coefficient == 1:
            return self._atom(atom)
        key, block = ("term", atom, coefficient), self._block_of_atom(atom)
        known = self._known(key, block)
        if known is not None:
            return known
        with self.builder.at(block):
            product = self.builder.mul(self._atom(atom), self.builder.size(coefficient))
        return self._remember(key, product, block)

    def _block_of_atom(self, atom: Atom) -> OpenBlock:
        return self._bound[atom][1] if isinstance(atom, Variable) else self.block_of(atom.dividend)

    def scalar(self, expr: Expr) -> LoopValue:
        """A lane-free expression as an i64 value."""
        block = self.block_of(expr)
        known = self._known(expr, block)
        if known is not None:
            return known
        with self.builder.at(block):
            total: LoopValue | None = None
            for atom, coefficient in sorted(expr.terms, key=self._rank):
                term = self._atom(atom)
                if coefficient != 1:
                    term = self.builder.mul(term, self.builder.size(coefficient))
                total = term if total is None else self.builder.add(total, term)
            if total is None:
                total = self.builder.size(expr.constant)
            elif expr.constant != 0:
                total = self.builder.add(total, self.builder.size(expr.constant))
        return self._remember(expr, total, block)

    def _atom(self, atom: Atom) -> LoopValue:
        if isinstance(atom, Variable):
            return self._bound[atom][0]
        block = self.block_of(atom.dividend)
        known = self._known(atom, block)
        if known is not None:
            return known
        dividend = self.scalar(atom.dividend)
        with self.builder.at(block):
            quotient = self._divided(dividend, atom)
        return self._remember(atom, quotient, block)

    def _divided(self, dividend: LoopValue, atom: Quotient) -> LoopValue:
        # Of a non-negative number, truncating division is rounding down, and cheaper.
        opcode = "div" if atom.dividend.at_least(0) else "floordiv"
        divisor = self.builder.size(atom.divisor, dividend.type.dtype)
        return self.builder.op(opcode, dividend, divisor)

    # -- vectors -----------------------------------------------------------------------------

    def number(self, expr: Expr) -> tuple[LoopValue, OpenBlock]:
        """An expression as i64, scalar or vector, and where it stands."""
        if not self.is_vector(expr):
            return self.scalar(expr), self.block_of(expr)
        return self._vector(expr, DType.i64, self.lanes_of(expr)), self.block_of(expr)

    def positions(self, linear: Expr, lanes: int) -> tuple[LoopValue, OpenBlock]:
        """Element positions per lane, i32 where they fit; `lanes` for a lane-free expression."""
        vector = self._vector(linear, position_type(linear), lanes or self.lanes_of(linear))
        return vector, self.block_of(linear)

    def _vector(self, expr: Expr, dtype: DType, lanes: int) -> LoopValue:
        key = (expr, dtype, lanes)
        block = self.block_of(expr)
        known = self._known(key, block)
        if known is not None:
            return known
        uniform = frozenset((a, c) for a, c in expr.terms if not self._varies(a))
        atoms = [
            (self._vector_atom(atom, dtype, lanes), coefficient)
            for atom, coefficient in sorted(expr.terms - uniform, key=self._rank)
        ]
        # The constant apart, so that vectors which differ by one share the scalar part.
        base = self._converted(Expr(0, uniform), dtype) if uniform else None
        with self.builder.at(block):
            parts = [
                atom if factor == 1 else self.builder.mul(atom, self.builder.size(factor, dtype))
                for atom, factor in atoms
            ]
            if expr.constant != 0 or not (parts or uniform):
                parts.append(self.builder.size(expr.constant, dtype))
            if base is not None:
                parts.append(base)
            total = parts[0]
            for part in parts[1:]:
                total = self.builder.add(total, part)
            total = self.builder.splat(total, lanes)
        return self._remember(key, total, block)

    def _converted(self, expr: Expr, dtype: DType) -> LoopValue:
        """A lane-free expression in the dtype of lanes' positions."""
        key = ("converted", expr, dtype)
        block = self.block_of(expr)
        known = self._known(key, block)
        if known is not None:
            return known
        value = self.scalar(expr)
        with self.builder.at(block):
            return self._remember(key, self.builder.convert(value, dtype), block)

    def _varies(self, atom: Atom) -> bool:
        if isinstance(atom, Variable):
            return self._is_vector_variable(atom)
        return self.is_vector(atom.dividend)

    def _vector_atom(self, atom: Atom, dtype: DType, lanes: int) -> LoopValue:
        if isinstance(atom, Variable) and atom in self._lanes:
            with self.builder.at(self.root):
                return self.builder.iota(dtype, lanes)
        if isinstance(atom, Variable):
            value, block = self._bound[atom]
            with self.builder.at(block):
                return self.builder.convert(value, dtype)
        block = self.block_of(atom.dividend)
        dividend = self._vector(atom.dividend, dtype, lanes)
        with self.builder.at(block):
            return self._divided(dividend, atom)

    # -- masks -------------------------------------------------------------------------------

    def mask(self, guards: tuple[Guard, ...]) -> tuple[LoopValue, OpenBlock]:
        """Whether all guards hold, per lane where one varies; and where it stands."""
        tests: list[tuple[LoopValue, OpenBlock]] = []
        for expr, low, high in guards:
            if not expr.at_least(low):
                tests.append(self._compared(expr, "ge", low))
            if not expr.below(high):
                tests.append(self._compared(expr, "lt", high))
        if not tests:
            with self.builder.at(self.root):
                return self.builder.const(DType.bool, True), self.root
        held, block = tests[0]
        for test, where in tests[1:]:
            block = max(block, where, key=lambda b: b.depth)
            with self.builder.at(block):
                held = self.builder.op("and", held, test)
        return held, block

    def _compared(self, expr: Expr, opcode: str, bound: Extent) -> tuple[LoopValue, OpenBlock]:
        block = self.block_of(expr)
        key = (expr, opcode, bound)
        known = self._known(key, block)
        if known is not None:
            return known, block
        if self.is_vector(expr):
            value, _ = self.positions(expr, 0)
        else:
            value = self.scalar(expr)
        with self.builder.at(block):
            limit = self.builder.size(bound, value.type.dtype)
            holds = self.builder.compare(opcode, value, limit)
        return self._remember(key, holds, block), block

    def leading(self, guards: tuple[Guard, ...], lanes: int) -> int | None:
        """How many lanes there are where guards hold for the first ones and for no others; None
        where the guards do not say so."""
        count = lanes
        for expr, low, high in guards:
            if expr.within(low, high):
                continue
            plain = [atom for atom, factor in expr.terms if factor == 1 and atom in self._lanes]
            if len(plain) != len(expr.terms) or len(plain) != 1 or expr.constant < low:
                return None
            left = known_number(high - expr.constant)
            if left is None:
                return None
            count = min(count, max(left, 0))
        return count

    def whole_or_rest(self, guards: tuple[Guard, ...], lanes: int) -> tuple[LoopValue, int] | None:
        """Where vectors lie one behind the other, and only of the last one some lanes are missing:
        whether this is another one, and how many lanes the last one has."""
        unsure = [guard for guard in guards if not guard[0].within(guard[1], guard[2])]
        lane = self.lane_of(unsure[0][0]) if len(unsure) == 1 else None
        if lane is None:
            return None
        expr, low, high = unsure[0]
        start = expr - of(lane)
        aligned = all(n % lanes == 0 for n in (start.constant, *(n for _, n in start.terms)))
        end = known_number(high)
        if end is None or not aligned or self.is_vector(start) or not start.within(low, end):
            return None
        is_whole, _ = self.mask(((start, low, end - lanes + 1),))
        return is_whole, end % lanes

    # -- what was emitted before -------------------------------------------------------------

    def _known(self, key: object, block: OpenBlock) -> LoopValue | None:
        for value, where in self._memo.get(key, ()):
            if where.is_open and where.encloses(self.builder.block):
                return value
        return None

    def _remember(self, key: object, value: LoopValue, block: OpenBlock) -> LoopValue:
        self._memo.setdefault(key, []).append((value, block))
        return value
