"""`torch.sparse.FloatTensor` and the like: the former way to make tensors of layout COO."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.dtypes import SCALAR_NAMES, Size, sparse_coo
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.sparse_layouts import sparse_coo_tensor
from graphc.ir.types import DType


class SparseTensorType(type):
    """The type of `sparse.FloatTensor`: a call makes a tensor from sizes, or from indices, values
    and maybe a size; its instances are the COO tensors of its dtype."""

    dtype: DType

    def __new__(cls, dtype: DType) -> Any:
        kind = super().__new__(
            cls, f"{SCALAR_NAMES[dtype]}Tensor", (), {"dtype": dtype, "is_sparse": True}
        )
        kind.__module__ = "frontend.sparse"
        return kind

    def __init__(cls, dtype: DType):
        super().__init__(cls.__name__, (), {})

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if args and isinstance(args[0], Tensor):
            return sparse_coo_tensor(*args, device=device)
        size = args[0] if args and isinstance(args[0], Size | tuple | list) else args
        return sparse_coo_tensor(Size(size or (0,)), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.layout is sparse_coo
            and instance.dtype is cls.dtype
        )

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


FloatTensor = SparseTensorType(DType.f32)
DoubleTensor = SparseTensorType(DType.f64)
HalfTensor = SparseTensorType(DType.f16)
BFloat16Tensor = SparseTensorType(DType.bf16)
ByteTensor = SparseTensorType(DType.u8)
CharTensor = SparseTensorType(DType.i8)
ShortTensor = SparseTensorType(DType.i16)
IntTensor = SparseTensorType(DType.i32)
LongTensor = SparseTensorType(DType.i64)
