"""Tensors shared with other libraries through DLPack, without a copy, by way of NumPy.

NumPy does not know bfloat16 in DLPack, which does. So bf16 goes through it as 16-bit unsigned
integers, and the type's code in the exchanged struct (DLPack's C header, version 1) is set before
it is handed on.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import on_cpu
from frontend.engine.tensors.host_data import check_supported
from frontend.engine.tensors.memory_tracking import expose
from frontend.engine.tensors.tensor import Tensor, from_data
from graphc.ir.types import DType

__all__ = ["from_dlpack", "to_dlpack"]

_UNSIGNED, _BFLOAT = 1, 4  # DLDataTypeCode
_CPU = 1  # DLDeviceType


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    ]  # fmt: skip


_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _exchanged(capsule: Any) -> _DLTensor | None:
    """The struct in a capsule nobody has taken yet; None for anything else."""
    if _api.PyCapsule_IsValid(capsule, b"dltensor"):
        return _DLTensor.from_address(_api.PyCapsule_GetPointer(capsule, b"dltensor"))
    if _api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        address = _api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        return _Versioned.from_address(address).tensor
    return None


def exported(tensor: Tensor, **options: Any) -> Any:
    """`Tensor.__dlpack__`: a capsule over the tensor's memory. Raises BufferError for a tensor that
    requires gradients or lies in read-only memory."""
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if options.get("stream") not in (None, -1):
        raise BufferError("there are no streams on the CPU: stream is None")
    options.pop("stream", None)
    array = tensor._array("__dlpack__()")
    expose(tensor._counter)
    if tensor.dtype is not DType.bf16:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    struct = _exchanged(capsule)
    assert struct is not None
    struct.code = _BFLOAT
    return capsule


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the tensor's memory, to be taken once."""
    return exported(tensor)


class _Source:
    """What NumPy takes: an object that hands out a capsule made before."""

    def __init__(self, capsule: Any):
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__`, or of a DLPack capsule.

    Raises BufferError for memory that is not on the CPU, RuntimeError for what holds no tensor (a
    capsule can be used once), TypeError for dtypes that are not supported."""
    on_cpu(device)
    capsule = ext_tensor
    if hasattr(ext_tensor, "__dlpack__"):
        place = ext_tensor.__dlpack_device__()[0]
        if place != _CPU:
            raise BufferError(f"the memory is on a device of DLPack's type {int(place)}, no CPU")
        capsule = _asked(ext_tensor)
    struct = _exchanged(capsule)
    if struct is None:
        raise RuntimeError(
            "from_dlpack() takes an object with __dlpack__, or a DLPack capsule nobody has used "
            f"before; got {type(ext_tensor).__name__}"
        )
    is_bfloat = (struct.code, struct.bits) == (_BFLOAT, 16)
    if is_bfloat:
        struct.code = _UNSIGNED
    is_old = _api.PyCapsule_IsValid(capsule, b"dltensor")
    array = np.from_dlpack(_Source(capsule))
    if is_old:
        array = _writable(array)
    if is_bfloat:
        array = array.view(DType.bf16.numpy)
    check_supported(array)
    return from_data(array, copy=bool(copy))


class _Memory(ctypes.Structure):
    """Memory somebody else owns; `owner` keeps it alive."""

    owner: Any


def _writable(array: np.ndarray) -> np.ndarray:
    """The same memory, writable. The older protocol cannot say that memory is read-only; NumPy
    takes it for that, PyTorch and others do not."""
    if array.flags.writeable or not array.size:
        return array
    low, high = np.lib.array_utils.byte_bounds(array)
    fields = {"_fields_": [("bytes", ctypes.c_char * (high - low))]}
    kind: Any = type("_Memory", (_Memory,), fields)
    memory = kind.from_address(low)
    memory.owner = array
    offset = array.ctypes.data - low
    return np.ndarray(array.shape, array.dtype, memory, offset, array.strides)


def _asked(source: Any) -> Any:
    """The capsule of an object: of DLPack's version 1, which says whether memory is read-only, or
    from producers that do not know it, an older one."""
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:
        return source.__dlpack__()
