"""LoopBuilder: makes kernels statement by statement, inferring each type where it is written.

In: calls. Out: a `Kernel` from `finish`, verified where graphs are after each pass (GRAPHC_VERIFY).
A type that does not fit raises VerifyError right at the call that made it.

    b = LoopBuilder("dot")
    x, y = b.buffer("x", DType.f32, 64, "read"), b.buffer("y", DType.f32, 1, "write")
    zero = b.const(DType.f32, 0.0)
    with b.loop(0, 64, carried=[zero]) as loop:
        element = b.load(x, b.index(0, loop.variable))
        loop.yield_(b.fma(element, element, loop.carried[0]))
    b.store(y, b.index(), loop.results[0])
    kernel = b.finish(extent=1)

`b.block` is the block written to, `with b.at(block):` writes to an enclosing one for a while: what
is appended there lands before the loops still open inside it, which hoists it out of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphc.codegen.loop_ir.nodes import (
    INDEX_TYPE,
    Access,
    Barrier,
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
    result_type,
)
from graphc.codegen.loop_ir.numbers import Number, Numbers
from graphc.codegen.loop_ir.opcodes import OPCODES, exact_constant
from graphc.codegen.loop_ir.open_blocks import (
    OpenBlock,
    OpenBranch,
    OpenLoop,
    OpenWhile,
    check_yields,
)
from graphc.codegen.loop_ir.verifier import verify
from graphc.config import verify_passes
from graphc.errors import VerifyError
from graphc.ir.dims import Extent, Symbol, known_number, lowered
from graphc.ir.types import DType


class _Sizes:
    """Sizes of a call as values of a kernel: they stand ahead of all statements, each once."""

    def __init__(self, builder: LoopBuilder) -> None:
        self._builder = builder

    def number(self, value: int) -> LoopValue:
        return self._builder.const(DType.i64, value)

    def symbol(self, symbol: Symbol) -> LoopValue:
        return self._builder.declared(symbol)

    def add(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._builder.constant(INDEX_TYPE, "add", (x, y))

    def mul(self, x: LoopValue, y: LoopValue) -> LoopValue:
        return self._builder.constant(INDEX_TYPE, "mul", (x, y))

    def floordiv(self, x: LoopValue, y: LoopValue, may_be_negative: bool) -> LoopValue:
        return self._builder.constant(INDEX_TYPE, "floordiv", (x, y))


class LoopBuilder:
    """Writes one kernel. Not reusable after `finish`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.block = OpenBlock(None)
        self._root = self.block
        self.numbers = Numbers(self)
        self._names: dict[str, int] = {}
        self._count = 0
        self._constants: dict[tuple[object, ...], LoopValue] = {}
        self._constant_names: set[str] = set()
        self._leading: list[Statement] = []
        self._buffers: list[Buffer] = []
        self._scratch: list[Buffer] = []
        self._dims: dict[str, LoopValue] = {}
        self.begin = self.fresh(INDEX_TYPE, "begin")
        self.end = self.fresh(INDEX_TYPE, "end")

    # -- memory -----------------------------------------------------------------------------------

    def buffer(self, name: str, dtype: DType, size: Extent, access: Access) -> Buffer:
        """The next entry of the kernel's pointer table, `size` in elements."""
        buffer = Buffer(name, dtype, size, access)
        self._buffers.append(buffer)
        return buffer

    def read_back(self, buffer: Buffer) -> Buffer:
        """The output `buffer`, which no statement mentions yet, as one that is also read."""
        both = Buffer(buffer.name, buffer.dtype, buffer.size, "readwrite")
        self._buffers[self._buffers.index(buffer)] = both
        return both

    def scratch(self, name: str, dtype: DType, size: Extent) -> Buffer:
        """Memory of one call, 64-byte aligned, undefined at first; declared sizes may be in it."""
        self._scratch.append(Buffer(name, dtype, size, "scratch"))
        return self._scratch[-1]

    def index(self, const: int = 0, *terms: tuple[LoopValue, int] | LoopValue) -> Index:
        """`index(3, (i, 64), j)` is the offset 64*i + j + 3."""
        return Index.of(const, *terms)

    def prefetch(self, buffer: Buffer, index: Index | LoopValue | int) -> None:
        """Ask for an element that will be read later, or is not there."""
        self.append(Prefetch(buffer, Index.over(index)))

    def load(
        self,
        buffer: Buffer,
        index: Index | LoopValue | int,
        lanes: int = 1,
        mask: LoopValue | None = None,
    ) -> LoopValue:
        result = self.fresh(VectorType(buffer.dtype, lanes))
        self.append(Load(result, buffer, Index.over(index), mask))
        return result

    def store(
        self,
        buffer: Buffer,
        index: Index | LoopValue | int,
        value: LoopValue,
        mask: LoopValue | None = None,
    ) -> None:
        self.append(Store(buffer, Index.over(index), value, mask))

    def gather(
        self, buffer: Buffer, indices: LoopValue, mask: LoopValue | None = None
    ) -> LoopValue:
        result = self.fresh(VectorType(buffer.dtype, indices.type.lanes))
        self.append(VectorGather(result, buffer, indices, mask))
        return result

    def scatter(
        self, buffer: Buffer, indices: LoopValue, value: LoopValue, mask: LoopValue | None = None
    ) -> None:
        self.append(VectorScatter(buffer, indices, value, mask))

    def barrier(self) -> None:
        self.append(Barrier())

    # -- sizes ------------------------------------------------------------------------------------

    def declare_sizes(self, symbols: Iterable[Symbol]) -> None:
        """Sizes of the call; they have their names ahead of all other values."""
        for symbol in symbols:
            self.declared(symbol)

    def size(self, extent: Extent, dtype: DType = DType.i64, lanes: int = 1) -> LoopValue:
        """An extent as an integer, which has to hold it, in all of so many lanes. As a scalar it
        stands ahead of all statements, once."""
        number = known_number(extent)
        if number is not None:
            return self.const(dtype, number, lanes)
        value = lowered(extent, _Sizes(self))
        if dtype is not DType.i64:
            value = self.constant(VectorType(dtype), "convert", (value,), dtype)
        return self.splat(value, lanes)

    def declared(self, symbol: Symbol) -> LoopValue:
        """The value of a size of the call."""
        if symbol.name not in self._dims:
            self._dims[symbol.name] = self.fresh(INDEX_TYPE, symbol.name)
        return self._dims[symbol.name]

    # -- values -----------------------------------------------------------------------------------

    def fresh(self, type: VectorType, hint: str | None = None) -> LoopValue:
        """A value with a new name, `hint` or `hint_1`, …; it is defined where you put it."""
        if hint is None:
            name = str(self._count)
            self._count += 1
            return LoopValue(name, type)
        used = self._names.get(hint, 0)
        self._names[hint] = used + 1
        return LoopValue(f"{hint}_{used}" if used else hint, type)

    def const(self, dtype: DType, value: float | int | bool, lanes: int = 1) -> LoopValue:
        """`value` rounded to `dtype`. Integers out of range raise OverflowError. Constants stand
        ahead of all loops, each once."""
        # The text of a float tells -0.0 from 0.0, and NaN equals itself in it.
        exact = exact_constant(dtype, value, repr(value))
        return self.constant(VectorType(dtype, lanes), "const", (), exact)

    def constant(
        self, type: VectorType, opcode: str, operands: tuple[LoopValue, ...], attribute: Any = None
    ) -> LoopValue:
        """A value that depends on nothing stands once, ahead of all statements."""
        key = (type, opcode, operands, repr(attribute))
        if key not in self._constants:
            self._constants[key] = self.fresh(type)
            self._constant_names.add(self._constants[key].name)
            self._leading.append(Let(self._constants[key], opcode, operands, attribute))
        return self._constants[key]

    def op(self, opcode: str, *operands: LoopValue, attribute: Any = None) -> LoopValue:
        """The result of `opcode`; scalar operands among vectors are splat."""
        known = OPCODES.get(opcode)
        if known is not None and known.elementwise:
            operands = self._splat_scalars(opcode, operands)
        type = result_type(opcode, tuple(operand.type for operand in operands), attribute)
        result = self.fresh(type)
        self.append(Let(result, opcode, operands, attribute))
        return result

    def _splat_scalars(self, opcode: str, operands: tuple[LoopValue, ...]) -> tuple[LoopValue, ...]:
        widths = {operand.type.lanes for operand in operands}
        if len(widths) < 2:
            return operands
        lanes = max(widths)
        # A scalar condition selects whole vectors, so only the arms of a select are splat.
        keep = 1 if opcode == "select" else 0
        return operands[:keep] + tuple(
            self.splat(operand, lanes) if operand.type.is_scalar else operand
            for operand in operands[keep:]
        )

    def append(self, statement: Statement) -> None:
        """Adds a ready-made statement to the current block."""
        self.block.statements.append(statement)

    def add(self, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("add", a, b)

    def sub(self, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("sub", a, b)

    def mul(self, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("mul", a, b)

    def div(self, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("div", a, b)

    def fma(self, a: LoopValue, b: LoopValue, c: LoopValue) -> LoopValue:
        """a*b + c, rounded once."""
        return self.op("fma", a, b, c)

    def neg(self, a: LoopValue) -> LoopValue:
        return self.op("neg", a)

    def abs(self, a: LoopValue) -> LoopValue:
        return self.op("abs", a)

    def sqrt(self, a: LoopValue) -> LoopValue:
        return self.op("sqrt", a)

    def minimum(self, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("minimum", a, b)

    def maximum(self, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("maximum", a, b)

    def compare(self, opcode: str, a: LoopValue, b: LoopValue) -> LoopValue:
        """`opcode` is one of eq ne lt le gt ge."""
        return self.op(opcode, a, b)

    def select(self, condition: LoopValue, a: LoopValue, b: LoopValue) -> LoopValue:
        return self.op("select", condition, a, b)

    def convert(self, a: LoopValue, dtype: DType) -> LoopValue:
        return a if a.type.dtype is dtype else self.op("convert", a, attribute=dtype)

    def bitcast(self, a: LoopValue, dtype: DType) -> LoopValue:
        return self.op("bitcast", a, attribute=dtype)

    def splat(self, a: LoopValue, lanes: int) -> LoopValue:
        if a.type.lanes == lanes:
            return a
        if a.type.is_scalar and a.name in self._constant_names:
            return self.constant(a.type.with_lanes(lanes), "splat", (a,), lanes)
        return self.op("splat", a, attribute=lanes)

    def iota(self, dtype: DType, lanes: int) -> LoopValue:
        type = VectorType(dtype, lanes)
        result_type("iota", (), type)
        return self.constant(type, "iota", (), type)

    def extract(self, a: LoopValue, lane: int) -> LoopValue:
        return self.op("extract", a, attribute=lane)

    def insert(self, a: LoopValue, scalar: LoopValue, lane: int) -> LoopValue:
        return self.op("insert", a, scalar, attribute=lane)

    def shuffle(self, a: LoopValue, b: LoopValue, lanes: Sequence[int]) -> LoopValue:
        return self.op("shuffle", a, b, attribute=tuple(lanes))

    def call(self, function: str, *operands: LoopValue) -> LoopValue:
        return self.op("call", *operands, attribute=function)

    # -- blocks -----------------------------------------------------------------------------------

    @contextmanager
    def at(self, block: OpenBlock) -> Iterator[None]:
        """Writes to `block`, which is open and encloses the current one."""
        if not block.is_open or not block.encloses(self.block):
            raise VerifyError("only an open block around the current one can be written to")
        saved, self.block = self.block, block
        try:
            yield
        finally:
            self.block = saved

    @contextmanager
    def inside(self) -> Iterator[OpenBlock]:
        """A new block inside the current one, for the statement of a loop or branch."""
        block = OpenBlock(self.block)
        saved, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = saved
            block.is_open = False

    @contextmanager
    def loop(
        self,
        begin: Number,
        end: Number,
        step: int = 1,
        carried: Sequence[LoopValue] = (),
        hint: str = "i",
    ) -> Iterator[OpenLoop]:
        """A for loop; `carried` are the initial values. `hint` names the variable."""
        begin, end = self.numbers.bound(begin), self.numbers.bound(end)
        parameters = tuple(self.fresh(value.type, "carry") for value in carried)
        loop = OpenLoop(self.fresh(INDEX_TYPE, hint), parameters)
        with self.inside() as block:
            yield loop
        check_yields("loop", parameters, loop.yields)
        loop.results = tuple(self.fresh(value.type) for value in carried)
        pairs = tuple(zip(parameters, carried, strict=True))
        self.append(
            For(
                loop.variable, begin, end, step, pairs, tuple(block.statements), loop.yields,
                loop.results,
            )
        )  # fmt: skip

    @contextmanager
    def if_(self, condition: LoopValue, cold: bool = False) -> Iterator[OpenBranch]:
        """`with b.if_(c) as branch:` around `with branch.then():`, `with branch.otherwise():`.
        `cold`: see If."""
        branch = OpenBranch(self.inside)
        yield branch
        (then, then_yields), (other, else_yields) = branch.blocks
        check_yields("branch", then_yields, else_yields)
        branch.results = tuple(self.fresh(value.type) for value in then_yields)
        self.append(
            If(
                condition, tuple(then.statements), then_yields, tuple(other.statements),
                else_yields, branch.results, cold,
            )
        )  # fmt: skip

    @contextmanager
    def while_(self, carried: Sequence[LoopValue] = ()) -> Iterator[OpenWhile]:
        """`with b.while_([x]) as loop:` around `with loop.condition():` and `with loop.body():`."""
        parameters = tuple(self.fresh(value.type, "carry") for value in carried)
        loop = OpenWhile(self.inside, parameters)
        yield loop
        if loop.tested is None:
            raise VerifyError("a while loop without a condition", hint="call loop.test(condition)")
        check_yields("while", parameters, loop.yields)
        loop.results = tuple(self.fresh(value.type) for value in carried)
        self.append(
            While(
                tuple(zip(parameters, carried, strict=True)),
                tuple(loop.condition_block.statements), loop.tested,
                tuple(loop.body_block.statements), loop.yields, loop.results,
            )
        )  # fmt: skip

    def finish(self, extent: Extent, note: str = "") -> Kernel:
        """The kernel over [0, extent), verified where passes are. `note`: see Kernel."""
        if self.block is not self._root:
            raise VerifyError("a loop or branch is still open")
        self._root.is_open = False
        kernel = Kernel(
            self.name, tuple(self._buffers), tuple(self._scratch),
            (*self._leading, *self._root.statements), self.begin, self.end, extent,
            note, tuple(self._dims[name] for name in sorted(self._dims)),
        )  # fmt: skip
        if verify_passes():
            verify(kernel)
        return kernel
