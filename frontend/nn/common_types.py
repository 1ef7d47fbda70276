"""`torch.nn.common_types`: the types of arguments that are a number or one for each axis."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, Union

from frontend.engine.tensors.tensor import Tensor

_T = TypeVar("_T")
_scalar_or_tuple_any_t: TypeAlias = Union[_T, tuple[_T, ...]]  # noqa: UP007 (generic in _T)
_scalar_or_tuple_1_t: TypeAlias = Union[_T, tuple[_T]]  # noqa: UP007
_scalar_or_tuple_2_t: TypeAlias = Union[_T, tuple[_T, _T]]  # noqa: UP007
_scalar_or_tuple_3_t: TypeAlias = Union[_T, tuple[_T, _T, _T]]  # noqa: UP007
_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t = _scalar_or_tuple_1_t[int]
_size_2_t = _scalar_or_tuple_2_t[int]
_size_3_t = _scalar_or_tuple_3_t[int]
_size_any_opt_t = _scalar_or_tuple_any_t[int | None]
_size_2_opt_t = _scalar_or_tuple_2_t[int | None]
_size_3_opt_t = _scalar_or_tuple_3_t[int | None]
_ratio_any_t = _scalar_or_tuple_any_t[float]
_ratio_2_t = _scalar_or_tuple_2_t[float]
_ratio_3_t = _scalar_or_tuple_3_t[float]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
