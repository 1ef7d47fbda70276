"""`nn.init`: fill a tensor in place with initial values, outside autograd, and return it.

Random fills draw from `generator`, or the default one that `manual_seed` seeds.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from frontend import random
from frontend.state import no_grad
from frontend.tensor import Tensor

_UNIT_GAIN = (
    "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "sigmoid",
)  # fmt: skip
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of a signal through `nonlinearity`; `param` is the slope
    of leaky_relu. Raises ValueError for an unknown name or a slope that is no number."""
    if nonlinearity in _UNIT_GAIN:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if isinstance(param, bool) or not (param is None or isinstance(param, int | float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    slope = 0.01 if param is None else param
    return math.sqrt(2.0 / (1 + slope**2))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output sums over, and the other way round, for a weight [out, in, *taps].
    Raises ValueError below two dimensions."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    outputs, inputs, *taps = tensor.shape
    return inputs * math.prod(taps), outputs * math.prod(taps)


def _fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers from U(a, b)."""
    with no_grad():
        drawn = random.rand(tuple(tensor.shape), dtype=tensor.dtype, generator=generator)
        return tensor.copy_(drawn * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers from N(mean, std²)."""
    with no_grad():
        drawn = random.randn(tuple(tensor.shape), dtype=tensor.dtype, generator=generator)
        return tensor.copy_(drawn * std + mean)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`val` everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """U(-bound, bound) with bound = gain · √(3 / fan) (He et al., 2015); `a` is leaky_relu's slope.
    A tensor without elements stays as it is, with a warning."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    gain = calculate_gain(nonlinearity, a)
    bound = gain * math.sqrt(3.0 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """N(0, std²) with std = gain / √fan (He et al., 2015); the rest as `kaiming_uniform_`."""
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    gain = calculate_gain(nonlinearity, a)
    return normal_(tensor, 0.0, gain / math.sqrt(_fan(tensor, mode)), generator)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """U(-bound, bound) with bound = gain · √(6 / (fan_in + fan_out)) (Glorot, Bengio, 2010)."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """N(0, std²) with std = gain · √(2 / (fan_in + fan_out)) (Glorot, Bengio, 2010)."""
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def default_bias_(bias: Tensor, weight: Tensor) -> Tensor:
    """U(-1/√fan_in, 1/√fan_in): PyTorch's default for Linear and convolution biases."""
    fan_in, _ = _calculate_fan_in_and_fan_out(weight)
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
    return uniform_(bias, -bound, bound)
