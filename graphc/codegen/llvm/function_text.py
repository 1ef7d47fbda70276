"""A function of LLVM IR while it is written: its lines, its temporaries, the texts of values."""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from graphc.codegen.loop_ir.nodes import LoopValue, VectorType
from graphc.codegen.target import Target
from graphc.ir.types import DType

# The half types are held as their bits: see emit_convert.
ELEMENT = {
    DType.f32: "float",
    DType.f64: "double",
    DType.i32: "i32",
    DType.i64: "i64",
    DType.bool: "i1",
    DType.f16: "i16",
    DType.bf16: "i16",
    DType.u8: "i8",
    DType.i8: "i8",
    DType.i16: "i16",
    DType.u64: "i64",
    DType.u16: "i16",
    DType.u32: "i32",
}
_CODE = {**ELEMENT, DType.f32: "f32", DType.f64: "f64"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.]+")


@functools.cache
def llvm_type(type: VectorType) -> str:
    element = ELEMENT[type.dtype]
    return element if type.is_scalar else f"<{type.lanes} x {element}>"


@functools.cache
def type_code(type: VectorType) -> str:
    """The suffix of an intrinsic's name for `type`."""
    code = _CODE[type.dtype]
    return code if type.is_scalar else f"v{type.lanes}{code}"


def scalar_literal(value: float | int | bool, dtype: DType) -> str:
    if dtype is DType.bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(np.asarray(value, dtype.numpy).astype(np.int64)))
    if dtype.is_storage:
        return str(np.asarray(value, dtype.numpy).view(np.int16).item())
    if math.isnan(value):
        return "0x7FF8000000000000"
    # LLVM writes every float by the bits of the double it equals.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(value: float | int | bool, type: VectorType) -> str:
    text = scalar_literal(value, type.dtype)
    return text if type.is_scalar else f"splat ({ELEMENT[type.dtype]} {text})"


def quoted(name: str) -> str:
    """How a function's name is written behind its `@`."""
    return name if name.replace("_", "").replace(".", "").isalnum() else f'"{name}"'


class FunctionText:
    """The lines of one LLVM function, and what each value's name stands for in it."""

    def __init__(self, target: Target, cold: bool = False) -> None:
        """`cold`: see cold_paths.py; values are numbered there, so that equal functions have equal
        texts."""
        self.target = target
        self.cold = cold
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.constants: dict[str, float | int | bool] = {}
        self.lanes: dict[str, np.ndarray[Any, Any]] = {}
        """Constants whose lanes differ."""
        self.widened: dict[str, str] = {}
        """Of numbers of f32 that were one bf16 its text."""
        self.exact: set[str] = set()
        """Numbers of f32 that bf16 has as well."""
        self._text: dict[str, str] = {}
        self._count = 0

    def cold_one(self) -> FunctionText:
        """An empty one for a cold function of the same module."""
        return FunctionText(self.target, cold=True)

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def temporary(self, instruction: str, lines: list[str] | None = None) -> str:
        """A new name for the result of `instruction`, which is appended to `lines`."""
        name = self.name()
        (self.lines if lines is None else lines).append(f"  {name} = {instruction}")
        return name

    def name(self) -> str:
        """A new name."""
        self._count += 1
        return f"%t{self._count - 1}"

    def opaque(self, type: str, text: str) -> str:
        """The same value, of which LLVM does not know where it comes from: what an empty inline
        assembly makes of it. Rare functions are not optimised, so nothing need be hidden."""
        if self.cold:
            return text
        return self.temporary(f'call {type} asm "", "=r,0"({type} {text})')

    def own_name(self, value: LoopValue) -> str:
        """The name `value` has in LLVM when an instruction defines it."""
        plain = f"v.{value.name}"
        name = f"%{plain}" if _PLAIN_NAME.fullmatch(plain) else f'%"{plain}"'
        if self.cold:
            name = self.name()
        self._text[value.name] = name
        return name

    def define(self, value: LoopValue, instruction: str) -> None:
        self.lines.append(f"  {self.own_name(value)} = {instruction}")

    def alias(self, value: LoopValue, text: str) -> None:
        """`value` is another name, or a literal, and needs no instruction."""
        self._text[value.name] = text

    def constant(self, value: LoopValue, number: float | int | bool) -> None:
        self.constants[value.name] = number
        self._text[value.name] = literal(number, value.type)

    def text(self, value: LoopValue) -> str:
        return self._text[value.name]

    def typed(self, value: LoopValue) -> str:
        return f"{llvm_type(value.type)} {self._text[value.name]}"

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        """The call of an intrinsic or libm function; declares it."""
        listed = list(arguments)
        if name not in self.declarations:
            types = ", ".join(type for type, _ in listed)
            self.declarations[name] = f"declare {result} @{name}({types})"
        operands = ", ".join(f"{type} {text}" for type, text in listed)
        return f"call {result} @{name}({operands})"
