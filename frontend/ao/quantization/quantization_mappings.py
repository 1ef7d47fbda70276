"""What `prepare_qat` and `convert` put in the place of which layer."""

from __future__ import annotations

from typing import Any

from frontend.ao.nn import intrinsic, qat, quantized
from frontend.ao.nn.intrinsic import qat as intrinsic_qat
from frontend.ao.nn.intrinsic import quantized as intrinsic_quantized
from frontend.ao.quantization.fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from frontend.ao.quantization.stubs import DeQuantStub, QuantStub
from frontend.nn.modules import activation, batchnorm, conv, dropout, instancenorm, linear
from frontend.nn.modules import normalization as norms

Mapping = dict[Any, Any]

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: Mapping = {
    QuantStub: quantized.Quantize, DeQuantStub: quantized.DeQuantize,
    batchnorm.BatchNorm2d: quantized.BatchNorm2d, batchnorm.BatchNorm3d: quantized.BatchNorm3d,
    dropout.Dropout: quantized.Dropout, conv.Conv1d: quantized.Conv1d,
    conv.Conv2d: quantized.Conv2d, conv.Conv3d: quantized.Conv3d, activation.ELU: quantized.ELU,
    norms.GroupNorm: quantized.GroupNorm, activation.Hardswish: quantized.Hardswish,
    instancenorm.InstanceNorm1d: quantized.InstanceNorm1d,
    instancenorm.InstanceNorm2d: quantized.InstanceNorm2d,
    instancenorm.InstanceNorm3d: quantized.InstanceNorm3d,
    norms.LayerNorm: quantized.LayerNorm, activation.LeakyReLU: quantized.LeakyReLU,
    linear.Linear: quantized.Linear, activation.PReLU: quantized.PReLU,
    quantized.FloatFunctional: quantized.QFunctional,
    qat.Linear: quantized.Linear, qat.Conv1d: quantized.Conv1d, qat.Conv2d: quantized.Conv2d,
    qat.Conv3d: quantized.Conv3d,
    intrinsic_qat.ConvBn1d: quantized.Conv1d, intrinsic_qat.ConvBn2d: quantized.Conv2d,
    intrinsic_qat.ConvBn3d: quantized.Conv3d,
}  # fmt: skip
DEFAULT_QAT_MODULE_MAPPINGS: Mapping = {
    conv.Conv2d: qat.Conv2d, conv.Conv3d: qat.Conv3d, linear.Linear: qat.Linear
}  # fmt: skip
for _name in ("ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"):
    _kind = getattr(intrinsic_quantized, _name)
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS[getattr(intrinsic, _name)] = _kind
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS[getattr(intrinsic_qat, _name)] = _kind
    DEFAULT_QAT_MODULE_MAPPINGS[getattr(intrinsic, _name)] = getattr(intrinsic_qat, _name)
for _axes in (1, 2, 3):
    for _name in (f"ConvBn{_axes}d", f"ConvBnReLU{_axes}d"):
        DEFAULT_QAT_MODULE_MAPPINGS[getattr(intrinsic, _name)] = getattr(intrinsic_qat, _name)
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS[getattr(intrinsic_qat, f"ConvBnReLU{_axes}d")] = getattr(
        intrinsic_quantized, f"ConvReLU{_axes}d"
    )

DEFAULT_MODULE_TO_ACT_POST_PROCESS: Mapping = {
    activation.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    activation.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    activation.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    activation.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}
"""In training: what the results of layers pass whose range is known."""

OBSERVED = frozenset(
    (*DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS, activation.ReLU6)
)
"""Layers that are observed."""


def get_default_static_quant_module_mappings() -> Mapping:
    """What `convert` puts in the place of which layer."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> Mapping:
    """What `prepare_qat` puts in the place of which layer."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_compare_output_module_list() -> set[Any]:
    """Layers whose results `torch.ao.ns` compares."""
    mappings = (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS)
    return {kind for mapping in mappings for pair in mapping.items() for kind in pair}
