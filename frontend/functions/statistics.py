"""Means, variances and standard deviations."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.eager.uncompiled import IMAG, REAL
from frontend.engine.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.declarations import public
from frontend.functions.logic import isnan
from frontend.functions.reduce import axes_of, nansum, reduced, sum
from frontend.functions.unary import sqrt
from graphc.errors import DTypeError
from graphc.ir.builder import user_location
from graphc.ops import composite, summaries


@public(method=True, numpy_names=True)
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """The arithmetic mean of a float tensor. Of no elements it is NaN."""
    need_tensors("mean", input=input)
    kind = input.dtype if dtype is None else as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(
            f"mean(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} "
            "dtype must be either a floating point or complex dtype. Got: "
            f"{SCALAR_NAMES[kind]}",
            location=user_location(),
        )
    average = reduced(composite.mean, casted(input, kind), dim, keepdim)
    return average if out is None else stored(average, out)


@public(method=True, numpy_names=True)
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """The mean of what is not NaN."""
    if not input.dtype.is_float:
        raise DTypeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{SCALAR_NAMES[input.dtype]}",
            location=user_location(),
        )
    present = isnan(input).logical_not()
    total = nansum(input, dim, keepdim, dtype=dtype)
    return stored(total / sum(present, dim, keepdim), out)


# -- spread --------------------------------------------------------------------------------------


def _spread(
    op: Any, input: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any
) -> Tensor:
    need_tensors("var", input=input)
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    if not input.dtype.is_float:
        raise DTypeError(
            "std and var only support floating point and complex dtypes", location=user_location()
        )
    axes = axes_of(dim, input.dim())
    count = math.prod(input._sizes[axis] for axis in axes)
    if count <= correction or not input.numel():
        warnings.warn(
            f"{op.name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            stacklevel=4,
        )
    if input.is_complex():  # as wide as its two parts together
        parts = [CONTEXT.apply(part, (input,), {})[0] for part in (REAL, IMAG)]
        variances = [reduced(composite.var, x, dim, keepdim, correction=correction) for x in parts]
        total = variances[0] + variances[1]
        return total if op is composite.var else sqrt(total)
    return reduced(op, input, dim, keepdim, correction=correction)


@public(method=True, numpy_names=True)
def var(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """The variance of a float tensor: squared distance from the mean over (count - correction)."""
    return stored(_spread(composite.var, input, dim, unbiased, keepdim, correction), out)


@public(method=True, numpy_names=True)
def std(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """The square root of the variance; its gradient at 0 is 0."""
    return stored(_spread(summaries.std, input, dim, unbiased, keepdim, correction), out)


def _with_mean(spread: Any, input: Tensor, dim: Any, unbiased: Any, keepdim: bool,
               correction: Any, out: Any) -> Any:  # fmt: skip
    deviation = _spread(spread, input, dim, unbiased, keepdim, correction)
    level = mean(input, None if isinstance(dim, bool) else dim, keepdim)
    return stored((deviation, level), out)


@public(node="VarMean", numpy_names=True)
def var_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None, out: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance and the mean."""
    return _with_mean(composite.var, input, dim, unbiased, keepdim, correction, out)


@public(node="StdMean", numpy_names=True)
def std_mean(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None, out: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation and the mean."""
    return _with_mean(summaries.std, input, dim, unbiased, keepdim, correction, out)
