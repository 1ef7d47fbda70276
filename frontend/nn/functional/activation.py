"""Activations: elementwise, and softmax along an axis. With `inplace` the result replaces the
input, also on the tape; names that end in `_` do the same."""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend.engine.eager.dispatch import apply_one, filled
from frontend.engine.eager.promotion import casted, expanded
from frontend.engine.tensors.limits import finfo, fitting, wrapped
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions import pointwise
from frontend.functions.arguments import not_implemented
from frontend.functions.declarations import public
from frontend.functions.in_place_variants import in_place
from frontend.functions.network_draws import drawn_inside
from frontend.functions.reduce import dimension
from frontend.nn.checks import fail, require_float, scalar_name
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.types import DType
from graphc.ops import composite, elementwise, indexing, movement
from graphc.ops.nn import activations as a

# The fixed point of mean 0 and variance 1 (Klambauer et al., "Self-normalizing neural networks").
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _checked(input: Any, kernel: str) -> Any:
    """`input`, a float tensor. Raises TypeError, NotImplementedError."""
    if not isinstance(input, Tensor):
        raise TypeError(f"argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    require_float(input, kernel)
    return input


# -- rectifiers ----------------------------------------------------------------------------------


@public(at="nn.functional")
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0); the gradient at 0 is 0."""
    if isinstance(input, Tensor) and input.dtype is DType.bool:
        raise fail(DTypeError, "Boolean inputs not supported for relu")
    return relu_(input) if inplace else apply_one(elementwise.relu, input)


@public(at="nn.functional")
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is positive, else input · negative_slope."""
    if inplace:
        return leaky_relu_(input, negative_slope)
    return apply_one(a.leaky_relu, _checked(input, "leaky_relu_cpu"), slope=float(negative_slope))


@public(at="nn.functional torch", method=True, autocast="lower_precision")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is positive, else input · weight: one slope, or one per channel (axis 1).
    Raises RuntimeError where shapes or dtypes do not fit."""
    if input.dtype is not weight.dtype:
        raise fail(
            DTypeError,
            "prelu: Type promoting not supported. Got "
            f"{scalar_name(input)} and {scalar_name(weight)}",
        )
    if weight.ndim > 1:
        raise fail(
            ShapeError,
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}",
        )
    count, shape = weight.numel(), tuple(input.shape)
    if count != 1:
        if not shape:
            raise fail(ShapeError, "Not allow zero-dim input tensor.")
        channels = shape[1] if len(shape) > 1 else 1
        if count != channels:
            raise fail(
                ShapeError,
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{count} and channel size = {channels}.",
            )
    slots = tuple(count if axis == 1 else 1 for axis in range(len(shape)))
    slopes = movement.reshape(weight, shape=slots if count != 1 else (1,) * len(shape))
    return apply_one(a.prelu, _checked(input, "prelu_cpu"), expanded(slopes, shape))


@public(at="nn.functional", node="RreluWithNoise")
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """leaky_relu with a slope drawn from U(lower, upper) per element in training, otherwise the
    mean of both. Raises RuntimeError where the bounds are not finite or not in order."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise fail(AttributeValueError, f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise fail(
            AttributeValueError, "Lower bound should be less than or equal to the upper bound"
        )
    if inplace:
        return rrelu_(input, lower, upper, training)
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    _checked(input, "rrelu_with_noise_out_cpu")
    drawn = drawn_inside(tuple(input.shape), input.dtype.computes_as)
    return apply_one(a.prelu, input, casted(drawn * (upper - lower) + lower, input.dtype))


@public(at="nn.functional", node="Threshold")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above `threshold` or NaN, else `value`."""
    if inplace:
        return threshold_(input, threshold, value)
    if input.dtype is DType.bool:
        raise not_implemented("threshold_cpu", input.dtype)
    kind = input.dtype
    level, compared = fitting(threshold, kind, computed=True), input
    if kind.is_float:
        compared = casted(input, kind.computes_as)
    else:
        level = wrapped(int(level), kind)
    instead = filled(fitting(value, kind), kind, tuple(input.shape))
    return apply_one(elementwise.where, compared <= level, instead, input)


@public(at="nn.functional")
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input, at least 0 and at most 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


@public(at="nn.functional")
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """input, at least `min_val` and at most `max_val`; no gradient at the bounds. Raises ValueError
    where they are not in order."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        return hardtanh_(input, min_val, max_val)
    return _between(input, min_val, max_val)


_UNSIGNED = (DType.u8, DType.u16, DType.u32, DType.u64)


def _between(input: Tensor, low: float, high: float) -> Tensor:
    if input.dtype in _UNSIGNED and (low < 0 or high < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    low, high = (float(fitting(bound, input.dtype)) for bound in (low, high))
    return apply_one(a.hardtanh, input, low=low, high=high)


@public(at="nn.functional")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(input + 3) / 6."""
    if inplace:
        return in_place(hardsigmoid)(input)
    return apply_one(a.hardsigmoid, _checked(input, "hardsigmoid_cpu"))


@public(at="nn.functional")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input · relu6(input + 3) / 6 (Howard et al., "Searching for MobileNetV3", 2019)."""
    if inplace:
        return in_place(hardswish)(input)
    return apply_one(a.hardswish, _checked(input, "hardswish_cpu"))


@public(at="nn.functional", out=True)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input moved towards 0 by `lambd`, and 0 where it is nearer. Raises RuntimeError where
    `lambd` is negative, or greater than the dtype has numbers."""
    x = _checked(input, "softshrink_check")
    greatest = finfo(x.dtype).max
    if not 0 <= lambd <= greatest:
        raise fail(
            AttributeValueError,
            f"lambda must be in range [0, {greatest:g}] for input dtype {scalar_name(x)}, but "
            f"found {lambd:g}",
        )
    return apply_one(a.softshrink, x, level=float(lambd))


@public(at="nn.functional torch", method=True, out=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input, but 0 where its magnitude is at most `lambd`."""
    x = _checked(input, "hardshrink_cpu")
    return apply_one(a.hardshrink, x, level=float(fitting(lambd, x.dtype)))


# -- smooth --------------------------------------------------------------------------------------


@public(at="nn.functional")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha · (exp(input) - 1)."""
    if inplace:
        return elu_(input, alpha)
    return apply_one(a.elu, _checked(input, "elu_cpu"), alpha=float(alpha))


@public(at="nn.functional")
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu times a scale, with the constants that keep mean 0 and variance 1."""
    if inplace:
        return selu_(input)
    return apply_one(a.elu, _checked(input, "elu_cpu"), alpha=SELU_ALPHA, scale=SELU_SCALE)


@public(at="nn.functional", node="Celu")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is positive, else alpha · (exp(input / alpha) - 1). Raises RuntimeError where
    `alpha` is 0."""
    if alpha == 0:
        raise fail(AttributeValueError, "ZeroDivisionError: alpha cannot be 0 for CELU")
    if inplace:
        return celu_(input, alpha)
    return apply_one(a.elu, _checked(input, "elu_cpu"), alpha=float(alpha), rate=1 / alpha)


@public(at="nn.functional", out=True)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input · Φ(input), exactly or by PyTorch's `approximate='tanh'` formula."""
    _checked(input, "GeluKernelImpl")
    if approximate not in ("none", "tanh"):
        raise fail(AttributeValueError, "approximate argument must be either none or tanh.")
    return apply_one(composite.gelu, input, approximate=approximate)


@public(at="nn.functional")
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input · sigmoid(input)."""
    return in_place(silu)(input) if inplace else apply_one(a.silu, _checked(input, "silu_cpu"))


@public(at="nn.functional")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input · tanh(softplus(input)) (Misra, "Mish", 2019)."""
    return in_place(mish)(input) if inplace else apply_one(a.mish, _checked(input, "mish_cpu"))


@public(at="nn.functional")
def tanh(input: Tensor) -> Tensor:
    return pointwise.tanh(input)


@public(at="nn.functional")
def sigmoid(input: Tensor) -> Tensor:
    return pointwise.sigmoid(input)


@public(at="nn.functional", out=True)
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input)), exact where sigmoid underflows."""
    return apply_one(a.log_sigmoid, _checked(input, "log_sigmoid_cpu"))


@public(at="nn.functional", out=True)
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta · input)) / beta; input itself where beta · input is above `threshold`."""
    _checked(input, "softplus_cpu")
    return apply_one(a.softplus, input, beta=float(beta), threshold=float(threshold))


@public(at="nn.functional")
def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|)."""
    return input / (pointwise.abs(input) + 1)


@public(at="nn.functional")
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input). Raises DTypeError of bools, as their difference does."""
    if input.dtype is DType.bool:
        raise fail(
            DTypeError,
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying "
            "to invert a mask, use the `~` or `logical_not()` operator instead.",
        )
    x = input if input.dtype.is_float else input.float()
    return apply_one(a.tanhshrink, x)


@public(at="nn.functional", node="Glu")
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of `input` along `dim`, times the sigmoid of the second. Raises RuntimeError
    where the size is odd."""
    if not input.ndim:
        raise fail(ShapeError, "glu does not support scalars because halving size must be even")
    axis = dimension(dim, input.ndim)
    _checked(input, "glu_cpu")
    size = input.shape[axis]
    if size % 2:
        raise fail(
            ShapeError, f"Halving dimension must be even, but dimension {axis} is size {size}"
        )
    first, gate = input.chunk(2, axis) if size else (input, input)
    return first * pointwise.sigmoid(gate)


# -- along an axis -------------------------------------------------------------------------------


@public(at="nn.functional")
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(input) over its sum along `dim`; `dtype` casts the input first. Without `dim`: 0 for
    inputs of 0, 1 or 3 dimensions, else 1, with PyTorch's warning. Raises IndexError."""
    return _along(composite.softmax, "softmax", input, dim, _stacklevel, dtype)


@public(at="nn.functional")
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """softmax(-input); the same arguments."""
    axis = _implicit_dimension("softmin", input, _stacklevel) if dim is None else dim
    return _along(composite.softmax, "softmax", -input, axis, _stacklevel, dtype)


@public(at="nn.functional")
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of `softmax`, exact where softmax underflows; the same arguments."""
    return _along(composite.log_softmax, "log_softmax", input, dim, _stacklevel, dtype)


def _implicit_dimension(name: str, x: Tensor, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=asked_from(stacklevel + 1),
    )
    return 0 if x.ndim in (0, 1, 3) else 1


def _along(op: Any, name: str, x: Tensor, dim: int | None, stacklevel: int, dtype: Any) -> Tensor:
    if dim is None:
        dim = _implicit_dimension(name, x, stacklevel)
    axis = dimension(dim, x.ndim)
    x = x if dtype is None else x.to(dtype)
    require_float(x, f"{name}_lastdim_kernel_impl")
    if x.ndim == 0:
        return own(movement.reshape(op(movement.reshape(x, shape=(1,)), axis=0), shape=()))
    return apply_one(op, x, axis=axis)


@public(at="nn.functional")
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + noise) / tau) with noise from Gumbel(0, 1), a differentiable draw of a
    class (Jang, Gu, Poole, 2016). With `hard` the result is one-hot, its gradient the soft one's.
    `eps` does nothing, with PyTorch's warning."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=asked_from(2))
    if not logits.dtype.is_float:
        raise fail(DTypeError, f"gumbel_softmax takes floats, got {scalar_name(logits)}")
    # A draw of exactly 0 would have infinite noise.
    drawn = drawn_inside(tuple(logits.shape), logits.dtype.computes_as)
    noise = -pointwise.log(-pointwise.log(pointwise.clamp(drawn, min=2.0**-25)))
    noise = casted(noise, logits.dtype)
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    axis = dimension(dim, logits.ndim)
    best = soft.detach().argmax(axis, keepdim=True)
    zero = filled(0, soft.dtype, tuple(soft.shape))
    one = filled(1, soft.dtype, tuple(best.shape))
    choice = apply_one(indexing.scatter_add, zero, best, one, axis=axis)
    return choice - soft.detach() + soft


relu_ = public(at="nn.functional torch")(in_place(relu))
leaky_relu_ = public(at="nn.functional")(in_place(leaky_relu))
rrelu_ = public(at="nn.functional torch")(in_place(rrelu))
threshold_ = public(at="nn.functional torch")(in_place(threshold))
_limited = in_place(_between)


@public(at="nn.functional")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh`, in place; bounds in another order are taken."""
    limited: Tensor = _limited(input, min_val, max_val)
    return limited


elu_ = public(at="nn.functional")(in_place(elu))
selu_ = public(at="nn.functional torch")(in_place(selu))
celu_ = public(at="nn.functional torch")(in_place(celu))
