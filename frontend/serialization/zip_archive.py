"""The members of a zip file, as PyTorch writes it: stored as they are, none inside another.

in : a file, read at positions
out: the bytes of members

Python's `zipfile` unpacks whatever a file declares. A file of a megabyte may so declare a thousand
members that are all the same megabyte, or one that unpacks to a terabyte. Here a member is a range
of the file that no other member shares, so that all of them together are no larger than the file.
The format is that of PKWARE's APPNOTE.TXT, sections 4.3 (records) and 4.5.3 (zip64).
"""

from __future__ import annotations

import mmap
import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from frontend.serialization.budget import Budget
from frontend.serialization.errors import Refused

_END = struct.Struct("<4s4H2IH")
_LOCATOR = struct.Struct("<4sIQI")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
_LARGEST_COMMENT = 0xFFFF
_STEPS_OF_MEMBER, _BYTES_OF_MEMBER = 16, 400
_IN_EXTRA = 0xFFFFFFFF  # the number stands in the zip64 field


class ByteSource:
    """Bytes that are read at positions: of a file on disk, or of memory."""

    def __init__(self, data: bytes | None = None, file: Any = None):
        self._view = None if data is None else memoryview(data)
        self._file = file
        self._turn = threading.Lock()  # a place is sought and read from by one thread at a time
        self.size = len(data) if data is not None else file.seek(0, 2)

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start` on. Raises ValueError beyond the end."""
        if start < 0 or count < 0 or start + count > self.size:
            raise ValueError(f"it is cut short: {count} bytes at {start} of {self.size}")
        if self._view is not None:
            return bytes(self._view[start : start + count])
        with self._turn:
            self._file.seek(start)
            data: bytes = self._file.read(count)
        if len(data) != count:
            raise ValueError("it became shorter while it was read")
        return data

    def mapped(self) -> mmap.mmap:
        """The file in memory, read when touched; what is written there stays there."""
        return mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)


@dataclass(frozen=True, slots=True)
class Member:
    """A range of bytes in the file, and the checksum they should have."""

    name: str
    start: int
    size: int
    checksum: int


class ZipArchive:
    """The members by name. Raises ValueError where the file is no such zip file."""

    def __init__(self, source: ByteSource, budget: Budget):
        self.source = source
        self.members: dict[str, Member] = {}
        for member in _members(source, budget):
            if member.name in self.members:
                raise Refused(f"it has two members named {member.name[:80]}")
            self.members[member.name] = member
        end = 0
        for member in sorted(self.members.values(), key=lambda member: member.start):
            if member.start < end:
                raise Refused(f"its member {member.name[:80]} lies inside another one")
            end = member.start + member.size

    def member(self, name: str) -> Member:
        if name not in self.members:
            raise ValueError(f"it has no item named {name[:80]!r}")
        return self.members[name]

    def read(self, name: str) -> bytes:
        """The bytes of a member, compared with their checksum."""
        member = self.member(name)
        data = self.source.read(member.start, member.size)
        if zlib.crc32(data) != member.checksum:
            raise ValueError(f"its member {name[:80]} is damaged")
        return data


def _members(source: ByteSource, budget: Budget) -> list[Member]:
    start, size, count = _directory(source)
    data = source.read(start, size)
    members, position = [], 0
    for _ in range(count):
        budget.spend(_STEPS_OF_MEMBER, _BYTES_OF_MEMBER)
        fields = _ENTRY.unpack_from(data, position)
        signature, flags, method = fields[0], fields[3], fields[4]
        checksum, packed, whole = fields[7:10]
        name_size, extra_size, comment_size = fields[10:13]
        position += _ENTRY.size
        name = data[position : position + name_size].decode("utf-8")
        position += name_size
        numbers = _zip64(data[position : position + extra_size], whole, packed, fields[16])
        whole, packed, local = numbers
        position += extra_size + comment_size
        if signature != b"PK\x01\x02" or position > size:
            raise ValueError("its list of members is damaged")
        if method or flags & 1 or whole != packed:
            raise Refused(f"its member {name[:80]} is compressed or encrypted")
        members.append(Member(name, _start(source, local), whole, checksum))
        source.read(members[-1].start + whole, 0)  # it ends within the file
    return members


def _directory(source: ByteSource) -> tuple[int, int, int]:
    """Where the list of members starts, its bytes and how many members it has."""
    tail_start = max(0, source.size - _END.size - _LARGEST_COMMENT)
    tail = source.read(tail_start, source.size - tail_start)
    at = tail.rfind(b"PK\x05\x06", 0, len(tail) - _END.size + 4)
    if at < 0:
        raise ValueError("it has no end of a zip file: it is cut short, or none")
    *_, count, size, start, _ = _END.unpack_from(tail, at)
    locator = tail_start + at - _LOCATOR.size
    if locator >= 0 and source.read(locator, 4) == b"PK\x06\x07":
        _, _, position, _ = _LOCATOR.unpack(source.read(locator, _LOCATOR.size))
        fields = _END_64.unpack(source.read(position, _END_64.size))
        if fields[0] != b"PK\x06\x06":
            raise ValueError("its end is damaged")
        count, size, start = fields[7:10]
    return start, size, count


def _zip64(extra: bytes, *numbers: int) -> list[int]:
    """Numbers of an entry, those that do not fit 32 bits from its zip64 field."""
    wide: list[int] = []
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<2H", extra)
        if kind == 1:
            wide = [value for (value,) in struct.iter_unpack("<Q", extra[4 : 4 + size // 8 * 8])]
            break
        extra = extra[4 + size :]
    following: Callable[[], int] = iter(wide).__next__
    try:
        return [following() if number == _IN_EXTRA else number for number in numbers]
    except StopIteration:
        raise ValueError("its list of members is damaged") from None


def _start(source: ByteSource, local: int) -> int:
    """Where the bytes of the member start whose own header stands at `local`."""
    fields = _LOCAL.unpack(source.read(local, _LOCAL.size))
    if fields[0] != b"PK\x03\x04":
        raise ValueError("a member of it is damaged")
    return local + _LOCAL.size + int(fields[9]) + int(fields[10])
