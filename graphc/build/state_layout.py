"""The struct that holds all state of a function: where each field lies, and a digest of that.

The layout is part of the interface between a header, an object and what is kept of a state: the
digest stands in all three, and is compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.build.built_source import Array, StateArray
from graphc.build.identifiers import Identifiers
from graphc.errors import GraphError
from graphc.ir.types import DType, TensorType

VERSION = 1
"""Of the interface: raised where functions, statuses or the struct get another meaning."""
FIELD_ALIGNMENT = 64
_OF_PYTHON = ("memory", "copy", "to_bytes")
"""What ctypes_module's ModelState has beside fields."""
HEAD_BYTES = 16
"""At the beginning of the struct: version and digest of the layout, each a uint64_t."""

C_TYPES = {
    DType.f32: "float", DType.f64: "double", DType.i64: "int64_t", DType.i32: "int32_t",
    DType.i16: "int16_t", DType.i8: "int8_t", DType.u8: "uint8_t", DType.u16: "uint16_t",
    DType.u32: "uint32_t", DType.u64: "uint64_t", DType.bool: "uint8_t", DType.f16: "uint16_t",
    DType.bf16: "uint16_t",
}  # fmt: skip
FILE_TYPES = {
    DType.f32: "F32", DType.f64: "F64", DType.i64: "I64", DType.i32: "I32", DType.i16: "I16",
    DType.i8: "I8", DType.u8: "U8", DType.u16: "U16", DType.u32: "U32", DType.u64: "U64",
    DType.bool: "BOOL", DType.f16: "F16", DType.bf16: "BF16",
}  # fmt: skip
"""What safetensors calls the dtypes."""


@dataclass(frozen=True, slots=True)
class StateMember:
    """A field: its identifier, and the byte it begins at. One without elements has no place in the
    struct (C has no arrays of none), and begins at 0."""

    field: StateArray
    name: str
    type: TensorType
    offset: int

    @property
    def nbytes(self) -> int:
        return int(self.type.nbytes)


@dataclass(frozen=True, slots=True)
class StateLayout:
    """All fields in order, saved ones first, and the bytes of the struct."""

    members: tuple[StateMember, ...]
    nbytes: int
    digest: int

    def offset(self, label: str) -> int:
        """Where the field of this label begins."""
        return next(m.offset for m in self.members if m.field.label == label)

    def image(self, initial: bool = True) -> bytes:
        """The struct's bytes with the values it was built with."""
        content = bytearray(self.nbytes)
        content[:8] = VERSION.to_bytes(8, "little")
        content[8:HEAD_BYTES] = self.digest.to_bytes(8, "little")
        for member in self.members if initial else ():
            raw = bytes_of(member.field.array)
            content[member.offset : member.offset + len(raw)] = raw
        return bytes(content)


def layout_of(state: Sequence[StateArray]) -> StateLayout:
    """The struct of these fields, in order. Raises GraphError where two have one key."""
    names = Identifiers(frozenset(("graphc_version", "graphc_layout", *_OF_PYTHON)))
    keys = [field.key for field in state]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise GraphError(f"two fields of the state are called {twice[0]!r}")
    members, reached = [], HEAD_BYTES
    for field in sorted(state, key=lambda field: not field.is_saved):
        type = TensorType.of(field.array)
        begin = -(-reached // FIELD_ALIGNMENT) * FIELD_ALIGNMENT if type.nbytes else 0
        members.append(StateMember(field, names.of(field.label), type, begin))
        reached = max(reached, begin + int(type.nbytes))
    total = -(-reached // FIELD_ALIGNMENT) * FIELD_ALIGNMENT
    facts = [(m.name, m.field.key, m.type.text, m.offset) for m in members]
    text = repr((VERSION, facts, total))
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
    return StateLayout(tuple(members), total, digest)


def bytes_of(array: Array) -> bytes:
    """The bytes of an array, row by row."""
    return bytes(array.tobytes("C"))


def state_file(layout: StateLayout) -> bytes:
    """The state as the bytes of a safetensors file: how long the header is, the header, and the
    arrays' bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "graphc"}}
    content = bytearray()
    for member in layout.members:
        if member.field.is_saved:
            begin = len(content)
            content += bytes_of(member.field.array)
            header[member.field.key] = {
                "dtype": FILE_TYPES[member.type.dtype], "shape": list(member.type.shape),
                "data_offsets": [begin, len(content)],
            }  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(content)
