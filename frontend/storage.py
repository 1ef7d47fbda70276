"""`torch.UntypedStorage` and the typed storages: the memory tensors lie in, as far as scripts ask
about it. A storage is read, not written."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from frontend.tensors.dtypes import CPU, META, SCALAR_NAMES, device
from frontend.tensors.tensor import Tensor
from graphc.ir.types import DType

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes of the memory a tensor lies in; several tensors may share them. Made by
    `tensor.untyped_storage()`; raises NotImplementedError when called."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(
            f"torch.{type(self).__name__}: memory is made by making tensors (torch.empty)"
        )

    _bytes: np.ndarray
    _address: int
    _count: int
    device: device = CPU

    @classmethod
    def of(cls, tensor: Tensor) -> UntypedStorage:
        """The storage of a tensor: all the memory of the array it is a view of."""
        self: UntypedStorage = object.__new__(cls)
        if tensor.is_meta:
            self._address, self._count, self._bytes = 0, tensor.nbytes, np.empty(0, np.uint8)
            self.device = META
            return self
        array: Any = tensor._array("untyped_storage()")
        while isinstance(array.base, np.ndarray):
            array = array.base
        low, high = np.lib.array_utils.byte_bounds(array)
        self._address, self._count = low, high - low
        # An array over memory that is no array's: what lies between its elements stays unread.
        self._bytes = array.reshape(-1, order="A").view(np.uint8)
        return self

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self._address)

    def nbytes(self) -> int:
        """How many bytes there are."""
        return int(self._count)

    size = __len__ = nbytes

    def tolist(self) -> list[int]:
        """The bytes."""
        listed: list[int] = self._bytes.tolist()
        return listed

    def __getitem__(self, index: int) -> int:
        return int(self._bytes[index])

    def is_pinned(self) -> bool:
        return False

    def is_shared(self) -> bool:
        return False

    def _absent(self, *args: Any) -> NoReturn:
        raise NotImplementedError("a storage is read here, not changed: change the tensor")

    resize_ = copy_ = fill_ = __setitem__ = share_memory_ = pin_memory = _absent


class TypedStorage(UntypedStorage):
    """The elements of the memory a tensor lies in."""

    dtype: DType = DType.f32


for _dtype, _name in SCALAR_NAMES.items():
    globals()[f"{_name}Storage"] = type(f"{_name}Storage", (TypedStorage,), {"dtype": _dtype})
