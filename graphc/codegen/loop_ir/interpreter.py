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

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from graphc.codegen.loop_ir.nodes import (
    LIBM_ARITY,
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
    Store,
    VectorGather,
    VectorScatter,
    While,
)
from graphc.codegen.loop_ir.opcodes import TABLE_SIZE
from graphc.codegen.loop_ir.printer import statement_text
from graphc.errors import ArgumentError, LoweringError, VerifyError
from graphc.ir.types import DType
from graphc.ops.conversion import convert
from graphc.system import c_function

Array = np.ndarray[Any, Any]


def run(
    kernel: Kernel,
    arrays: Sequence[Array],
    begin: int = 0,
    end: int | None = None,
    *,
    fills: bool = False,
) -> None:
    """Runs `kernel` over [begin, end), `end` None meaning its extent, on contiguous arrays. With
    `fills` it is held to R2 and R3, as each kernel of a plan over its whole extent has to be."""
    if len(arrays) != len(kernel.buffers):
        raise ArgumentError(f"{len(kernel.buffers)} buffers, {len(arrays)} arrays")
    memory = {}
    for buffer, array in zip(kernel.buffers, arrays):
        if DType.of(array.dtype) is not buffer.dtype or array.size < buffer.size:
            raise ArgumentError(
                f"buffer {buffer} wants {buffer.size} elements of {buffer.dtype.value}, "
                f"the array has {array.size} of {array.dtype}"
            )
        if not array.flags.c_contiguous:
            raise ArgumentError(f"the array for buffer {buffer} is not contiguous")
        memory[buffer.name] = array.reshape(-1)[: buffer.size]
    for buffer in kernel.scratch:
        memory[buffer.name] = _undefined(buffer)
    results = [buffer for buffer in kernel.buffers if buffer.access != "read"] if fills else []
    written = {buffer.name: np.zeros(buffer.size, np.bool_) for buffer in results}
    machine = _Machine(memory, written)
    machine.integer(kernel.begin, begin)
    machine.integer(kernel.end, kernel.extent if end is None else end)
    with np.errstate(all="ignore"):
        machine.block(kernel.body)
    for buffer in results:
        if not written[buffer.name].all():
            first = int(np.argmin(written[buffer.name]))
            raise VerifyError(
                f"R3: element {first} of buffer {buffer} with {buffer.size} is never written\n"
                f"  of kernel {kernel.name}"
            )


def _undefined(buffer: Buffer) -> Array:
    if buffer.dtype.is_float:
        return np.full(buffer.size, np.nan, buffer.dtype.numpy)
    if buffer.dtype is DType.bool:
        return np.zeros(buffer.size, np.bool_)
    return np.full(buffer.size, np.iinfo(buffer.dtype.numpy).min, buffer.dtype.numpy)


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


# -- arithmetic -----------------------------------------------------------------------------------


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a*b + c of f32, rounded once.

    The product is exact in f64. The sum is rounded to odd there, by the error that Knuth's two-sum
    gives, so that rounding it again to f32 rounds the exact sum (Boldo and Melquiond, 2008).
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    wrong = np.isfinite(total) & (error != 0) & even
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(wrong, odd, total).astype(np.float32)


def _fma(statement: Let, a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float32:
        return fma32(a, b, c)
    function = libm_function("fma", DType.f64, 3)
    return np.array([function(*lane) for lane in zip(a, b, c)], np.float64)


@functools.cache
def libm_function(name: str, dtype: DType, arity: int) -> Callable[..., float]:
    """The process's own libm function, the one native code calls."""
    kind = ctypes.c_float if dtype is DType.f32 else ctypes.c_double
    function = c_function(name + ("f" if dtype is DType.f32 else ""))
    if function is None:
        raise LoweringError(f"this system's C library is not at hand, or has no {name}")
    function.restype = kind
    function.argtypes = [kind] * arity
    return cast("Callable[..., float]", function)


def _call(statement: Let, *operands: Array) -> Array:
    name = statement.attribute
    function = libm_function(name, statement.result.type.dtype, LIBM_ARITY[name])
    return np.array([function(*lane) for lane in zip(*operands)], operands[0].dtype)


def _divide(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient and remainder of integers, truncated."""
    special = (b == 0) | (b == -1)
    safe = np.where(special, 1, b)
    quotient = a // safe
    remainder = a - quotient * safe
    raised = (remainder != 0) & ((a < 0) != (safe < 0))
    quotient, remainder = quotient + raised, remainder - raised * safe
    quotient = np.where(b == -1, -a, np.where(b == 0, 0, quotient))
    return quotient.astype(a.dtype), np.where(special, 0, remainder).astype(a.dtype)


def _div(statement: Let, a: Array, b: Array) -> Array:
    return a / b if a.dtype.kind == "f" else _divide(a, b)[0]


def _rem(statement: Let, a: Array, b: Array) -> Array:
    result: Array = np.fmod(a, b) if a.dtype.kind == "f" else _divide(a, b)[1]
    return result


def _floordiv(statement: Let, a: Array, b: Array) -> Array:
    quotient, remainder = _divide(a, b)
    below: Array = (remainder != 0) & ((remainder < 0) != (b < 0))
    return quotient - below


def _mod(statement: Let, a: Array, b: Array) -> Array:
    remainder = _divide(a, b)[1]
    below: Array = (remainder != 0) & ((remainder < 0) != (b < 0))
    result: Array = remainder + below * b
    return result


def _minimum(statement: Let, a: Array, b: Array) -> Array:
    result: Array = np.where((a < b) | (a != a), a, b)
    return result


def _maximum(statement: Let, a: Array, b: Array) -> Array:
    result: Array = np.where((a > b) | (a != a), a, b)
    return result


def _amount(amount: Array) -> Array:
    return amount & (8 * amount.itemsize - 1)


def _lshr(statement: Let, a: Array, amount: Array) -> Array:
    unsigned = np.dtype(f"u{a.itemsize}")
    shifted: Array = a.view(unsigned) >> _amount(amount).view(unsigned)
    return shifted.view(a.dtype)


def _convert(statement: Let, a: Array) -> Array:
    result: Array = convert(a, statement.result.type.dtype)
    return result


def _insert(statement: Let, a: Array, scalar: Array) -> Array:
    result = a.copy()
    result[statement.attribute] = scalar[0]
    return result


def _plain(function: Callable[..., Any]) -> Callable[..., Array]:
    def operation(statement: Let, *operands: Array) -> Array:
        result: Array = function(*operands)
        return result

    return operation


OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _div,
    "rem": _rem,
    "floordiv": _floordiv,
    "mod": _mod,
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "fma": _fma,
    "sqrt": _plain(np.sqrt),
    "floor": _plain(np.floor),
    "ceil": _plain(np.ceil),
    "trunc": _plain(np.trunc),
    "round": _plain(np.rint),
    "minimum": _minimum,
    "maximum": _maximum,
    "eq": _plain(np.equal),
    "ne": _plain(np.not_equal),
    "lt": _plain(np.less),
    "le": _plain(np.less_equal),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert),
    "shl": lambda statement, a, amount: a << _amount(amount),
    "lshr": _lshr,
    "ashr": lambda statement, a, amount: a >> _amount(amount),
    "select": _plain(np.where),
    "convert": _convert,
    "bitcast": lambda statement, a: a.view(statement.attribute.numpy),
    "splat": lambda statement, a: np.repeat(a, statement.attribute),
    "extract": lambda statement, a: a[statement.attribute : statement.attribute + 1],
    "insert": _insert,
    "lookup": lambda statement, a: np.array(statement.attribute, np.int32)[a % TABLE_SIZE],
    "shuffle": lambda statement, a, b: np.concatenate((a, b))[list(statement.attribute)],
    "call": _call,
}
