"""Creating tensors from data, and filled ones; those of numbers in a row stand in `ranges`, and are
names of this module too. Inside a trace they are constants of the graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import filled
from frontend.engine.eager.promotion import casted, expanded
from frontend.engine.tensors.dtypes import META, SCALAR_NAMES, as_dtype, complex_of, place_of
from frontend.engine.tensors.host_data import array_of, check_supported, numbers_as
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import is_open
from frontend.engine.tensors.tensor import Tensor, from_data, make, without_data
from frontend.functions.arguments import stored
from frontend.functions.creation_options import check_options, finished, kind_of, shape_of
from frontend.functions.declarations import public
from frontend.functions.places import moved
from graphc.ir.types import INTERNED, DType, TensorType
from graphc.system import IMPORTING

_COPIED = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than "
)

# -- from data -----------------------------------------------------------------------------------


@public()
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A new tensor holding a copy of `data`: a number, nested sequences of numbers, an array.

    Its dtype is that of an array, float32 (the default dtype) for Python floats, int64 for
    integers. Raises TypeError for what is no number, ValueError for ragged sequences, RuntimeError
    for numbers an integer dtype does not hold. Of a tensor it is a copy off the tape, with
    PyTorch's warning."""
    check_options(device, None, pin_memory)
    if isinstance(data, Tensor):
        warnings.warn(f"{_COPIED}torch.tensor(sourceTensor).", UserWarning, stacklevel=2)
        return finished(_copied(data, dtype), requires_grad, _place(data, device))
    return finished(_of(data, dtype, copy=True), requires_grad, device)


def _of(data: Any, dtype: Any, copy: bool) -> Tensor:
    """A tensor of data; of a number that is open (engine.tensors.symbolic_numbers) one without
    dimensions that has the number of the call."""
    if not is_open(data):
        return from_data(data, dtype, copy=copy)
    kind = _value_dtype(data) if dtype is None else as_dtype(dtype)
    return filled(fitting(data, kind, computed=True), kind, ())


def _place(source: Any, device: Any) -> Any:
    """Where a tensor made like another one is: there, unless `device` says otherwise."""
    return source.device if device is None and isinstance(source, Tensor) else place_of(device)


def _copied(source: Tensor, dtype: Any) -> Tensor:
    plain = source.detach()
    cast = plain if dtype is None else casted(plain, as_dtype(dtype))
    return plain.clone() if cast is plain else cast


@public()
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor: a tensor as it is or cast (on the tape), an array over the same memory
    where its dtype stays, other data as `tensor` takes them."""
    if isinstance(data, Tensor):
        same = data if dtype is None else casted(data, as_dtype(dtype))
        return same if device is None else moved(same, place_of(device))
    return finished(_of(data, dtype, copy=False), False, device)


@public()
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """`obj` as a tensor, of the same memory where that can be (of tensors, arrays, what has
    `__dlpack__`, bytes), a copy for `copy=True`. `requires_grad` None leaves a tensor on the tape,
    False takes it off.

    Raises ValueError where `copy` is False and a copy is needed."""
    place = _place(obj, device)
    kind = None if dtype is None else as_dtype(dtype)
    result = _aliased(obj, kind)
    if result is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        result = from_data(obj, kind)
    elif kind is not None and result.dtype is not kind:
        if copy is False:
            raise ValueError(
                f"can't alias tensor with dtype '{SCALAR_NAMES[result.dtype]}' into dtype "
                f"'{SCALAR_NAMES[kind]}'."
            )
        result = casted(result, kind)
    elif copy:
        result = result.clone()
    result = moved(result, place)
    if requires_grad is None or requires_grad == result.requires_grad:
        return result
    return finished(result.detach(), requires_grad)


def _aliased(obj: Any, kind: DType | None) -> Tensor | None:
    """A tensor over the memory of `obj`; None where it has none of its own."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_data(obj, copy=False)
    if hasattr(obj, "__dlpack__"):
        with IMPORTING:
            from frontend.engine.tensors.dlpack import from_dlpack

        return from_dlpack(obj)
    if isinstance(obj, bytes | bytearray | memoryview):
        return frombuffer(obj, dtype=kind or STATE.default_dtype)
    return None


@public()
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array. Raises TypeError for anything else and for dtypes
    that are not supported."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {_type_name(ndarray)})")
    check_supported(ndarray)
    return from_data(ndarray, copy=False)


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


@public()
def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d tensor over `count` elements (all for -1) of a Python buffer, from byte `offset`.
    Raises ValueError where the buffer does not hold them."""
    array = np.frombuffer(buffer, as_dtype(dtype).numpy, count, offset)
    return finished(from_data(array, copy=False), requires_grad)


@public()
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of the default dtype, or of `dtype`."""
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    return _filled("scalar_tensor", (), s, kind, None, device, layout, pin_memory, requires_grad)


# -- filled --------------------------------------------------------------------------------------


def _filled(
    name: str, shape: tuple[int, ...], value: Any, kind: DType, out: Any = None, device: Any = None,
    layout: Any = None, pin_memory: Any = False, requires_grad: Any = False,
) -> Tensor:  # fmt: skip
    """`value` in `kind`, repeated to `shape`, in memory of its own."""
    if check_options(device, layout, pin_memory) is META:
        result = without_data(TensorType(kind, shape))
    elif isinstance(value, Tensor):
        result = expanded(casted(_number_in(name, value), kind), shape).clone()
    elif STATE.mode is not None:
        number = fitting(value, kind) if is_open(value) else _number(name, value, kind).item()
        result = filled(number, kind, shape)
    elif value.__class__ is int and value == 0:
        result = make(np.zeros(shape, kind.numpy), _type(kind, shape))
    else:
        array = np.empty(shape, kind.numpy)
        array.fill(value if _is_exact(value, kind) else _number(name, value, kind))
        result = make(array, _type(kind, shape))
    if requires_grad:
        result.requires_grad_()
    return result if out is None else stored(result, out)


def _type(kind: DType, shape: tuple[int, ...]) -> TensorType:
    return INTERNED.get((kind, shape)) or TensorType(kind, shape)


def _is_exact(value: Any, kind: DType) -> bool:
    """Whether NumPy makes of a number what `numbers_as` makes of it: whole ones that float64 has in
    floats and in int64, others in floats of at least 32 bits within their range."""
    if type(value) is int:
        return kind in _WIDE and -(2**53) <= value <= 2**53
    return type(value) is float and kind in _WIDE_FLOATS and -1e38 <= value <= 1e38


_WIDE_FLOATS = (DType.f32, DType.f64)
_WIDE = (*_WIDE_FLOATS, DType.i64)


def _number(name: str, value: Any, kind: DType) -> np.ndarray:
    if not isinstance(value, bool | int | float | complex | np.generic):
        raise TypeError(
            f"{name}(): argument 'fill_value' (position 2) must be Number, not "
            f"{type(value).__name__}"
        )
    return numbers_as(fitting(value, kind, computed=name == "scalar_tensor"), kind)


def _number_in(name: str, value: Tensor) -> Tensor:
    if value.numel() != 1 or value.dim() > 1:
        raise TypeError(f"{name}(): argument 'fill_value' (position 2) must be Number, not Tensor")
    return value.detach().reshape(())


def _value_dtype(value: Any) -> DType:
    """The dtype a number speaks for."""
    if isinstance(value, Tensor):
        kind = value.dtype
        if kind is DType.bool or kind.is_complex:
            return kind
        return DType.i64 if kind.is_integer else STATE.default_dtype
    if isinstance(value, bool):
        return DType.bool
    if isinstance(value, complex | np.complexfloating):
        return complex_of(STATE.default_dtype)
    return DType.i64 if isinstance(value, int | np.integer) else STATE.default_dtype


@public()
def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of shape `size` with every element `fill_value` (a number or a tensor of one
    element); its dtype follows the value."""
    kind = kind_of(dtype, out, _value_dtype(fill_value))
    shape = _sequence("full", size)
    return _filled("full", shape, fill_value, kind, out, device, layout, pin_memory, requires_grad)


def _sequence(name: str, size: Any) -> tuple[int, ...]:
    if size.__class__ is not tuple and not isinstance(size, Sequence | np.ndarray):
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
            f"{type(size).__name__}"
        )
    return shape_of((size,), f"{name}()")


def _sizes(name: str, sizes: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    if sizes and size is not None:
        raise TypeError(f"{name} got multiple values for argument 'size'")
    if not sizes and size is None:
        raise TypeError(f'{name} missing 1 required positional arguments: "size"')
    return shape_of((size,) if size is not None else sizes, name)


@public()
def zeros(
    *sizes: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros of shape `size`, given as numbers or one sequence."""
    kind = kind_of(dtype, out, STATE.default_dtype)
    shape = _sizes("zeros()", sizes, size)
    return _filled("zeros", shape, 0, kind, out, device, layout, pin_memory, requires_grad)


@public()
def ones(
    *sizes: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones of shape `size`, given as numbers or one sequence."""
    kind = kind_of(dtype, out, STATE.default_dtype)
    shape = _sizes("ones()", sizes, size)
    return _filled("ones", shape, 1, kind, out, device, layout, pin_memory, requires_grad)


@public()
def empty(
    *sizes: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """As `zeros`: memory is never handed out uninitialised."""
    kind = kind_of(dtype, out, STATE.default_dtype)
    shape = _sizes("empty()", sizes, size)
    return _filled("empty", shape, 0, kind, out, device, layout, pin_memory, requires_grad)


@public()
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros of shape `size` that lie in memory with these strides (in elements)."""
    check_options(device, layout, pin_memory)
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    shape, steps = _sequence("empty_strided", size), _sequence("empty_strided", stride)
    if len(shape) != len(steps):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(steps)} strides, {len(shape)} sizes"
        )
    if place_of(device) is META:
        return finished(without_data(TensorType(kind, shape)), requires_grad)
    room = sum((dim - 1) * step for dim, step in zip(shape, steps)) + 1 if all(shape) else 0
    memory = np.zeros(room, kind.numpy)
    strides = [step * kind.itemsize for step in steps]
    return finished(from_data(np.ndarray(shape, kind.numpy, memory, 0, strides), copy=False),
                    requires_grad)  # fmt: skip


# -- like another tensor -------------------------------------------------------------------------


def _like(name: str, input: Any, value: Any, dtype: Any, *options: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    kind = input.dtype if dtype is None else as_dtype(dtype)
    device, *rest = options
    shape = input._sizes
    return _filled(name, shape, value, kind, None, _place(input, device), *rest)


@public()
def full_like(
    input: Tensor, fill_value: Any, *, memory_format: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`fill_value` in the shape and dtype of `input`."""
    options = (device, layout, pin_memory, requires_grad)
    return _like("full_like", input, fill_value, dtype, *options)


@public()
def zeros_like(
    input: Tensor, *, memory_format: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros in the shape and dtype of `input`."""
    return _like("zeros_like", input, 0, dtype, device, layout, pin_memory, requires_grad)


@public()
def ones_like(
    input: Tensor, *, memory_format: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones in the shape and dtype of `input`."""
    return _like("ones_like", input, 1, dtype, device, layout, pin_memory, requires_grad)


@public()
def empty_like(
    input: Tensor, *, memory_format: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """As `zeros_like`."""
    return _like("empty_like", input, 0, dtype, device, layout, pin_memory, requires_grad)


@public(at="", method=True)
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`data` as a new tensor of this one's dtype."""
    check_options(device, layout, pin_memory)
    kind = self.dtype if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        warnings.warn(f"{_COPIED}tensor.new_tensor(sourceTensor).", UserWarning, stacklevel=2)
        return finished(_copied(data, dtype), requires_grad, _place(data, device))
    array = array_of(data, kind, STATE.default_dtype, True)
    return finished(from_data(array, copy=False), requires_grad, _place(self, device))


def _beside(self: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a function that makes one like `self`, where they do not say otherwise."""
    return {"dtype": self.dtype, **options, "device": _place(self, options.get("device"))}


@public(at="", method=True)
def new_full(self: Tensor, size: Any, fill_value: Any, **options: Any) -> Tensor:
    """`full` in this one's dtype."""
    return full(size, fill_value, **_beside(self, options))


@public(at="", method=True)
def new_zeros(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """`zeros` in this one's dtype."""
    return zeros(*size, **_beside(self, options))


@public(at="", method=True)
def new_ones(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """`ones` in this one's dtype."""
    return ones(*size, **_beside(self, options))


@public(at="", method=True)
def new_empty(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """`empty` in this one's dtype."""
    return empty(*size, **_beside(self, options))


@public(at="", method=True)
def new_empty_strided(self: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    """`empty_strided` in this one's dtype."""
    return empty_strided(size, stride, **_beside(self, options))
