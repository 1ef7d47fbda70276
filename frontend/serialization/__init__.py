"""`save` and `load`. Reading runs no code, unless `weights_only=False` says that it may.

| file | written by | read |
|---|---|---|
| checkpoint | `save` of tensors, numbers, texts, None, and dicts, lists, tuples of them | always |
| whole module | `save` of a Module | with `weights_only=False`: unpickling runs code |
| PyTorch's zip | `torch.save` of the same things | always, by a table of allowed names |

safetensors files of named tensors are read and written by `frontend.safetensors`.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import safetensors

from frontend.serialization import checkpoint
from frontend.serialization.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from frontend.serialization.checkpoint import FORMAT, CheckpointError, write_atomically
from frontend.tensors.dtypes import device

__all__ = [
    "FORMAT", "PICKLED", "CheckpointError", "add_safe_globals", "clear_safe_globals",
    "get_safe_globals", "load", "safe_globals", "save",
]  # fmt: skip

PICKLED = b"graphc.pickled module.1\n"
"""What a file begins with that holds a pickled module."""

_DAMAGED = (
    safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError, AttributeError,
    IndexError, EOFError, OverflowError, MemoryError, NotImplementedError, RuntimeError,
    pickle.UnpicklingError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = 4) -> None:
    """Write `obj` to `f`, a path or a file open for writing bytes. A path is replaced only when all
    is written.

    A Module is pickled whole (its class is imported when it is loaded); `state_dict()` is the safer
    thing to save. Raises CheckpointError, naming the key, for other objects that a checkpoint does
    not hold; then nothing is written.
    """
    from frontend.nn.modules.module import Module

    if isinstance(obj, Module):
        data = PICKLED + pickle.dumps(obj, protocol=pickle_protocol)
    else:
        data = checkpoint.written(obj)
    if hasattr(f, "write"):
        f.write(data)
    else:
        write_atomically(Path(f), data)


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *,
    weights_only: bool | None = True, mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """What `save` wrote to `f`, or PyTorch's `save`: a path or a file open for reading bytes.

    `map_location` can only name the CPU (a device, a text, a dict of them, or a function, which is
    not called). `weights_only=False` reads whole modules too, and so runs code of the file: only
    for files you trust. Raises CheckpointError, naming the file, where it is truncated, damaged,
    names anything but tensors, or is none of ours; OSError where it cannot be read.
    """
    _check_location(map_location)
    name = str(getattr(f, "name", f)) if hasattr(f, "read") else os.fspath(f)
    data = f.read() if hasattr(f, "read") else Path(f).read_bytes()
    if data.startswith(PICKLED):
        return _unpickled(data, name, weights_only)
    try:
        if data[:4] == b"PK\x03\x04":
            from frontend.serialization import torch_files

            return torch_files.read(data)
        return checkpoint.read(data)
    except _DAMAGED as error:
        raise CheckpointError(
            f"{name} is not a checkpoint of frontend.save or of PyTorch's save with plain tensors, "
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


def _unpickled(data: bytes, name: str, weights_only: bool | None) -> Any:
    if weights_only is not False:
        raise CheckpointError(
            f"{name} holds a whole pickled module: loading it would run code",
            hint="load(..., weights_only=False) if you trust the file; better, save state_dict()",
        )
    return pickle.load(io.BytesIO(data[len(PICKLED) :]))
