"""`torch.UntypedStorage` and the typed storages: the memory tensors lie in. What is written to one
is seen by the tensors over it; its size is fixed, as its memory belongs to the arrays of tensors.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np

from frontend.engine.tensors.dtypes import CPU, META, SCALAR_NAMES, device
from frontend.engine.tensors.memory_tracking import expose, whole_array
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import DType


class UntypedStorage:
    """The bytes of the memory a tensor lies in; several tensors may share them. Made by
    `tensor.untyped_storage()`, or of `n` zero bytes by `UntypedStorage(n)`."""

    dtype: DType = DType.u8
    device: device = CPU
    _elements: np.ndarray  # in one dimension, over the memory itself
    _address: int
    _count: int  # bytes

    def __init__(self, size: int = 0, **options: Any):
        if not isinstance(size, int) or options:
            raise NotImplementedError(
                f"torch.{type(self).__name__} takes a number of elements; other memory is made by "
                "making tensors (torch.empty)"
            )
        self._over(np.zeros(size, self.dtype.numpy))

    def _over(self, array: np.ndarray) -> None:
        low, high = np.lib.array_utils.byte_bounds(array)
        self._address, self._count = low, high - low
        # An array over memory that is no array's: what lies between its elements stays unread.
        flat = array.reshape(-1, order="A")
        self._elements = flat.view(np.uint8).view(self.dtype.numpy)

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """The storage of a tensor: all the memory of the array it is a view of."""
        self = object.__new__(cls)
        if tensor.is_meta:
            self._address, self._count = 0, tensor.nbytes
            self._elements, self.device = np.empty(0, cls.dtype.numpy), META
            return self
        self._over(whole_array(tensor._array("untyped_storage()")))
        expose(tensor._counter)
        return self

    # -- read --------------------------------------------------------------------------------

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self._address)

    def nbytes(self) -> int:
        """How many bytes there are."""
        return int(self._count)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """How many elements there are."""
        return self._count // self.dtype.itemsize

    def __len__(self) -> int:
        return self.size()

    def tolist(self) -> list[Any]:
        """The elements."""
        listed: list[Any] = self._elements.tolist()
        return listed

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        return self._elements[index].item()

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        same = object.__new__(UntypedStorage)
        same._address, same._count, same.device = self._address, self._count, self.device
        same._elements = self._elements.view(np.uint8)
        return same

    def is_pinned(self) -> bool:
        return False

    def is_shared(self) -> bool:
        from frontend.engine.tensors.shared_memory import block_of  # not before it is needed

        return block_of(self._elements) is not None

    def cpu(self) -> Self:
        """The storage itself."""
        return self

    # -- written -----------------------------------------------------------------------------

    def _writable(self) -> np.ndarray:
        shared = self._elements.nbytes == self._count and self._elements.flags.writeable
        if not shared or self._elements.ctypes.data != self._address:
            raise RuntimeError("this memory is read-only, or lies in several pieces")
        return self._elements

    def __setitem__(self, index: Any, value: Any) -> None:
        self._writable()[index] = value

    def fill_(self, value: Any) -> Self:
        """Every element becomes `value`."""
        self._writable()[:] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> Self:
        """The bytes of another storage of as many. Raises RuntimeError for another number."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"a storage of {self.nbytes()} bytes takes no {source.nbytes()} bytes"
            )
        self._writable().view(np.uint8)[:] = source._elements.view(np.uint8)
        return self

    def _absent(self, *args: Any) -> NoReturn:
        raise NotImplementedError("a storage has one size and one process: make another tensor")

    resize_ = share_memory_ = pin_memory = _absent


class TypedStorage(UntypedStorage):
    """The elements of the memory a tensor lies in."""

    dtype: DType = DType.f32


_MODULE = "frontend.storage"
TYPED: dict[DType, Any] = {
    dtype: type(f"{name}Storage", (TypedStorage,), {"dtype": dtype, "__module__": _MODULE})
    for dtype, name in SCALAR_NAMES.items()
}
"""`FloatStorage` and the like, by dtype."""


def typed_storage(tensor: Tensor) -> TypedStorage:
    """`Tensor.storage()`: the memory of a tensor as elements of its dtype."""
    storage: TypedStorage = TYPED[tensor.dtype].of(tensor)
    return storage
