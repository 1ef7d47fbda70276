"""Dropout: random zeros in training. Masks are drawn from the default generator: the same stream
eager and compiled."""

from __future__ import annotations

import math
import warnings

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.network_draws import drawn_inside
from frontend.nn.checks import fail, scalar_name
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import DTypeError, ShapeError

# Where selu saturates: minus its scale times its slope.
SATURATION = -1.7580993408473766


@public(at="nn.functional")
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is 0 with probability p, else scaled by 1/(1-p); otherwise the
    input. With `inplace` the result replaces the input."""
    return _dropped(input, p, training, inplace, tuple(input.shape))


@public(at="nn.functional")
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`dropout` of whole channels of [N, C, L] or [C, L]. Raises RuntimeError for other ranks."""
    if input.ndim not in (2, 3):
        raise fail(
            ShapeError,
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).",
        )
    return _dropped(input, p, training, inplace, _per_channel(input, input.ndim == 3))


@public(at="nn.functional")
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`dropout` of whole channels of [N, C, H, W]. A 3-d input counts as [N, C, L], with PyTorch's
    warning."""
    _warn_of_rank(input, "dropout2d", (3, 4), 2)
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. To drop channels of (N, C, L), use dropout1d.",
            stacklevel=asked_from(2),
        )
    return _dropped(input, p, training, inplace, _per_channel(input, True))


@public(at="nn.functional")
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """`dropout` of whole channels of [N, C, D, H, W] or [C, D, H, W]."""
    _warn_of_rank(input, "dropout3d", (4, 5), 3)
    return _dropped(input, p, training, inplace, _per_channel(input, input.ndim == 5))


@public(at="nn.functional")
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """In training each element takes selu's saturation value with probability p, and all are
    scaled and moved so that mean 0 and variance 1 stay (Klambauer et al., 2017)."""
    return _saturated(input, p, training, inplace, tuple(input.shape))


@public(at="nn.functional")
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels (the first two axes)."""
    shape = tuple(input.shape)
    if training and p not in (0, 1):
        shape = _per_channel(input, True)
    return _saturated(input, p, training, inplace, shape)


# -- parts ---------------------------------------------------------------------------------------


def _per_channel(input: Tensor, batched: bool) -> tuple[int, ...]:
    """The shape of a mask with one element per channel. Raises RuntimeError where the input has
    no axis of channels."""
    lead = 2 if batched else 1
    if input.ndim < lead:
        raise fail(ShapeError, "Feature dropout requires at least 2 dimensions in the input")
    return (*input.shape[:lead], *(1,) * (input.ndim - lead))


def _warn_of_rank(input: Tensor, name: str, allowed: tuple[int, ...], spatial: int) -> None:
    if input.ndim in allowed:
        return
    listed = " or ".join(f"{rank}D" for rank in allowed)
    warnings.warn(
        f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result "
        "in an error in a future release. To retain the behavior and silence this warning, please "
        f"use dropout instead. Note that {name} exists to provide channel-wise dropout on inputs "
        f"with {spatial} spatial dimensions, a channel dimension, and an optional batch dimension "
        f"(i.e. {listed} inputs).",
        stacklevel=asked_from(3),
    )


def _check(input: Tensor, p: float, training: bool) -> bool:
    """Whether anything is to be dropped. Raises ValueError, RuntimeError."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or not input.numel():
        return False
    if not input.dtype.is_float:
        raise fail(
            DTypeError,
            f"result type Float can't be cast to the desired output type {scalar_name(input)}",
        )
    return True


def _kept(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """1 with probability 1 - p, else 0."""
    return casted(drawn_inside(shape) >= p, input.dtype)


def _dropped(
    input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
) -> Tensor:
    if not _check(input, p, training):
        return input
    scale = 0.0 if p == 1 else 1 / (1 - p)
    out = input * (_kept(input, p, shape) * scale)
    return input.copy_(out) if inplace else out


def _saturated(
    input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
) -> Tensor:
    if not _check(input, p, training):
        return input
    if p == 1:
        out = input * 0
    else:
        scale = 1 / math.sqrt((SATURATION**2 * p + 1) * (1 - p))
        kept = _kept(input, p, shape)
        moved = (1 - kept) * (SATURATION * scale) - SATURATION * scale * p
        out = input * (kept * scale) + moved
    return input.copy_(out) if inplace else out
