"""The interpreter of the loop IR: slow, plain NumPy, and the reference for native code.

In: a Kernel and its arrays. Out: the arrays, written in place. Every opcode gives the bits
opcodes.py states; only the sign and payload of NaNs may differ from native code. Raises VerifyError
naming the statement or buffer where a rule of the run is broken:

| rule | holds |
|---|---|
| R1 | an access lies inside its buffer |
| R2 | of a kernel that fills its results: an element of one is written before it is read |
| R3 | of a kernel that fills its results: every element of every one is written |

Scratch starts as NaN (integers: the least value), so that reading it before writing shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.codegen.loop_ir.arguments import buffer_lengths
from graphc.codegen.loop_ir.nodes import (
    Barrier,
    Block,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    LoopValue,
    Prefetch,
    Store,
    VectorGather,
    VectorScatter,
    While,
)
from graphc.codegen.loop_ir.operations import OPERATIONS
from graphc.codegen.loop_ir.printer import statement_text
from graphc.errors import VerifyError
from graphc.ir.dims import evaluate
from graphc.ir.types import DType

Array = np.ndarray[Any, Any]


def run(
    kernel: Kernel,
    arrays: Sequence[Array],
    begin: int = 0,
    end: int | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    fills: bool = False,
) -> None:
    """Runs `kernel` over [begin, end), `end` None meaning its extent, on contiguous arrays; `sizes`
    are its dims by name. With `fills` it is held to R2 and R3, as each kernel of a plan over its
    whole extent has to be."""
    sizes = sizes or {}
    lengths = buffer_lengths(kernel, arrays, sizes)
    memory = {}
    for buffer, array in zip(kernel.buffers, arrays):
        memory[buffer.name] = array.reshape(-1)[: lengths[buffer.name]]
    for buffer in kernel.scratch:
        memory[buffer.name] = _undefined(buffer.dtype, lengths[buffer.name])
    results = [buffer for buffer in kernel.buffers if buffer.access != "read"] if fills else []
    written = {buffer.name: np.zeros(lengths[buffer.name], np.bool_) for buffer in results}
    machine = _Machine(memory, written)
    machine.integer(kernel.begin, begin)
    machine.integer(kernel.end, evaluate(kernel.extent, sizes) if end is None else end)
    for value in kernel.dims:
        machine.integer(value, sizes[value.name])
    with np.errstate(all="ignore"):
        machine.block(kernel.body)
    for buffer in results:
        if not written[buffer.name].all():
            first = int(np.argmin(written[buffer.name]))
            raise VerifyError(
                f"R3: element {first} of buffer {buffer} with {lengths[buffer.name]} is never "
                f"written\n"
                f"  of kernel {kernel.name}"
            )


def _undefined(dtype: DType, size: int) -> Array:
    if dtype.is_float:
        return np.full(size, np.nan, dtype.numpy)
    if dtype is DType.bool:
        return np.zeros(size, np.bool_)
    return np.full(size, np.iinfo(dtype.numpy).min, dtype.numpy)


class _Machine:
    """Values are arrays of one element per lane, scalars too. `written` marks the elements of
    results that were stored to."""

    def __init__(self, memory: dict[str, Array], written: dict[str, Array]) -> None:
        self.memory = memory
        self.written = written
        self.values: dict[str, Array] = {}
        self.steps: dict[type, Callable[[Any], None]] = {
            Let: self.let,
            Load: self.load,
            Store: self.store,
            VectorGather: self.gather,
            VectorScatter: self.scatter,
            For: self.for_,
            If: self.if_,
            While: self.while_,
            Prefetch: lambda statement: None,
            Barrier: lambda statement: None,
        }

    def block(self, block: Block) -> None:
        for statement in block:
            self.steps[type(statement)](statement)

    def integer(self, value: LoopValue, number: int) -> None:
        self.values[value.name] = np.array([number], np.int64)

    def read(self, values: Sequence[LoopValue]) -> list[Array]:
        return [self.values[value.name] for value in values]

    def bind(self, values: Sequence[LoopValue], arrays: Sequence[Array]) -> None:
        for value, array in zip(values, arrays, strict=True):
            self.values[value.name] = array

    def let(self, statement: Let) -> None:
        type = statement.result.type
        operands = self.read(statement.operands)
        if statement.opcode == "const":
            result = np.full(type.lanes, statement.attribute, type.dtype.numpy)
        elif statement.opcode == "iota":
            result = np.arange(type.lanes, dtype=type.dtype.numpy)
        else:
            result = OPERATIONS[statement.opcode](statement, *operands)
        self.values[statement.result.name] = result

    # -- memory -----------------------------------------------------------------------------------

    def offset(self, index: Index) -> int:
        return index.const + sum(
            factor * int(self.values[value.name][0]) for value, factor in index.terms
        )

    def mask(self, mask: LoopValue | None, lanes: int) -> Array:
        return np.ones(lanes, np.bool_) if mask is None else self.values[mask.name]

    def places(
        self, statement: Load | Store | VectorGather | VectorScatter, lanes: int
    ) -> tuple[Array, Array, Array]:
        """The buffer's memory, the active lanes, and the offset of each active lane, checked."""
        active = self.mask(statement.mask, lanes)
        if isinstance(statement, Load | Store):
            offsets = self.offset(statement.index) + np.arange(lanes)
        else:
            offsets = self.values[statement.indices.name]
        offsets = offsets[active]
        memory = self.memory[statement.buffer.name]
        if offsets.size and (offsets.min() < 0 or offsets.max() >= memory.size):
            wrong = offsets[(offsets < 0) | (offsets >= memory.size)][0]
            raise VerifyError(
                f"R1: element {wrong} of buffer {statement.buffer} with {memory.size}\n"
                f"  in: {statement_text(statement)}"
            )
        return memory, active, offsets

    def load(self, statement: Load | VectorGather) -> None:
        type = statement.result.type
        memory, active, offsets = self.places(statement, type.lanes)
        written = self.written.get(statement.buffer.name)
        if written is not None and not written[offsets].all():
            raise VerifyError(
                f"R2: element {offsets[~written[offsets]][0]} of buffer {statement.buffer} is read "
                f"before it is written\n  in: {statement_text(statement)}"
            )
        result = np.zeros(type.lanes, type.dtype.numpy)
        result[active] = memory[offsets]
        self.values[statement.result.name] = result

    def store(self, statement: Store | VectorScatter) -> None:
        value = self.values[statement.value.name]
        memory, active, offsets = self.places(statement, value.size)
        memory[offsets] = value[active]
        if statement.buffer.name in self.written:
            self.written[statement.buffer.name][offsets] = True

    gather = load
    scatter = store

    # -- blocks -----------------------------------------------------------------------------------

    def for_(self, statement: For) -> None:
        begin, end = (
            int(self.values[bound.name][0]) if isinstance(bound, LoopValue) else bound
            for bound in (statement.begin, statement.end)
        )
        parameters = [parameter for parameter, _ in statement.carried]
        state = self.read([initial for _, initial in statement.carried])
        for position in range(begin, end, statement.step):
            self.integer(statement.variable, position)
            self.bind(parameters, state)
            self.block(statement.body)
            state = self.read(statement.yields)
        self.bind(statement.results, state)

    def if_(self, statement: If) -> None:
        if self.values[statement.condition.name][0]:
            self.block(statement.then_body)
            yields = statement.then_yields
        else:
            self.block(statement.else_body)
            yields = statement.else_yields
        self.bind(statement.results, self.read(yields))

    def while_(self, statement: While) -> None:
        parameters = [parameter for parameter, _ in statement.carried]
        state = self.read([initial for _, initial in statement.carried])
        while True:
            self.bind(parameters, state)
            self.block(statement.condition_body)
            if not self.values[statement.condition.name][0]:
                break
            self.block(statement.body)
            state = self.read(statement.yields)
        self.bind(statement.results, state)
