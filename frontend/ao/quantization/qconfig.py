"""What observes a layer's results and what its weight: pairs of makers of observers."""

from __future__ import annotations

from typing import Any, NamedTuple

from frontend.ao.quantization.fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from frontend.ao.quantization.histogram_observer import HistogramObserver
from frontend.ao.quantization.observer import (
    MovingAverageMinMaxObserver,
    WithArgs,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)
from frontend.engine.tensors.absent_dtypes import qint8
from frontend.nn.modules.linear import Identity
from frontend.nn.modules.module import Module

BACKENDS = ("fbgemm", "x86", "qnnpack", "onednn")
REDUCED = ("fbgemm", "x86")
"""Those whose activations take 7 bits."""


class _Pair(NamedTuple):
    activation: Any
    weight: Any


class QConfig(_Pair):
    """`activation` and `weight`: classes, or what `with_args` gives of them. Raises ValueError for
    observers themselves."""

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. "
                "Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """That of static quantization for one of PyTorch's engines: histograms of activations, of 7
    bits for "x86" and "fbgemm"; weights with a scale for each channel, but one for "qnnpack"."""
    _check(backend, version, (0,))
    weight = default_weight_observer
    if backend != "qnnpack":
        weight = default_per_channel_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=backend in REDUCED), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int | None = 1) -> QConfig:
    """The same for quantization-aware training: moving averages, in version 1 by the fused
    module."""
    _check(backend, version, (0, 1))
    fused, channels = version == 1, backend != "qnnpack"
    weights = (
        (default_weight_fake_quant, default_per_channel_weight_fake_quant),
        (default_fused_wt_fake_quant, default_fused_per_channel_wt_fake_quant),
    )
    kind = FusedMovingAvgObsFakeQuantize if fused else FakeQuantize
    activation = kind.with_args(
        observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
        reduce_range=backend in REDUCED,
    )  # fmt: skip
    return QConfig(activation, weights[fused][channels])


def _check(backend: str, version: int | None, known: tuple[int, ...]) -> None:
    if backend not in BACKENDS:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(BACKENDS)}"
        )
    if version not in known:
        raise AssertionError(f"Version number: {version} is not supported: there are {known}")


def _signed(kind: Any, **kwargs: Any) -> WithArgs:
    """Activations of int8, for QNNPACK."""
    signed: WithArgs = kind.with_args(dtype=qint8, reduce_range=False, eps=2**-12, **kwargs)
    return signed


default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_weight_only_qconfig = QConfig(Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, Identity)
default_symmetric_qnnpack_qconfig = QConfig(
    _signed(HistogramObserver), weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    _signed(HistogramObserver), per_channel_weight_observer_range_neg_127_to_127
)
_SIGNED = _signed(
    FusedMovingAvgObsFakeQuantize, observer=MovingAverageMinMaxObserver, quant_min=-128,
    quant_max=127,
)  # fmt: skip
default_symmetric_qnnpack_qat_qconfig = QConfig(_SIGNED, fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _SIGNED, fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
