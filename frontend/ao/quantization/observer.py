"""Modules that watch tensors pass and choose scales and zero points for them.

in : tensors, by calls, which are handed back as they are
out: `calculate_qparams()`: a scale (float32) and a zero point (int32, int64 of what is symmetric),
     [1] or [channels]
"""

from __future__ import annotations

from functools import partial
from typing import Any

from frontend.engine.tensors.absent_dtypes import qint8, qint32, quint8
from frontend.engine.tensors.qschemes import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full, tensor, zeros
from frontend.functions.logic import isinf
from frontend.functions.pointwise import maximum, minimum, where
from frontend.functions.reduce import aminmax
from frontend.nn.modules.module import Module
from graphc.ir.types import DType

EPSILON = 2.0**-23
"""The least scale, where none is said."""
RANGES: dict[Any, tuple[int, int]] = {
    qint8: (-128, 127), DType.i8: (-128, 127), quint8: (0, 255), DType.u8: (0, 255),
    DType.i16: (-(2**15), 2**15 - 1), qint32: (-(2**31), 2**31 - 1),
    DType.i32: (-(2**31), 2**31 - 1),
}  # fmt: skip
REDUCIBLE = (qint8, DType.i8, quint8, DType.u8)
UNSIGNED = (quint8, DType.u8)


class WithArgs(partial[Any]):
    """A class with some of its arguments, which can be given more of them."""

    def with_args(self, **kwargs: Any) -> WithArgs:
        """The same with these arguments too."""
        return WithArgs(self, **kwargs)


class ObserverBase(Module):
    """What all observers are. `dtype`: what the tensors are to be quantized to."""

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @classmethod
    def with_args(cls, **kwargs: Any) -> WithArgs:
        """The class with these arguments, for a QConfig."""
        return WithArgs(cls, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} says no forward")

    def calculate_qparams(self) -> Any:
        """Scale and zero point."""
        raise NotImplementedError(f"{type(self).__name__} says no calculate_qparams")


class UniformQuantizationObserverBase(ObserverBase):
    """Observers of the least and the greatest number, `min_val` and `max_val`.

    `quant_min`, `quant_max`: the range of integers, without them that of `dtype`, half of it with
    `reduce_range`. `eps`: the least scale. Raises ValueError for a range without 0 and for one that
    is empty, NotImplementedError for a `dtype` or `qscheme` that there is not.
    """

    eps: Tensor
    min_val: Tensor
    max_val: Tensor
    schemes: tuple[Any, ...] = (per_tensor_affine, per_tensor_symmetric)

    def __init__(
        self, dtype: Any = quint8, qscheme: Any = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None,
        eps: float = EPSILON, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        name = type(self).__name__
        if qscheme not in self.schemes:
            known = ", ".join(map(str, self.schemes))
            raise NotImplementedError(f"{name}'s qscheme only support {known}, got {qscheme}")
        if dtype not in RANGES:
            raise NotImplementedError(f"{name}: dtype is to be one of {list(RANGES)}, got {dtype}")
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if qscheme.is_symmetric and reduce_range and dtype in UNSIGNED:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")
        self.quant_min, self.quant_max = self._range(quant_min, quant_max)
        self.register_buffer("eps", tensor([eps], dtype=DType.f32))
        self._reset()

    def _range(self, low: int | None, high: int | None) -> tuple[int, int]:
        least, most = RANGES[self.dtype]
        if low is not None and high is not None:
            if not low <= 0 <= high:
                raise ValueError("Used-specified quantization range must include 0.")
            if low >= high:
                raise ValueError(
                    "qmin must be strictly less than qmax for user-specified quantization range."
                )
            least, most = low, high
        # A range that was said is halved too, as in PyTorch.
        if self.reduce_range and self.dtype in REDUCIBLE:
            least, most = least // 2, most // 2
        return least, most

    def _reset(self) -> None:
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self._reset()

    def calculate_qparams(self) -> Any:
        return self._calculate_qparams(self.min_val, self.max_val)

    def _calculate_qparams(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and zero point for numbers of this range; 1 and 0 where nothing was seen."""
        if least.numel() == 0:
            return tensor([1.0]), tensor([0])
        low, high = least.reshape(-1), most.reshape(-1)
        seen = low <= high
        scale, zero = self._chosen(low, high)
        return where(seen, scale, 1.0), where(seen, zero, 0)

    def _chosen(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        span = float(self.quant_max - self.quant_min)
        low, high = least.clamp(max=0), most.clamp(min=0)
        if self.qscheme.is_symmetric:
            scale = maximum(maximum(-low, high) / (span / 2), self.eps)
            return scale, full(scale.shape, self._middle(), dtype=DType.i64)
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (most - least) / span
            scale = where(scale > self.eps, scale, 1.0)
            return scale, -1 * least / scale
        scale = maximum((high - low) / span, self.eps)
        zero = self.quant_min - (low / scale).round()
        return scale, zero.clamp(self.quant_min, self.quant_max).to(DType.i32)

    def _middle(self) -> int:
        """The zero point of a symmetric scheme."""
        if self.dtype not in UNSIGNED:
            return 0
        return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the greatest number of all tensors seen."""

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            least, most = aminmax(x_orig.detach().to(self.min_val.dtype))
            self._see(least, most)
        return x_orig

    def _see(self, least: Tensor, most: Tensor) -> None:
        self.min_val.copy_(minimum(least, self.min_val))
        self.max_val.copy_(maximum(most, self.max_val))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Moving averages of each tensor's least and greatest number, of which the newest counts
    `averaging_constant`."""

    def __init__(
        self, averaging_constant: float = 0.01, dtype: Any = quint8, **kwargs: Any
    ) -> None:
        self._check_average(averaging_constant, kwargs.get("is_dynamic", False))
        super().__init__(dtype, **kwargs)
        self.averaging_constant = averaging_constant

    @staticmethod
    def _check_average(constant: float, is_dynamic: bool) -> None:
        if is_dynamic and constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging "
                f"constant of {constant}"
            )

    def _see(self, least: Tensor, most: Tensor) -> None:
        self.min_val.copy_(averaged(self.min_val, least, self.averaging_constant))
        self.max_val.copy_(averaged(self.max_val, most, self.averaging_constant))


def averaged(kept: Tensor, new: Tensor, constant: float) -> Tensor:
    """The moving average after a new number; that alone where there was none."""
    result: Tensor = where(isinf(kept), new, kept + constant * (new - kept))
    return result


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """The least and the greatest number of each channel, an index of dimension `ch_axis`. Nothing
    seen: both are of shape [0]."""

    schemes = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)

    def __init__(
        self, ch_axis: int = 0, dtype: Any = quint8, qscheme: Any = per_channel_affine,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if kwargs.get("is_dynamic", False):
            raise NotImplementedError(f"{type(self).__name__} doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, **kwargs)
        self.ch_axis = ch_axis

    def _reset(self) -> None:
        self.register_buffer("min_val", zeros(0))
        self.register_buffer("max_val", zeros(0))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            least, most = aminmax(by_channel(x_orig.detach(), self.ch_axis), dim=1)
            if self.min_val.numel():
                least, most = self._joined(least, most)
                self.min_val.copy_(least)
                self.max_val.copy_(most)
            else:
                self.min_val, self.max_val = least, most
        return x_orig

    def _joined(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        return minimum(least, self.min_val), maximum(most, self.max_val)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("min_val", "max_val"):
            if (kept := state_dict.get(prefix + name)) is not None:
                setattr(self, name, zeros(kept.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Moving averages of each channel's least and greatest number."""

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, dtype: Any = quint8, **kwargs: Any
    ) -> None:
        super().__init__(ch_axis, dtype, **kwargs)
        self.averaging_constant = averaging_constant

    def _joined(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        kept = self.averaging_constant
        return averaged(self.min_val, least, kept), averaged(self.max_val, most, kept)


def by_channel(x: Tensor, axis: int) -> Tensor:
    """A tensor as [channels, the rest of them]."""
    moved: Tensor = x.transpose(0, axis)
    return moved.reshape(moved.shape[0], -1)


class FixedQParamsObserver(ObserverBase):
    """One scale and zero point, whatever is seen."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: Any = quint8, qscheme: Any = per_tensor_affine,
        quant_min: int = 0, quant_max: int = 255, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", tensor([scale], dtype=DType.f32))
        self.register_buffer("zero_point", tensor([zero_point], dtype=DType.i32))

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self) -> Any:
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """It sees nothing: it says the dtype, for what is quantized by its own range."""

    def __init__(
        self, dtype: Any = DType.f32, custom_op_name: str = "", compute_dtype: Any = None,
        quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None,
        eps: float | None = None, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.qscheme = qscheme or per_tensor_affine

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> Any:
        raise RuntimeError("calculate_qparams should not be called for PlaceholderObserver")


class NoopObserver(ObserverBase):
    """It sees nothing and chooses nothing."""

    def __init__(self, dtype: Any = DType.f16, custom_op_name: str = "") -> None:
        super().__init__(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def calculate_qparams(self) -> Any:
        raise RuntimeError("calculate_qparams should not be called for NoopObserver")


class RecordingObserver(ObserverBase):
    """It keeps all that it sees: `get_tensor_value()`."""

    def __init__(self, dtype: Any = quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self) -> Any:
        raise RuntimeError("calculate_qparams should not be called for RecordingObserver")

    def get_tensor_value(self) -> list[Tensor]:
        return self.tensor_val


SYMMETRIC = {"dtype": qint8, "qscheme": per_tensor_symmetric}
SYMMETRIC_CHANNELS = {"dtype": qint8, "qscheme": per_channel_symmetric}
WITHOUT_LEAST = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}
"""A range that is symmetric as integers too, and scales that QNNPACK takes."""

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(**SYMMETRIC)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**SYMMETRIC, **WITHOUT_LEAST)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**SYMMETRIC_CHANNELS)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    **SYMMETRIC_CHANNELS, **WITHOUT_LEAST
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=quint8, quant_min=0, quant_max=255
)
