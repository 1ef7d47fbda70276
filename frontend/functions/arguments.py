"""What functions of several families share about their arguments: `out=`, NumPy's names for `dim`
and `keepdim`, checks with PyTorch's words."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.promotion import can_cast, casted
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from graphc.errors import DTypeError, GraphError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType


def fail(kind: type[GraphError], message: str) -> GraphError:
    """An error of this kind that names the user's line."""
    return kind(message, location=user_location())


def index_of(number: Any) -> Any:
    """A 0-d tensor of integers as the int it is, where functions take an int; all else as it is.
    Raises TypeError for floats, TraceError for a traced tensor."""
    is_tensor = isinstance(number, Tensor) and not number.dim()
    return operator.index(number) if is_tensor else number


# -- out= ----------------------------------------------------------------------------------------


def stored_exactly(result: Any, out: Any) -> Any:
    """`stored` of functions whose `out` has the dtype of the result: raises DTypeError else."""
    if isinstance(out, Tensor) and isinstance(result, Tensor) and out.dtype is not result.dtype:
        raise DTypeError(
            f"Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead",
            location=user_location(),
        )
    if isinstance(out, tuple | list) and isinstance(result, tuple) and len(out) == len(result):
        for part, place in zip(result, out):
            stored_exactly(part, place)
        return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
    return stored(result, out)


def stored(result: Any, out: Any) -> Any:
    """`out` after taking the value of `result` (tensors, or equally long tuples of them); `result`
    where `out` is None. An `out` of another shape is resized, with PyTorch's warning unless it is
    empty. Raises ShapeError where it cannot be, being a view or in a trace, DTypeError where the
    dtype is of a lower category, and RuntimeError where a gradient would be recorded or several
    elements of `out` are one."""
    if out is None:
        return result
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            raise TypeError(f"argument 'out' must be tuple of {len(result)} Tensors")
        parts = [stored(part, place) for part, place in zip(result, out)]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    if STATE.grad_enabled and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )
    if not can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"result type {SCALAR_NAMES[result.dtype]} can't be cast to the desired output type "
            f"{SCALAR_NAMES[out.dtype]}",
            location=user_location(),
        )
    new = casted(result, out.dtype)
    if STATE.mode is None and 0 in out._array("out=").strides and out.numel() > 1:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    if new.tensor_type == out.tensor_type:
        out._assign(new)
    elif STATE.mode is None and out._view is None and out._frozen is None:
        if out.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape "
                f"{list(out.shape)}, which does not match the required output shape "
                f"{list(new.shape)}. This behavior is deprecated, and in a future PyTorch release "
                "outputs will not be resized unless they have zero elements.",
                stacklevel=4,
            )
        out.data = new.clone()
    else:
        error = ShapeError(
            f"an output with shape {list(out.shape)} cannot take a result with shape "
            f"{list(new.shape)}",
            hint="give an `out` of that shape; views, and tensors in a trace, are not resized",
            location=user_location(),
        )
        error.is_refusal = STATE.mode is not None and out._view is None
        raise error
    return out


def refuse_overlap(out: Any, *operands: Any) -> None:
    """Raise RuntimeError where `out`, a tensor or several, shares memory with an operand: for
    functions that PyTorch computes straight into `out`, reading what it wrote."""
    places = out if isinstance(out, tuple | list) else (out,)
    for place in places:
        if not isinstance(place, Tensor) or STATE.mode is not None or place.is_meta:
            continue
        array = place._array("out=")
        others = [x._array("out=") for x in operands if isinstance(x, Tensor) and not x.is_meta]
        if any(np.may_share_memory(array, x) and np.shares_memory(array, x) for x in others):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def takes_out(function: Callable[..., Any]) -> Any:
    """`function`, taking `out=` too."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, out: Any = None, **keywords: Any) -> Any:
        return stored(function(*arguments, **keywords), out)

    return wrapper


# -- names ---------------------------------------------------------------------------------------

_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def numpy_names(function: Callable[..., Any]) -> Any:
    """`function`, taking `axis` for `dim` and `keepdims` for `keepdim` too. `positional` of it is
    what may be called where there are no keywords."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        if keywords:
            for name in _NUMPY_NAMES.keys() & keywords.keys():
                if _NUMPY_NAMES[name] in keywords:
                    raise TypeError(
                        f"{function.__name__}() got both {_NUMPY_NAMES[name]!r} and {name!r}"
                    )
                keywords[_NUMPY_NAMES[name]] = keywords.pop(name)
        return function(*arguments, **keywords)

    wrapper.positional = function  # type: ignore[attr-defined]
    return wrapper


# -- checks --------------------------------------------------------------------------------------


def need_tensors(function: str, **operands: Any) -> None:
    """Raise TypeError in PyTorch's words where one of these is no Tensor. The names are those of
    the leading parameters, in order."""
    for position, (name, operand) in enumerate(operands.items(), 1):
        if not isinstance(operand, Tensor):
            raise TypeError(
                f"{function}(): argument '{name}' (position {position}) must be Tensor, not "
                f"{type(operand).__name__}"
            )


def need_a_tensor(function: str, *operands: Any) -> None:
    """Raise TypeError in PyTorch's words where none of these is a Tensor."""
    if not any(isinstance(x, Tensor) for x in operands):
        kinds = ", ".join(type(x).__name__ for x in operands)
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got ({kinds}), but one "
            "of the arguments must be a Tensor"
        )


def not_implemented(kernel: str, dtype: DType) -> NotImplementedError:
    """The error of a function that PyTorch has not for a dtype."""
    return NotImplementedError(
        f"\"{kernel}\" not implemented for '{SCALAR_NAMES[dtype]}'\n  at: {user_location()}"
    )


def formerly(name: str, now: str, rest: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """What follows a number in a call of PyTorch's former way, `name(input, number, *rest)`, which
    is said to be deprecated. Raises TypeError where `rest` is not `count` tensors."""
    if len(rest) != count or not all(isinstance(each, Tensor) for each in rest):
        raise TypeError(f"{name}() takes the arguments (input, {now}=1)")
    warnings.warn(
        f"This overload of {name} is deprecated. Consider using {name}(input, {now}) instead.",
        UserWarning,
        stacklevel=3,
    )
    return rest
