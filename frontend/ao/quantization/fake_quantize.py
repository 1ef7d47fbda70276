"""Modules that watch tensors, choose scales and zero points for them, and hand on what the integers
stand for.

Whether they watch and whether they quantize stands in buffers, `observer_enabled` and
`fake_quant_enabled`, as in PyTorch: a compiled step follows them without being compiled anew.
"""

from __future__ import annotations

from typing import Any

from frontend.ao.quantization.histogram_observer import HistogramObserver
from frontend.ao.quantization.observer import (
    SYMMETRIC,
    SYMMETRIC_CHANNELS,
    WITHOUT_LEAST,
    FixedQParamsObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    WithArgs,
    averaged,
    by_channel,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from frontend.engine.tensors.absent_dtypes import qint8, quint8
from frontend.engine.tensors.qschemes import per_tensor_affine
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor
from frontend.functions.pointwise import maximum, where
from frontend.functions.quantization import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from frontend.functions.reduce import aminmax
from frontend.nn.modules.module import Module
from graphc.ir.types import DType

SMALLEST = 6.1e-5
"""The least scale that the fused module chooses."""


class FakeQuantizeBase(Module):
    """What all are that observe and quantize."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor
    flags: DType = DType.u8

    def __init__(self) -> None:
        super().__init__()
        for name in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(name, tensor([1], dtype=self.flags))

    @classmethod
    def with_args(cls, **kwargs: Any) -> WithArgs:
        """The class with these arguments, for a QConfig."""
        return WithArgs(cls, **kwargs)

    def forward(self, X: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} says no forward")

    def calculate_qparams(self) -> Any:
        """Scale and zero point."""
        raise NotImplementedError(f"{type(self).__name__} says no calculate_qparams")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Hand on what the integers stand for, else the tensors themselves."""
        self.fake_quant_enabled.fill_(int(enabled))

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Watch what passes, else leave scale and zero point as they are."""
        self.observer_enabled.fill_(int(enabled))

    def disable_observer(self) -> None:
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """`observer` watches; what is handed on is (q - zero point) · scale for
    q = clamp(round(x / scale) + zero point, quant_min, quant_max), with the straight gradient.
    Other arguments are the observer's. Raises ValueError for a range that the dtype has not."""

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
        quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        watching = observer(is_dynamic=is_dynamic, **observer_kwargs)
        least, most = (-128, 127) if watching.dtype in (qint8, DType.i8) else (0, 255)
        if watching.quant_min < least or watching.quant_max > most:
            raise ValueError(
                f"quant_min or quant_max out of bound: {watching.dtype} has {least} … {most}"
            )
        self.activation_post_process = watching
        self.dtype, self.qscheme = watching.dtype, watching.qscheme
        self.quant_min, self.quant_max = watching.quant_min, watching.quant_max
        self.is_dynamic, self.is_per_channel = is_dynamic, watching.qscheme.is_per_channel
        self.ch_axis = getattr(watching, "ch_axis", -1)
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer("zero_point", tensor([0], dtype=DType.i32))

    def calculate_qparams(self) -> Any:
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if X.numel():
            self._observe(X.detach())
        return self._quantized(X)

    def _observe(self, x: Tensor) -> None:
        watching = self.activation_post_process
        buffers = {n: kept.clone() for n, kept in watching.named_buffers() if n != "eps"}
        watching(x)
        scale, zero = self.calculate_qparams()
        self._choose(scale, zero, self.observer_enabled)
        for name, kept in buffers.items():
            assign_where(self.observer_enabled, watching, name, getattr(watching, name), kept)

    def _choose(self, scale: Tensor, zero: Tensor, flag: Tensor) -> None:
        assign_where(flag, self, "scale", scale, self.scale)
        assign_where(flag, self, "zero_point", zero.to(DType.i32), self.zero_point)

    def _quantized(self, x: Tensor) -> Tensor:
        bounds = self.quant_min, self.quant_max
        if self.is_per_channel:
            scale, zero = self._of_channels(x)
            faked = fake_quantize_per_channel_affine(x, scale, zero, self.ch_axis, *bounds)
        else:
            faked = fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, *bounds)
        result: Tensor = where(self.fake_quant_enabled == 1, faked, x)
        return result

    def _of_channels(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scales and zero points as many as channels, also before the first were chosen."""
        count = x.shape[self.ch_axis]
        return self.scale.expand(count), self.zero_point.expand(count)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("scale", "zero_point"):
            if (kept := state_dict.get(prefix + name)) is not None:
                setattr(self, name, getattr(self, name)[:1].expand(kept.shape).clone())
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )


def assign_where(flag: Tensor, holder: Module, name: str, new: Tensor, kept: Tensor) -> None:
    """Set a buffer where a flag is set; else to what it held. One that held nothing, of shape [0],
    then holds what stands for nothing."""
    if kept.numel() == 0:
        kept = tensor(float("inf" if name == "min_val" else "-inf"))
    chosen = where(flag == 1, new, kept).reshape(new.shape)
    if getattr(holder, name).shape == chosen.shape:
        getattr(holder, name).copy_(chosen)
    else:
        setattr(holder, name, chosen)


class FixedQParamsFakeQuantize(FakeQuantize):
    """With the scale and zero point of a FixedQParamsObserver."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer)
        if not isinstance(self.activation_post_process, FixedQParamsObserver):
            raise TypeError("FixedQParamsFakeQuantize takes a FixedQParamsObserver")
        self.scale, self.zero_point = self.activation_post_process.calculate_qparams()

    def calculate_qparams(self) -> Any:
        return self.scale, self.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """The same by moving averages, with the scales of PyTorch's fused operator: computed in float64
    and at least 6.1e-5, a zero point that is exact at the nearer end of the range. What is
    converted later takes those of the observer."""

    flags = DType.i64

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        kinds = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
        if not isinstance(self.activation_post_process, kinds):
            raise TypeError("FusedMovingAvgObsFakeQuantize takes observers of moving averages")

    def _observe(self, x: Tensor) -> None:
        watching = self.activation_post_process
        seen = aminmax(by_channel(x, self.ch_axis), dim=1) if self.is_per_channel else aminmax(x)
        for name, new in zip(("min_val", "max_val"), seen, strict=True):
            kept = getattr(watching, name)
            if kept.numel():
                new = averaged(kept, new, watching.averaging_constant)
            assign_where(self.observer_enabled, watching, name, new, kept)
        least, most = watching.min_val.reshape(-1), watching.max_val.reshape(-1)
        self._choose(*self._nearest(least, most), self.fake_quant_enabled)

    def _nearest(self, least: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
        low, high = self.quant_min, self.quant_max
        both = (least < 0) & (most > 0) & self.qscheme.is_symmetric
        half = (high - low) // 2
        widest = maximum((least / -(half + 1)).abs(), (most / half).abs())
        least = where(both, widest * -(half + 1), least).clamp(max=0)
        most = where(both, widest * half, most).clamp(min=0)
        exact = (most.to(DType.f64) - least.to(DType.f64)) / (high - low)
        own = exact.to(DType.f32)
        exact = where((own == 0) | (1 / own).isinf(), 0.1, exact)
        small, more = exact < SMALLEST, SMALLEST / exact.to(DType.f32)
        span = SMALLEST * (high - low)
        ends = (
            where(small, where(most == 0, -span, least * more), least),
            where(small, where(least == 0, span, most * more), most),
        )
        exact = where(small, SMALLEST, exact)
        first, last = (end.to(DType.f64) / exact for end in ends)
        nearer = abs(low) - first.abs() < abs(high) - last.abs()
        zero = where(both, (low + high) / 2, where(nearer, low - first, high - last))
        return exact.to(DType.f32), zero.round().clamp(low, high)


def disable_fake_quant(mod: Any) -> None:
    """For `model.apply`: quantize no longer."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Any) -> None:
    """For `model.apply`: quantize."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Any) -> None:
    """For `model.apply`: watch no longer."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Any) -> None:
    """For `model.apply`: watch."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()


AVERAGE, CHANNELS = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
BYTES = {"quant_min": 0, "quant_max": 255, "dtype": quint8}
WHOLE = {"quant_min": -128, "quant_max": 127}

default_fake_quant = FakeQuantize.with_args(
    observer=AVERAGE, **BYTES, qscheme=per_tensor_affine, reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(observer=AVERAGE, **WHOLE, **SYMMETRIC)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=CHANNELS, **WHOLE, **SYMMETRIC_CHANNELS, ch_axis=0
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, **BYTES, qscheme=per_tensor_affine, reduce_range=True
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=AVERAGE, **BYTES)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=AVERAGE, **WHOLE, **SYMMETRIC
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=CHANNELS, **WHOLE, **SYMMETRIC_CHANNELS
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=AVERAGE, **SYMMETRIC, **WITHOUT_LEAST
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=CHANNELS, **SYMMETRIC_CHANNELS, **WITHOUT_LEAST
)
