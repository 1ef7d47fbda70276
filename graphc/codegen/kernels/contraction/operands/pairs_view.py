"""A convolution of bf16 as one over pairs: half as many channels, each element two numbers of bf16
in an i32, the even one low.

In: a kernel's body around a contraction with a `Pairing`. Out: a `PairsView`, as which strategies
see it, and `LeastOf`, a stage of what is the least magnitude in a copy.
"""

from __future__ import annotations

from typing import Any, ClassVar

from graphc.codegen.elements.addresses import Guard
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.elements.leaf_loops import fold
from graphc.codegen.kernels.contraction.emission.emitter import Emitter
from graphc.codegen.kernels.contraction.operands.broadcast_operand import PackedBroadcast
from graphc.codegen.kernels.contraction.operands.least_magnitude import least_field, none_noted
from graphc.codegen.kernels.contraction.problem.view import ContractionView, settled
from graphc.codegen.loop_ir.nodes import Buffer, LoopValue
from graphc.codegen.nests.nest import Holds, NestPlace, Room
from graphc.ir.dims import known_number
from graphc.ir.types import DType
from graphc.lazy import lazy
from graphc.ops.kinds.contract import Contract, Pairing
from graphc.ops.kinds.index_expr import Expr, Variable
from graphc.ops.kinds.movement import Case
from graphc.ops.kinds.op import Types
from graphc.records import record

HALF = 16
"""Bits of a bf16."""


class PairsView(ContractionView):
    """The contraction of pairs: op, types, attributes and indices are those of the `Pairing`."""

    products_each: ClassVar[int] = 2

    @property
    def element_dtype(self) -> DType:
        return DType.i32

    @property
    def singly(self) -> ContractionView:
        return ContractionView(self.body, self.swapped)

    @lazy
    def pairing(self) -> Pairing:
        op, types, attributes = super()._contraction()
        assert op.pairing is not None
        return op.pairing(types, attributes)

    def _contraction(self) -> tuple[Contract, Types, dict[str, Any]]:
        return self.pairing.of, self.pairing.types, self.pairing.attributes

    def element(
        self, evaluator: Evaluator, case: Case, guards: tuple[Guard, ...] = ()
    ) -> LoopValue:
        """The pair: what of it lies outside of the operand is 0."""
        builder = evaluator.builder
        even, odd = (self._bits(evaluator, case, guards, odd) for odd in (False, True))
        block = evaluator.deepest([evaluator.block_of(even), evaluator.block_of(odd)])
        with builder.at(block):
            low = builder.op("lshr", even, builder.const(DType.i32, HALF))
            return evaluator.note(builder.op("or", odd, low), block)

    def _bits(
        self, evaluator: Evaluator, case: Case, guards: tuple[Guard, ...], odd: bool
    ) -> LoopValue:
        """The bits of one element of a pair as those of an f32."""
        member = settled(self._member(case, odd))
        builder = evaluator.builder
        if member is None:
            return builder.const(DType.i32, 0)
        operand, own = self.node.operands[case.operand], tuple(member.guards)
        value = evaluator.value(operand, member.index, (*guards, *case.guards, *own))
        block = evaluator.block_of(value)
        with builder.at(block):
            wide = builder.convert(value, DType.f32)
            bits = evaluator.note(builder.bitcast(wide, DType.i32), block)
        if not own:
            return bits
        held, where = evaluator.addresses.mask(own)
        block = evaluator.deepest([where, evaluator.block_of(bits)])
        with builder.at(block):
            return evaluator.note(builder.select(held, bits, builder.const(DType.i32, 0)), block)

    def _member(self, case: Case, odd: bool) -> Case:
        axis = self.pairing.axes[case.operand]
        index = list(case.index)
        at: Expr = index[axis.axis] * axis.step + (axis.odd if odd else axis.even)
        index[axis.axis] = at
        extent = self.body.type_of(self.node.operands[case.operand]).shape[axis.axis]
        return Case(case.operand, tuple(index), ((at, 0, extent),))

    def place(self, case: Case) -> tuple[int, Expr] | None:
        """None: it is two reads."""
        return None

    def stride(self, case: Case | None, along: Variable) -> int | None:
        """Elements of the operand from one value of `along` to the next."""
        if case is None or case.guards:
            return None
        member = self._member(case, odd=False)
        place = super().place(Case(member.operand, member.index))
        return None if place is None else known_number(place[1].coefficient(along))


@record
class LeastOf:
    """The stage of the least magnitude in the copy that stage `source` has, as an exponent field:
    see `least_magnitude.py`. `whole`: that stage's."""

    source: str
    whole: tuple[str, ...] = ()
    room: Room = ()
    holds: Holds = Holds.NUMBERS

    @property
    def name(self) -> str:
        return f"{self.source}_least"

    @property
    def text(self) -> str:
        return f"least magnitude of {self.source}"

    def declare(self, emit: Emitter) -> None:
        return None

    def clear(self, emit: Emitter, place: NestPlace) -> None:
        raise NotImplementedError

    def fill(self, emit: Emitter, place: NestPlace) -> LoopValue:
        b, memory = emit.builder, self._memory(place)
        none = none_noted(emit)
        filled_in = b.block
        count = memory.size // emit.lanes

        def lesser(at: Expr, known: list[LoopValue]) -> list[LoopValue]:
            position = at * emit.lanes + emit.copier.lane()
            vector = emit.evaluator.load(memory, position, (), filled_in)
            return [b.op("least_pairs", known[0], b.splat(vector, emit.lanes))]

        variable = Variable(self.name, count)
        return least_field(
            emit, fold(emit.addresses, variable, (0, count), self.name, [none], lesser)
        )

    def _memory(self, place: NestPlace) -> Buffer:
        filled = place.filled[self.source]
        if isinstance(filled, PackedBroadcast):
            return filled.filled.panel.memory
        memory: Buffer = filled[0].halo.memory
        return memory
