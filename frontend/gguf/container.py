"""The container: what a GGUF file says of its tensors, and where their bytes lie.

in : an open file
out: its metadata, and a name, kind, shape and place for each tensor; or Refused

Nothing that the file declares is believed before the bytes are there: a count, a length or a size
is compared with what is left of the file ahead of any memory that it asks for. Tensors lie apart,
so that what is made of a file is in proportion to it: the densest kind has 12 bytes for one.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np

from frontend.gguf.kinds import KINDS, OTHERS, Kind
from frontend.serialization.errors import Refused

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32
MAXIMAL_RANK = 4  # ggml's
STRING, ARRAY, BOOL = 8, 9, 7
NUMBERS = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", BOOL: "u1", 10: "<u8",
    11: "<i8", 12: "<f8",
}  # fmt: skip
"""NumPy's type for each of the file's; bools are bytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor of a file: its shape with rows last, and where its bytes begin in the file."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) // self.kind.elements * self.kind.bytes


class Header:
    """What stands ahead of the tensors' bytes. Raises Refused."""

    def __init__(self, file: BufferedReader):
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._place = 0
        if self._size < len(MAGIC) or self._take(len(MAGIC), "its first bytes") != MAGIC:
            raise Refused(f"it does not begin with {MAGIC.decode()}")
        version = self._number("<u4")
        if version not in VERSIONS:
            if version & 0xFFFF == 0:
                raise Refused("it is for machines of big-endian bytes: convert it to little-endian")
            raise Refused(f"it is of version {version}: those that are read are 2 and 3")
        tensors, values = self._number("<u8"), self._number("<u8")
        self._expect(tensors, 24, "tensors")
        self._expect(values, 13, "values")
        self.metadata: dict[str, Any] = {}
        for _ in range(values):
            self._read_value()
        declared = [self._read_entry() for _ in range(tensors)]
        self.entries = self._placed(declared)

    # -- bytes --

    def _take(self, count: int, what: str) -> bytes:
        self._expect(count, 1, f"bytes of {what}")
        data = self._file.read(count)
        if len(data) != count:
            raise Refused(f"it ends within {what}")
        self._place += count
        return data

    def _expect(self, count: int, size: int, what: str) -> None:
        """So many of at least so many bytes are to come."""
        left = self._size - self._place
        if count * size > left:
            raise Refused(f"it declares {count:,} {what} where {left:,} bytes are left")

    def _number(self, type: str) -> Any:
        dtype = np.dtype(type)
        return np.frombuffer(self._take(dtype.itemsize, "a number"), dtype)[0].item()

    def _text(self, what: str) -> str:
        data = self._take(struct.unpack("<Q", self._take(8, what))[0], what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"{what} is no UTF-8: {data[:40]!r}") from error

    # -- metadata --

    def _read_value(self) -> None:
        key = self._text("a key")
        if key in self.metadata:
            raise Refused(f"the key {key[:80]!r} stands there twice")
        type = self._number("<u4")
        what = f"the value of {key[:80]!r}"
        self.metadata[key] = self._array(what) if type == ARRAY else self._scalar(type, what)

    def _scalar(self, type: int, what: str) -> Any:
        if type == STRING:
            return self._text(what)
        if type not in NUMBERS:
            raise Refused(f"{what} is of the type {type}, which there is none of")
        number = self._number(NUMBERS[type])
        return bool(number) if type == BOOL else number

    def _array(self, what: str) -> list[str] | np.ndarray:
        type, count = self._number("<u4"), self._number("<u8")
        if type == STRING:
            self._expect(count, 8, f"texts in {what}")
            return [self._text(what) for _ in range(count)]
        if type not in NUMBERS:
            raise Refused(f"{what} is an array of the type {type}: of texts and numbers alone")
        dtype = np.dtype(NUMBERS[type])
        self._expect(count, dtype.itemsize, f"numbers in {what}")
        numbers = np.frombuffer(self._take(count * dtype.itemsize, what), dtype)
        return numbers != 0 if type == BOOL else numbers.astype(dtype.newbyteorder("="))

    # -- tensors --

    def _read_entry(self) -> Entry:
        name = self._text("a tensor's name")
        shown = f"the tensor {name[:80]!r}"
        rank = self._number("<u4")
        if rank > MAXIMAL_RANK:
            raise Refused(f"{shown} has {rank} axes: there are at most {MAXIMAL_RANK}")
        shape = tuple(reversed([self._number("<u8") for _ in range(rank)]))
        code, offset = self._number("<u4"), self._number("<u8")
        if code not in KINDS:
            raise Refused(
                f"{shown} is of the kind {OTHERS.get(code, code)}, which is not read: quantize the "
                f"model anew, as one of {', '.join(kind.name for kind in KINDS.values())}"
            )
        kind = KINDS[code]
        if 0 in shape:
            raise Refused(f"{shown} has no elements: its shape is {list(shape)}")
        if (shape[-1] if shape else 1) % kind.elements:
            raise Refused(
                f"{shown} of {kind.name} has rows of {shape[-1] if shape else 1} elements: they "
                f"come in blocks of {kind.elements}"
            )
        return Entry(name, kind, shape, offset)

    def _placed(self, declared: list[Entry]) -> dict[str, Entry]:
        """The tensors by name, at their places in the file, which are apart and within it."""
        alignment = self.metadata.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise Refused(f"its alignment is {str(alignment)[:40]}: that is to be a power of two")
        start = -(-self._place // alignment) * alignment
        entries, end, last = dict[str, Entry](), start, ""
        for entry in sorted(declared, key=lambda entry: entry.start):
            shown = f"the tensor {entry.name[:80]!r}"
            place = start + entry.start
            if entry.name in entries:
                raise Refused(f"{shown} stands there twice")
            if entry.start % alignment:
                raise Refused(f"{shown} is at {entry.start:,}, no multiple of {alignment:,}")
            if place < end:
                raise Refused(f"{shown} overlaps {last}")
            end, last = place + entry.nbytes, shown
            if end > self._size:
                raise Refused(f"{shown} ends at {end:,}, and the file at {self._size:,}")
            entries[entry.name] = Entry(entry.name, entry.kind, entry.shape, place)
        return {entry.name: entries[entry.name] for entry in declared}

    def blocks(self, entry: Entry) -> np.ndarray:
        """The bytes of a tensor, [blocks, bytes of one]."""
        data = np.empty((entry.nbytes // entry.kind.bytes, entry.kind.bytes), np.uint8)
        self._file.seek(entry.start)
        if self._file.readinto(data.data) != data.size:
            raise Refused(f"it ends within the tensor {entry.name[:80]!r}")
        return data
