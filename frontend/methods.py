"""Attaches to Tensor what can be done with tensors: each family of functions says in METHODS which
of its names are methods, and in IN_PLACE which have a form that ends in `_`."""

from __future__ import annotations

from typing import Any

from frontend import creation, inplace, random
from frontend.dtypes import as_dtype, device
from frontend.functions import index, logic, matrix, pointwise, reduce, shape
from frontend.promotion import casted
from frontend.tensor import Tensor
from graphc.ir.types import DType

FAMILIES = (pointwise, logic, reduce, shape, matrix, index, creation, random)
"""Modules whose METHODS (and IN_PLACE) names are methods of Tensor."""

ALIASES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "negative": "neg", "absolute": "abs", "clip": "clamp", "greater": "gt", "less": "lt",
    "greater_equal": "ge", "less_equal": "le", "not_equal": "ne", "swapaxes": "transpose",
    "swapdims": "transpose", "sgn": "sign",
}  # fmt: skip


def to(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    """The tensor in another dtype: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`.
    The tensor itself where nothing changes, unless `copy`."""
    dtype = keywords.get("dtype")
    place = keywords.get("device")
    for argument in arguments:
        if isinstance(argument, Tensor):
            dtype = argument.dtype
        elif isinstance(argument, bool):
            continue  # non_blocking, copy
        elif isinstance(argument, device) or (isinstance(argument, str) and _is_device(argument)):
            place = argument
        elif argument is not None:
            dtype = argument
    if place is not None:
        device(place)  # raises for anything but the CPU
    result = self if dtype is None else casted(self, as_dtype(dtype))
    copies = keywords.get("copy") or (len(arguments) > 2 and arguments[-1] is True)
    return result.clone() if copies and result is self else result


def _is_device(text: str) -> bool:
    return text.partition(":")[0] in ("cpu", "cuda", "mps", "meta")


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of `other`."""
    return casted(self, other.dtype)


def _cast_method(name: str, dtype: DType) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return casted(self, dtype)

    method.__name__ = method.__qualname__ = name
    return method


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    return self


def cuda(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    """Raises AssertionError: there is no CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")


def _reflected(function: Any) -> Any:
    return lambda self, other: function(other, self)


def install(target: Any = Tensor) -> None:
    """Attach everything to Tensor."""
    for family in FAMILIES:
        for name in family.METHODS.split():
            setattr(Tensor, name, getattr(family, name))
        for name in getattr(family, "IN_PLACE", "").split():
            setattr(Tensor, f"{name}_", inplace.in_place(getattr(family, name)))
    for name, method in inplace.METHODS.items():
        setattr(Tensor, name, method)
    for name, known in ALIASES.items():
        setattr(target, name, getattr(target, known))
        if hasattr(target, f"{known}_"):
            setattr(target, f"{name}_", getattr(target, f"{known}_"))
    casts = {"float": DType.f32, "double": DType.f64, "int": DType.i32, "long": DType.i64,
             "bool": DType.bool}  # fmt: skip
    for name, dtype in casts.items():
        setattr(Tensor, name, _cast_method(name, dtype))
    for function in (to, type_as, cpu, cuda):
        setattr(Tensor, function.__name__, function)
    target.where = lambda self, condition, other: pointwise.where(condition, self, other)
    target.T = property(lambda self: shape.permute(self, *reversed(range(self.dim()))))
    target.mT = property(lambda self: shape.transpose(self, -2, -1))
    _install_operators(target)


def _guarded(function: Any) -> Any:
    """A binary operator that leaves unknown right-hand sides to Python."""

    def method(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            if isinstance(other, Tensor | int | float):
                raise
            return NotImplemented

    return method


def _install_operators(target: Any) -> None:
    f, i = pointwise, inplace.operator
    plain = {
        "add": f.add, "sub": f.sub, "mul": f.mul, "truediv": f.div, "floordiv": f.floor_divide,
        "mod": f.remainder, "pow": f.pow, "matmul": matrix.matmul,
        "and": logic.bitwise_and, "or": logic.bitwise_or, "xor": logic.bitwise_xor,
    }  # fmt: skip
    for name, function in plain.items():
        setattr(target, f"__{name}__", function)
        setattr(target, f"__r{name}__", _reflected(function))
        setattr(target, f"__i{name}__", i(function))
    for name in ("lt", "le", "gt", "ge"):
        setattr(target, f"__{name}__", getattr(logic, name))
    target.__eq__ = _guarded(logic.eq)
    target.__ne__ = _guarded(logic.ne)
    target.__neg__ = f.neg
    target.__pos__ = lambda self: self
    target.__abs__ = f.abs
    target.__invert__ = logic.bitwise_not
    target.__getitem__ = index.getitem
    target.__setitem__ = index.setitem


install()
