"""Writes pickles of plain data that PyTorch's `torch.load(weights_only=True)` reads.

in : an object, and what to write for a tensor
out: a pickle of protocol 2

Python's pickler imports what it names, and names classes by where they are defined; the files name
PyTorch's functions, which need not be there. What is written is a `Named` (a name), a `Called` (a
call) or a `Persistent`, beside plain data. An object that stands in two places is written once.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import Size, device
from frontend.engine.tensors.tensor import Tensor
from frontend.serialization.errors import CheckpointError, NotPlainError
from frontend.serialization.structure import NAMESPACE, is_namespace
from graphc.ir.types import DType

_DEPTH = 200
_BITS = 2000  # of an integer: more need an opcode that readers of weights do not know


@dataclass(frozen=True, slots=True)
class Named:
    """The name of something in a module that need not be there."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call of it; `state` is handed to the result."""

    function: Named
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass(frozen=True, slots=True)
class Persistent:
    """What the reader is asked for by an identity."""

    identity: tuple[Any, ...]


ORDERED = Named("collections", "OrderedDict")
_BUILT_IN = "__builtin__"  # protocol 2 names modules as Python 2 did
_RANGE = {range: "xrange"}


def pickled(obj: Any, of_tensor: Callable[[Tensor], Called]) -> bytes:
    """The pickle of `obj`. Raises CheckpointError, naming the key, for what is no plain data."""
    writer = _Pickle(of_tensor)
    writer.write(obj, "", 0)
    return b"\x80\x02" + b"".join(writer.parts) + b"."


class _Pickle:
    def __init__(self, of_tensor: Callable[[Tensor], Called]):
        self.parts: list[bytes] = []
        self._of_tensor = of_tensor
        self._places: dict[Any, int] = {}  # of what was written, in the reader's memo
        self._alive: list[Any] = []  # objects whose addresses are keys
        self._open: set[int] = set()  # containers being written

    def write(self, obj: Any, path: str, depth: int) -> None:
        """Write `obj`, which stands at `path`."""
        kind = type(obj)
        if kind is int and obj.bit_length() > _BITS:
            raise CheckpointError(f"save: {path or 'the object'} has more than {_BITS} bits")
        if obj is None or kind in (bool, int, float):
            self.parts.append(pickle.dumps(obj, 2)[2:-1])
        elif kind is DType:
            self.write(TORCH_DTYPES[obj], path, depth)
        elif kind in (str, Named):
            self._once(obj, lambda: self.parts.append(_text(obj) if kind is str else _name(obj)))
        elif kind is Persistent:
            self._items(obj.identity, path, depth)
            self.parts.append(b"tQ")
        elif kind is Called:
            self._call(obj, path, depth)
        else:
            self._object(obj, path, depth)

    def _once(self, key: Any, write: Callable[[], None]) -> None:
        """Write what `key` stands for, or where it was written before."""
        place = self._places.get(key)
        if place is not None:
            self.parts.append(b"j" + struct.pack("<I", place))
            return
        write()
        self._places[key] = len(self._places)
        self.parts.append(b"r" + struct.pack("<I", self._places[key]))

    def _object(self, obj: Any, path: str, depth: int) -> None:
        """Write an object that others may hold too."""
        where = path or "the object"
        if id(obj) in self._open:
            raise CheckpointError(f"save: {where} contains itself")
        if depth > _DEPTH:
            raise CheckpointError(f"save: {where} lies more than {_DEPTH} containers deep")
        self._open.add(id(obj))
        self._alive.append(obj)
        self._once(("object", id(obj)), lambda: self._container(obj, path, depth + 1))
        self._open.discard(id(obj))

    def _container(self, obj: Any, path: str, depth: int) -> None:
        kind = type(obj)
        if kind is list:
            self.parts.append(b"]")
            self._items(obj, path, depth)
            self.parts.append(b"e")
        elif kind is tuple:
            self._items(obj, path, depth)
            self.parts.append(b"t")
        elif kind is dict:
            self.parts.append(b"}")
            self._pairs(obj, path, depth)
        elif isinstance(obj, Tensor):
            self._call(self._of_tensor(obj), path, depth)
        else:
            self._call(_call_of(obj, path), path, depth)
            if kind in (OrderedDict, defaultdict):
                self._pairs(obj, path, depth)

    def _call(self, obj: Called, path: str, depth: int) -> None:
        """Write a call and its state."""
        self.write(obj.function, path, depth)
        self._items(obj.arguments, path, depth)
        self.parts.append(b"tR")
        if obj.state is not None:
            self.write(obj.state, path, depth)
            self.parts.append(b"b")

    def _items(self, items: Any, path: str, depth: int) -> None:
        self.parts.append(b"(")
        for index, item in enumerate(items):
            self.write(item, f"{path}[{index}]", depth)

    def _pairs(self, items: dict[Any, Any], path: str, depth: int) -> None:
        self.parts.append(b"(")
        for key, item in items.items():
            self.write(key, f"key {key!r} of {path or 'the object'}", depth)
            self.write(item, f"{path}[{key!r}]", depth)
        self.parts.append(b"u")


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def _name(name: Named) -> bytes:
    return f"c{name.module}\n{name.name}\n".encode()


def _call_of(obj: Any, path: str) -> Called:
    """The call that makes an object of a type a pickle has no opcode for."""
    kind = type(obj)
    plain = Named(_BUILT_IN, _RANGE.get(kind, kind.__name__))
    if kind is OrderedDict:
        metadata = vars(obj).get("_metadata")
        return Called(ORDERED, (), None if metadata is None else {"_metadata": metadata})
    if kind is defaultdict:
        return Called(Named("collections", "defaultdict"), _factory(obj, path))
    if kind is Counter:
        return Called(Named("collections", "Counter"), (dict(obj),))
    if kind in (set, frozenset):
        return Called(plain, (list(obj),))
    if kind is range or kind is slice:
        return Called(plain, (obj.start, obj.stop, obj.step))
    if kind is complex:
        return Called(plain, (obj.real, obj.imag))
    if kind is bytes:
        return _bytes(obj)
    if kind is bytearray:
        return Called(plain, (_bytes(obj),))
    if kind is Size:
        return Called(Named("torch", "Size"), (tuple(obj),))
    if is_namespace(obj):
        return Called(Named(*NAMESPACE), (), dict(vars(obj)))
    if kind is device:
        return Called(
            Named("torch", "device"), (obj.type, *([] if obj.index is None else [obj.index]))
        )
    return _numpy_call(obj, path)


def _bytes(data: Any) -> Called:
    return Called(Named("_codecs", "encode"), (bytes(data).decode("latin-1"), "latin1"))


def _factory(obj: defaultdict[Any, Any], path: str) -> tuple[Any, ...]:
    factory = obj.default_factory
    if factory is None:
        return ()
    if factory not in (list, dict, set, tuple, int, float, bool, str, frozenset, bytes, complex):
        raise NotPlainError(f"save: {path or 'the object'} makes its values by {factory!r}")
    return (Named(_BUILT_IN, {int: "long", str: "unicode"}.get(factory, factory.__name__)),)


def _numpy_call(obj: Any, path: str) -> Called:
    module = "numpy._core.multiarray"
    if isinstance(obj, np.generic) and obj.dtype.kind in "biufcSU":
        data = obj.tobytes()[: obj.dtype.itemsize]  # an empty text has an element all the same
        return Called(Named(module, "scalar"), (_numpy_dtype(obj.dtype), _bytes(data)))
    if type(obj) is np.ndarray and obj.dtype.kind in "biufcSU":
        array = np.asarray(obj, obj.dtype.newbyteorder("<"))
        state = (1, array.shape, _numpy_dtype(array.dtype), False, _bytes(array.tobytes()))
        start = Called(
            Named(module, "_reconstruct"), (Named("numpy", "ndarray"), (0,), _bytes(b"b"))
        )
        return Called(start.function, start.arguments, state)
    kind = type(obj)
    raise NotPlainError(
        f"save: {path or 'the object'} is a {kind.__module__}.{kind.__qualname__}, which a "
        "checkpoint does not hold",
        hint="tensors, numbers, texts, NumPy arrays, a script's arguments, and containers of them",
    )


def _numpy_dtype(dtype: np.dtype[Any]) -> Called:
    order = "|" if dtype.byteorder == "|" else "<"
    sizes = (dtype.itemsize, 4 if dtype.kind == "U" else 1) if dtype.kind in "SU" else (-1, -1)
    state = (3, order, None, None, None, *sizes, 8 if dtype.kind == "U" else 0)
    return Called(Named("numpy", "dtype"), (dtype.str[1:], False, True), state)


TORCH_DTYPES = {
    dtype: Named("torch", name)
    for dtype, name in {
        DType.f32: "float32", DType.f64: "float64", DType.f16: "float16", DType.bf16: "bfloat16",
        DType.i64: "int64", DType.i32: "int32", DType.i16: "int16", DType.i8: "int8",
        DType.u8: "uint8", DType.bool: "bool",
    }.items()
}  # fmt: skip
