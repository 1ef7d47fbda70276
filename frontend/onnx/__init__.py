"""`torch.onnx`: no export. Libraries may register what they would export; `export` raises."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NoReturn

from frontend.onnx import operators, symbolic_helper, symbolic_opset9, symbolic_opset11

__all__ = [
    "ExportOptions", "ONNXProgram", "OperatorExportTypes", "TensorProtoDataType", "TrainingMode",
    "dynamo_export", "export", "is_in_onnx_export", "operators", "register_custom_op_symbolic",
    "symbolic_helper", "symbolic_opset11", "symbolic_opset9", "unregister_custom_op_symbolic",
]  # fmt: skip


class TensorProtoDataType(IntEnum):
    """ONNX's numbers of data types."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11


class TrainingMode(IntEnum):
    """Which mode a model is exported in."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(IntEnum):
    """How operators were exported."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "torch.onnx: there is no export to ONNX; save a state_dict and export it with PyTorch"
    )


dynamo_export = export


class ExportOptions:
    """Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        export()


class ONNXProgram:
    """What an export gives. Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        export()


def is_in_onnx_export() -> bool:
    """False."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Nothing to register for: there is no export."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing to take back."""
