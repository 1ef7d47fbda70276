"""`torch.onnx`: models in (`load`) and out (`export`). Libraries may register how they would export
ops of their own; that changes nothing, as what runs is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from frontend.onnx import operators, symbolic_helper, symbolic_opset9, symbolic_opset11
from frontend.onnx.exporting.program import ONNXProgram
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere

__all__ = [
    "ExportOptions", "ONNXProgram", "OnnxError", "OnnxNotHere", "OperatorExportTypes",
    "TensorProtoDataType", "TrainingMode", "dynamo_export", "export", "is_in_onnx_export", "load",
    "operators", "register_custom_op_symbolic",
    "symbolic_helper", "symbolic_opset11", "symbolic_opset9", "unregister_custom_op_symbolic",
]  # fmt: skip


def load(model: Any) -> Any:
    """A Module of an ONNX model: a path, bytes, an open file, or a ModelProto (docs/onnx.md).

    Nothing in a file is run, and data outside of it is read only from files beside it. Raises
    OnnxError (a GraphError and ValueError) for what is damaged, OnnxNotHere (also a
    NotImplementedError) for what there is no meaning for, with the node and its operator, and
    ImportError without the package `onnx`.
    """
    from frontend.onnx.importing.module import OnnxModule
    from frontend.onnx.importing.reading import read_model_graph

    return OnnxModule(read_model_graph(model)).eval()


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


def export(
    model: Any, args: Any = (), f: Any = None, *, kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None, input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None, opset_version: int | None = None,
    dynamo: bool = True, external_data: bool | None = None,
    dynamic_shapes: Any = None, dynamic_axes: Any = None, verify: bool = False,
    training: TrainingMode = TrainingMode.EVAL, export_params: bool = True,
    keep_initializers_as_inputs: bool = False, **ignored: Any,
) -> ONNXProgram:  # fmt: skip
    """A Module or function as an ONNX model, in an `ONNXProgram`; with `f`, a path or open file, it
    is saved there too (docs/onnx.md). An ExportedProgram has its own open sizes, and examples
    unless it was loaded.

    `args` are example arguments, `input_names` and `output_names` the names of the tensors among
    them and of the results. `dynamic_shapes` (by parameter, or in the order of the arguments: a
    `torch.export.Dim` or name by axis) or `dynamic_axes` (by input name) say which sizes are open:
    all others are those of the examples. `opset_version` is from 13 to 26, 20 where it is not said.
    The model is traced in eval mode unless `training` is PRESERVE or TRAINING. With `verify` its
    results on the examples are compared with the model's. `external_data`: weights in a file beside
    `f`. Raises TraceError for what cannot be traced, OnnxNotHere (with op and line) for what has no
    operator, ShapeError where an open size is needed as a number. PyTorch's other options do
    nothing.
    """
    if not export_params or keep_initializers_as_inputs:
        raise OnnxNotHere("a model without its weights", hint="export_params=True")
    from frontend.export.program import ExportedProgram
    from frontend.onnx.exporting.export import export_model, in_mode

    if isinstance(model, ExportedProgram):
        if not args and kwargs is None:
            if model.example_inputs is None:
                raise TypeError("a program that was loaded has no example: give args")
            args, kwargs = model.example_inputs
        model = model.module()
        dynamic_shapes = model.open_sizes
    mode = {TrainingMode.EVAL: False, TrainingMode.TRAINING: True}.get(training)
    with in_mode(model, mode):
        program = export_model(
            model, args, f, kwargs, input_names, output_names, opset_version, dynamic_axes,
            dynamic_shapes, external_data,
        )  # fmt: skip
        if verify:
            program.verify(model, args, kwargs)
    return program


dynamo_export = export


class ExportOptions:
    """Options of `dynamo_export` in former versions: `dynamic_shapes` and others, which `export`
    takes itself. Raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError("ExportOptions: torch.onnx.export takes dynamic_shapes itself")


def is_in_onnx_export() -> bool:
    """Whether `export` is tracing."""
    from frontend.onnx.exporting.export import WRITING

    return WRITING.under_way


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Nothing to register for: what an op of one's own does is traced."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Nothing to take back."""
