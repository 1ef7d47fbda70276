"""The struct that holds all state of a function: where each field lies, and a digest of that.

The layout is part of the interface between a header, an object and what is kept of a state: the
digest stands in all three, and is compared. Behind the fields the struct has what NAME_prepare
leaves: packed weights, and words of the weights as they were then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from graphc.build.built_programs import BuiltPrograms
from graphc.build.built_source import Array, ObjectSource, StateArray
from graphc.build.identifiers import Identifiers
from graphc.build.packed_weights import SAMPLES, WORD
from graphc.errors import GraphError
from graphc.ir.types import DType, TensorType
from graphc.records import record

VERSION = 1
"""Of the interface: raised where functions, statuses or the struct get another meaning."""
FIELD_ALIGNMENT = 64
PREPARED = "graphc_prepared"
"""The member of the struct behind all fields."""
_OF_PYTHON = ("memory", "copy", "to_bytes", "prepare")
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


@record
class StateMember:
    """A field: its identifier, and the byte it begins at. One without elements has no place in the
    struct (C has no arrays of none), and begins at 0."""

    field: StateArray
    name: str
    type: TensorType
    offset: int
    is_packed: bool = False
    """Whether calls read a packed copy of it."""

    @property
    def nbytes(self) -> int:
        return int(self.type.nbytes)


@record
class StateLayout:
    """All fields in order, saved ones first, and the bytes of the struct. `packed`: where each
    packed value begins, by label; `samples`: the places of words of packed weights, which stand
    as they were from `seen` on; `work`: where NAME_prepare works."""

    members: tuple[StateMember, ...]
    nbytes: int
    digest: int
    prepared: int
    packed: Mapping[str, int]
    samples: tuple[tuple[int, int], ...]
    seen: int
    work: int

    def offset(self, label: str) -> int:
        """Where the field or packed value of this label begins."""
        if label in self.packed:
            return self.packed[label]
        return next(m.offset for m in self.members if m.field.label == label)

    @property
    def saved_bytes(self) -> int:
        """Those of the struct up to the last field that a file has."""
        return max([HEAD_BYTES, *(m.offset + m.nbytes for m in self.members if m.field.is_saved)])

    @property
    def prepared_bytes(self) -> int:
        """Those behind all fields; 0 where nothing is packed."""
        return self.nbytes - self.prepared

    def image(self, initial: bool = True) -> bytes:
        """The struct's bytes that have values from the first on, those it was built with; without
        `initial`, its head."""
        content = bytearray(self.saved_bytes if initial else HEAD_BYTES)
        content[:8] = VERSION.to_bytes(8, "little")
        content[8:HEAD_BYTES] = self.digest.to_bytes(8, "little")
        for member in self.members if initial else ():
            if member.field.is_saved:
                raw = bytes_of(member.field.array)
                content[member.offset : member.offset + len(raw)] = raw
        return bytes(content)


def layout_for(source: ObjectSource, built: BuiltPrograms) -> StateLayout:
    """The struct of the fields of a source, in order, and of what these programs pack; fields begin
    where they do for other programs of it. Raises GraphError where two fields have one key."""
    state, weights = source.state(), built.packed_weights
    names = Identifiers(frozenset(("graphc_version", "graphc_layout", PREPARED, *_OF_PYTHON)))
    keys = [field.key for field in state]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise GraphError(f"two fields of the state are called {twice[0]!r}")
    members, reached = [], HEAD_BYTES
    for field in sorted(state, key=lambda field: not field.is_saved):
        type = TensorType.of(field.array)
        begin = _aligned(reached) if type.nbytes else 0
        name, is_packed = names.of(field.label), field.label in weights
        members.append(StateMember(field, name, type, begin, is_packed))
        reached = max(reached, begin + int(type.nbytes))
    prepared = total = _aligned(reached)
    places: dict[str, int] = {}
    for label, type in built.packed.items():
        places[label] = total
        total = _aligned(total + int(type.nbytes))
    samples = tuple(
        (number, place) for number, member in enumerate(members) if member.is_packed
        for place in _samples(member)
    )  # fmt: skip
    seen = total
    work = _aligned(seen + WORD * len(samples))
    total = _aligned(work + built.prepare_bytes)
    facts = [(m.name, m.field.key, m.type.text, m.offset) for m in members]
    packed = [type.text for type in built.packed.values()]
    text = repr((VERSION, facts, packed, total))
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
    return StateLayout(tuple(members), total, digest, prepared, places, samples, seen, work)


def _aligned(offset: int) -> int:
    return -(-offset // FIELD_ALIGNMENT) * FIELD_ALIGNMENT


def _samples(member: StateMember) -> list[int]:
    """Where words of a field lie, from its first to its last."""
    last = member.nbytes // WORD - 1
    words = sorted({last * i // (SAMPLES - 1) for i in range(SAMPLES)})
    return [member.offset + WORD * word for word in words]


def bytes_of(array: Array) -> bytes:
    """The bytes of an array, row by row."""
    return bytes(array.tobytes("C"))


def file_head(layout: StateLayout) -> bytes:
    """What a safetensors file of a state begins with: how long the header is, and the header. The
    bytes of the saved fields follow, in order."""
    header: dict[str, Any] = {"__metadata__": {"format": "graphc"}}
    end = 0
    for member in layout.members:
        if member.field.is_saved:
            begin, end = end, end + member.nbytes
            header[member.field.key] = {
                "dtype": FILE_TYPES[member.type.dtype], "shape": list(member.type.shape),
                "data_offsets": [begin, end],
            }  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def state_file(layout: StateLayout) -> bytes:
    """The state as it was built, as the bytes of a safetensors file."""
    saved = (bytes_of(each.field.array) for each in layout.members if each.field.is_saved)
    return file_head(layout) + b"".join(saved)
