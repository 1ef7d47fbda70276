"""PyTorch's dtype names on graphc's DType, their limits, devices (the CPU, and meta), `Size`,
layouts and memory formats."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from frontend.engine.tensors.state import STATE, swap_devices
from frontend.engine.tensors.symbolic_numbers import SymInt
from graphc.ir.types import DType

__all__ = [
    "Size", "bfloat16", "bool", "cdouble", "cfloat", "channels_last", "channels_last_3d",
    "complex128", "complex64", "contiguous_format", "device", "double", "dtype", "float",
    "float16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "get_default_dtype", "half", "int", "int16",
    "int32", "int64", "int8", "layout", "long", "memory_format", "preserve_format",
    "set_default_dtype", "short", "sparse_bsc", "sparse_bsr", "sparse_coo", "sparse_csc",
    "sparse_csr", "strided", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip

dtype = DType
float32 = float = DType.f32
float64 = double = DType.f64
float16 = half = DType.f16
bfloat16 = DType.bf16
uint8 = DType.u8
int8 = DType.i8
int16 = short = DType.i16
int32 = int = DType.i32
int64 = long = DType.i64
bool = DType.bool
complex64 = cfloat = DType.c64
complex128 = cdouble = DType.c128
uint16, uint32, uint64 = DType.u16, DType.u32, DType.u64
float8_e4m3fn, float8_e4m3fnuz = DType.f8_e4m3, DType.f8_e4m3fnuz
float8_e5m2, float8_e5m2fnuz = DType.f8_e5m2, DType.f8_e5m2fnuz
float8_e8m0fnu = DType.f8_e8m0

_PYTHON = {
    builtins.float: DType.f64, builtins.int: DType.i64, builtins.bool: DType.bool,
    builtins.complex: DType.c128,
}  # fmt: skip
_NAMES = {
    "float32": float32, "float": float32, "float64": float64, "double": float64,
    "float16": float16, "half": float16, "bfloat16": bfloat16, "uint8": uint8, "int8": int8,
    "int16": int16, "short": int16, "int32": int32, "int": int32, "int64": int64, "long": int64,
    "bool": bool, "complex64": complex64, "cfloat": complex64, "complex128": complex128,
    "cdouble": complex128, "uint16": uint16, "uint32": uint32, "uint64": uint64,
    "float8_e4m3fn": float8_e4m3fn, "float8_e4m3fnuz": float8_e4m3fnuz, "float8_e5m2": float8_e5m2,
    "float8_e5m2fnuz": float8_e5m2fnuz, "float8_e8m0fnu": float8_e8m0fnu,
}  # fmt: skip
TORCH_NAMES = {kind: f"torch.{kind.numpy.name}" for kind in DType}
SCALAR_NAMES = {
    DType.f32: "Float", DType.f64: "Double", DType.f16: "Half", DType.bf16: "BFloat16",
    DType.u8: "Byte", DType.i8: "Char", DType.i16: "Short", DType.i32: "Int", DType.i64: "Long",
    DType.bool: "Bool", DType.c64: "ComplexFloat", DType.c128: "ComplexDouble",
    DType.u16: "UInt16", DType.u32: "UInt32", DType.u64: "UInt64",
    DType.f8_e4m3: "Float8_e4m3fn", DType.f8_e5m2: "Float8_e5m2",
    DType.f8_e4m3fnuz: "Float8_e4m3fnuz", DType.f8_e5m2fnuz: "Float8_e5m2fnuz",
    DType.f8_e8m0: "Float8_e8m0fnu",
}  # fmt: skip

# What `str` and users' code find on a dtype; texts of graphc keep its own names.
for _member in DType:
    _member.shown = TORCH_NAMES[_member]
    for _name, _value in {
        "is_floating_point": _member.is_float and not _member.is_complex,
        "is_signed": _member.numpy.kind not in "ub" and _member is not DType.f8_e8m0,
    }.items():
        setattr(_member, _name, _value)


def _to_complex(self: DType) -> DType:
    """The complex dtype whose parts are of this one."""
    return complex_of(self)


def _to_real(self: DType) -> DType:
    """The dtype of the parts of a complex one; itself where it is real."""
    return self.computes_as if self.is_complex else self


DType.to_complex, DType.to_real = _to_complex, _to_real  # type: ignore[attr-defined]


def as_dtype(dtype: Any) -> DType:
    """The DType of a DType, a Python type (`float` is float64, as in PyTorch), a NumPy dtype or a
    name ("float16", "torch.float16"). Raises TypeError for what is no dtype, DTypeError for one
    that is not supported."""
    if isinstance(dtype, DType):
        return dtype
    named = _PYTHON.get(dtype) if isinstance(dtype, type) else None
    if named is None and isinstance(dtype, str):
        named = _NAMES.get(dtype.removeprefix("torch."))
    if named is not None:
        return named
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or dtype is None:
        raise TypeError(f"dtype must be torch.dtype, not {type(dtype).__name__} ({dtype!r})")
    return DType.of(kind)


def get_default_dtype() -> DType:
    """The dtype of tensors made from Python floats."""
    return STATE.default_dtype


def set_default_dtype(dtype: Any) -> None:
    """Make `dtype` (a float dtype) that of tensors made from Python floats. Raises TypeError."""
    kind = as_dtype(dtype)
    if not kind.is_float or not kind.is_compiled:
        raise TypeError(f"only floating-point types are supported as the default type, got {kind}")
    STATE.default_dtype = kind


# -- promotion -----------------------------------------------------------------------------------

CATEGORY = {
    kind: 3 if kind.is_complex else 2 if kind.is_float else 1 if kind.is_integer else 0
    for kind in DType
}
"""bool < integers < floats < complex numbers."""


def complex_of(kind: DType) -> DType:
    """The complex dtype whose parts are of a float dtype: c64 also for those of 16 bits."""
    return DType.c128 if kind in (DType.f64, DType.c128) else DType.c64


def _promoted(left: DType, right: DType) -> DType | str:
    """The promoted dtype, or why there is none."""
    if left is right:
        return left
    for kind in (left, right):
        if kind.is_float and not kind.is_compiled and not kind.is_complex:
            return (
                "Promotion for Float8 Types is not supported, attempted to promote "
                f"{left} and {right}"
            )
    if left.is_complex or right.is_complex:
        doubles = DType.f64 in (left, right) or DType.c128 in (left, right)
        return DType.c128 if doubles else DType.c64
    if CATEGORY[left] != CATEGORY[right]:
        return left if CATEGORY[left] > CATEGORY[right] else right
    if DType.u16 in (left, right) or DType.u32 in (left, right) or DType.u64 in (left, right):
        return (
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{left} and {right}"
        )
    if left.itemsize != right.itemsize:
        return left if left.itemsize > right.itemsize else right
    # Neither of f16 and bf16 holds the other, nor of u8 and i8.
    return DType.f32 if left.is_float else DType.i16


_PROMOTED = {(left, right): _promoted(left, right) for left in DType for right in DType}


def promote_types(type1: Any, type2: Any) -> DType:
    """The smallest dtype that holds both. Raises RuntimeError where PyTorch has none: between
    unsigned integers of 16 bits and more and other integers, and for floats of 8 bits."""
    promoted = _PROMOTED.get((type1, type2)) or _PROMOTED[as_dtype(type1), as_dtype(type2)]
    if isinstance(promoted, str):
        raise RuntimeError(promoted)
    return promoted


# -- shapes --------------------------------------------------------------------------------------


class Size(tuple):
    """A shape: a tuple with `numel()`, printed as PyTorch prints it. Parts and sums are sizes.
    Raises TypeError for what is no integer."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        dims = []
        for position, size in enumerate(sizes):
            if not hasattr(size, "__index__"):
                raise TypeError(
                    f"torch.Size() takes an iterable of 'int' (item {position} is "
                    f"'{type(size).__name__}')"
                )
            dims.append(size if type(size) is SymInt else operator.index(size))
        return tuple.__new__(cls, dims)

    def numel(self) -> builtins.int:
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        part = tuple.__getitem__(self, index)
        return Size(part) if index.__class__ is slice else part

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"


# -- devices -------------------------------------------------------------------------------------

_DEVICES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia",
    "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class device:
    """A place for tensors: `device("cpu")`, `device("cuda:1")`, `device("cuda", 1)`. All are names
    one may have; only the CPU is there to be used. In `with` it is the default place."""

    __slots__ = ("_index", "_type")

    _type: str
    _index: builtins.int | None

    def __init__(self, type: Any, index: builtins.int | None = None):
        if isinstance(type, device):
            self._type, self._index = type._type, type._index
            return
        if isinstance(type, builtins.int):
            raise RuntimeError("Cannot access accelerator device when none is available.")
        if not isinstance(type, str):
            raise TypeError(
                f"device() takes a device, or a type (str) and an index (int), not "
                f"{type.__class__.__name__}"
            )
        kind, colon, number = type.partition(":")
        if kind not in _DEVICES:
            raise RuntimeError(
                f"Expected one of {', '.join(_DEVICES)} device type at start of device string: "
                f"{kind}"
            )
        if colon and (not number.isdecimal() or index is not None):
            raise RuntimeError(f"Invalid device string: '{type}'")
        if index is not None and index < 0:
            raise RuntimeError("Device index must not be negative")
        self._type = kind
        self._index = builtins.int(number) if colon else index

    @property
    def type(self) -> str:
        return self._type

    @property
    def index(self) -> builtins.int | None:
        return self._index

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, device) and (self._type, self._index) == (
            other._type,
            other._index,
        )

    def __hash__(self) -> builtins.int:
        return hash((self._type, self._index))

    def __str__(self) -> str:
        return self._type if self._index is None else f"{self._type}:{self._index}"

    def __repr__(self) -> str:
        place = "" if self._index is None else f", index={self._index}"
        return f"device(type={self._type!r}{place})"

    def __reduce__(self) -> Any:
        return device, (self._type, self._index)

    def __enter__(self) -> device:
        swap_devices((*STATE.devices, place_of(self)))
        return self

    def __exit__(self, *error: Any) -> None:
        swap_devices(STATE.devices[:-1])


CPU, META = device("cpu"), device("meta")


def place_of(place: Any) -> device:
    """CPU or META: the device `place`, a device, a name, or None for the default. Raises what
    `on_cpu` raises for others."""
    place = STATE.devices[-1] if place is None else place
    if place is None or place is CPU or place is META:
        return place or CPU
    if device(place).type == "meta":
        return META
    on_cpu(place)
    return CPU


def on_cpu(place: Any) -> None:
    """Raise what PyTorch raises without the device `place` (a device, a name, or None for the
    default) where that is not the CPU: AssertionError for CUDA, NotImplementedError for others."""
    if place is None or place is CPU:
        return
    kind = device(place).type
    if kind == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled")
    if kind != "cpu":
        raise NotImplementedError(
            f"there is no device {str(place)!r}: tensors are on the CPU, or without data on meta"
        )


# -- layouts -------------------------------------------------------------------------------------


class layout:
    """How a tensor lies in memory, as far as it has a name."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):
    """The order of dimensions in memory that functions accept a wish for. Tensors are row-major:
    channels_last changes nothing that can be computed, and is accepted for that."""

    __slots__ = ()


strided = layout("strided")
# To compare layouts with: no tensor has one of these, and functions that are asked for one raise.
sparse_coo = layout("sparse_coo")
sparse_csr, sparse_csc = layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
