"""`torch.onnx.symbolic_helper`: decorators of what libraries register for an export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["cast_pytorch_to_onnx", "parse_args"]

cast_pytorch_to_onnx: dict[str, int] = {
    "Byte": 2, "Char": 3, "Double": 11, "Float": 1, "Half": 10, "Int": 6, "Long": 7, "Short": 5,
    "Bool": 9,
}  # fmt: skip
"""ONNX's numbers of data types by the names of scalar types."""


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that leaves the function as it is."""
    return lambda function: function
