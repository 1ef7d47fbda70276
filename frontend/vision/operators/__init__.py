"""torchvision's operators as `torch.ops.torchvision.*`: what its compiled library has, which is
made for PyTorch's own. `torch.ops.load_library` of that library comes here.

suppression has `nms`; regions has `roi_align`, `roi_pool` and their position-sensitive forms;
deformable has `deform_conv2d`; gradients what torchvision calls by name for those. All but `nms`,
whose result has as many elements as boxes are kept, are ordinary functions of tensors: they are
differentiated, traced and compiled like any other.

taps says which pixels a region reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.library import Library
from frontend.vision.operators import gradients
from frontend.vision.operators.deformable import deform_conv2d
from frontend.vision.operators.regions import ps_roi_align, ps_roi_pool, roi_align, roi_pool
from frontend.vision.operators.suppression import nms

__all__ = ["deform_conv2d", "nms", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]


def _cuda_version() -> int:
    """The CUDA that the library was compiled with: none."""
    return -1


_IMAGES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_BINS = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_OF_REGIONS = f"(Tensor input, Tensor rois, {_BINS}"
_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
_OPERATORS: dict[Callable[..., Any], str] = {
    nms: "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    roi_align: f"{_OF_REGIONS}, int sampling_ratio, bool aligned) -> Tensor",
    roi_pool: f"{_OF_REGIONS}) -> (Tensor, Tensor)",
    ps_roi_align: f"{_OF_REGIONS}, int sampling_ratio) -> (Tensor, Tensor)",
    ps_roi_pool: f"{_OF_REGIONS}) -> (Tensor, Tensor)",
    deform_conv2d: f"({_CONVOLUTION}) -> Tensor",
    gradients._roi_align_backward: f"(Tensor grad, Tensor rois, {_BINS}, {_IMAGES}, "
    "int sampling_ratio, bool aligned) -> Tensor",
    gradients._roi_pool_backward: "(Tensor grad, Tensor rois, Tensor argmax, "
    f"{_BINS}, {_IMAGES}) -> Tensor",
    gradients._ps_roi_align_backward: "(Tensor grad, Tensor rois, Tensor channel_mapping, "
    f"{_BINS}, int sampling_ratio, {_IMAGES}) -> Tensor",
    gradients._ps_roi_pool_backward: "(Tensor grad, Tensor rois, Tensor channel_mapping, "
    f"{_BINS}, {_IMAGES}) -> Tensor",
    gradients._deform_conv2d_backward: f"(Tensor grad, {_CONVOLUTION}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    _cuda_version: "() -> int",
}
_QUANTIZED = {
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align": "(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    "float rois_scale, int rois_zero_point, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
}
"""Known by name, and without a kernel: tensors are not quantized."""

_LIBRARY = Library("torchvision", "DEF")
for _function, _schema in _OPERATORS.items():
    _LIBRARY.define(_function.__name__ + _schema)
    # Gradients come with what they are made of, whatever rules torchvision registers.
    _LIBRARY.impl(_function.__name__, _function, "Autograd")
for _name, _schema in _QUANTIZED.items():
    _LIBRARY.define(_name + _schema)
