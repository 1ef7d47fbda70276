"""The loop IR: what a kernel computes, in flat three-address statements inside nested blocks.

In: nothing; this module only declares the nodes, their text, and the hash of a kernel.
Out: `Kernel`, frozen. LoopBuilder makes them, verify_loops checks them, run_loops interprets them,
llvm/ turns them into native code. opcodes.py says what each opcode means.

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

Sizes may be known only when the kernel is called: `dims` are scalar i64 values of the call, named
like the symbols that extents and buffers' sizes are polynomials in (graphc.ir.dims).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from graphc.codegen.loop_ir.opcodes import (
    LIBM_ARITY,
    OPCODES,
    Opcode,
    VectorType,
    check_constant,
    result_type,
)
from graphc.ir.dims import Extent
from graphc.ir.types import DType
from graphc.records import field, record
from graphc.system import IMPORTING

__all__ = [
    "Access", "Barrier", "Block", "Buffer", "For", "VectorGather", "If", "Index", "Kernel",
    "LIBM_ARITY", "Let", "Load", "OPCODES", "Opcode", "VectorScatter", "Statement", "Store",
    "LoopValue", "VectorType", "While", "check_constant", "inner_blocks", "operands",
    "result_type", "results", "walk",
]  # fmt: skip

Access = Literal["read", "write", "readwrite", "scratch"]
INDEX_TYPE = VectorType(DType.i64)


@record
class LoopValue:
    """One name. Two values are equal when their names are; names are unique within a kernel."""

    name: str
    type: VectorType = field(compare=False)

    def __str__(self) -> str:
        return f"%{self.name}"


@record
class Buffer:
    """Flat memory of `size` elements. A scratch buffer lives for one call and starts undefined.

    Two buffers that are not scratch may be the same memory (in place): reads see earlier writes.
    """

    name: str
    dtype: DType
    size: Extent
    access: Access

    def __str__(self) -> str:
        return self.name


@record
class Index:
    """The element offset `const + Σ factor·value` over scalar i64 values."""

    const: int = 0
    terms: tuple[tuple[LoopValue, int], ...] = ()

    @staticmethod
    def of(const: int = 0, *terms: tuple[LoopValue, int] | LoopValue) -> Index:
        """Equal values are merged, and terms that vanish are dropped."""
        factors: dict[LoopValue, int] = {}
        for term in terms:
            value, factor = (term, 1) if isinstance(term, LoopValue) else term
            factors[value] = factors.get(value, 0) + factor
        return Index(const, tuple((value, factor) for value, factor in factors.items() if factor))

    @staticmethod
    def over(index: Index | LoopValue | int) -> Index:
        """A value or a number as an offset."""
        if isinstance(index, Index):
            return index
        return Index.of(0, index) if isinstance(index, LoopValue) else Index(index)

    def __add__(self, other: Index | LoopValue | int) -> Index:
        other = Index.over(other)
        return Index.of(self.const + other.const, *self.terms, *other.terms)

    def scaled(self, factor: int) -> Index:
        terms = tuple((value, factor * each) for value, each in self.terms if factor)
        return Index(self.const * factor, terms)

    def __str__(self) -> str:
        """`64*i + j + 3`"""
        parts = []
        for value, factor in self.terms:
            text = value.name if abs(factor) == 1 else f"{abs(factor)}*{value.name}"
            parts.append((factor < 0, text))
        if self.const or not parts:
            parts.append((self.const < 0, str(abs(self.const))))
        negative, first = parts[0]
        text = f"-{first}" if negative else first
        return text + "".join(f" {'-' if minus else '+'} {part}" for minus, part in parts[1:])


@record
class Let:
    """`result = opcode operands`; the attribute is what the opcode's typing rule wants."""

    result: LoopValue
    opcode: str
    operands: tuple[LoopValue, ...] = ()
    attribute: Any = None


@record
class Load:
    """Contiguous lanes from `index` on. Lanes masked off are 0 and their memory is not touched."""

    result: LoopValue
    buffer: Buffer
    index: Index
    mask: LoopValue | None = None


@record
class VectorGather:
    """One element per lane, at the offsets in `indices` (i32 or i64). Masked: see Load."""

    result: LoopValue
    buffer: Buffer
    indices: LoopValue
    mask: LoopValue | None = None


@record
class Store:
    """Contiguous lanes to `index` on. Memory of lanes masked off is not touched."""

    buffer: Buffer
    index: Index
    value: LoopValue
    mask: LoopValue | None = None


@record
class Prefetch:
    """Asks for the cache line of an element that will be read later. It need not exist."""

    buffer: Buffer
    index: Index


@record
class VectorScatter:
    """One element per lane. Where offsets repeat, the highest lane wins."""

    buffer: Buffer
    indices: LoopValue
    value: LoopValue
    mask: LoopValue | None = None


@record
class For:
    """`variable` from `begin` to below `end`. Each carried parameter starts at its initial value,
    then takes the yield of the iteration before; `results` are the last ones (the initial values,
    when no iteration ran)."""

    variable: LoopValue
    begin: int | LoopValue
    end: int | LoopValue
    step: int
    carried: tuple[tuple[LoopValue, LoopValue], ...]
    body: Block
    yields: tuple[LoopValue, ...]
    results: tuple[LoopValue, ...]


@record
class If:
    """One of two blocks, by a scalar bool; `results` are the yields of the one that ran. `cold`:
    the first hardly ever runs, so its native code need not be fast, but soon compiled."""

    condition: LoopValue
    then_body: Block
    then_yields: tuple[LoopValue, ...]
    else_body: Block
    else_yields: tuple[LoopValue, ...]
    results: tuple[LoopValue, ...]
    cold: bool = False


@record
class While:
    """Runs `condition_body`; while `condition` holds, `body`, and again. What condition_body
    defines is visible in body. `results` are the parameters when the condition failed."""

    carried: tuple[tuple[LoopValue, LoopValue], ...]
    condition_body: Block
    condition: LoopValue
    body: Block
    yields: tuple[LoopValue, ...]
    results: tuple[LoopValue, ...]


@record
class Barrier:
    """Memory operations before it are done, for every thread to see, before those after it start.

    It orders memory only and waits for nobody: a kernel split over threads is split at barriers.
    """


Statement = (
    Let | Load | VectorGather | Store | VectorScatter | Prefetch | For | If | While | Barrier
)
Block = tuple[Statement, ...]
_WITH_BLOCKS = For, If, While


@record
class Kernel:
    """A function over `buffers` in the order of its pointer table.

    `begin` and `end` are scalar i64 values of the call: the part of [0, extent) this call does.
    """

    name: str
    buffers: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...]
    body: Block
    begin: LoopValue
    end: LoopValue
    extent: Extent
    note: str = field(default="", compare=False)
    """What the recipe chose, and why: shown with the text, part of nothing else."""
    dims: tuple[LoopValue, ...] = ()
    """The sizes of the call, in the order of its table of dims."""

    def __str__(self) -> str:
        with IMPORTING:
            from graphc.codegen.loop_ir.printer import print_kernel

        return print_kernel(self)


def results(statement: Statement) -> tuple[LoopValue, ...]:
    """The names `statement` defines in the block it stands in."""
    match statement:
        case Let() | Load() | VectorGather():
            return (statement.result,)
        case For() | If() | While():
            return statement.results
        case _:
            return ()


def operands(statement: Statement) -> tuple[LoopValue, ...]:
    """The names `statement` itself reads in the block it stands in, not those its blocks read."""
    match statement:
        case Let():
            return statement.operands
        case Load() | Store():
            read = [value for value, _ in statement.index.terms]
            if isinstance(statement, Store):
                read.append(statement.value)
        case VectorGather():
            read = [statement.indices]
        case VectorScatter():
            read = [statement.indices, statement.value]
        case For():
            read = [
                bound for bound in (statement.begin, statement.end) if isinstance(bound, LoopValue)
            ]
            return (*read, *(initial for _, initial in statement.carried))
        case While():
            return tuple(initial for _, initial in statement.carried)
        case If():
            return (statement.condition,)
        case Prefetch():
            return tuple(value for value, _ in statement.index.terms)
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
        if isinstance(statement, _WITH_BLOCKS):
            for inner in inner_blocks(statement):
                yield from walk(inner)
