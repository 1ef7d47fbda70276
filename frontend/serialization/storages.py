"""Tensors over the storages of a file: every geometry is checked where its tensor is made.

in : the bytes of each storage, and what the pickle says of tensors
out: Tensors and Parameters; those over one storage share its memory
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor, make, without_data
from frontend.nn.parameter import Parameter
from frontend.serialization.budget import Budget
from frontend.serialization.errors import Refused
from graphc.ir.types import DType, TensorType

_LARGEST = 1 << 62  # bytes: the shape of an expanded tensor may be large, but can be counted


@dataclass(frozen=True, slots=True)
class ElementType:
    """What a storage class of PyTorch's stands for; `dtype` is None where it says nothing."""

    dtype: DType | None


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage of the file; `elements(dtype)` is its memory."""

    dtype: DType | None
    buffer: Any
    budget: Budget
    _arrays: dict[DType, np.ndarray] = field(default_factory=dict)

    def elements(self, dtype: DType) -> np.ndarray:
        """The whole elements of the storage, without a copy. Bools are made 0 and 1."""
        if dtype not in self._arrays:
            size = memoryview(self.buffer).nbytes
            self.budget.spend(size >> 10)  # bools are looked at, one by one
            array: np.ndarray = np.frombuffer(self.buffer, dtype.numpy, size // dtype.itemsize)
            self._arrays[dtype] = with_plain_bools(array)
        return self._arrays[dtype]


def with_plain_bools(array: np.ndarray) -> np.ndarray:
    """`array`, whose bools are made 0 and 1 in place where they are other bytes."""
    if array.dtype == np.bool_ and array.size:
        raw = array.view(np.uint8)
        if raw.max() > 1:
            np.not_equal(raw, 0, out=array)
    return array


def tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any = False,
    hooks: Any = None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """PyTorch's `_rebuild_tensor_v2`: a tensor that lies in a storage. Raises Refused."""
    if type(storage) is not Storage or storage.dtype is None:
        raise Refused("a tensor over something that is no storage")
    return _strided(storage, storage.dtype, (offset, shape, strides), requires_grad,
                    hooks, metadata)  # fmt: skip


def typed_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, requires_grad: Any, hooks: Any,
    dtype: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """PyTorch's `_rebuild_tensor_v3`: the element type stands beside the storage."""
    if type(storage) is not Storage or not isinstance(dtype, DType):
        raise Refused("a tensor over something that is no storage")
    return _strided(storage, dtype, (offset, shape, strides), requires_grad, hooks, metadata)


def meta_tensor(dtype: Any, shape: Any, strides: Any, requires_grad: Any = False) -> Tensor:
    """PyTorch's `_rebuild_meta_tensor_no_storage`: a tensor on "meta". Raises Refused."""
    if not isinstance(dtype, DType) or not isinstance(shape, tuple):
        raise Refused("a meta tensor with a strange type")
    if any(type(n) is not int or n < 0 for n in shape):
        raise Refused("a meta tensor with a strange geometry")
    result = without_data(TensorType(dtype, shape))
    return result.requires_grad_() if requires_grad and dtype.is_float else result


def parameter(data: Any, requires_grad: Any = True, hooks: Any = None) -> Parameter:
    """PyTorch's `_rebuild_parameter`."""
    if not isinstance(data, Tensor) or _is_more(hooks):
        raise Refused("a parameter that is more than a tensor")
    return Parameter(data, bool(requires_grad) and data.is_floating_point())


def with_attributes(target: Tensor, state: Any) -> Tensor:
    """Put on a tensor what a user had put on it: `state` is a dict. Raises Refused for names that
    tensors have themselves."""
    if type(state) is not dict:
        raise Refused("a tensor with a state that is no dict")
    for name, value in state.items():
        if type(name) is not str or name.startswith("__") or hasattr(target, name):
            shown = name[:40] if type(name) is str else type(name).__name__
            raise Refused(f"a tensor whose state sets {shown!r}")
        setattr(target, name, value)
    return target


def _is_more(hooks: Any) -> bool:
    """Whether there are hooks, or metadata: a tensor of a file has none."""
    return hooks is not None and not (isinstance(hooks, dict) and not hooks)


def _strided(
    storage: Storage, dtype: DType, geometry: tuple[Any, Any, Any], requires_grad: Any,
    hooks: Any, metadata: Any,
) -> Tensor:  # fmt: skip
    conjugated = type(metadata) is dict and metadata == {"conj": True} and dtype.is_complex
    if _is_more(hooks) or (_is_more(metadata) and not conjugated):
        raise Refused("a tensor with hooks or metadata")
    array = _array(storage.elements(dtype), *geometry)
    if conjugated:
        storage.budget.spend(0, array.nbytes)
        array = array.conj()
    result = make(array, TensorType.of(array))
    if requires_grad and dtype.is_float:
        result.requires_grad_()
    return result


def _array(elements: np.ndarray, offset: Any, shape: Any, strides: Any) -> np.ndarray:
    """The elements a geometry reaches, all of which lie in the storage."""
    if not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise Refused("a tensor with a strange geometry")
    if len(shape) != len(strides) or len(shape) > 64:
        raise Refused("a tensor with a strange geometry")
    if any(type(n) is not int or n < 0 for n in (offset, *shape, *strides)):
        raise Refused("a tensor with a strange geometry")
    if math.prod(n for n in shape if n) * elements.itemsize >= _LARGEST:
        raise Refused("a tensor too large to be counted")
    if 0 in shape:
        return np.empty(shape, elements.dtype)
    if offset + sum((n - 1) * step for n, step in zip(shape, strides)) >= elements.size:
        raise Refused("a tensor reaches beyond its storage")
    # The step along a dimension of one element is never taken, and may be any number.
    steps = [step * elements.itemsize if n > 1 else 0 for n, step in zip(shape, strides)]
    # Not as_strided, which does not know all dtypes of ml_dtypes.
    array: np.ndarray = np.ndarray(
        shape, elements.dtype, elements, offset * elements.itemsize, steps
    )
    if _overlaps(shape, strides):
        array.flags.writeable = False  # as what expand() gives: several places are one element
    return array


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two places may be one element: some dimension steps no farther than those inside it
    reach."""
    reach = 0
    for step, size in sorted((step, n) for n, step in zip(shape, strides) if n > 1):
        if step <= reach:
            return True
        reach += (size - 1) * step
    return False


Loader = Callable[[str], Any]


class Storages:
    """The storages of a file by key: `load(key)` gives the bytes of one, writable."""

    def __init__(self, load: Loader, budget: Budget):
        self._load = load
        self._budget = budget
        self._buffers: dict[str, Any] = {}
        self._storages: dict[tuple[DType | None, str], Storage] = {}

    def named(self, identity: Any) -> Storage:
        """What a persistent id stands for. Raises Refused."""
        match identity:
            case ("storage", ElementType(dtype=dtype), str(key), str(), int(), *view):
                if view not in ([], [None]):
                    return self._part(key, dtype, view[0])
                if (dtype, key) not in self._storages:
                    whole = Storage(dtype, self._buffer(key), self._budget)
                    self._storages[dtype, key] = whole
                return self._storages[dtype, key]
        raise Refused("it has a strange storage")

    def _buffer(self, key: str) -> Any:
        if key not in self._buffers:
            self._buffers[key] = self._load(key)
        return self._buffers[key]

    def _part(self, key: str, dtype: DType | None, view: Any) -> Storage:
        """A view of a storage: PyTorch's files from before 2017 have such."""
        match view:
            case (str(), int(offset), int(size)) if dtype is not None and min(offset, size) >= 0:
                whole = memoryview(self._buffer(key)).cast("B")
                start, end = offset * dtype.itemsize, (offset + size) * dtype.itemsize
                if end <= whole.nbytes:
                    return Storage(dtype, whole[start:end], self._budget)
        raise Refused("it has a strange view of a storage")
