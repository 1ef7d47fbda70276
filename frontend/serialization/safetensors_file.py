"""A safetensors file that is open: its tensors are read one by one.

in : a path
out: names, metadata, Tensors, and parts of them, by the names of `safetensors.safe_open`
"""

from __future__ import annotations

import json
import os
from typing import Any

import safetensors

from frontend.engine.tensors.tensor import Tensor, make
from frontend.serialization.checkpoint import array_of
from frontend.serialization.errors import CheckpointError
from frontend.serialization.zip_archive import ByteSource
from graphc.ir.types import TensorType


class safe_open:
    """`with safe_open(filename, framework="pt") as file:` reads Tensors. Raises CheckpointError for
    a file that is damaged, OSError for one that cannot be read."""

    def __init__(self, filename: Any, framework: str = "pt", device: Any = "cpu", **options: Any):
        if str(device) != "cpu":
            raise CheckpointError(f"safe_open: device {device!r}: tensors live on the CPU")
        name = os.fspath(filename)
        self._file = open(name, "rb")  # noqa: SIM115 (closed by __exit__, or with this object)
        try:
            safetensors.safe_open(name, "np")  # checks the header
            source = ByteSource(file=self._file)
            size = int.from_bytes(source.read(0, 8), "little")
            header = json.loads(source.read(8, size))
        except (safetensors.SafetensorError, ValueError) as error:
            self._file.close()
            raise CheckpointError(f"{name} is no safetensors file, or damaged: {error}") from error
        self._metadata = header.pop("__metadata__", None)
        self._entries: dict[str, dict[str, Any]] = header
        self._source, self._start = source, 8 + size

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()

    def metadata(self) -> dict[str, str] | None:
        return self._metadata

    def keys(self) -> list[str]:
        return sorted(self._entries)

    def offset_keys(self) -> list[str]:
        """The names in the order of their bytes."""
        return sorted(self._entries, key=lambda name: self._entries[name]["data_offsets"])

    def get_tensor(self, name: str) -> Tensor:
        """Raises CheckpointError for a name that is not there, or an unsupported dtype."""
        entry = self._entry(name)
        start, end = entry["data_offsets"]
        data = self._source.read(self._start + start, end - start)
        try:
            array = array_of({**entry, "data": data}, name)
        except ValueError as error:
            raise CheckpointError(f"safe_open: {error}") from error
        return make(array, TensorType.of(array))

    def get_slice(self, name: str) -> SafeSlice:
        return SafeSlice(self, name, self._entry(name))

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self._entries:
            raise CheckpointError(f"safe_open: the file has no tensor {name!r}")
        return self._entries[name]


class SafeSlice:
    """A tensor of an open file: read when parts of it are asked for."""

    def __init__(self, file: safe_open, name: str, entry: dict[str, Any]):
        self._file = file
        self._name = name
        self._entry = entry

    def get_shape(self) -> list[int]:
        return list(self._entry["shape"])

    def get_dtype(self) -> str:
        return str(self._entry["dtype"])

    def __getitem__(self, index: Any) -> Tensor:
        whole = self._file.get_tensor(self._name)
        return whole if index is ... else whole[index]
