"""`nn.init`: fill a tensor in place with initial values, outside autograd, and return it.

Random fills draw from `generator`, or the default one that `manual_seed` seeds.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions import random, sampling
from frontend.functions.creation import empty_like
from frontend.functions.pointwise import where

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


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """How many inputs ("fan_in") or outputs ("fan_out") a weight has. Raises ValueError for another
    mode."""
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode.lower() == "fan_out"]


def _fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def _require_float(tensor: Tensor, kernel: str) -> None:
    if not tensor.tensor_type.dtype.is_float:
        raise NotImplementedError(
            f"\"{kernel}\" not implemented for '{SCALAR_NAMES[tensor.dtype]}'"
        )


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers from U(a, b). Raises RuntimeError where a is above b."""
    _require_float(tensor, "check_uniform_bounds")
    _check_bounds(a, b)
    with no_grad():
        return sampling.uniform_(tensor, a, b, generator=generator)


def _check_bounds(a: float, b: float) -> None:
    if a > b:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}"
        )


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Numbers from N(mean, std²). Raises RuntimeError for a negative std."""
    _require_float(tensor, "normal_kernel_cpu")
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    with no_grad():
        return sampling.normal_(tensor, mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Numbers from N(mean, std²) within [a, b], by rejection: of normal numbers, where most are
    within, else of uniform ones, by the density. Where any was rejected, as many are drawn again,
    and those that fitted stay. Not inside a trace. Warns where the mean is far outside; raises as
    `uniform_` and `normal_` do."""
    _require_float(tensor, "check_uniform_bounds")
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )
    if tensor.is_meta:
        return tensor
    below, above = ((1 + math.erf((x - mean) / std / math.sqrt(2))) / 2 for x in (a, b))
    if above - below > _MOSTLY:
        draw = functools.partial(_normal_within, mean=mean, std=std, bounds=(a, b))
    else:
        draw = functools.partial(_by_density, mean=mean, std=std, bounds=(a, b))
    with no_grad():
        drawn, fits = draw(tensor, generator)
        while not fits.all():
            again, fits_now = draw(empty_like(drawn), generator)
            drawn, fits = where(fits, drawn, again), fits | fits_now
        return tensor if drawn is tensor else tensor.copy_(drawn)


_MOSTLY = 0.3
"""The share of normal numbers within the bounds from which on others are drawn again."""


def _normal_within(
    place: Tensor, generator: Any, mean: float, std: float, bounds: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Normal numbers in `place`, and which of them are within bounds, rounded as they are."""
    least, most = (float(np.asarray(bound, place.dtype.numpy)) for bound in bounds)
    drawn = sampling.normal_(place, mean, std, generator=generator)
    return drawn, (drawn >= least) & (drawn <= most)


def _by_density(
    place: Tensor, generator: Any, mean: float, std: float, bounds: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Uniform numbers in `place`, and which of them are taken: with the probability of the density
    there to the greatest one within the bounds."""
    mode = max(bounds[0], min(mean, bounds[1]))
    greatest = -0.5 * ((mode - mean) / std) ** 2
    drawn = sampling.uniform_(place, *bounds, generator=generator)
    density = ((drawn - mean) / std) ** 2 * -0.5 - greatest
    return drawn, sampling.uniform_(empty_like(place), generator=generator).log() <= density


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`val` everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal, 0 elsewhere. Raises ValueError unless the tensor is 2-d."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _filled(tensor, np.eye(*tensor.shape))


def _filled(tensor: Tensor, values: np.ndarray) -> Tensor:
    with no_grad():
        return tensor.copy_(from_data(values, tensor.dtype))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight [out, in, *taps] that hands on its channels: 1 at the middle tap from
    input channel i to output channel i of each group. Raises ValueError for other ranks, and where
    the groups do not divide the output channels."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *taps = tensor.shape
    if outputs % groups:
        raise ValueError("dim 0 must be divisible by groups")
    values = np.zeros(tuple(tensor.shape))
    middle = tuple(size // 2 for size in taps)
    per_group = outputs // groups
    for channel in range(min(per_group, inputs)):
        values[(slice(channel, None, per_group), channel, *middle)] = 1
    return _filled(tensor, values)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix times `gain`, axes from the second on taken together: the Q of
    normal numbers, signs by R's diagonal (Saxe, McClelland, Ganguli, 2013). Not inside a trace.
    Raises ValueError below two dimensions."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel() or tensor.is_meta:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    like = tensor.new_empty((rows, columns))
    matrix = normal_(like, generator=generator)._array("orthogonal_()")
    tall, upper = np.linalg.qr(matrix.T if rows < columns else matrix)
    tall = tall * np.sign(np.diag(upper))
    values = (tall.T if rows < columns else tall) * gain
    return _filled(tensor, values.reshape(tuple(tensor.shape)))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Numbers from N(0, std²), in each column a fraction `sparsity` of them 0 (Martens, 2010). Not
    inside a trace. Raises ValueError unless the tensor is 2-d."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    normal_(tensor, 0, std, generator)
    values = tensor._array("sparse_()").copy()
    zeros = math.ceil(sparsity * values.shape[0])
    for column in values.T:
        column[random.randperm(len(column), generator=generator)._array("sparse_()")[:zeros]] = 0
    return _filled(tensor, values)


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


# -- names of before PyTorch 0.4 -----------------------------------------------------------------


def _deprecated(function: Any) -> Any:
    new = function.__name__
    old = new[:-1]

    @functools.wraps(function)
    def renamed(*arguments: Any, **keywords: Any) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*arguments, **keywords)

    renamed.__name__ = renamed.__qualname__ = old
    renamed.__doc__ = f"The older name of `{new}`."
    return renamed


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
