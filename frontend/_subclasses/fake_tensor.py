"""`torch._subclasses.fake_tensor`: FakeTensorMode. Its tensors are those of the device "meta"."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.fake_mode import FakeMode
from frontend.engine.tensors.tensor import Tensor, without_data
from frontend.namespace.stubs import stubs

__all__ = ["FakeTensorMode", "is_fake"]

globals().update(stubs("_subclasses.fake_tensor"))


def is_fake(x: object) -> bool:
    """Whether something is a tensor without data, of a FakeTensorMode or the device "meta"."""
    return isinstance(x, Tensor) and x.is_meta


class FakeTensorMode(FakeMode):
    """Ops inside compute the types of their results alone. `allow_non_fake_inputs` and
    `shape_env` are PyTorch's: tensors with data may always take part, as their types."""

    def __init__(self, *, allow_non_fake_inputs: bool = True, shape_env: Any = None):
        super().__init__()

    def from_tensor(self, tensor: Tensor, **options: Any) -> Tensor:
        """A tensor of the same type without data; it requires gradients where `tensor` does."""
        result = without_data(tensor.tensor_type)
        result._requires_grad = tensor.requires_grad
        return result
