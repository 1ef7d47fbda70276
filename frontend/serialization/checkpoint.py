"""Checkpoints: files that run no code when they are read.

in : tensors, numbers, strings, None, bools, in any nesting of dict, OrderedDict, list and tuple
out: one file, and from it the same objects

The format is a safetensors file (https://github.com/huggingface/safetensors) that any reader of
that format opens. Its tensors are named "0", "1", …. Its metadata holds "format": FORMAT, and
"structure": a JSON text in which each object is one of

    null, true, 1, 1.5, "text"            None, a bool, an int, a finite float, a string
    ["float", "inf"]                      a float that JSON has no number for ("-inf", "nan")
    ["list", [item, …]]                   also "tuple"
    ["dict", [[key, item], …]]            also "OrderedDict"; a key is one of the first two
    ["tensor", "0", false]                the tensor "0", and its requires_grad; also "parameter"

A tensor that stands in several places (the same memory, shape and strides) is stored once and loads
as one shared memory again. Views that only overlap are stored, and load, apart. Names of state-dict
entries, aliases and attributes of the containers are not kept. A file appears whole or not at all:
it is written beside its place and then renamed.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from frontend.nn.parameter import Parameter
from frontend.tensors.dtypes import Size
from frontend.tensors.tensor import Tensor, make
from graphc.errors import GraphError
from graphc.ir.types import DType, TensorType

FORMAT = "graphc.checkpoint.1"
# A safetensors file names element types as we do, in capitals: "F32", "I64", "BOOL".
_TYPES = {dtype.value.upper(): dtype for dtype in DType}
_DICTS: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict}
_LISTS: dict[str, Callable[..., Any]] = {"list": list, "tuple": tuple}


class CheckpointError(GraphError):
    """An object that cannot be saved, or a file that is no checkpoint. Names key or file."""


def written(obj: Any) -> bytes:
    """The bytes of a checkpoint of `obj`. Raises CheckpointError, naming the key, for an object the
    format does not hold."""
    writer = _Writer()
    structure = writer.node(obj, "")
    metadata = {"format": FORMAT, "structure": json.dumps(structure, allow_nan=False)}
    return safetensors.numpy.save(writer.arrays, metadata)


def read(data: bytes) -> Any:
    """The object in the bytes of a checkpoint. Raises ValueError and the like where they hold
    none; nothing is kept of what was read by then."""
    return _Reader(data).read()


def array_of(stored: dict[str, Any], name: str) -> np.ndarray:
    """An array of its own from what `safetensors.deserialize` gives."""
    if stored["dtype"] not in _TYPES:
        raise ValueError(f"tensor {name} has the dtype {stored['dtype']}")
    dtype = _TYPES[stored["dtype"]].numpy
    return np.frombuffer(bytearray(stored["data"]), dtype).reshape(stored["shape"])


# -- writing -------------------------------------------------------------------------------------


class _Writer:
    """Turns an object into its JSON structure, collecting its tensors."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[Any, str] = {}
        self._alive: list[Any] = []  # arrays whose addresses are keys
        self._open: set[int] = set()  # containers being written

    def node(self, obj: Any, path: str) -> Any:
        """The structure of `obj`, which stands at `path`."""
        if isinstance(obj, Tensor):
            kind = "parameter" if isinstance(obj, Parameter) else "tensor"
            return [kind, self._tensor(obj), obj.requires_grad]
        kind = "tuple" if type(obj) is Size else type(obj).__name__
        if type(obj) in (list, tuple, Size):
            return self._inside(obj, path, lambda: [
                kind, [self.node(item, f"{path}[{i}]") for i, item in enumerate(obj)]
            ])  # fmt: skip
        if type(obj) in (dict, OrderedDict):
            return self._inside(obj, path, lambda: [kind, [
                [_scalar(key, f"key {key!r} of {path or 'the object'}"),
                 self.node(item, f"{path}[{key!r}]")] for key, item in obj.items()
            ]])  # fmt: skip
        return _scalar(obj, path or "the object")

    def _inside(self, obj: Any, path: str, write: Callable[[], Any]) -> Any:
        if id(obj) in self._open:
            raise CheckpointError(f"save: {path or 'the object'} contains itself")
        self._open.add(id(obj))
        written = write()
        self._open.discard(id(obj))
        return written

    def _tensor(self, tensor: Tensor) -> str:
        array = tensor.detach().numpy()
        key = (
            (array.ctypes.data, array.shape, array.strides, array.dtype)
            if array.size
            else id(array)
        )
        if key not in self._names:
            self._names[key] = name = str(len(self._names))
            self._alive.append(array)
            self.arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        return self._names[key]


def _scalar(obj: Any, path: str) -> Any:
    if obj is None or type(obj) in (bool, int, str):
        return obj
    if type(obj) is float:
        return obj if math.isfinite(obj) else ["float", repr(obj)]
    raise CheckpointError(
        f"save: {path} is a {type(obj).__module__}.{type(obj).__qualname__}, which a checkpoint "
        "does not hold",
        hint="tensors, numbers, strings, None, and dicts, lists and tuples of them",
    )


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside `path`, then put the file in its place."""
    handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


# -- reading -------------------------------------------------------------------------------------


class _Reader:
    """Turns the bytes of a file into the object."""

    def __init__(self, data: bytes):
        self.stored = dict(safetensors.deserialize(data))
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
        if metadata.get("format") != FORMAT:
            name = metadata.get("format")
            raise ValueError(f"its format is {name!r}, not {FORMAT!r}")
        self.structure = json.loads(metadata["structure"])
        self._made: dict[Any, Tensor] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def read(self) -> Any:
        return self.object(self.structure)

    def object(self, node: Any) -> Any:
        """The object a structure stands for."""
        if not isinstance(node, list):
            return node if not isinstance(node, dict) else _unknown(node)
        match node:
            case [("dict" | "OrderedDict") as kind, [*items]]:
                return _DICTS[kind]((_key(key), self.object(item)) for key, item in items)
            case [("list" | "tuple") as kind, [*items]]:
                return _LISTS[kind](self.object(item) for item in items)
            case ["float", ("inf" | "-inf" | "nan") as text]:
                return float(text)
            case [("tensor" | "parameter") as kind, str(name), bool(requires_grad)]:
                return self._tensor(kind, name, requires_grad)
        return _unknown(node)

    def _tensor(self, kind: str, name: str, requires_grad: bool) -> Tensor:
        key = (kind, name, requires_grad)
        if key not in self._made:
            array = self._array(name)
            tensor = make(array, TensorType.of(array))
            if kind == "parameter":
                tensor = Parameter(tensor, requires_grad)
            elif requires_grad:
                tensor.requires_grad_()
            self._made[key] = tensor
        return self._made[key]

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = array_of(self.stored[name], name)
        return self._arrays[name]


def _key(node: Any) -> Any:
    if isinstance(node, list) and node[:1] == ["float"]:
        return float(node[1])
    return node if not isinstance(node, list | dict) else _unknown(node)


def _unknown(node: Any) -> Any:
    raise ValueError(f"its structure holds the unknown item {str(node)[:80]}")
