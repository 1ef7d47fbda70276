"""What a trace knows of a tensor from before it, and of an input of its graph."""

from __future__ import annotations

from typing import Any

from frontend.engine.outside.source import InputSource
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.tree import LARGEST_ARRAY
from graphc.ir.builder import Var
from graphc.ir.types import DType, TensorType


class GraphInput:
    """One input of the graph: where its array comes from, and the tensor that stood for it."""

    __slots__ = ("name", "source", "tensor", "type", "var")

    def __init__(self, name: str, type: TensorType, source: InputSource, tensor: Tensor, var: Var):
        self.name = name
        self.type = type
        self.source = source
        self.tensor = tensor
        self.var = var


class Captured:
    """A captured tensor: one that existed before the trace, with what it was outside and became
    inside, and the graph input that stands for it where its value is read."""

    __slots__ = (
        "grad_was_read",
        "grad_was_written",
        "input",
        "state_inside",
        "state_outside",
        "tensor",
    )

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.state_outside = tensor._instance_state
        self.state_inside = {**tensor._instance_state, "_counter": [0]}
        for name in ("_edge", "_view", "_accumulator"):
            self.state_inside.pop(name, None)
        self.input: GraphInput | None = None
        self.grad_was_read = False
        self.grad_was_written = False

    @property
    def can_be_guarded(self) -> bool:
        """Whether to compare its values at each call is cheap, and may be expected to find them
        the same."""
        dtype, array = self.tensor.tensor_type.dtype, self.state_outside["_value"]
        whole = dtype is DType.bool or dtype.is_integer
        return whole and array.nbytes <= LARGEST_ARRAY


def have_state(tensor: Tensor, state: dict[str, Any]) -> None:
    """Make `state` that of a tensor, whatever its class does when attributes are set."""
    object.__setattr__(tensor, "_instance_state", state)
