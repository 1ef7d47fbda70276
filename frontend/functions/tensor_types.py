"""The names tensor types had before dtypes: `FloatTensor(2, 3)`, `isinstance(x, LongTensor)`,
`x.type("torch.HalfTensor")`, and what `Tensor(…)` makes of its arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import SCALAR_NAMES, Size, on_cpu, set_default_dtype
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions.creation import zeros
from frontend.functions.creation_options import shape_of
from frontend.functions.declarations import public
from graphc.ir.types import DType


class tensortype(type):
    """The type of `FloatTensor` and the like: a call makes a tensor of its dtype, from sizes or
    from data; its instances are all tensors of that dtype."""

    dtype: DType
    is_cuda: bool

    def __new__(cls, dtype: DType, is_cuda: bool = False) -> Any:
        attributes = {"dtype": dtype, "is_cuda": is_cuda, "is_sparse": False}
        kind = super().__new__(cls, f"{SCALAR_NAMES[dtype]}Tensor", (), attributes)
        kind.__module__ = "frontend.cuda" if is_cuda else "frontend"
        return kind

    def __init__(cls, dtype: DType, is_cuda: bool = False):
        super().__init__(cls.__name__, (), {})

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if cls.is_cuda:
            raise TypeError(
                f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA "
                "enabled."
            )
        return made_of(args, kwargs, cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and not cls.is_cuda

    def __repr__(cls) -> str:
        return f"<class 'torch{'.cuda' if cls.is_cuda else ''}.{cls.__name__}'>"


FloatTensor = public()(tensortype(DType.f32))
DoubleTensor = public()(tensortype(DType.f64))
HalfTensor = public()(tensortype(DType.f16))
BFloat16Tensor = public()(tensortype(DType.bf16))
ByteTensor = public()(tensortype(DType.u8))
CharTensor = public()(tensortype(DType.i8))
ShortTensor = public()(tensortype(DType.i16))
IntTensor = public()(tensortype(DType.i32))
LongTensor = public()(tensortype(DType.i64))
BoolTensor = public()(tensortype(DType.bool))


def made_of(args: tuple[Any, ...], kwargs: dict[str, Any], dtype: DType | None) -> Tensor:
    """A tensor of `dtype` from what a tensor type was called with: nothing, sizes (numbers or one
    Size: zeros of that shape), another tensor (its memory), or data. None is the default dtype,
    and leaves another tensor its own.

    Raises TypeError for another tensor of another dtype and for what is neither size nor data."""
    options = dict(kwargs)
    on_cpu(options.pop("device", None))
    if "size" in options:
        args += (Size(options.pop("size")),)
    if "data" in options:
        args += (options.pop("data"),)
    if options:
        raise TypeError(f"new() got an unexpected keyword argument {next(iter(options))!r}")
    kind = STATE.default_dtype if dtype is None else dtype
    if not args:
        return zeros(0, dtype=kind)
    first = args[0]
    if len(args) > 1 or isinstance(first, Size) or _is_integer(first):
        sizes = tuple(first) if isinstance(first, Size) else args
        return zeros(shape_of((sizes,), "new"), dtype=kind)
    if isinstance(first, Tensor):
        if dtype is not None and first.dtype is not dtype:
            raise TypeError(
                f"expected a tensor of dtype {dtype} (got {first.dtype}); `.to()` casts it"
            )
        return first.detach()
    if isinstance(first, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(first).__name__}'")
    if not hasattr(first, "__len__"):
        raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return from_data(first, kind)


def initialize(self: Tensor, *data: Any, requires_grad: bool = False, **options: Any) -> None:
    """`Tensor.__init__`: a tensor of the default dtype from numbers, sizes or another tensor; for
    its older name Variable also with `requires_grad`.
    Nothing where the class's own `__new__` made one, from whatever arguments."""
    if hasattr(self, "_value"):
        return
    source = made_of(data, options, None)
    self._value, self.tensor_type = source._value, source.tensor_type
    self._counter, self._view = source._counter, source._view
    if requires_grad:
        self.requires_grad = True


def type_of(self: Tensor, dtype: Any = None) -> Any:
    """`Tensor.type`: the type's name ("torch.FloatTensor"), or the tensor cast to `dtype`: also to
    `torch.LongTensor`, "torch.LongTensor"."""
    if dtype is not None:
        return self.to(dtype_of_type(dtype))
    return f"torch.{SCALAR_NAMES[self.dtype]}Tensor"


@public(at="", method=True)
def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As a call of the tensor's type: sizes or data, in its dtype."""
    return made_of(args, kwargs, self.dtype)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def dtype_of_type(wanted: Any) -> DType:
    """The dtype of what `Tensor.type` takes: a dtype, a tensor type, or its name. Raises
    ValueError for others, RuntimeError for types on CUDA."""
    if isinstance(wanted, DType):
        return wanted
    if wanted is Tensor:
        return STATE.default_dtype
    is_cuda = isinstance(wanted, tensortype) and wanted.is_cuda
    if is_cuda or (isinstance(wanted, str) and wanted.startswith("torch.cuda.")):
        raise RuntimeError(f"there is no CUDA to make a {wanted} with")
    dtype = wanted.dtype if isinstance(wanted, tensortype) else _BY_NAME.get(wanted)
    if dtype is None:
        shown = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", repr(wanted))
        raise ValueError(f"invalid type: '{shown}'")
    return dtype


_BY_NAME: dict[Any, DType] = {f"torch.{name}Tensor": dtype for dtype, name in SCALAR_NAMES.items()}


@public()
def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a tensor type, or of its name, that of tensors made from Python floats.
    Deprecated, as in PyTorch: `set_default_dtype` says the same."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    set_default_dtype(dtype_of_type(t))


@public()
def typename(obj: Any) -> str:
    """The name of a type: of a tensor `torch.FloatTensor`, of others module and class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    prefix = "" if module in ("builtins", "__builtin__", "") else f"{module}."
    return f"{prefix}{named.__qualname__}"
