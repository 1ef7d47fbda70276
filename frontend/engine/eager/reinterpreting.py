"""The bytes of a tensor as elements of another dtype: views of the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.eager.uncompiled import NONE, Uncompiled, complex_type, real_type
from frontend.engine.tensors.no_value import NO_DATA
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.handle import apply
from graphc.ir.types import DType, TensorType


def _as_real_type(type: TensorType) -> TensorType:
    return real_type(type).with_shape((*type.shape, 2))


def _as_complex_type(type: TensorType) -> TensorType:
    return complex_type(type).with_shape(type.shape[:-1])


def _as_real(x: Any) -> Any:
    pairs = x[..., None]
    return pairs.view(x.real.dtype)


def _as_complex(x: Any) -> Any:
    return x.view(np.result_type(x.dtype, np.complex64))[..., 0]


VIEW_AS_REAL: Uncompiled = Uncompiled(
    "view_as_real", _as_real, lambda g, out, x: (apply(VIEW_AS_COMPLEX, _dense(g)),), NONE,
    _as_real_type, put_back=lambda new, parent: apply(VIEW_AS_COMPLEX, _dense(new)),
    on_pairs=lambda x: x,
)  # fmt: skip
VIEW_AS_COMPLEX: Uncompiled = Uncompiled(
    "view_as_complex", _as_complex, lambda g, out, x: (apply(VIEW_AS_REAL, g),), NONE,
    _as_complex_type, put_back=lambda new, parent: apply(VIEW_AS_REAL, new),
    on_pairs=lambda x: x,
)  # fmt: skip


def _dense(x: Tensor) -> Tensor:
    """`x` with its elements in row-major order."""
    dense: Tensor = x.contiguous()
    return dense


def _view_type(type: TensorType, *, dtype: DType) -> TensorType:
    *lead, last = type.shape or (1,)
    if not type.shape:
        return type.with_dtype(dtype)
    return TensorType(dtype, (*lead, last * type.dtype.itemsize // dtype.itemsize))


def _no_rule(g: Any, out: Any, x: Any, *, dtype: DType) -> tuple[None]:
    return (None,)


VIEW_DTYPE = Uncompiled(
    "view_dtype", lambda x, dtype: x.view(dtype.numpy), _no_rule, NONE, _view_type,
    put_back=lambda new, parent: viewed_as(new, parent.dtype),
)  # fmt: skip
VIEW_DTYPE.differentiable = False


def viewed_as(x: Tensor, dtype: DType) -> Tensor:
    """The memory of `x` as elements of `dtype`; the last dimension is as much longer or shorter as
    these are smaller or larger. Gradients do not go through it.

    Raises RuntimeError where the last dimension does not lie in one piece, or is no whole number of
    such elements; TraceError in a trace."""
    eager_only("view(dtype)")
    own, wanted = x.dtype.itemsize, dtype.itemsize
    if own != wanted:
        _check_last(x, own, wanted, dtype)
    (result,) = x.context.apply(VIEW_DTYPE, (x,), {"dtype": dtype})
    view: Tensor = result
    return view


def _check_last(x: Tensor, own: int, wanted: int, dtype: DType) -> None:
    what = f"self.size(-1) must be divisible by {wanted // own} to view {x.dtype} as {dtype}"
    if not x.dim():
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {x.dtype} as {dtype} (different element sizes)"
        )
    if x.stride(-1) != 1 and x.shape[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {x.dtype} as {dtype} (different element sizes), "
            f"but got {x.stride(-1)}"
        )
    if x.shape[-1] * own % wanted:
        raise RuntimeError(f"{what} (different element sizes), but got {x.shape[-1]}")
    if wanted > own and x._value is not NO_DATA:
        steps = [step * own % wanted for step in x.stride()[:-1]]
        if any(steps):
            raise RuntimeError(
                f"the strides of every dimension but the last must be whole elements of {dtype} to "
                f"view {x.dtype} as it"
            )
