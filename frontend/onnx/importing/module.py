"""A model as a Module: its graph is run node by node, over public functions of the frontend.

So it runs eagerly, is differentiated, compiled and saved like any other. Floats among the
initializers are parameters, under their names; what is measured (the mean of a BatchNormalization),
larger integers and constants are buffers, small integers (shapes, axes) and single floats numbers
that a trace knows.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from frontend.functions.creation import tensor
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from frontend.onnx.importing.control import CONTROL, DECIDING
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere
from frontend.onnx.importing.graphs import OnnxGraph, OnnxNode, StatePath
from frontend.onnx.importing.numbers import as_numbers, as_value, is_numbers, to_tensor
from graphc.errors import GraphError


class OnnxModule(Module):
    """An ONNX model. `forward(*inputs)` takes tensors in the order of `input_names` (or by these
    names), and gives a tensor, or a tuple in the order of `output_names`. `argument_names` are
    those of the inputs as identifiers, by which they may be given, and which graphs, headers and
    exports call them. `number_inputs` are those that operators read as numbers, for shapes and
    branches: a Python number or a NumPy array in their place is known to a trace, where a tensor's
    value is not.
    `open_sizes` has the sizes that the model leaves open, by argument and axis: what `compile`
    takes as `dynamic` unless it is told otherwise; `dynamic_shapes=model.open_sizes` exports so."""

    def __init__(self, graph: OnnxGraph):
        super().__init__()
        readers = _readers(graph)
        numbers = {name for name, kinds in readers.items() if "numbers" in kinds}
        self.graph = _with_state(self, graph, readers)
        self.input_names = tuple([port.name for port in graph.inputs])
        self.output_names = graph.outputs
        self.number_inputs = tuple([name for name in self.input_names if name in numbers])
        self.argument_names = _identifiers(self.input_names)
        self.open_sizes = _open_sizes(graph, self.argument_names)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The model's outputs. Raises OnnxError for inputs that are missing or unknown."""
        values = dict(zip(self.input_names, inputs))
        if named:
            called = dict(zip(self.argument_names, self.input_names))
            values.update({called.get(name, name): value for name, value in named.items()})
        if len(inputs) > len(self.input_names) or values.keys() != set(self.input_names):
            raise OnnxError(
                f"the model takes {', '.join(self.input_names) or 'no inputs'}; given were "
                f"{len(inputs)} by position and {', '.join(named) or 'none'} by name"
            )
        around = {name: as_value(value) for name, value in values.items()}
        results = tuple(map(to_tensor, self._run(self.graph, around)))
        return results[0] if len(results) == 1 else results

    def extra_repr(self) -> str:
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"

    def _run(self, graph: OnnxGraph, around: Mapping[str, Any]) -> list[Any]:
        """The outputs of a graph, where these names have values."""
        values = dict(around)
        for held in (graph.initializers, graph.constants):
            for name, value in held.items():
                values[name] = (
                    functools.reduce(getattr, value.path.split("."), self)
                    if isinstance(value, StatePath)
                    else value
                )
        for node, dropped in zip(graph.nodes, graph.dropped):
            results = self._node(node, values)
            values.update(zip(node.outputs, results))
            for name in dropped:
                values.pop(name, None)
        return [values[name] for name in graph.outputs]

    def _node(self, node: OnnxNode, values: dict[str, Any]) -> list[Any]:
        inputs = [values[name] if name else None for name in node.inputs]
        try:
            if node.declaration is not None:
                return run_operator(node, inputs)

            def run(graph: OnnxGraph, arguments: list[Any]) -> list[Any]:
                named = {port.name: value for port, value in zip(graph.inputs, arguments)}
                return self._run(graph, {**values, **named})

            return CONTROL[node.op](node, inputs, run)
        except GraphError as error:
            if error.args and not str(error.args[0]).startswith("node "):
                error.args = (f"{node}: {error.args[0]}", *error.args[1:])
            raise
        except NotImplementedError as error:
            raise OnnxNotHere(f"{node}: {error}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise OnnxError(f"{node}: {type(error).__name__}: {error}") from error


def run_operator(node: OnnxNode, inputs: list[Any]) -> list[Any]:
    """What a node's declaration makes of these values."""
    op = node.declaration
    assert op is not None
    while inputs and inputs[-1] is None:
        inputs.pop()
    attributes = {
        name: node.attributes.get(name, default) for name, default in op.attributes.items()
    }
    named = [each.name for each in op.inputs]
    former = {name: value for name, value in node.attributes.items() if name in named}
    if op.on_numbers is not None and inputs:
        numbers = [*inputs, *_former_numbers(op.inputs[len(inputs) :], former)]
        if all(isinstance(value, np.ndarray) for value in numbers):
            result = op.on_numbers(*numbers, **attributes)
            if result is not NotImplemented:
                return [as_value(result)]
    arguments = [_read(op.kind_of(i), value) for i, value in enumerate(inputs)]
    for position in range(len(arguments), len(op.inputs)):
        each = op.inputs[position]
        if each.required and each.name not in former:
            raise OnnxError(f"input {each.name} is missing")
        arguments.append(_former(each.kind, former.get(each.name)))
    if op.takes_node:
        attributes["node"] = node
    result = op.function(*arguments, **attributes)
    return list(result) if isinstance(result, list | tuple) else [result]


def _read(kind: str, value: Any) -> Any:
    if value is None or kind == "value":
        return value
    return as_numbers(value) if kind == "numbers" else to_tensor(value)


def _former_numbers(inputs: Any, former: Mapping[str, Any]) -> list[Any]:
    """The attributes of an earlier version in the places of these inputs, as arrays."""
    arrays = [np.asarray(former[each.name]) if each.name in former else None for each in inputs]
    while arrays and arrays[-1] is None:
        arrays.pop()
    return arrays


def _former(kind: str, value: Any) -> Any:
    """The attribute of an earlier version in the place of an input."""
    if value is None:
        return None
    if kind == "numbers":
        return value if isinstance(value, list) else [value]
    return to_tensor(np.asarray(value, np.float32 if isinstance(value, float) else None))


def _readers(graph: OnnxGraph) -> dict[str, set[str]]:
    """By name how operators read it: the kinds of the inputs where it stands."""
    kinds: dict[str, set[str]] = {name: {"tensor"} for name in graph.outputs}
    graphs = [graph]
    while graphs:
        for node in graphs.pop().nodes:
            graphs += [held for held in node.attributes.values() if isinstance(held, OnnxGraph)]
            op = node.declaration
            for position, name in enumerate(node.inputs):
                decides = op is None and position < DECIDING[node.op]
                kind = op.kind_of(position) if op else "numbers" if decides else "tensor"
                kinds.setdefault(name, set()).add(kind)
    return kinds


def _with_state(module: OnnxModule, graph: OnnxGraph, readers: Mapping[str, set[str]]) -> OnnxGraph:
    """The graph, its weights kept by the Module."""

    def kept(arrays: Mapping[str, Any], trained: bool) -> dict[str, Any]:
        return {
            name: array
            if is_numbers(array) or readers.get(name) == {"numbers"}
            else StatePath(
                _register(module, name, array, trained and readers.get(name) != {"statistic"})
            )
            for name, array in arrays.items()
        }

    nodes = tuple(
        [
            dataclasses.replace(
                node,
                attributes={
                    name: _with_state(module, held, readers)
                    if isinstance(held, OnnxGraph)
                    else held
                    for name, held in node.attributes.items()
                },
            )
            if node.declaration is None
            else node
            for node in graph.nodes
        ]
    )
    return dataclasses.replace(
        graph, nodes=nodes, initializers=kept(graph.initializers, True),
        constants=kept(graph.constants, False),
    )  # fmt: skip


def _register(root: Module, name: str, array: np.ndarray[Any, Any], trained: bool) -> str:
    """Keep an array under its name, dots being levels of Modules; the path where it is."""
    *outer, last = name.split(".")
    module = root
    for part in outer:
        below = module._modules.get(part)
        if below is None:
            if not part or hasattr(module, part):
                last = ""
                break
            below = Module()
            module.register_module(part, below)
        module = below
    if not last or hasattr(module, last):
        module, outer, last = root, [], _free(root, name.replace(".", "_"))
    value = tensor(array)  # memory of its own: of such compiled functions keep packed copies
    if trained and value.dtype.is_float:
        module.register_parameter(last, Parameter(value))
    else:
        module.register_buffer(last, value)
    return ".".join([*outer, last])


def _free(module: Module, name: str) -> str:
    name = name or "state"
    while hasattr(module, name):
        name += "_"
    return name


def _identifiers(names: tuple[str, ...]) -> tuple[str, ...]:
    taken: dict[str, str] = {}
    for name in names:
        taken[name] = _identifier(name, taken)
    return tuple(taken.values())


def _open_sizes(graph: OnnxGraph, arguments: tuple[str, ...]) -> dict[str, dict[int, str | None]]:
    """Names of open sizes by argument and axis. None of those that the model does not know, equal
    ones then being taken for the same. A sign for a name (`?`) says nothing: `compile` sees whether
    such sizes differ."""
    sizes: dict[str, dict[int, str | None]] = {}
    names: dict[str, str] = {}
    for argument, port in zip(arguments, graph.inputs):
        axes: dict[int, str | None] = {}
        for axis, size in enumerate(port.shape or ()):
            if size is None:
                axes[axis] = None
            elif isinstance(size, str) and re.search(r"\w", size):
                axes[axis] = names.setdefault(size, _identifier(size, names))
        if axes:
            sizes[argument] = axes
    return sizes


def _identifier(text: str, taken: Mapping[str, str]) -> str:
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    name = name if re.match("[A-Za-z]", name) else f"size_{name}"
    while name in taken.values():
        name += "_"
    return name
