"""What can be asked of a tensor at the top level."""

from __future__ import annotations

from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors
from frontend.functions.declarations import public


@public(method=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor of one element is not 0. Raises RuntimeError for others."""
    need_tensors("is_nonzero", input=input)
    if input.numel() != 1:
        what = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(input)


@public(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape."""
    need_tensors("is_same_size", input=input, other=other)
    return input._sizes == other._sizes


@public()
def is_signed(input: Tensor) -> bool:
    """Whether a dtype has negative numbers."""
    need_tensors("is_signed", input=input)
    return bool(input.is_signed())


@public()
def get_device(input: Tensor) -> int:
    """-1: tensors are on the CPU."""
    need_tensors("get_device", input=input)
    return -1


@public()
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    need_tensors("is_inference", input=input)
    return bool(input.is_inference())


@public()
def is_inference_mode_enabled() -> bool:
    """Whether gradients are off by `inference_mode`, which is the same as `no_grad` here."""
    return STATE.grad_enabled is False
