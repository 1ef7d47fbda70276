"""PyTorch's dtype names on graphc's DType, devices (there is one: the CPU), and `Size`."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from graphc.ir.types import DType

float32 = float = DType.f32
float64 = double = DType.f64
int32 = int = DType.i32
int64 = long = DType.i64
bool = DType.bool

_PYTHON = {builtins.float: DType.f64, builtins.int: DType.i64, builtins.bool: DType.bool}
_NAMES = {
    "float32": float32, "float": float32, "float64": float64, "double": float64,
    "int32": int32, "int": int32, "int64": int64, "long": int64, "bool": bool,
}  # fmt: skip
TORCH_NAMES = {
    DType.f32: "torch.float32", DType.f64: "torch.float64", DType.i32: "torch.int32",
    DType.i64: "torch.int64", DType.bool: "torch.bool",
}  # fmt: skip
SCALAR_NAMES = {
    DType.f32: "Float", DType.f64: "Double", DType.i32: "Int", DType.i64: "Long",
    DType.bool: "Bool",
}  # fmt: skip


def as_dtype(dtype: Any) -> DType:
    """The DType of a DType, a Python type (`float` is float64, as in PyTorch), a NumPy dtype or a
    name. Raises DTypeError."""
    if isinstance(dtype, DType):
        return dtype
    found = _PYTHON.get(dtype) if isinstance(dtype, type) else None
    if found is None and isinstance(dtype, str):
        found = _NAMES.get(dtype.removeprefix("torch."))
    return found or DType.of(dtype)


def dtype_of_data(data: Any, default: DType) -> DType:
    """The dtype `tensor(data)` takes: Python floats are `default`, NumPy arrays keep theirs."""
    if isinstance(data, np.ndarray | np.generic):
        return DType.of(data.dtype)
    kind = np.asarray(data).dtype if not isinstance(data, builtins.bool) else np.dtype(np.bool_)
    if kind.kind == "f":
        return default
    if kind.kind in "iu":
        return DType.i64 if np.asarray(data).size else default
    return DType.of(kind)


class Size(tuple):
    """A shape: a tuple with `numel()`, printed as PyTorch prints it."""

    __slots__ = ()

    def numel(self) -> builtins.int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"


class device:
    """Where a tensor lives. The only type is `cpu`."""

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: builtins.int | None = None):
        name: str = type.type if isinstance(type, device) else str(type)
        kind, _, number = name.partition(":")
        if kind not in ("cpu", "cuda", "mps", "meta"):
            raise RuntimeError(f"Expected one of cpu, cuda, mps, meta device type at start of "
                               f"device string: {kind}")  # fmt: skip
        if kind != "cpu":
            raise AssertionError(f"Torch not compiled with {kind.upper()} enabled")
        self.type: str = kind
        self.index = builtins.int(number) if number else index

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, device) and self.type == other.type

    def __hash__(self) -> builtins.int:
        return hash(self.type)

    def __str__(self) -> str:
        return self.type

    def __repr__(self) -> str:
        return f"device(type={self.type!r})"


CPU = device("cpu")
