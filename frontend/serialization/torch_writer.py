"""Writing PyTorch's zip format, which `torch.load(weights_only=True)` reads.

in : tensors and plain data
out: a zip file: `archive/data.pkl`, a pickle, `archive/data/KEY`, raw storages, and small facts

Tensors over overlapping memory are views of one storage and stay shared. A storage is what its
tensors reach, not all the memory they were cut from; a tensor alone over memory with gaps is stored
without them. Storages begin at multiples of 64 bytes, so that they can be used where they lie.
"""

from __future__ import annotations

import itertools
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from frontend.engine.tensors.dtypes import TORCH_NAMES, strided
from frontend.engine.tensors.tensor import Tensor, added_attributes
from frontend.nn.parameter import Parameter
from frontend.serialization.errors import CheckpointError
from frontend.serialization.pickle_writer import ORDERED, Called, Named, Persistent, pickled
from frontend.serialization.sparse_tensors import written
from graphc.ir.types import DType

ALIGNMENT = 64
_FOLDER = "archive"
_STORAGE_NAMES = {
    DType.f32: "FloatStorage", DType.f64: "DoubleStorage", DType.f16: "HalfStorage",
    DType.bf16: "BFloat16Storage", DType.i64: "LongStorage", DType.i32: "IntStorage",
    DType.i16: "ShortStorage", DType.i8: "CharStorage", DType.u8: "ByteStorage",
    DType.bool: "BoolStorage", DType.c64: "ComplexFloatStorage", DType.c128: "ComplexDoubleStorage",
}  # fmt: skip
_NO_HOOKS = Called(ORDERED, ())


class PlannedFile:
    """What `write` is going to write: all errors of the object come up before it."""

    def __init__(self, obj: Any):
        reached: list[np.ndarray] = []
        pickled(obj, lambda tensor: self._note(tensor, reached))
        self._placed = _placed(reached)
        self._data = pickled(obj, self._call)

    def write(self, file: BinaryIO) -> None:
        """Write the zip file to a seekable file."""
        storages = {place.key: place.storage for place in self._placed.values()}
        with zipfile.ZipFile(file, "w") as archive:
            _add(archive, "data.pkl", self._data)
            _add(archive, ".format_version", b"1")
            _add(archive, ".storage_alignment", str(ALIGNMENT).encode())
            _add(archive, "byteorder", b"little")
            for key, storage in storages.items():
                _add(archive, f"data/{key}", storage.view(np.uint8).data)
            _add(archive, "version", b"3\n")

    @staticmethod
    def _note(tensor: Tensor, reached: list[np.ndarray]) -> Called:
        if tensor.layout is not strided:
            return written(tensor)
        if not tensor.is_meta:
            reached.append(tensor._array("frontend.save()"))
        attributes = added_attributes(tensor)
        return Called(ORDERED, (), attributes or None)

    def _call(self, tensor: Tensor) -> Called:
        """The call that makes a tensor again."""
        if tensor.layout is not strided:
            return written(tensor)
        attributes = added_attributes(tensor)
        if isinstance(tensor, Parameter):
            bare = Called(*self._rebuilt(tensor, False))
            about = (bare, tensor.requires_grad, _NO_HOOKS)
            if attributes:
                return Called(_rebuild("parameter_with_state"), (*about, attributes))
            return Called(_rebuild("parameter"), about)
        rebuild, whole = self._rebuilt(tensor, tensor.requires_grad)
        if not attributes:
            return Called(rebuild, whole)
        function = Named("torch._tensor", "_rebuild_from_type_v2")
        return Called(function, (rebuild, Named("torch", "Tensor"), whole, attributes))

    def _rebuilt(self, tensor: Tensor, requires_grad: bool) -> tuple[Named, tuple[Any, ...]]:
        """PyTorch's function that makes a tensor over its storage, and its arguments."""
        dtype = Named("torch", TORCH_NAMES[tensor.dtype].removeprefix("torch."))
        if tensor.is_meta:
            geometry = (tuple(tensor.shape), tensor.stride())
            return _rebuild("meta_tensor_no_storage"), (dtype, *geometry, requires_grad)
        place = self._placed[id(tensor._array("frontend.save()"))]
        name, count = _STORAGE_NAMES.get(tensor.dtype), place.storage.size
        if name is None:  # a storage of bytes, and the element type beside it
            kind, count = Named("torch.storage", "UntypedStorage"), place.storage.nbytes
        else:
            kind = Named("torch", name)
        storage = Persistent(("storage", kind, place.key, "cpu", count))
        lies = (place.offset, tuple(tensor.shape), place.strides)
        whole = (storage, *lies, requires_grad, _NO_HOOKS)
        if name is None:
            return _rebuild("tensor_v3"), (*whole, dtype)
        return _rebuild("tensor_v2"), whole


def _rebuild(what: str) -> Named:
    return Named("torch._utils", f"_rebuild_{what}")


# -- which tensor lies where -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array lies: in the storage `key`, whose elements are `storage`."""

    key: str
    storage: np.ndarray
    offset: int
    strides: tuple[int, ...]


def _placed(arrays: list[np.ndarray]) -> dict[int, Place]:
    """The place of each array, by its id."""
    places: dict[int, Place] = {}
    keys = map(str, itertools.count())
    plain = {id(array): array for array in arrays if array.size and _is_strided(array)}
    for array in arrays:
        if id(array) not in plain and id(array) not in places:
            places[id(array)] = _alone(next(keys), array)
    for group in _overlapping(list(plain.values())):
        if len(group) == 1 and _end(group[0]) - _start(group[0]) > group[0].nbytes:
            places[id(group[0])] = _alone(next(keys), group[0])
        else:
            places |= _together(next(keys), group)
    return places


def _is_strided(array: np.ndarray) -> bool:
    """Whether PyTorch has such strides."""
    return all(step >= 0 and step % array.itemsize == 0 for step in array.strides)


def _start(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _end(array: np.ndarray) -> int:
    last = sum((n - 1) * step for n, step in zip(array.shape, array.strides))
    return _start(array) + last + array.itemsize


def _overlapping(arrays: list[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Groups of arrays whose ranges of addresses overlap, each sorted by address."""
    group: list[np.ndarray] = []
    end = 0
    for array in sorted(arrays, key=_start):
        if group and _start(array) >= end:
            yield group
            group = []
        group.append(array)
        end = max(end, _end(array)) if len(group) > 1 else _end(array)
    if group:
        yield group


def _alone(key: str, array: np.ndarray) -> Place:
    """A storage of one array, without gaps."""
    whole = np.ascontiguousarray(array).reshape(array.shape)
    steps = tuple(step // array.itemsize for step in whole.strides)
    return Place(key, whole.reshape(-1), 0, steps if array.size else _row_major(array.shape))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * max(size, 1))
    return tuple(reversed(steps))[: len(shape)] if shape else ()


def _together(key: str, group: list[np.ndarray]) -> dict[int, Place]:
    """A storage of all that a group reaches."""
    first = group[0]
    size = max(map(_end, group)) - _start(first)
    offsets = [_start(array) - _start(first) for array in group]
    mixed = any(array.dtype != first.dtype for array in group)
    if mixed or any(offset % first.itemsize for offset in offsets):
        raise CheckpointError(
            "save: two tensors show the same memory as different element types",
            hint="clone() one of them",
        )
    # All ranges overlap, so they lie in one piece of memory, which begins where the first does.
    count = size // first.itemsize
    # By way of bytes: as_strided does not know all dtypes of ml_dtypes.
    raw = first.view(np.uint8) if first.itemsize == 1 else first
    storage = np.lib.stride_tricks.as_strided(raw, (count,), (first.itemsize,), writeable=False)
    storage = storage.view(first.dtype)
    return {
        id(array): Place(
            key, storage, offset // first.itemsize,
            tuple(step // first.itemsize for step in array.strides),
        )
        for array, offset in zip(group, offsets)
    }  # fmt: skip


# -- the zip file ----------------------------------------------------------------------------------


def _add(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Add a member whose bytes begin at a multiple of ALIGNMENT."""
    info = zipfile.ZipInfo(f"{_FOLDER}/{name}")
    start = archive.start_dir + 30 + len(info.filename.encode()) + 4
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<2s", b"FB") + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(info, data)
