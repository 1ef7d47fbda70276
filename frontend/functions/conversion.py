"""Tensors in another dtype or place (`to`, `float`, `half`, `cpu`), and questions about theirs."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.dtypes import CPU, as_dtype, memory_format, place_of
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.memory_tracking import expose, whole_array
from frontend.engine.tensors.tensor import FROZEN, Tensor
from frontend.functions.declarations import public
from frontend.functions.places import moved
from graphc.ir.types import DType

_OTHER = ("other", "non_blocking", "copy")
_DTYPE = ("dtype", "non_blocking", "copy")
_DEVICE = ("device", "dtype", "non_blocking", "copy")


@public(at="", method=True)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype: `to(dtype, non_blocking, copy)`, `to(device, dtype,
    non_blocking, copy)`, `to(other, non_blocking, copy)`; each takes `memory_format=` too. The
    tensor itself where nothing changes, unless `copy`. On "meta" it has
    no data. `non_blocking` changes nothing.

    Raises TypeError for other arguments, AssertionError for CUDA, NotImplementedError for what has
    no data."""
    first = args[0] if args else None
    names: tuple[str, ...] = _DTYPE if _is_dtype(first) else _DEVICE
    if isinstance(first, Tensor):
        names = _OTHER
    arguments = dict(zip(names, args)) | kwargs
    flags = (arguments.get("non_blocking"), arguments.get("copy"))
    wrong = arguments.keys() - {*names, "memory_format"} or not all(
        flag is None or flag is True or flag is False for flag in flags
    )
    if wrong or len(arguments) < len(args) + len(kwargs):
        shown = ", ".join([*(type(x).__name__ for x in args), *(f"{name}=" for name in kwargs)])
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({shown}); it takes (device, "
            "dtype, non_blocking, copy), (dtype, non_blocking, copy) or (Tensor other, "
            "non_blocking, copy)"
        )
    place = arguments.get("device")
    check_format(arguments.get("memory_format"), self)
    dtype, other = arguments.get("dtype"), arguments.get("other")
    if other is not None:
        dtype, place = other.dtype, other.device
    result = self if dtype is None else casted(self, as_dtype(dtype))
    if place is not None:
        result = moved(result, place_of(place))
    return result.clone() if arguments.get("copy") and result is self else result


def _is_dtype(value: Any) -> builtins.bool:
    python = (builtins.float, builtins.int, builtins.bool)
    return isinstance(value, DType) or any(value is kind for kind in python)


def check_format(wanted: Any, input: Tensor) -> None:
    """Raise what PyTorch raises for a memory format `input` cannot have. Formats that fit change
    nothing: tensors are row-major."""
    if wanted is None:
        return
    if not isinstance(wanted, memory_format):
        raise TypeError(f"memory_format must be torch.memory_format, not {type(wanted).__name__}")
    rank = {"torch.channels_last": 4, "torch.channels_last_3d": 5}.get(repr(wanted))
    if rank is not None and input.dim() != rank:
        name = repr(wanted).removeprefix("torch.")
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")


@public(at="", method=True)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of `other`."""
    return casted(self, other.dtype)


def _cast_method(name: str, dtype: DType) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        check_format(memory_format, self)
        return casted(self, dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor in {dtype}; itself where it is."
    return public(at="", method=True)(method)


float, double = _cast_method("float", DType.f32), _cast_method("double", DType.f64)
half, bfloat16 = _cast_method("half", DType.f16), _cast_method("bfloat16", DType.bf16)
byte, char = _cast_method("byte", DType.u8), _cast_method("char", DType.i8)
short, int = _cast_method("short", DType.i16), _cast_method("int", DType.i32)
long, bool = _cast_method("long", DType.i64), _cast_method("bool", DType.bool)


# -- places --------------------------------------------------------------------------------------


@public(at="", method=True)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself. Raises NotImplementedError where it is on meta."""
    check_format(memory_format, self)
    return moved(self, CPU)


@public(at="", method=True)
def cuda(
    self: Tensor, device: Any = None, non_blocking: Any = False, memory_format: Any = None
) -> Tensor:
    """Raises AssertionError: there is no CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")


@public(at="", method=True)
def get_device(self: Tensor) -> builtins.int:
    """The number of the tensor's CUDA device: -1 on the CPU."""
    return -1


@public(at="", method=True)
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Raises RuntimeError: memory is pinned for an accelerator, and there is none."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


@public(at="", method=True)
def is_pinned(self: Tensor, device: Any = None) -> builtins.bool:
    """False: see `pin_memory`."""
    return False


@public(at="", method=True)
def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor to memory that other processes share which are forked from this one, or get
    it as an argument or by a queue of `torch.multiprocessing`: what one writes the others see.
    Nothing orders their writes. Views made before stay where they are, as by `.data = …`. Raises
    RuntimeError for a view of a part."""
    from frontend.engine.tensors.shared_memory import (  # not before it is needed
        block_of,
        shared_copy,
    )

    eager_only("share_memory_")
    array = self._array("share_memory_()")
    if block_of(array) is not None:
        return self
    if self._frozen is not None:
        raise RuntimeError(FROZEN)
    if whole_array(array).nbytes != array.nbytes:
        raise RuntimeError(
            "share_memory_() of a view, which would part from the tensor it is a view of: share "
            "that, before it is viewed"
        )
    self._value = shared_copy(array)
    expose(self._counter)  # other processes write it, and nobody here counts that
    changed()
    return self


@public(at="", method=True)
def is_shared(self: Tensor) -> builtins.bool:
    """Whether other processes can share the memory: see `share_memory_`."""
    from frontend.engine.tensors.shared_memory import block_of

    value = self._value
    return isinstance(value, np.ndarray) and block_of(value) is not None


@public(at="", method=True)
def is_signed(self: Tensor) -> builtins.bool:
    """Whether the dtype has negative numbers."""
    return self.dtype.is_signed  # type: ignore[attr-defined]


@public(at="", method=True)
def is_inference(self: Tensor) -> builtins.bool:
    """False: tensors made in inference mode may be used everywhere."""
    return False
