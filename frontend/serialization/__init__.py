"""`save` and `load`. Reading runs no code, unless `weights_only=False` says that it may.

| file | written by | read |
|---|---|---|
| PyTorch's zip | `save`, and PyTorch's: tensors, plain data | always, by a table of names |
| PyTorch's older one | PyTorch's `save` before 1.6, or when asked to | the same way |
| pickle | `save` of Modules and other objects | what is allowed, or `weights_only=False` |
| checkpoint | `save` of earlier versions | always |

safetensors files of named tensors are read and written by `frontend.safetensors`.

torch_files reads PyTorch's files by pickle_machine, which asks torch_names, numpy_names and, for
whole_modules, classes; storages checks geometries, sparse_tensors rebuilds those, zip_archive has
the members. budget and structure bound what a file may cost and build, errors is what is raised.
torch_writer and pickle_writer write. safetensors_file is such a file, open.
"""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import Any

import safetensors

from frontend.engine.tensors.dtypes import device
from frontend.serialization import checkpoint, torch_files, whole_modules
from frontend.serialization.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from frontend.serialization.checkpoint import FORMAT
from frontend.serialization.errors import CheckpointError, NotPlainError
from frontend.serialization.files import write_atomically
from frontend.serialization.torch_writer import PlannedFile
from frontend.serialization.whole_modules import PICKLED
from frontend.serialization.zip_archive import ByteSource
from graphc.system import IMPORTING

__all__ = [
    "FORMAT", "PICKLED", "CheckpointError", "SourceChangeWarning", "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals", "load", "safe_globals", "save",
]  # fmt: skip

DEFAULT_PROTOCOL = 2
"""Of pickles, where PyTorch's `save` is not told another; the files here need none."""
FILE_LIKE = Any
MAP_LOCATION = Any


class SourceChangeWarning(Warning):
    """Never given: files keep no source."""


_DAMAGED = (
    safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError, AttributeError,
    IndexError, EOFError, OverflowError, MemoryError, NotImplementedError, RuntimeError,
    struct.error,
)  # fmt: skip


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 4,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Write `obj` to `f`, a path or a file open for writing bytes, in the format of PyTorch's
    `save`. A path is replaced only when all is written.

    A Module, and what holds one or another object that is no plain data, is pickled whole (its
    classes are imported when it is loaded); `state_dict()` is the safer thing to save. Raises
    CheckpointError, naming the key, for objects that pickle does not take; then nothing is written.
    """
    with IMPORTING:
        from frontend.nn.modules.module import Module

    if not _use_new_zipfile_serialization:
        raise CheckpointError("save: PyTorch's older format is read, but not written")
    if isinstance(obj, Module):
        whole = whole_modules.written(obj, pickle_protocol)
        _put(f, lambda file: file.write(whole))
        return
    try:
        plan = PlannedFile(obj)
    except NotPlainError as strange:
        whole = whole_modules.written(obj, pickle_protocol, strange)
        _put(f, lambda file: file.write(whole))
    else:
        _put(f, plan.write)


def _put(f: Any, write: Any) -> None:
    if not hasattr(f, "write"):
        write_atomically(Path(f), write)
        return
    buffer = io.BytesIO()
    write(buffer)
    f.write(buffer.getvalue())


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool | None = True, mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """What `save` wrote to `f`, or PyTorch's `save`: a path or a file open for reading bytes.

    `map_location` can only name the CPU (a device, a text, a dict of them, or a function, which is
    not called). `mmap=True`, for a path, leaves the elements on disk until they are touched; what
    is written to them stays in memory. A pickled object is read where its classes are allowed
    (`safe_globals`). `weights_only=False` reads any, and so runs code of the file, and does not
    bound the memory and time that other files take: only for files you trust. Raises
    CheckpointError, naming the file, where it is truncated, damaged, names anything but plain data,
    takes more than is in proportion to its size, or is none of ours; OSError where it cannot be
    read.
    """
    _check_location(map_location)
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("load: mmap=True takes the path of a file, not an open one")
        return _load(ByteSource(f.read()), str(getattr(f, "name", f)), weights_only, False)
    with open(f, "rb") as file:
        return _load(ByteSource(file=file), os.fspath(f), weights_only, bool(mmap))


def _load(source: ByteSource, name: str, weights_only: bool | None, mmap: bool) -> Any:
    start = source.read(0, min(source.size, 64))
    trusted = weights_only is False
    try:
        if start.startswith(PICKLED):
            return whole_modules.read(source.read(0, source.size), name, weights_only)
        if start.startswith(torch_files.ZIP):
            return torch_files.read(source, mmap, trusted)
        if mmap:
            raise RuntimeError("mmap=True reads PyTorch's zip format only")
        data = source.read(0, source.size)
        if torch_files.is_legacy(start):
            return torch_files.read_legacy(data, trusted)
        return checkpoint.read(data, trusted)
    except CheckpointError:
        raise
    except _DAMAGED as error:
        raise CheckpointError(
            f"{name} is not a checkpoint of frontend.save or of PyTorch's save with plain data, "
            f"or is damaged: {error}",
            hint="write it again with frontend.save, or save a state_dict() in PyTorch",
        ) from error


def _check_location(place: Any) -> None:
    places = place.values() if isinstance(place, dict) else [place]
    for where in places:
        if where is None or callable(where):
            continue
        if str(where) != "cpu" and where != device("cpu"):
            raise CheckpointError(f"load: map_location {place!r}: tensors live on the CPU")
