"""Pooling: a reduction over each window, and the way back of `max_unpool`.

x is [N, C, *size], or [C, *size] without a batch; windows slide over its last one, two or three
axes. `stride` is the kernel's size where it is not given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.pointwise import floor_divide
from frontend.nn.checks import fail, require_float, scalar_name, sizes
from frontend.nn.geometry import IntOrInts, by, ints, known
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.types import DType
from graphc.ops import indexing, movement
from graphc.ops.nn import pooling

# -- the greatest --------------------------------------------------------------------------------


def _max_pool(count: int, text: str) -> Any:
    """`max_pool{count}d`."""

    def function(
        input: Tensor,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
        dilation: IntOrInts = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        op = f"max_pool{count}d"
        if input.dtype is DType.bool or (count == 1 and not input.dtype.is_float):
            raise NotImplementedError(f"\"{op}\" not implemented for '{scalar_name(input)}'")
        geometry = _geometry(op, count, input, kernel_size, stride, padding, dilation, ceil_mode)
        greatest = pooling.max_pool(input, **geometry)
        if not return_indices:
            return greatest
        return greatest, pooling.max_pool_indices(input, **geometry)

    function.__name__ = function.__qualname__ = f"max_pool{count}d"
    function.__doc__ = f"""The maximum of each window over {text}.

    Padding counts as minus infinity. The first of equal maxima takes the gradient. With `ceil_mode`
    a last window may hang over the end. With `return_indices` also where each maximum stands in
    the image, counted row by row (int64). Raises ShapeError or AttributeValueError.
    """
    return function


def _max_pool_with_indices(count: int) -> Any:
    pool = _max_pool(count, "")

    def function(
        input: Tensor,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
        dilation: IntOrInts = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        pair: tuple[Tensor, Tensor] = pool(
            input, kernel_size, stride, padding, dilation, ceil_mode, True
        )
        return pair

    function.__name__ = function.__qualname__ = f"max_pool{count}d_with_indices"
    function.__doc__ = f"`max_pool{count}d` with `return_indices`, whatever that is set to."
    return function


max_pool1d = public(at="nn.functional torch")(_max_pool(1, "the last axis"))
max_pool2d = public(at="nn.functional torch")(_max_pool(2, "the last two axes"))
max_pool3d = public(at="nn.functional torch", autocast="float32")(
    _max_pool(3, "the last three axes")
)
max_pool1d_with_indices = public(at="nn.functional torch")(_max_pool_with_indices(1))
max_pool2d_with_indices = public(at="nn.functional")(_max_pool_with_indices(2))
max_pool3d_with_indices = public(at="nn.functional", autocast="float32")(_max_pool_with_indices(3))


# -- the mean ------------------------------------------------------------------------------------


@public(at="nn.functional torch")
def avg_pool1d(
    input: Tensor,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window over the last axis: see `avg_pool2d`."""
    return _avg_pool(
        1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )  # fmt: skip


@public(at="nn.functional", out=True)
def avg_pool2d(
    input: Tensor,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last two axes.

    Padding counts as zeros, and in the mean's denominator unless `count_include_pad` is False;
    `divisor_override` replaces the denominator. Raises ShapeError or AttributeValueError.
    """
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )  # fmt: skip


@public(at="nn.functional", out=True, autocast="float32")
def avg_pool3d(
    input: Tensor,
    kernel_size: IntOrInts,
    stride: IntOrInts | None = None,
    padding: IntOrInts = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window over the last three axes: see `avg_pool2d`."""
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )  # fmt: skip


def _avg_pool(
    count: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    op = f"avg_pool{count}d"
    whole = x.dtype is DType.i64
    if not whole:
        require_float(x, op)
    geometry = _geometry(op, count, x, kernel_size, stride, padding, 1, ceil_mode)
    geometry = {name: each for name, each in geometry.items() if name != "dilation"}
    if divisor == 0:
        raise fail(AttributeValueError, "divisor must be not zero")
    pad = bool(include_pad)
    if whole:
        return _whole_means(x, {**geometry, "count_include_pad": pad}, divisor)
    return pooling.avg_pool(x, **geometry, count_include_pad=pad, divisor=divisor)


def _whole_means(x: Tensor, options: dict[str, Any], divisor: int | None) -> Tensor:
    """Means of whole numbers, rounded towards 0. Sums wrap, as PyTorch's do: those of the upper
    and of the lower bits are exact in f64."""

    def sums(values: Tensor) -> Tensor:
        return pooling.avg_pool(values.to(DType.f64), **options, divisor=1).to(DType.i64)

    upper = floor_divide(x, 2**24)
    total = sums(upper) * 2**24 + sums(x - upper * 2**24)
    if divisor is not None:
        return total.div(divisor, rounding_mode="trunc")
    ones = x.new_ones(x.shape, dtype=DType.f64)
    share = pooling.avg_pool(ones, **options, divisor=None)
    counts = (pooling.avg_pool(ones, **options, divisor=1) / share).round().to(DType.i64)
    return total.div(counts, rounding_mode="trunc")


def _lp_pool(count: int, text: str) -> Any:
    """`lp_pool{count}d`."""

    def function(
        input: Tensor,
        norm_type: float,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        op = f"lp_pool{count}d"
        taps = math.prod(ints(kernel_size, count, "kernel_size", op))
        powers = input.pow(norm_type)
        mean = _avg_pool(count, powers, kernel_size, stride, 0, ceil_mode, True, None)
        # The sign of a sum of odd powers is that of the result; where the sum is 0 the gradient
        # stops at relu, so that the pole of the root gives 0.
        return (mean.sign() * mean.abs().relu() * taps).pow(1.0 / norm_type)

    function.__name__ = function.__qualname__ = f"lp_pool{count}d"
    function.__doc__ = f"""(Σ x^norm_type)^(1/norm_type) of each window over {text}.

    Where the sum is 0 the gradient is 0. Raises ShapeError or AttributeValueError.
    """
    return function


lp_pool1d = public(at="nn.functional")(_lp_pool(1, "the last axis"))
lp_pool2d = public(at="nn.functional")(_lp_pool(2, "the last two axes"))
lp_pool3d = public(at="nn.functional")(_lp_pool(3, "the last three axes"))


# -- geometry ------------------------------------------------------------------------------------


def _geometry(
    op: str, count: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> dict[str, Any]:  # fmt: skip
    """The attributes of the pooling ops: kernel, stride, padding, dilation, and how far the last
    windows hang over the padded end."""
    ceil = 1 if ceil_mode else 0
    return known(_attributes, (x,), op, count, kernel_size, stride, padding, dilation, ceil)


def _attributes(
    x: Tensor, op: str, count: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: int,
) -> dict[str, Any]:  # fmt: skip
    _check_input(op, count, x)
    kernel = ints(kernel_size, count, "kernel_size", op)
    step = _stride(stride, kernel, op)
    pads = ints(padding, count, "padding", op)
    spread = ints(dilation, count, "dilation", op)
    if min(kernel) < 1 or min(step) < 1 or min(spread) < 1:
        what = "kernel size" if min(kernel) < 1 else "stride" if min(step) < 1 else "dilation"
        raise fail(AttributeValueError, f"pooling: {what} should be greater than zero")
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, spread)]
    _check_padding(kernel, pads, spread, spans)
    size = x.shape[x.ndim - count :]
    room = [n + 2 * p - span for n, p, span in zip(size, pads, spans)]
    extra = [s - 1 if ceil_mode else 0 for s in step]
    counts = [(space + e) // s + 1 for space, e, s in zip(room, extra, step)]
    # A window that would start beyond the input and its leading padding is left out.
    starts = zip(counts, step, size, pads)
    counts = [n - 1 if ceil_mode and (n - 1) * s >= d + p else n for n, s, d, p in starts]
    if any(n < 1 for n in counts):  # no minimum: which of two open sizes is less does not count
        channels = x.shape[x.ndim - count - 1]
        raise fail(
            ShapeError,
            f"Given input size: ({by((channels, *size), 'x')}). Calculated output size: "
            f"({by((channels, *(max(n, 0) for n in counts)), 'x')}). Output size is too small",
        )
    # Without ceil_mode whole windows alone count.
    over = [(n - 1) * s - space if ceil_mode else 0 for n, s, space in zip(counts, step, room)]
    overhang = tuple(max(n, 0) for n in over)
    return {
        "kernel": kernel, "stride": step, "padding": pads, "dilation": spread,
        "overhang": overhang if any(overhang) else (),
    }  # fmt: skip


def _stride(stride: Any, kernel: tuple[int, ...], op: str) -> tuple[int, ...]:
    if stride is None or (isinstance(stride, tuple | list) and not stride):
        return kernel
    return ints(stride, len(kernel), "stride", op)


def _check_input(op: str, count: int, x: Tensor) -> None:
    if x.ndim not in (count + 1, count + 2) or 0 in x.shape[x.ndim - count - 1 :]:
        raise fail(
            ShapeError,
            f"{op}: non-empty {count + 1}D or {count + 2}D (batch mode) tensor expected for "
            f"input, but got size {sizes(x)}",
        )


def _check_padding(kernel: Any, pads: Any, spread: Any, spans: Any) -> None:
    for k, p, d, span in zip(kernel, pads, spread, spans):
        if p < 0:
            raise fail(AttributeValueError, f"pad must be non-negative, but got pad: {p}")
        if 2 * p > span or p > k // 2:
            what = "effective kernel size" if 2 * p > span else "kernel size"
            raise fail(
                AttributeValueError,
                f"pad should be at most half of {what}, but got pad={p}, kernel_size={k} and "
                f"dilation={d}",
            )


# -- back to where the greatest stood ------------------------------------------------------------


def _max_unpool(count: int) -> Any:
    """`max_unpool{count}d`."""

    def function(
        input: Tensor,
        indices: Tensor,
        kernel_size: IntOrInts,
        stride: IntOrInts | None = None,
        padding: IntOrInts = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        op = f"max_unpool{count}d"
        _check_unpool(op, count, input, indices)
        kernel = ints(kernel_size, count, "kernel_size", op)
        step = _stride(stride, kernel, op)
        pads = ints(padding, count, "padding", op)
        axes = zip(input.shape[input.ndim - count :], step, pads, kernel)
        natural = tuple((n - 1) * s - 2 * p + k for n, s, p, k in axes)
        size = natural if output_size is None else _unpool_size(output_size, natural, step)
        return _unpooled(input, indices, size)

    function.__name__ = function.__qualname__ = f"max_unpool{count}d"
    function.__doc__ = f"""Zeros, with each element where `indices` of `max_pool{count}d` say.

    The result has the size that the pooling's input had, up to what its stride left over:
    `output_size` says which, with or without batch and channels. Where windows overlap, the last of
    those that name a place stands there. Raises ValueError for an impossible `output_size`,
    IndexRangeError for an index outside of the result, ShapeError or DTypeError.
    """
    return function


def _check_unpool(op: str, count: int, x: Tensor, indices: Tensor) -> None:
    if indices.dtype is not DType.i64:
        raise fail(
            DTypeError,
            f"elements in indices should be type int64 but got: {scalar_name(indices)}",
        )
    if x.ndim not in (count + 1, count + 2):
        raise fail(
            ShapeError,
            f"Input to {op} should be a {count + 1}d or {count + 2}d Tensor, but got a tensor "
            f"with {x.ndim} dimensions.",
        )
    if x.shape != indices.shape:
        raise fail(
            ShapeError,
            f"Expected shape of indices to be same as that of the input tensor ({sizes(x)}) but "
            f"got indices tensor with shape: {sizes(indices)}",
        )


def _unpool_size(
    output_size: Sequence[int], natural: tuple[int, ...], step: tuple[int, ...]
) -> Any:
    count = len(natural)
    size = tuple(output_size)
    if len(size) == count + 2:
        size = size[2:]
    if len(size) != count:
        raise ValueError(
            f"output_size should be a sequence containing {count} or {count + 2} elements, but it "
            f"has a length of '{len(size)}'"
        )
    for axis, (wanted, usual, s) in enumerate(zip(size, natural, step)):
        if not usual - s < wanted < usual + s:
            raise ValueError(
                f'invalid output_size "{size}" (dim {axis} must be between {usual - s} and '
                f"{usual + s})"
            )
    return tuple(int(n) for n in size)


def _unpooled(x: Tensor, indices: Tensor, size: tuple[int, ...]) -> Tensor:
    if any(n < 1 for n in size):
        raise fail(ShapeError, f"max_unpool: the output size ({by(size)}) is too small")
    lead = x.shape[: x.ndim - len(size)]
    flat = (*lead, math.prod(x.shape[len(lead) :]))
    message = f"Found an invalid max index: {{}} (output volumes are of size {by(size, 'x')})"
    checked = indexing.check_index(indices, bound=math.prod(size), message=message)
    out = pooling.max_unpool(
        movement.reshape(x, shape=flat), movement.reshape(checked, shape=flat), size=math.prod(size)
    )
    return movement.reshape(out, shape=(*lead, *size))


max_unpool1d = public(at="nn.functional")(_max_unpool(1))
max_unpool2d = public(at="nn.functional", autocast="float32")(_max_unpool(2))
max_unpool3d = public(at="nn.functional", autocast="float32")(_max_unpool(3))
