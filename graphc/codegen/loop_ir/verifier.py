"""The verifier of the loop IR: numbered rules, each with one check.

In: a Kernel. Out: nothing, or a VerifyError that names the rule and the statement.

| rule | holds |
|---|---|
| L1 | every name is defined once |
| L2 | a name is defined before it is used, in the same block or one around it |
| L3 | types fit the opcode, and the result has the type the opcode gives |
| L4 | every buffer is declared, once, with a size of at least 0 |
| L5 | what is stored to may be written, what is loaded from may be read |
| L6 | elements, offsets and masks fit in dtype and lanes |
| L7 | an index is affine over scalar i64 values |
| L8 | an unmasked access whose index only has variables of loops with fixed bounds is in range |
| L9 | the bounds of a loop are scalar i64, its step is positive |
| L10 | yields, carried values and results match in number and type |
| L11 | a condition is a scalar bool |
| L12 | a constant is an exact value of its type |

L8 leaves out what stands under an `if` or `while`: those may guard the access. A buffer whose size
is known only at run time is as large as it may be (R1 of the interpreter holds it for the sizes of
the run). A variable of a loop over
exactly the kernel's begin to end in steps of 1 counts as one over 0 to extent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphc.codegen.loop_ir.nodes import (
    INDEX_TYPE,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    LoopValue,
    Prefetch,
    Statement,
    Store,
    VectorGather,
    VectorScatter,
    VectorType,
    While,
    check_constant,
    operands,
    result_type,
    results,
)
from graphc.codegen.loop_ir.numbers import known_range
from graphc.codegen.loop_ir.printer import statement_text
from graphc.errors import VerifyError
from graphc.ir.dims import always_lt, bounds_of
from graphc.ir.types import DType

_CONDITION = VectorType(DType.bool)
_OFFSETS = (DType.i32, DType.i64)


def verify(kernel: Kernel) -> None:
    """Raises VerifyError when `kernel` breaks a rule."""
    _Verifier(kernel).run()


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.defined: set[str] = set()
        self.visible: dict[str, VectorType] = {}
        self.ranges: dict[str, range] = {}
        self.buffers: dict[str, Buffer] = {}
        self.guards = 0
        self.current: Statement | None = None

    def fail(self, rule: str, message: str) -> VerifyError:
        where = f"\n  in: {statement_text(self.current)}" if self.current is not None else ""
        return VerifyError(f"{rule}: {message}{where}\n  of kernel {self.kernel.name}")

    def run(self) -> None:
        kernel = self.kernel
        for buffer in kernel.buffers + kernel.scratch:
            if buffer.name in self.buffers:
                raise self.fail("L4", f"buffer {buffer} is declared twice")
            if always_lt(buffer.size, 0):
                raise self.fail("L4", f"buffer {buffer} has size {buffer.size}")
            if (buffer.access == "scratch") != (buffer in kernel.scratch):
                raise self.fail("L4", f"buffer {buffer} with access {buffer.access} is misplaced")
            self.buffers[buffer.name] = buffer
        if always_lt(kernel.extent, 0):
            raise self.fail("L9", f"the extent is {kernel.extent}")
        for bound in (kernel.begin, kernel.end, *kernel.dims):
            self.bound(bound)
            self.define([bound])
        self.block(kernel.body)

    # -- names ------------------------------------------------------------------------------------

    def define(self, values: Iterable[LoopValue]) -> None:
        for value in values:
            if value.name in self.defined:
                raise self.fail("L1", f"{value} is defined twice")
            self.defined.add(value.name)
            self.visible[value.name] = value.type

    def use(self, values: Iterable[LoopValue]) -> None:
        for value in values:
            known = self.visible.get(value.name)
            if known is None:
                state = "out of scope" if value.name in self.defined else "not defined"
                raise self.fail("L2", f"{value} is {state} here")
            if known != value.type:
                raise self.fail("L2", f"{value} is {known}, used as {value.type}")

    # -- blocks -----------------------------------------------------------------------------------

    def block(self, block: Block, ends: Sequence[LoopValue] = (), keep: bool = False) -> None:
        """Checks a block; `ends` are used at its end. `keep` leaves its names visible."""
        outside = self.visible
        self.visible = dict(outside)
        for statement in block:
            self.current = statement
            self.statement(statement)
        self.use(ends)
        if not keep:
            self.visible = outside

    def statement(self, statement: Statement) -> None:
        self.use(operands(statement))
        match statement:
            case Let():
                self.let(statement)
            case Load() | Store() | VectorGather() | VectorScatter():
                self.access(statement)
            case For():
                self.for_(statement)
            case If():
                self.if_(statement)
            case While():
                self.while_(statement)
            case Prefetch():
                self.declared(statement.buffer)
                self.affine(statement.index)
            case Barrier():
                pass
        self.current = statement
        self.define(results(statement))

    def let(self, statement: Let) -> None:
        types = tuple(operand.type for operand in statement.operands)
        if statement.opcode == "const" and not types:
            try:
                check_constant(statement.attribute, statement.result.type)
            except VerifyError as error:
                raise self.fail("L12", str(error)) from None
            return
        try:
            expected = result_type(statement.opcode, types, statement.attribute)
        except VerifyError as error:
            raise self.fail("L3", str(error)) from None
        if expected != statement.result.type:
            raise self.fail("L3", f"{statement.opcode} gives {expected}")

    def for_(self, statement: For) -> None:
        for bound in (statement.begin, statement.end):
            if isinstance(bound, LoopValue):
                self.bound(bound)
        self.bound(statement.variable)
        if statement.step < 1:
            raise self.fail("L9", f"the step is {statement.step}")
        self.carried(statement)
        outside = self.visible
        self.visible = dict(outside)
        self.define([statement.variable, *(parameter for parameter, _ in statement.carried)])
        positions = self.positions(statement)
        if positions:
            self.ranges[statement.variable.name] = positions
        # Nothing inside a loop that never runs is ever accessed.
        never_runs = positions is not None and not positions
        self.guards += never_runs
        self.block(statement.body, statement.yields)
        self.guards -= never_runs
        self.visible = outside

    def positions(self, statement: For) -> range | None:
        """The values of the variable, where they are known."""
        kernel, begin, end = self.kernel, statement.begin, statement.end
        if (begin, end, statement.step) == (kernel.begin, kernel.end, 1):
            return known_range(0, kernel.extent)
        return known_range(begin, end, statement.step)

    def if_(self, statement: If) -> None:
        self.condition(statement.condition)
        self.match("else yields", statement.else_yields, statement.then_yields)
        self.match("results", statement.results, statement.then_yields)
        self.guards += 1
        self.block(statement.then_body, statement.then_yields)
        self.current = statement
        self.block(statement.else_body, statement.else_yields)
        self.guards -= 1

    def while_(self, statement: While) -> None:
        self.condition(statement.condition)
        self.carried(statement)
        outside = self.visible
        self.visible = dict(outside)
        self.define(parameter for parameter, _ in statement.carried)
        self.guards += 1
        self.block(statement.condition_body, (statement.condition,), keep=True)
        self.current = statement
        self.block(statement.body, statement.yields)
        self.guards -= 1
        self.visible = outside

    # -- single rules -----------------------------------------------------------------------------

    def bound(self, value: LoopValue) -> None:
        if value.type != INDEX_TYPE:
            raise self.fail("L9", f"{value} is {value.type}, not a scalar i64")

    def condition(self, value: LoopValue) -> None:
        if value.type != _CONDITION:
            raise self.fail("L11", f"the condition {value} is {value.type}")

    def match(self, what: str, values: Sequence[LoopValue], wanted: Sequence[LoopValue]) -> None:
        if [value.type for value in values] == [value.type for value in wanted]:
            return
        have, want = (", ".join(str(value.type) for value in all) for all in (values, wanted))
        raise self.fail("L10", f"{what} are ({have}), not ({want})")

    def carried(self, statement: For | While) -> None:
        parameters = [parameter for parameter, _ in statement.carried]
        self.match("initial values", [initial for _, initial in statement.carried], parameters)
        self.match("yields", statement.yields, parameters)
        self.match("results", statement.results, parameters)

    def declared(self, buffer: Buffer) -> None:
        if self.buffers.get(buffer.name) != buffer:
            raise self.fail("L4", f"buffer {buffer} is not declared like this")

    def access(self, statement: Load | Store | VectorGather | VectorScatter) -> None:
        buffer = statement.buffer
        self.declared(buffer)
        loads = isinstance(statement, Load | VectorGather)
        if buffer.access == ("write" if loads else "read"):
            raise self.fail("L5", f"buffer {buffer} is declared `{buffer.access}`")
        value = statement.result if isinstance(statement, Load | VectorGather) else statement.value
        if value.type.dtype is not buffer.dtype:
            held = buffer.dtype.value
            raise self.fail("L6", f"{value} is {value.type}, buffer {buffer} holds {held}")
        lanes = value.type.lanes
        mask = statement.mask
        if mask is not None and mask.type != VectorType(DType.bool, lanes):
            raise self.fail("L6", f"the mask {mask} is {mask.type} for {lanes} lanes")
        if isinstance(statement, VectorGather | VectorScatter):
            offsets = statement.indices.type
            if offsets.dtype not in _OFFSETS or offsets.lanes != lanes:
                raise self.fail("L6", f"offsets {offsets} do not address {value.type}")
            return
        self.affine(statement.index)
        if mask is None and not self.guards:
            self.in_range(buffer, statement.index, lanes)

    def affine(self, index: Index) -> None:
        for value, _ in index.terms:
            if value.type != INDEX_TYPE:
                raise self.fail("L7", f"index term {value} is {value.type}, not a scalar i64")

    def in_range(self, buffer: Buffer, index: Index, lanes: int) -> None:
        low = high = index.const
        for value, factor in index.terms:
            positions = self.ranges.get(value.name)
            if positions is None:
                return
            ends = factor * positions[0], factor * positions[-1]
            low, high = low + min(ends), high + max(ends)
        if low < 0 or high + lanes > bounds_of(buffer.size)[1]:
            span = f"[{low}, {high + lanes})"
            raise self.fail("L8", f"elements {span} of buffer {buffer} with {buffer.size}")
