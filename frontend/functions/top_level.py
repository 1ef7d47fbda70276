"""The in-place functions that PyTorch has at the top level beside the methods: `abs_(x)` is
`x.abs_()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.tensors.tensor import Tensor

NAMES = [
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_",
    "arctan_", "arctanh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_",
    "clamp_max_", "clamp_min_", "clip_", "conj_physical_", "cos_", "cosh_", "deg2rad_", "detach_",
    "erf_", "index_put_", "as_strided_",
    "erfc_", "exp_", "exp2_", "expm1_", "fill_", "fix_", "floor_", "frac_", "gcd_", "i0_",
    "lcm_", "ldexp_", "log_", "log10_", "log1p_", "log2_", "logit_", "nan_to_num_", "neg_",
    "negative_", "rad2deg_", "reciprocal_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_",
    "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_", "xlogy_", "zero_",
]  # fmt: skip
__all__ = [*NAMES, "detach", "fill"]


def _function(name: str) -> Callable[..., Tensor]:
    def function(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        method: Callable[..., Tensor] = getattr(input, name)
        return method(*arguments, **keywords)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`input.{name}(…)`."
    return function


globals().update({name: _function(name) for name in NAMES})


def detach(input: Tensor) -> Tensor:
    """The same memory, off the tape."""
    return input.detach()


def fill(input: Tensor, value: Any) -> Tensor:
    """`value` (a number or a 0-d tensor) in the shape and dtype of `input`."""
    result: Tensor = input.clone().fill_(value)
    return result
