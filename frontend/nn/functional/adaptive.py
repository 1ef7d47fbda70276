"""Adaptive pooling: windows that cover an axis, as many as the result shall have.

Window i of m over n places goes from floor(i·n/m) to ceil((i + 1)·n/m): all equally long where m
divides n, else of two lengths, and overlapping.
"""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.nn.checks import fail, require_float, sizes
from graphc.errors import AttributeValueError, ShapeError
from graphc.ops.nn import pooling, resampling

# -- the mean ------------------------------------------------------------------------------------


@public(at="nn.functional torch")
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over the last axis: [N, C, L] or [C, L] to [..., output_size]."""
    return _adaptive_mean(1, input, output_size)


@public(at="nn.functional")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over the last two axes: [N, C, H, W] or [C, H, W] to [..., *output_size]. One number
    stands for both; None keeps an axis. Raises ShapeError, AttributeValueError or TypeError."""
    return _adaptive_mean(2, input, output_size)


@public(at="nn.functional", autocast="float32")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over the last three axes: see `adaptive_avg_pool2d`."""
    return _adaptive_mean(3, input, output_size)


def _adaptive_mean(count: int, x: Tensor, output_size: Any) -> Tensor:
    op = f"adaptive_avg_pool{count}d"
    size = _size(op, count, x, output_size)
    require_float(x, op)
    first = x.ndim - count
    uniform = _uniform(x.shape[first:], size)
    if uniform is not None:
        return pooling.avg_pool(x, kernel=uniform, stride=uniform, padding=(0,) * count)
    for axis in reversed(range(count)):
        x = resampling.resample(x, axis=first + axis, size=size[axis], rule="mean")
    return x


# -- the greatest --------------------------------------------------------------------------------


def _adaptive_max(count: int, text: str) -> Any:
    """`adaptive_max_pool{count}d`."""

    def function(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        op = f"adaptive_max_pool{count}d"
        size = _size(op, count, input, output_size)
        require_float(input, op)
        uniform = _uniform(input.shape[input.ndim - count :], size)
        if uniform is None:
            attributes: dict[str, Any] = {"size": size}
            ops = pooling.adaptive_max_pool, pooling.adaptive_max_pool_indices
        else:
            attributes = {"kernel": uniform, "stride": uniform, "padding": (0,) * count,
                          "dilation": (1,) * count}  # fmt: skip
            ops = pooling.max_pool, pooling.max_pool_indices
        greatest = ops[0](input, **attributes)
        return (greatest, ops[1](input, **attributes)) if return_indices else greatest

    function.__name__ = function.__qualname__ = f"adaptive_max_pool{count}d"
    function.__doc__ = f"""Maxima over {text}: see `adaptive_avg_pool{count}d` for the sizes.

    The first of equal maxima takes the gradient. With `return_indices` also where each maximum
    stands in the image, counted row by row (int64).
    """
    return function


def _adaptive_max_with_indices(count: int) -> Any:
    pool = _adaptive_max(count, "")

    def function(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        pair: tuple[Tensor, Tensor] = pool(input, output_size, True)
        return pair

    function.__name__ = function.__qualname__ = f"adaptive_max_pool{count}d_with_indices"
    function.__doc__ = (
        f"`adaptive_max_pool{count}d` with `return_indices`, whatever that is set to."
    )
    return function


adaptive_max_pool1d = public(at="nn.functional")(_adaptive_max(1, "the last axis"))
adaptive_max_pool2d = public(at="nn.functional")(_adaptive_max(2, "the last two axes"))
adaptive_max_pool3d = public(at="nn.functional", autocast="float32")(
    _adaptive_max(3, "the last three axes")
)
adaptive_max_pool1d_with_indices = public(at="nn.functional")(_adaptive_max_with_indices(1))
adaptive_max_pool2d_with_indices = public(at="nn.functional")(_adaptive_max_with_indices(2))
adaptive_max_pool3d_with_indices = public(at="nn.functional", autocast="float32")(
    _adaptive_max_with_indices(3)
)


# -- sizes ---------------------------------------------------------------------------------------


def _uniform(extents: tuple[int, ...], size: tuple[int, ...]) -> tuple[int, ...] | None:
    """The one length of all windows, per axis, where there is one."""
    if any(m == 0 or n % m for n, m in zip(extents, size)):
        return None
    return tuple(n // m for n, m in zip(extents, size))


def _size(op: str, count: int, x: Tensor, output_size: Any) -> tuple[int, ...]:
    if x.ndim not in (count + 1, count + 2):
        raise fail(
            ShapeError, f"{op}(): Expected {count + 1}D or {count + 2}D tensor, but got {sizes(x)}"
        )
    extents = x.shape[x.ndim - count :]
    if 0 in extents:
        raise fail(
            ShapeError,
            f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input "
            f"has sizes {sizes(x)} with dimension {x.ndim - count + extents.index(0)} being empty",
        )
    if hasattr(output_size, "__index__"):
        output_size = (output_size,) * count
    if isinstance(output_size, str) or not hasattr(output_size, "__iter__"):
        raise TypeError(f"{op}(): output_size must be an int or a tuple of ints, not {output_size}")
    wanted = tuple(output_size)
    if len(wanted) != count:
        raise fail(AttributeValueError, f"{op}: output_size must be {count} numbers, got {wanted}")
    if not all((n is None and count > 1) or hasattr(n, "__index__") for n in wanted):
        raise TypeError(f"{op}(): output_size must be ints{', or None' * (count > 1)}: {wanted}")
    size = tuple(n if m is None else m.__index__() for m, n in zip(wanted, extents))
    if min(size) < 0:
        raise fail(
            AttributeValueError,
            f"{op}: elements of output_size must be greater than or equal to 0 but received "
            f"{wanted}",
        )
    return size
