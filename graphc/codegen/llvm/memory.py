"""LLVM IR of loads and stores: addresses, masks, gathers and scatters.

In: the function's text so far and a memory statement. Out: more lines. A masked access never
touches what its mask leaves out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from graphc.codegen.llvm.function_text import FunctionText, llvm_type, type_code
from graphc.codegen.llvm.induction_pointers import InductionPointers
from graphc.codegen.loop_ir.nodes import (
    Buffer,
    Index,
    Load,
    LoopValue,
    Store,
    VectorGather,
    VectorScatter,
    VectorType,
)
from graphc.ir.types import DType

AVX2_LANES = 8
"""Numbers of i32 in a register of AVX2."""


@functools.cache
def _memory_type(type: VectorType) -> str:
    """bool is a byte in memory."""
    if type.dtype is not DType.bool:
        return llvm_type(type)
    return "i8" if type.is_scalar else f"<{type.lanes} x i8>"


def _vector(type: VectorType, memory: bool = False) -> str:
    """`type` as an LLVM vector even where it is a scalar: masked intrinsics know only those."""
    scalar = VectorType(type.dtype)
    return f"<{type.lanes} x {_memory_type(scalar) if memory else llvm_type(scalar)}>"


class MemoryText:
    """Writes memory statements into `function`. `pointers` holds each buffer's pointer, `aliasing`
    the metadata of those that have some."""

    def __init__(
        self, function: FunctionText, aliasing: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.function = function
        self.pointers: dict[str, str] = {}
        self.aliasing = aliasing
        self.addresses: dict[tuple[str, tuple[tuple[str, int], ...]], str] = {}
        self.order: dict[str, int] = {}
        self.depth: dict[str, int] = {}
        self.ahead: list[list[str]] = []
        """For each open loop, outermost first, the lines that go right ahead of it."""
        self.induction_pointers: dict[str, InductionPointers] = {}
        """Of the innermost loops that are open, by the name of their variable."""

    def lies_at(self, buffer: Buffer, pointer: str) -> None:
        self.pointers[buffer.name] = pointer

    def innermost(self, variable: LoopValue, pointers: InductionPointers) -> None:
        """The loop of `variable`, which is open, has no loop inside."""
        self.induction_pointers[variable.name] = pointers

    @contextmanager
    def addresses_of_block(self) -> Iterator[None]:
        """Addresses computed inside a block do not dominate what follows it."""
        outside = self.addresses
        self.addresses = dict(outside)
        yield
        self.addresses = outside

    def seen(self, *values: LoopValue) -> None:
        for value in values:
            self.order[value.name] = len(self.order)
            self.depth[value.name] = len(self.ahead)

    def address(self, buffer: Buffer, index: Index) -> str:
        """The pointer to an element: outer loops first, each part ahead of the loops it does not
        depend on."""
        element = _memory_type(VectorType(buffer.dtype))
        pointer = self.pointers[buffer.name]
        terms = sorted(index.terms, key=lambda term: self.order[term[0].name])
        path: tuple[tuple[str, int], ...] = ()
        for value, factor in terms:
            path = (*path, (value.name, factor))
            known = self.addresses.get((buffer.name, path))
            pointers = self.induction_pointers.get(value.name)
            if known is None and pointers is not None:
                known = pointers.address(
                    (buffer.name, path), pointer, factor * buffer.dtype.itemsize
                )
            elif known is None:
                # Terms are in the order of their definition: the last one lies deepest.
                depth = self.depth[value.name]
                ahead = self.ahead[depth] if depth < len(self.ahead) else None
                offset = self.function.text(value)
                if factor < 1:
                    offset = self.function.temporary(f"mul i64 {offset}, {factor}", ahead)
                stride = f"[{factor} x {element}]" if factor > 1 else element
                known = self.step(stride, pointer, offset, ahead)
                self.remember((buffer.name, path), known, depth)
            pointer = known
        return self.step(element, pointer, str(index.const)) if index.const else pointer

    def step(self, element: str, pointer: str, offset: str, ahead: list[str] | None = None) -> str:
        text = f"getelementptr {element}, ptr {pointer}, i64 {offset}"
        return self.function.temporary(text, ahead)

    def remember(
        self, key: tuple[str, tuple[tuple[str, int], ...]], pointer: str, depth: int
    ) -> None:
        """Notes an address, known in the current block (ahead of a loop: in that loop too)."""
        self.addresses[key] = pointer

    def loaded(self, result: LoopValue, text: str, vector: bool) -> None:
        """Gives `result` its value from `text` as it came from memory; `vector`: from <1 x …>."""
        function = self.function
        type = result.type
        if vector and type.is_scalar:
            memory = _vector(type, memory=True)
            text = function.temporary(f"extractelement {memory} {text}, i64 0")
        if type.dtype is DType.bool:
            zero = "0" if type.is_scalar else "zeroinitializer"
            text = function.temporary(f"icmp ne {_memory_type(type)} {text}, {zero}")
        function.alias(result, text)
        self.seen(result)

    def stored(self, value: LoopValue, vector: bool) -> str:
        """The text of `value` as it goes to memory; `vector`: as <1 x …>."""
        function = self.function
        text = function.text(value)
        type = value.type
        if type.dtype is DType.bool:
            text = function.temporary(f"zext {function.typed(value)} to {_memory_type(type)}")
        if vector and type.is_scalar:
            memory = _vector(type, memory=True)
            element = _memory_type(type)
            text = function.temporary(f"insertelement {memory} poison, {element} {text}, i64 0")
        return text

    def mask(self, mask: LoopValue | None, lanes: int) -> str:
        if mask is None:
            return "splat (i1 true)"
        if lanes > 1:
            return self.function.text(mask)
        text = self.function.text(mask)
        return self.function.temporary(f"insertelement <1 x i1> poison, i1 {text}, i64 0")

    def load(self, statement: Load | VectorGather, pointer: str) -> None:
        type = statement.result.type
        align = statement.buffer.dtype.itemsize
        note = self.aliasing.get(statement.buffer.name, "")
        if statement.mask is None:
            text = self.function.temporary(
                f"load {_memory_type(type)}, ptr {pointer}, align {align}{note}"
            )
            self.loaded(statement.result, text, vector=False)
            return
        mask = self.mask(statement.mask, type.lanes)
        if self._fills_masks_of_vectors(type):
            text = self._load_by_registers(type, pointer, mask, f"align {align}", note)
        else:
            text = self._masked_load(type, pointer, mask, f"align {align}", note)
        self.loaded(statement.result, text, vector=True)

    def _masked_load(self, type: VectorType, pointer: str, mask: str, align: str, note: str) -> str:
        vector, flags = _vector(type, memory=True), f"<{type.lanes} x i1>"
        name = f"llvm.masked.load.v{type.lanes}{_code(type)}.p0"
        self.declare(name, vector, f"ptr, {flags}, {vector}")
        return self.function.temporary(
            f"call {vector} @{name}(ptr {align} {pointer}, {flags} {mask}, "
            f"{vector} zeroinitializer){note}"
        )

    def _fills_masks_of_vectors(self, type: VectorType) -> bool:
        """Whether a load fills several registers on a processor whose masks are vectors (AVX2)."""
        size = type.dtype.itemsize
        return (
            self.function.target.permuted_lanes == AVX2_LANES
            and size in (4, 8)
            and type.lanes * size > 4 * AVX2_LANES
        )

    def _load_by_registers(
        self, type: VectorType, pointer: str, mask: str, align: str, note: str
    ) -> str:
        """A masked load register by register. LLVM (22) loads a register without its mask where it
        can tell that the mask has no lane; so each mask goes by what it cannot look into."""
        function, size = self.function, type.dtype.itemsize
        lanes = 4 * AVX2_LANES // size
        part, flags, wide = (
            VectorType(type.dtype, lanes),
            f"<{lanes} x i1>",
            f"<{lanes} x i{8 * size}>",
        )
        parts = []
        for first in range(0, type.lanes, lanes):
            picks = ", ".join(f"i32 {lane}" for lane in range(first, first + lanes))
            own = function.temporary(
                f"shufflevector <{type.lanes} x i1> {mask}, <{type.lanes} x i1> poison, "
                f"<{lanes} x i32> <{picks}>"
            )
            signs = function.temporary(f"sext {flags} {own} to {wide}")
            hidden = function.temporary(f'call {wide} asm "", "=x,0"({wide} {signs})')
            known = function.temporary(f"icmp slt {wide} {hidden}, zeroinitializer")
            place = self.step(_memory_type(VectorType(type.dtype)), pointer, str(first))
            parts.append(self._masked_load(part, place, known, align, note))
        while len(parts) > 1:
            count = type.lanes // len(parts)
            picks = ", ".join(f"i32 {lane}" for lane in range(2 * count))
            vector = _vector(VectorType(type.dtype, count), memory=True)
            parts = [
                function.temporary(
                    f"shufflevector {vector} {low}, {vector} {high}, <{2 * count} x i32> <{picks}>"
                )
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def store(self, statement: Store | VectorScatter, pointer: str) -> None:
        value = statement.value
        type = value.type
        align = statement.buffer.dtype.itemsize
        note = self.aliasing.get(statement.buffer.name, "")
        if statement.mask is None:
            text = self.stored(value, vector=False)
            self.function.emit(
                f"store {_memory_type(type)} {text}, ptr {pointer}, align {align}{note}"
            )
            return
        vector, flags = _vector(type, memory=True), f"<{type.lanes} x i1>"
        name = f"llvm.masked.store.v{type.lanes}{_code(type)}.p0"
        self.declare(name, "void", f"{vector}, ptr, {flags}")
        text = self.stored(value, vector=True)
        mask = self.mask(statement.mask, type.lanes)
        self.function.emit(
            f"call void @{name}({vector} {text}, ptr align {align} {pointer}, {flags} {mask}){note}"
        )

    def prefetch(self, pointer: str) -> None:
        """Into L2: what is asked for is more than one tile reads."""
        self.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        reads, locality, data = 0, 2, 1
        self.function.emit(
            f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {reads}, i32 {locality}, i32 {data})"
        )

    def lane_pointers(self, buffer: Buffer, indices: LoopValue) -> str:
        element = _memory_type(VectorType(buffer.dtype))
        base = self.pointers[buffer.name]
        typed = self.function.typed(indices)
        return self.function.temporary(f"getelementptr {element}, ptr {base}, {typed}")

    def gather(self, statement: VectorGather) -> None:
        type = statement.result.type
        pointers = self.lane_pointers(statement.buffer, statement.indices)
        if type.is_scalar:
            self.load(statement, pointers)
            return
        lanes, memory = type.lanes, _memory_type(type)
        name = f"llvm.masked.gather.v{lanes}{_code(type)}.v{lanes}p0"
        self.declare(name, memory, f"<{lanes} x ptr>, <{lanes} x i1>, {memory}")
        text = self.function.temporary(
            f"call {memory} @{name}(<{lanes} x ptr> align {statement.buffer.dtype.itemsize} "
            f"{pointers}, <{lanes} x i1> {self.mask(statement.mask, lanes)}, "
            f"{memory} zeroinitializer){self.aliasing.get(statement.buffer.name, '')}"
        )
        self.loaded(statement.result, text, vector=False)

    def scatter(self, statement: VectorScatter) -> None:
        type = statement.value.type
        pointers = self.lane_pointers(statement.buffer, statement.indices)
        if type.is_scalar:
            self.store(statement, pointers)
            return
        lanes, memory = type.lanes, _memory_type(type)
        name = f"llvm.masked.scatter.v{lanes}{_code(type)}.v{lanes}p0"
        self.declare(name, "void", f"{memory}, <{lanes} x ptr>, <{lanes} x i1>")
        text = self.stored(statement.value, vector=False)
        self.function.emit(
            f"call void @{name}({memory} {text}, <{lanes} x ptr> align "
            f"{statement.buffer.dtype.itemsize} {pointers}, <{lanes} x i1> "
            f"{self.mask(statement.mask, lanes)}){self.aliasing.get(statement.buffer.name, '')}"
        )

    def declare(self, name: str, result: str, parameters: str) -> None:
        self.function.declarations.setdefault(name, f"declare {result} @{name}({parameters})")


def _code(type: VectorType) -> str:
    """The intrinsic suffix of one element in memory."""
    return "i8" if type.dtype is DType.bool else type_code(VectorType(type.dtype))
