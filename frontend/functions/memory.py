"""The memory a tensor lies in: where it begins there, and other memory, or another part of it, in
its place. They run eagerly only, but for `resize_`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.memory_tracking import (
    count_write,
    expose,
    offset_in_memory,
    whole_array,
)
from frontend.engine.tensors.no_value import NO_DATA
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.storages import UntypedStorage, typed_storage
from frontend.engine.tensors.tensor import FROZEN, Tensor
from frontend.functions import select
from frontend.functions.arguments import need_tensors
from frontend.functions.creation import zeros
from frontend.functions.creation_options import shape_of
from frontend.functions.declarations import public
from frontend.functions.in_place import view_in_place
from frontend.functions.layout import reshape
from frontend.functions.shape import cat
from graphc.ir.types import TensorType, row_major_strides


@public(at="", method=True)
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes of the memory the tensor lies in."""
    return UntypedStorage.of(self)


storage = public(at="", method="storage")(typed_storage)


@public(at="", method=True)
def storage_offset(self: Tensor) -> int:
    """Where in its memory the tensor begins, in elements."""
    if self.is_meta or not self.numel():
        return 0
    return offset_in_memory(self._array("storage_offset()"))


def _address(x: Tensor) -> int:
    """`data_ptr()`, not handed out."""
    return 0 if x.is_meta or not x.numel() else int(x._array("is_set_to()").ctypes.data)


@public(at="", method=True)
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same elements of the same memory, in the same order."""
    need_tensors("is_set_to", self=self, tensor=tensor)
    mine, other = ((_address(x), x.dtype, x.shape, x.stride()) for x in (self, tensor))
    return mine == other


def _replace(self: Tensor, name: str, value: Any, type: TensorType) -> Tensor:
    """Let the tensor have another array, of which no other tensor is a view."""
    eager_only(name)
    _check_resizable(self)
    self._value, self.tensor_type, self._view = value, type, None
    count_write(self._counter)
    changed()
    return self


def _check_resizable(self: Tensor) -> None:
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if self._frozen is not None:
        raise RuntimeError(FROZEN)


def _over(self: Tensor, value: Any, type: TensorType) -> Tensor:
    """Let the tensor have memory that others may write, past its counter."""
    _replace(self, "set_", value, type)
    expose(self._counter)
    return self


@public(at="", method=True)
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Another shape, in place: the elements of the memory, in order, from where the tensor begins.
    Where there are too few, the tensor gets memory of its own, and zeros fill it up. Raises
    RuntimeError for one that requires gradients; in a trace, TraceError for one from before it."""
    shape = shape_of(sizes, "resize_()")
    type = TensorType(self.dtype, shape)
    if self.is_meta:
        return _replace(self, "resize_", NO_DATA, type)
    if STATE.mode is not None:
        _check_resizable(self)
        return self if shape == self.shape else _resized_in_trace(self, shape)
    array = self._array("resize_()")
    whole = whole_array(array)
    if self.numel() and whole.flags.c_contiguous and whole.size:
        raw = whole.reshape(-1).view(np.uint8)
        start = array.ctypes.data - raw.ctypes.data
        elements = raw[start : start + (raw.size - start) // array.itemsize * array.itemsize]
        flat = elements.view(array.dtype)
    else:
        flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size < type.numel:
        flat = np.concatenate([flat, np.zeros(type.numel - flat.size, array.dtype)])
    return _replace(self, "resize_", flat[: type.numel].reshape(shape), type)


def _resized(self: Tensor, shape: tuple[int, ...]) -> Tensor:
    """What `resize_` makes of a tensor in a trace: a view of its memory where that is enough."""
    root, first = select.storage_of(self)
    count = math.prod(shape)
    if self.numel() and first + count <= root.numel():
        return select.as_strided(self, shape, row_major_strides(shape))
    left = root.numel() - first if self.numel() else 0
    held = select.as_strided(self, (left,), (1,))
    padding = zeros(count - left, dtype=self.dtype)
    return reshape(cat([held, padding]), shape)


_resized_in_trace = view_in_place(_resized, "resize_")


@public(at="", method=True)
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """Deprecated, as in PyTorch: the elements, row-major, in another shape of as many. Raises
    RuntimeError for another number of them."""
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    shape = shape_of(sizes, "resize()")
    if math.prod(shape) != self.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, shape))} ({math.prod(shape)} elements in "
            f"total), but the given tensor has a size of {'x'.join(map(str, self.shape))} "
            f"({self.numel()} elements). autograd's resize can only change the shape of a given "
            "tensor, while preserving the number of elements. "
        )
    return reshape(self, shape)


@public(at="", method=True)
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`resize` to the shape of another tensor."""
    need_tensors("resize_as", self=self, tensor=tensor)
    return resize(self, tensor.shape)


@public(method=True)
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor."""
    need_tensors("resize_as_", self=self, the_template=the_template)
    return resize_(self, the_template.shape)


@public(at="", method=True)
def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """The memory of `source` in place of the tensor's: of a tensor, or a storage, of which it shows
    `size` elements (all) from `storage_offset` on, `stride` apart. Raises RuntimeError where those
    do not lie in it."""
    if source is None:
        return _replace(self, "set_", np.empty(0, self.dtype.numpy), TensorType(self.dtype, (0,)))
    if isinstance(source, Tensor) and size is None:
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        expose(source._counter)
        return _over(self, source._value, source.tensor_type)
    held = UntypedStorage.of(source) if isinstance(source, Tensor) else source
    if not isinstance(held, UntypedStorage):
        raise TypeError(f"set_(): takes a Tensor or a storage, not {type(source).__name__}")
    raw = held._writable().view(np.uint8)
    kind = self.dtype
    shape = (held.nbytes() // kind.itemsize,) if size is None else shape_of((size,), "set_()")
    steps = row_major_strides(shape) if stride is None else tuple(stride)
    last = storage_offset + sum((n - 1) * step for n, step in zip(shape, steps))
    if 0 not in shape and (last + 1) * kind.itemsize > raw.size:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset "
            f"{storage_offset}, and itemsize {kind.itemsize} requiring a storage size of "
            f"{(last + 1) * kind.itemsize} are out of bounds for storage of size {raw.size}"
        )
    strides = [step * kind.itemsize for step in steps]
    begin = storage_offset * kind.itemsize
    array: np.ndarray = np.ndarray(shape, kind.numpy, raw, begin, strides)
    return _over(self, array, TensorType(kind, shape))


@public(at="", method=True)
def const_data_ptr(self: Tensor) -> int:
    """`data_ptr()`."""
    return self.data_ptr()
