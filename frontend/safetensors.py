"""safetensors files (https://github.com/huggingface/safetensors): named tensors, both ways.

The names and signatures are those of `safetensors.torch`, which this is while `install_as("torch")`
holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from frontend.engine.tensors.tensor import Tensor, make
from frontend.serialization.checkpoint import array_of
from frontend.serialization.errors import CheckpointError
from frontend.serialization.files import write_atomically
from frontend.serialization.safetensors_file import safe_open as safe_open
from graphc.ir.types import TensorType


def save(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors. Raises CheckpointError for other values,
    and for two names of one memory, which the format cannot express."""
    arrays: dict[str, np.ndarray] = {}
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(
                f"safetensors: {name!r} is a {type(tensor).__name__}, not a Tensor"
            )
        array = tensor.detach()._array("safetensors.save()")
        other = owners.setdefault(array.ctypes.data, name) if array.size else name
        if other != name:
            raise CheckpointError(
                f"safetensors: {name!r} and {other!r} share memory",
                hint="leave one out, clone() it, or use save_model",
            )
        arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
    return safetensors.numpy.save(arrays, metadata)


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: dict[str, str] | None = None
) -> None:
    """`save` to a file, which is replaced only when all is written."""
    data = save(tensors, metadata)
    write_atomically(Path(filename), lambda file: file.write(data))


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file, in the order of their bytes. Raises
    CheckpointError."""
    try:
        arrays = {name: array_of(stored, name) for name, stored in safetensors.deserialize(data)}
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"not a safetensors file, or damaged: {error}") from error
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    names = sorted(arrays, key=lambda name: header[name]["data_offsets"])
    return {name: make(arrays[name], TensorType.of(arrays[name])) for name in names}


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors in a safetensors file. Raises CheckpointError, OSError."""
    if str(device) != "cpu":
        raise CheckpointError(f"load_file: device {device!r}: tensors live on the CPU")
    return load(Path(filename).read_bytes())


def save_model(model: Any, filename: Any, metadata: dict[str, str] | None = None) -> None:
    """The state dict of a module; shared tensors are stored under their first name."""
    kept: dict[str, Tensor] = {}
    owners: dict[int, str] = {}
    notes = dict(metadata or {})
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(f"save_model: {name!r} is extra state, not a Tensor")
        address = tensor._array("save_model()").ctypes.data
        other = owners.setdefault(address, name) if tensor.numel() else name
        if other == name:
            kept[name] = tensor
        else:
            notes[name] = other
    save_file(kept, filename, notes or None)


def load_model(
    model: Any, filename: Any, strict: bool = True, device: Any = "cpu"
) -> tuple[set[str], list[str]]:
    """Copy a file's tensors into a module; (missing names, unexpected names). Names that share a
    tensor which is there count as present. Raises RuntimeError with `strict` where names differ."""
    state = load_file(filename, device)
    targets = model.state_dict()
    known = [targets[name] for name in state if name in targets]
    present = {tensor._array("load_model()").ctypes.data for tensor in known}
    result = model.load_state_dict(state, strict=False)
    missing = {
        name
        for name in result.missing_keys
        if targets[name]._array("load_model()").ctypes.data not in present
    }
    if strict and (missing or result.unexpected_keys):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__}: missing keys "
            f"{sorted(missing)}, unexpected keys {sorted(result.unexpected_keys)}"
        )
    return missing, list(result.unexpected_keys)


def storage_ptr(tensor: Tensor) -> int:
    """The address of the memory a tensor was cut from."""
    return int(_whole(tensor).ctypes.data) if tensor.numel() else 0


def storage_size(tensor: Tensor) -> int:
    """How many bytes that memory has."""
    return int(_whole(tensor).nbytes)


def _whole(tensor: Tensor) -> np.ndarray:
    array = tensor._array("storage_ptr()")
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
