"""What functions do inside of `autocast`: cast their operands, as PyTorch's lists for the CPU say.

    @lower_precision                  # products, convolutions, attention: in the region's dtype
    @full_precision                   # losses and what needs range: in float32
    @widest_precision                 # cat, stack: in the widest of their operands'

Outside of a region they are the functions they decorate; inside, the function runs with the region
off, so that what it calls takes its operands as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.state import STATE, swap_autocast
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import DType

F = TypeVar("F", bound=Callable[..., Any])


def casted_tensors(value: Any, kind: DType) -> Any:
    """A nest with its float tensors, but those of float64, in `kind`."""
    if isinstance(value, Tensor):
        dtype = value.tensor_type.dtype
        fits = dtype is kind or dtype is DType.f64 or not dtype.is_float
        return value if fits else casted(value, kind)
    if isinstance(value, dict):
        return {key: casted_tensors(each, kind) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(casted_tensors(each, kind) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[casted_tensors(each, kind) for each in value])
    return value


def _widest(value: Any) -> DType | None:
    """float32 where a nest has a tensor of it, else the dtype of its short floats."""
    if isinstance(value, Tensor):
        dtype = value.tensor_type.dtype
        return dtype if dtype.is_float and dtype is not DType.f64 else None
    if type(value) not in (list, tuple):
        return None
    kinds = {kind for kind in map(_widest, value) if kind is not None}
    return DType.f32 if len(kinds) > 1 else next(iter(kinds), None)


def _deciding(choose: Callable[[DType, Any], DType | None]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            mode = STATE.autocast
            if mode is None:
                return function(*args, **kwargs)
            kind = choose(mode, args)
            if kind is not None:
                args, kwargs = casted_tensors(args, kind), casted_tensors(kwargs, kind)
            swap_autocast(None)
            try:
                return function(*args, **kwargs)
            finally:
                swap_autocast(mode)

        return wrapped  # type: ignore[return-value]

    return decorate


lower_precision = _deciding(lambda mode, args: mode)
full_precision = _deciding(lambda mode, args: DType.f32)
widest_precision = _deciding(lambda mode, args: _widest(args))
