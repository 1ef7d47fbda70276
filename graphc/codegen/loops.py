"""The loop IR: what a kernel computes, in flat three-address statements inside nested blocks.

In: nothing; this module only declares the nodes, their text, and the hash of a kernel.
Out: `Kernel`, frozen. LoopBuilder makes them, verify_loops checks them, run_loops interprets them,
emit_llvm turns them into native code. opcodes.py says what each opcode means.

    kernel scale(x: read f32[1024], y: write f32[1024]) over begin to end of 64 {
      %0: f32x16 = const 2.0
      for %i = %begin to %end step 1 {
        %1: f32x16 = load x[16*i]
        %2: f32x16 = mul %1, %0
        store y[16*i], %2
      }
    }

A name is defined once in a kernel and visible from there to the end of its block, in blocks inside
it too. A value is a scalar or a vector of fixed lanes. Buffers are flat, offsets count elements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from graphc.codegen.opcodes import (
    LIBM_ARITY,
    OPCODES,
    Opcode,
    VectorType,
    check_constant,
    result_type,
)
from graphc.ir.types import DType

__all__ = [
    "Access", "Barrier", "Block", "Buffer", "For", "Gather", "If", "Index", "Kernel", "LIBM_ARITY",
    "Let", "Load", "OPCODES", "Opcode", "Scatter", "Statement", "Store", "Value", "VectorType",
    "While", "check_constant", "content_key", "inner_blocks", "operands", "result_type", "results",
    "walk",
]  # fmt: skip

Access = Literal["read", "write", "readwrite", "scratch"]
INDEX_TYPE = VectorType(DType.i64)


@dataclass(frozen=True, slots=True)
class Value:
    """One name. Two values are equal when their names are; names are unique within a kernel."""

    name: str
    type: VectorType = field(compare=False)

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Flat memory of `size` elements. A scratch buffer lives for one call and starts undefined.

    Two buffers that are not scratch may be the same memory (in place): reads see earlier writes.
    """

    name: str
    dtype: DType
    size: int
    access: Access

    def __str__(self) -> str:
        return self.name

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Index:
    """The element offset `const + Σ factor·value` over scalar i64 values."""

    const: int = 0
    terms: tuple[tuple[Value, int], ...] = ()

    @staticmethod
    def of(const: int = 0, *terms: tuple[Value, int] | Value) -> Index:
        """Equal values are merged, and terms that vanish are dropped."""
        factors: dict[Value, int] = {}
        for term in terms:
            value, factor = (term, 1) if isinstance(term, Value) else term
            factors[value] = factors.get(value, 0) + factor
        return Index(const, tuple((value, factor) for value, factor in factors.items() if factor))

    def __add__(self, other: Index | Value | int) -> Index:
        if isinstance(other, int):
            return Index(self.const + other, self.terms)
        if isinstance(other, Value):
            return Index.of(self.const, *self.terms, other)
        return Index.of(self.const + other.const, *self.terms, *other.terms)

    def scaled(self, factor: int) -> Index:
        terms = tuple((value, factor * each) for value, each in self.terms if factor)
        return Index(self.const * factor, terms)

    def __str__(self) -> str:
        return _index_text(self, lambda value: value.name)


@dataclass(frozen=True, slots=True)
class Let:
    """`result = opcode operands`; the attribute is what the opcode's typing rule wants."""

    result: Value
    opcode: str
    operands: tuple[Value, ...] = ()
    attribute: Any = None


@dataclass(frozen=True, slots=True)
class Load:
    """Contiguous lanes from `index` on. Lanes masked off are 0 and their memory is not touched."""

    result: Value
    buffer: Buffer
    index: Index
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class Gather:
    """One element per lane, at the offsets in `indices` (i32 or i64). Masked: see Load."""

    result: Value
    buffer: Buffer
    indices: Value
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """Contiguous lanes to `index` on. Memory of lanes masked off is not touched."""

    buffer: Buffer
    index: Index
    value: Value
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """One element per lane. Where offsets repeat, the highest lane wins."""

    buffer: Buffer
    indices: Value
    value: Value
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class For:
    """`variable` from `begin` to below `end`. Each carried parameter starts at its initial value,
    then takes the yield of the iteration before; `results` are the last ones (the initial values,
    when no iteration ran)."""

    variable: Value
    begin: int | Value
    end: int | Value
    step: int
    carried: tuple[tuple[Value, Value], ...]
    body: Block
    yields: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class If:
    """One of two blocks, by a scalar bool; `results` are the yields of the one that ran."""

    condition: Value
    then_body: Block
    then_yields: tuple[Value, ...]
    else_body: Block
    else_yields: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Runs `condition_body`; while `condition` holds, `body`, and again. What condition_body
    defines is visible in body. `results` are the parameters when the condition failed."""

    carried: tuple[tuple[Value, Value], ...]
    condition_body: Block
    condition: Value
    body: Block
    yields: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Memory operations before it are done, for every thread to see, before those after it start.

    It orders memory only and waits for nobody: a kernel split over threads is split at barriers.
    """


Statement = Let | Load | Gather | Store | Scatter | For | If | While | Barrier
Block = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function over `buffers` in the order of its pointer table.

    `begin` and `end` are scalar i64 values of the call: the part of [0, extent) this call does.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    body: Block
    begin: Value
    end: Value
    extent: int

    def __str__(self) -> str:
        return "\n".join(_Printer().kernel(self, self.name))


def results(statement: Statement) -> tuple[Value, ...]:
    """The names `statement` defines in the block it stands in."""
    match statement:
        case Let() | Load() | Gather():
            return (statement.result,)
        case For() | If() | While():
            return statement.results
        case _:
            return ()


def operands(statement: Statement) -> tuple[Value, ...]:
    """The names `statement` itself reads in the block it stands in, not those its blocks read."""
    match statement:
        case Let():
            return statement.operands
        case Load() | Store():
            read = [value for value, _ in statement.index.terms]
            if isinstance(statement, Store):
                read.append(statement.value)
        case Gather():
            read = [statement.indices]
        case Scatter():
            read = [statement.indices, statement.value]
        case For():
            read = [bound for bound in (statement.begin, statement.end) if isinstance(bound, Value)]
            return (*read, *(initial for _, initial in statement.carried))
        case While():
            return tuple(initial for _, initial in statement.carried)
        case If():
            return (statement.condition,)
        case Barrier():
            return ()
    return tuple(read) if statement.mask is None else (*read, statement.mask)


def inner_blocks(statement: Statement) -> tuple[Block, ...]:
    """The blocks inside `statement`."""
    match statement:
        case For():
            return (statement.body,)
        case If():
            return statement.then_body, statement.else_body
        case While():
            return statement.condition_body, statement.body
        case _:
            return ()


def walk(block: Block) -> Iterator[Statement]:
    """Every statement, outer ones before those inside them."""
    for statement in block:
        yield statement
        for inner in inner_blocks(statement):
            yield from walk(inner)


def content_key(kernel: Kernel) -> str:
    """sha256 over the kernel's text with every name replaced by its place.

    Kernels that differ only in names (their own, of buffers, of values) have the same key.
    """
    text = "\n".join(_Printer(anonymous=True).kernel(kernel, "kernel"))
    return hashlib.sha256(text.encode()).hexdigest()


def _index_text(index: Index, name: Callable[[Value], str]) -> str:
    parts = []
    for value, factor in index.terms:
        text = name(value) if abs(factor) == 1 else f"{abs(factor)}*{name(value)}"
        parts.append((factor < 0, text))
    if index.const or not parts:
        parts.append((index.const < 0, str(abs(index.const))))
    negative, first = parts[0]
    text = f"-{first}" if negative else first
    return text + "".join(f" {'-' if minus else '+'} {part}" for minus, part in parts[1:])


def _attribute_text(attribute: Any) -> str:
    if isinstance(attribute, tuple):
        return f"({', '.join(map(str, attribute))})"
    if isinstance(attribute, float):
        return repr(attribute)
    return str(attribute).lower() if isinstance(attribute, bool) else str(attribute)


class _Printer:
    """The text of a kernel; `anonymous` numbers all names in the order they are met."""

    def __init__(self, anonymous: bool = False) -> None:
        self.anonymous = anonymous
        self.numbers: dict[tuple[type, str], str] = {}

    def name(self, thing: Value | Buffer) -> str:
        if not self.anonymous:
            return thing.name
        key = (type(thing), thing.name)
        return self.numbers.setdefault(key, str(len(self.numbers)))

    def value(self, value: Value) -> str:
        return f"%{self.name(value)}"

    def typed(self, value: Value) -> str:
        return f"%{self.name(value)}: {value.type}"

    def values(self, values: tuple[Value, ...]) -> str:
        return ", ".join(map(self.value, values))

    def kernel(self, kernel: Kernel, name: str) -> list[str]:
        listed = ", ".join(
            f"{self.name(buffer)}: {buffer.access} {buffer.dtype}[{buffer.size}]"
            for buffer in kernel.buffers + kernel.scratch
        )
        begin, end = self.name(kernel.begin), self.name(kernel.end)
        head = f"kernel {name}({listed}) over {begin} to {end} of {kernel.extent} {{"
        return [head, *self.block(kernel.body), "}"]

    def block(self, block: Block) -> list[str]:
        return ["  " + line for statement in block for line in self.statement(statement)]

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case Let():
                parts = [statement.opcode]
                if statement.operands:
                    parts.append(self.values(statement.operands))
                text = " ".join(parts)
                if statement.attribute is not None:
                    text += (", " if statement.operands else " ") + _attribute_text(
                        statement.attribute
                    )
                return [f"{self.typed(statement.result)} = {text}"]
            case For() | If() | While():
                return self.nest(statement)
            case Barrier():
                return ["barrier"]
            case _:
                return [self.memory(statement)]

    def memory(self, statement: Load | Gather | Store | Scatter) -> str:
        if isinstance(statement, Load | Store):
            place = _index_text(statement.index, self.name)
        else:
            place = self.value(statement.indices)
        text = f"{type(statement).__name__.lower()} {self.name(statement.buffer)}[{place}]"
        if isinstance(statement, Load | Gather):
            text = f"{self.typed(statement.result)} = {text}"
        else:
            text += f", {self.value(statement.value)}"
        return text if statement.mask is None else f"{text} mask {self.value(statement.mask)}"

    def nest(self, statement: For | If | While) -> list[str]:
        if isinstance(statement, If):
            return [
                f"if {self.value(statement.condition)} {{",
                *self.yielding(statement.then_body, statement.then_yields),
                "} else {",
                *self.yielding(statement.else_body, statement.else_yields),
                self.closing(statement.results),
            ]
        carried = ", ".join(
            f"{self.typed(parameter)} = {self.value(initial)}"
            for parameter, initial in statement.carried
        )
        carry = f" carry ({carried})" if carried else ""
        if isinstance(statement, While):
            head = [
                f"while{carry} {{",
                *self.block(statement.condition_body),
                f"}} test {self.value(statement.condition)} {{",
            ]
        else:
            begin, end = (
                self.value(bound) if isinstance(bound, Value) else str(bound)
                for bound in (statement.begin, statement.end)
            )
            variable = self.value(statement.variable)
            head = [f"for {variable} = {begin} to {end} step {statement.step}{carry} {{"]
        body = self.yielding(statement.body, statement.yields)
        return [*head, *body, self.closing(statement.results)]

    def yielding(self, block: Block, yields: tuple[Value, ...]) -> list[str]:
        lines = self.block(block)
        return [*lines, f"  yield {self.values(yields)}"] if yields else lines

    def closing(self, results: tuple[Value, ...]) -> str:
        listed = ", ".join(map(self.typed, results))
        return f"}} -> ({listed})" if listed else "}"


def statement_text(statement: Statement) -> str:
    """The first line of the statement's text, for messages."""
    return _Printer().statement(statement)[0]
