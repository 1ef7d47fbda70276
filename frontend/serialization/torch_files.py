"""Reading the zip files PyTorch's `save` writes, as far as they hold plain tensors.

in : the bytes of such a file: a zip of `NAME/data.pkl`, a pickle, and `NAME/data/KEY`, raw storages
out: tensors, numbers, strings, None, and dicts, lists and tuples of them

Unpickling normally calls whatever a file names. Here a name is looked up in a fixed table, whose
entries make inert placeholders; anything else is an error before it is called. What was built is
then walked and made anew from the placeholders, so that no object the pickle touched comes out.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

from frontend.nn.parameter import Parameter
from frontend.tensors.dtypes import Size
from frontend.tensors.tensor import Tensor, make
from graphc.ir.types import DType, TensorType

LIMIT = 1 << 40  # bytes of one storage; more is a damaged file


class Refused(ValueError):
    """A file that names something a file of plain tensors does not need."""


class _Storage:
    """A storage named by a persistent id."""

    __slots__ = ("dtype", "key")

    def __init__(self, key: str, dtype: Any):
        self.key = key
        self.dtype = dtype


class _Strided:
    """A tensor over a storage."""

    __slots__ = ("offset", "requires_grad", "shape", "storage", "strides")

    def __init__(
        self, storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = False,
        hooks: Any = None, metadata: Any = None,
    ):  # fmt: skip
        sizes = isinstance(shape, tuple) and isinstance(strides, tuple)
        whole = sizes and all(type(n) is int and n >= 0 for n in (*shape, *strides))
        if not isinstance(storage, _Storage) or not whole or len(shape) != len(strides):
            raise Refused("a tensor with a strange geometry")
        if type(offset) is not int or offset < 0 or hooks or metadata:
            raise Refused("a tensor with hooks, metadata or a strange offset")
        self.storage = storage
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.requires_grad = bool(requires_grad)


class _Leaf:
    """A parameter around a tensor."""

    __slots__ = ("data", "requires_grad")

    def __init__(self, data: Any, requires_grad: Any = True, hooks: Any = None):
        if not isinstance(data, _Strided) or hooks:
            raise Refused("a parameter that is more than a tensor")
        self.data = data
        self.requires_grad = bool(requires_grad)


class _Name:
    """Stands for a dtype or a storage class: it cannot be called."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: str):
        self.dtype = dtype


_STORAGES = {
    "FloatStorage": "f32", "DoubleStorage": "f64", "HalfStorage": "f16", "BFloat16Storage": "bf16",
    "LongStorage": "i64", "IntStorage": "i32", "ShortStorage": "i16", "CharStorage": "i8",
    "ByteStorage": "u8", "BoolStorage": "bool",
}  # fmt: skip
_DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
}  # fmt: skip
_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch", "Size"): lambda sizes=(): _sizes(sizes),
    ("torch._utils", "_rebuild_tensor_v2"): _Strided,
    ("torch._utils", "_rebuild_parameter"): _Leaf,
    **{("torch", name): _Name(dtype) for name, dtype in (_STORAGES | _DTYPES).items()},
}


def _sizes(sizes: Any) -> tuple[Any, ...]:
    if not isinstance(sizes, tuple | list) or any(type(n) is not int for n in sizes):
        raise Refused("a torch.Size of something else than numbers")
    return Size(sizes)


class _Unpickler(pickle.Unpickler):
    """Builds placeholders; every name outside the table is refused."""

    def find_class(self, module: str, name: str) -> Any:
        builder = _ALLOWED.get((module, name))
        if builder is None:
            raise Refused(
                f"it names {module}.{name}, which a file of plain tensors does not need; nothing "
                "of it was run"
            )
        return builder

    def persistent_load(self, identity: Any) -> Any:
        match identity:
            case ("storage", _Name(dtype=dtype), str(key), str(), int()):
                return _Storage(key, dtype)
        raise Refused(f"it has the strange storage {str(identity)[:80]}")


def is_torch_file(data: bytes) -> bool:
    """Whether these bytes begin like a zip file."""
    return data[:4] == b"PK\x03\x04"


def read(data: bytes) -> Any:
    """The object in the bytes of a file of PyTorch's. Raises Refused, or ValueError and the like
    where they are damaged."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError("it is a zip file without one data.pkl: not PyTorch's format")
        folder = pickles[0].removesuffix("data.pkl")
        order = _member(archive, f"{folder}byteorder", b"little")
        if order != b"little":
            raise ValueError(f"its byte order is {order[:20]!r}")
        content = _Unpickler(io.BytesIO(archive.read(pickles[0]))).load()
        return _PickleBuilder(archive, folder).built(content, 0)


def _member(archive: zipfile.ZipFile, name: str, default: bytes | None = None) -> bytes:
    if default is not None and name not in archive.namelist():
        return default
    if archive.getinfo(name).file_size > LIMIT:
        raise ValueError(f"{name} is larger than any tensor")
    return archive.read(name)


class _PickleBuilder:
    """Makes tensors and containers anew from what the unpickler built."""

    def __init__(self, archive: zipfile.ZipFile, folder: str):
        self.archive = archive
        self.folder = folder
        self._arrays: dict[str, np.ndarray] = {}
        self._made: dict[int, Tensor] = {}

    def built(self, value: Any, depth: int) -> Any:
        if depth > 200:
            raise ValueError("it is nested more than 200 deep, or contains itself")
        if value is None or type(value) in (bool, int, float, str, bytes, Size):
            return value
        if type(value) in (_Strided, _Leaf):
            if id(value) not in self._made:
                self._made[id(value)] = self._tensor(value)
            return self._made[id(value)]
        if type(value) is _Name:
            return DType(value.dtype)
        if type(value) in (list, tuple, set):
            return type(value)(self.built(item, depth + 1) for item in value)
        if type(value) in (dict, OrderedDict):
            container = type(value)(
                (self.built(key, depth + 1), self.built(item, depth + 1))
                for key, item in dict.items(value)
            )
            metadata = getattr(value, "__dict__", {}).get("_metadata")
            if metadata is not None:  # versions of the modules of a state dict
                container._metadata = self.built(metadata, depth + 1)
            return container
        raise Refused(f"it holds a {type(value).__module__}.{type(value).__qualname__}")

    def _tensor(self, value: Any) -> Tensor:
        if type(value) is _Leaf:
            return Parameter(self.built(value.data, 0), value.requires_grad)
        storage = self._storage(value.storage)
        last = value.offset + sum((n - 1) * s for n, s in zip(value.shape, value.strides))
        if 0 not in value.shape and last >= storage.size:
            raise ValueError("a tensor reaches beyond its storage")
        array = np.lib.stride_tricks.as_strided(
            storage[value.offset :],
            value.shape,
            tuple(step * storage.itemsize for step in value.strides),
        )
        tensor = make(array, TensorType.of(array))
        return tensor.requires_grad_() if value.requires_grad else tensor

    def _storage(self, storage: _Storage) -> np.ndarray:
        """The elements of a storage, shared by all tensors over it."""
        if storage.key not in self._arrays:
            if storage.dtype not in DType.__members__:
                raise ValueError(f"its element type {storage.dtype} is not supported")
            dtype = DType[storage.dtype].numpy
            raw = _member(self.archive, f"{self.folder}data/{storage.key}")
            whole = len(raw) // dtype.itemsize * dtype.itemsize
            self._arrays[storage.key] = np.frombuffer(bytearray(raw[:whole]), dtype)
        array = self._arrays[storage.key]
        if array.dtype != DType[storage.dtype].numpy:
            return array.view(DType[storage.dtype].numpy)
        return array
