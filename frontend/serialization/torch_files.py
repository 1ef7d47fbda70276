"""Reading the files PyTorch's `save` writes, as far as they hold plain data.

in : such a file: a zip of `NAME/data.pkl`, a pickle, and `NAME/data/KEY`, raw storages; or, from
     before PyTorch 1.6 (and on request since), pickles and storages one after the other
out: tensors, numbers, texts, NumPy arrays, and containers of them

Nothing of a file is run: pickle_machine.py has the opcodes, torch_names.py the names a file may
use, storages.py what makes a tensor, structure.py the bounds.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from frontend.serialization.budget import Budget, without_bounds
from frontend.serialization.errors import Refused
from frontend.serialization.pickle_machine import Call, PickleMachine
from frontend.serialization.storages import ElementType, Storages
from frontend.serialization.structure import checked
from frontend.serialization.torch_names import TABLE, Table, set_state
from frontend.serialization.zip_archive import ByteSource, ZipArchive

ZIP = b"PK\x03\x04"
"""What a zip file begins with."""

_NUMBER = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # its pickle begins a file of the older format
_LEGACY_VERSION = 1001


def read(source: ByteSource, mapped: bool = False, trusted: bool = False) -> Any:
    """The object in a zip file of PyTorch's. `mapped` leaves storages on disk until they are
    touched, and does not compare their checksums. Raises Refused, or ValueError and the like where
    it is damaged."""
    budget = without_bounds() if trusted else Budget(source.size, 0)
    archive = ZipArchive(source, budget)
    pickles = [name for name in archive.members if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ValueError("it is a zip file without one data.pkl: not PyTorch's format")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in archive.members:
        raise Refused("it holds a TorchScript program; save its state_dict() instead")
    _check_byte_order(archive, f"{folder}byteorder")
    memory = memoryview(source.mapped()) if mapped else None

    def load(key: str) -> Any:
        name = f"{folder}data/{key}"
        if memory is None:
            return bytearray(archive.read(name))
        member = archive.member(name)
        part = memory[member.start : member.start + member.size]
        # Native code takes elements at multiples of their size, which are 8 bytes at most.
        return part if member.start % 8 == 0 else bytearray(part)

    budget.program(archive.member(pickles[0]).size)
    machine = PickleMachine(TABLE, Storages(load, budget).named, set_state, budget)
    return checked(machine.run(io.BytesIO(archive.read(pickles[0]))), budget)


def _check_byte_order(archive: ZipArchive, name: str) -> None:
    if name in archive.members and (order := archive.read(name)) != b"little":
        raise ValueError(f"its byte order is {order[:20]!r}")


def is_legacy(start: bytes) -> bool:
    """Whether a file that begins like this is of PyTorch's older format, in any protocol."""
    return start.startswith(b"\x80") and _NUMBER in start[:32]


def read_legacy(data: bytes, trusted: bool = False) -> Any:
    """The object in a file of PyTorch's older format: pickles of a number, the version, facts of
    the machine, the object and the list of storages' keys, then the storages.

    The object's tensors need the storages, which lie behind its pickle. So it is run twice: first
    to see where it ends and how large the elements are.
    """
    stream = io.BytesIO(data)
    budget = without_bounds() if trusted else Budget(len(data), len(data))
    _, version, facts = (_plain_machine(budget).run(stream) for _ in range(3))
    if version != _LEGACY_VERSION or type(facts) is not dict:
        raise ValueError("it is of another version of PyTorch's older format")
    if facts.get("little_endian") is not True:
        raise ValueError("its byte order is not little-endian")
    start = stream.tell()
    itemsizes: dict[str, int] = {}
    PickleMachine(_WITHOUT_TENSORS, _noting(itemsizes), set_state, budget).run(stream)
    keys = _plain_machine(budget).run(stream)
    if type(keys) is not list or any(type(key) is not str for key in keys):
        raise Refused("its list of storages is damaged")
    buffers = {key: _storage(stream, itemsizes.get(key, 1)) for key in keys}
    if len(buffers) != len(keys):
        raise Refused("it has two storages of one name")
    stream.seek(start)
    machine = PickleMachine(TABLE, Storages(buffers.__getitem__, budget).named, set_state, budget)
    return checked(machine.run(stream), budget)


def _plain_machine(budget: Budget) -> PickleMachine:
    """A machine that knows no names."""
    nothing: dict[str, Any] = {}
    return PickleMachine(nothing, Storages(nothing.__getitem__, budget).named, set_state, budget)


_WITHOUT_TENSORS = Table(
    TABLE | {name: Call(name, lambda *_: None) for name in TABLE if "._rebuild_" in name}
)


def _noting(itemsizes: dict[str, int]) -> Callable[[Any], None]:
    """Persistent ids as such, and how large the elements of the storages are."""

    def note(identity: Any) -> None:
        match identity:
            case ("storage", ElementType(dtype=dtype), str(key), *_):
                itemsizes[key] = 1 if dtype is None else dtype.itemsize

    return note


def _storage(stream: io.BytesIO, itemsize: int) -> bytearray:
    """The storage where `stream` stands: how many elements, and their bytes."""
    count = int.from_bytes(stream.read(8), "little")
    data = bytearray(stream.read(min(count * itemsize, stream.getbuffer().nbytes)))
    if len(data) != count * itemsize:
        raise ValueError("it is cut short")
    return data
