"""`torch.onnx.export`: a Module or function as an ONNX model.

in : the function, example arguments, names, which sizes are open
out: an `ONNXProgram`; with `f` it is saved too
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from frontend.export.capture import ARGUMENT, CapturedGraph, capture
from frontend.export.dynamic_shapes import open_sizes
from frontend.onnx.exporting.expansion import expanded
from frontend.onnx.exporting.program import ONNXProgram
from frontend.onnx.exporting.writer import GraphWriter
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere
from frontend.onnx.importing.files import onnx_package
from frontend.onnx.importing.module import OnnxModule
from frontend.version import __version__
from graphc.ir.dims import Dim, Symbol

LEAST_OPSET, DEFAULT_OPSET, GREATEST_OPSET = 13, 20, 26
IR_VERSIONS = ((25, 13), (23, 11), (21, 10), (19, 9), (15, 8), (13, 7))
"""From which operator set on which version of the format is written."""


class _Writing(threading.local):
    """Whether this thread traces for an export to ONNX: libraries ask."""

    under_way = False


WRITING = _Writing()


def export_model(
    model: Any, args: Any, f: Any, kwargs: Mapping[str, Any] | None, input_names: Any,
    output_names: Any, opset_version: int | None, dynamic_axes: Any, dynamic_shapes: Any,
    external_data: bool | None,
) -> ONNXProgram:  # fmt: skip
    """`export` of frontend.onnx says what each means."""
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if not LEAST_OPSET <= opset <= GREATEST_OPSET:
        raise OnnxNotHere(
            f"operator set {opset}", hint=f"one from {LEAST_OPSET} to {GREATEST_OPSET}"
        )
    arguments, keywords = _arguments(args, kwargs)
    sizes = open_sizes(model, arguments, keywords, dynamic_shapes, dynamic_axes, input_names)
    WRITING.under_way = True
    try:
        captured = capture(model, arguments, keywords, sizes)
    finally:
        WRITING.under_way = False
    if captured.updates:
        raise OnnxError(
            f"the model changes {', '.join(captured.updates)} as it runs",
            hint="call .eval() first, or export with training=TrainingMode.EVAL",
        )
    if output_names is None and isinstance(model, OnnxModule):
        output_names = model.output_names
    program = _Exported(captured, opset, input_names, output_names).program()
    onnx_package().checker.check_model(program.model_proto, full_check=True)
    if f is not None:
        program.save(f, external_data=external_data)
    return program


def _arguments(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """PyTorch takes one tensor for a tuple of it, and a dict at the end for keywords."""
    arguments = tuple(args) if isinstance(args, tuple | list) else (args,)
    keywords = dict(kwargs or {})
    if arguments and isinstance(arguments[-1], dict) and not keywords:
        return arguments[:-1], dict(arguments[-1])
    return arguments, keywords


@contextmanager
def in_mode(model: Any, training: bool | None) -> Any:
    """While this lasts a Module is in this mode (None: in its own). One that is in it already is
    left alone: its `train` may forget what was computed ahead."""
    modes = [(module, module.training) for module in getattr(model, "modules", list)()]
    if training is None or all(mode == training for _, mode in modes):
        yield
        return
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


class _Exported:
    """A captured graph on its way to a model."""

    def __init__(
        self, captured: CapturedGraph, opset: int, input_names: Any, output_names: Any
    ):  # fmt: skip
        self.captured = captured
        self.opset = opset
        self.writer = GraphWriter(opset)
        self.names = self._names(input_names)
        self.wanted = output_names

    def _names(self, wanted: Sequence[str] | None) -> list[str]:
        """The names of all inputs of the graph: PyTorch's rule is that `input_names` are those of
        the arguments, in order."""
        of_arguments = iter(wanted or ())
        names = []
        for each in self.captured.inputs:
            label = each.target
            if each.kind == ARGUMENT:
                label = next(of_arguments, label)
            if label in self.writer.taken:
                label = self.writer.name(label)
            self.writer.taken.add(label)
            names.append(label)
        return names

    def program(self) -> ONNXProgram:
        captured, writer = self.captured, self.writer
        graph = expanded(captured.graph, self.opset)
        inputs, initializers = [], []
        for name, each, type in zip(self.names, captured.inputs, graph.input_types):
            if each.kind == ARGUMENT:
                inputs.append((name, type))
                self._read_sizes(name, type)
            else:
                array = each.tensor._array("an export").copy(order="C")  # not handed out
                initializers.append(writer.from_array(array, name))
        results = writer.write(graph, self.names)
        outputs = self._outputs(results, graph.output_types)
        helper = writer.helper
        proto = helper.make_graph(
            writer.nodes, graph.name, [writer.value_info(*each) for each in inputs],
            [writer.value_info(*each) for each in outputs], initializers,
        )  # fmt: skip
        version = next(version for since, version in IR_VERSIONS if self.opset >= since)
        model = helper.make_model(
            proto, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=version,
            producer_name="graphc", producer_version=__version__,
        )  # fmt: skip
        guards = [str(guard) for guard in captured.guards]
        return ONNXProgram(
            model, [name for name, _ in inputs], [name for name, _ in outputs], guards
        )

    def _read_sizes(self, name: str, type: Any) -> None:
        """The open sizes of an input as int64[1], those that are not known yet."""
        for axis, size in enumerate(type.shape):
            if isinstance(size, Dim) and isinstance(size.symbol, Symbol):
                symbol = size.symbol.name
                if symbol not in self.writer.sizes:
                    part = {"start": axis, "end": axis + 1}
                    if self.opset >= 15:
                        self.writer.sizes[symbol] = self.writer.add("Shape", [name], **part)
                    else:
                        whole = self.writer.add("Shape", [name])
                        at = self.writer.constant([axis])
                        self.writer.sizes[symbol] = self.writer.add("Gather", [whole, at], axis=0)

    def _outputs(self, results: list[str], types: Any) -> list[Any]:
        """Names for the results; one that is an input or another result has a name of its own."""
        wanted = iter(self.wanted or ())
        outputs = []
        for position, (result, type) in enumerate(zip(results, types)):
            name = next(wanted, None) or f"output_{position}"
            name = self.writer.name(name)
            self.writer.nodes.append(self.writer.helper.make_node("Identity", [result], [name]))
            outputs.append((name, type))
        return outputs
