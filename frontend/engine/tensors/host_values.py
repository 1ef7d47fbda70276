"""The value of a tensor in Python: numbers, arrays, text. In a trace there is none: each raises."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.engine.tensors.memory_tracking import expose
from frontend.engine.tensors.state import STATE, tracing
from graphc.ir.builder import user_location
from graphc.ir.handle import Handle
from graphc.ir.size_guards import equal
from graphc.system import IMPORTING

MANY_ROWS = 256
"""Rows of a traced tensor that are iterated over without a word."""


def warn_unrolled(rows: int) -> None:
    """Say once for each line that a loop over so many rows of a traced tensor becomes long code."""
    warnings.warn(
        f"a loop over {rows} rows of a traced tensor is unrolled: the graph holds its body "
        f"{rows} times, and compiles slowly. frontend.scan keeps it one loop.\n  at: "
        f"{user_location()}",
        stacklevel=3,
    )


def _handed_out(tensor: Any, conversion: str) -> Any:
    """What stands for a value where a trace knows how to hand it out; None where it does not."""
    hand_out = getattr(STATE.mode, "hand_out", None)
    return None if hand_out is None else hand_out(tensor, conversion)


class HostValues(Handle):
    """Methods of Tensor that hand its value to Python."""

    __slots__ = ()

    if TYPE_CHECKING:
        _counter: list[Any]
        _requires_grad: bool

        @property
        def is_meta(self) -> bool: ...
        def _array(self, what: str) -> np.ndarray: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...
        def __rpow__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __invert__(self) -> Any: ...
        def __abs__(self) -> Any: ...

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array itself, sharing memory. That of bfloat16 has the dtype of ml_dtypes (PyTorch
        raises TypeError). Raises RuntimeError for a tensor that requires gradients, unless
        `force` or under `no_grad`."""
        if self._requires_grad and not force and STATE.grad_enabled:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if self.is_meta:
            raise TypeError("can't convert meta device type tensor to numpy: it has no data")
        array = self._array(".numpy()")
        expose(self._counter)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(
                    f"Unable to avoid copy while creating an array of {np.dtype(dtype)} from a "
                    f"tensor of {self.dtype}"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    __array_priority__ = 1000  # NumPy leaves `array * tensor` to the tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # DLPack's kDLCPU

    def item(self) -> Any:
        """The one element as a Python number."""
        if STATE.mode is not None and (value := _handed_out(self, "item")) is not None:
            return value
        array = self._array(".item()")
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.item()

    def tolist(self) -> Any:
        if STATE.mode is not None and (value := _handed_out(self, "tolist")) is not None:
            return value
        return self._array(".tolist()").tolist()

    def __bool__(self) -> bool:
        if STATE.mode is not None and (value := _handed_out(self, "bool")) is not None:
            return bool(value)
        array = self._array("bool()")
        if array.size != 1:
            kind = "more than one value" if array.size else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(array.item())

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        if self.dtype.is_float or not equal(self.tensor_type.numel, 1):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._number("int()"))

    def _number(self, what: str) -> Any:
        array = self._array(what)
        if array.size != 1:
            raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.item()

    def __len__(self) -> int:
        if not self.tensor_type.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.tensor_type.shape[0]

    def __iter__(self) -> Any:
        if not self.tensor_type.shape:
            raise TypeError("iteration over a 0-d tensor")
        if tracing() and len(self) > MANY_ROWS:
            warn_unrolled(len(self))
        return iter([self[i] for i in range(len(self))])

    def __repr__(self) -> str:
        with IMPORTING:
            from frontend.engine.tensors.printing import tensor_text

        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        """A 0-d tensor is formatted as its number."""
        if not self.tensor_type.shape:
            return format(self._array("format()").item(), spec)
        if spec:
            raise TypeError("unsupported format string passed to Tensor.__format__")
        return str(self)

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, Handle | int | float | np.generic):
            raise RuntimeError(
                "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
                f"{type(element)}."
            )
        return bool((self == element).any())

    def __reversed__(self) -> Any:
        """The elements of each dimension in reverse order."""
        return self.flip(*range(len(self.tensor_type.shape)))  # type: ignore[attr-defined]
