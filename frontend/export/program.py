"""An exported Module: its graph, forward alone, with parameters, buffers and constants as inputs.

in : what `capture` gives
out: `ExportedProgram`; `module()` of it runs the graph op by op on tensors, so that it is
     differentiated, compiled and trained like any other
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors import tree
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.symbolic_numbers import SymInt
from frontend.engine.tensors.tensor import Tensor
from frontend.export.signature import ExportGraphSignature, InputKind, OutputKind
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from graphc.errors import ArgumentError, ShapeError, SizeBoundError
from graphc.ir.dims import Dim, Symbol
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Value
from graphc.ir.registry import lookup
from graphc.ir.size_guards import SizeGuard
from graphc.passes.decompose import decompose
from graphc.records import replace


@dataclass(frozen=True)
class ValueRanges:
    """Between which sizes an open one has to be; `upper` None: there is no greatest."""

    lower: int
    upper: int | None


class ExportedProgram:
    """What `torch.export.export` gives. `graph` is the compiler's graph, whose inputs and outputs
    `graph_signature` describes; `state_dict` has parameters and persistent buffers, `constants` all
    other tensors from outside; `range_constraints` the bounds of open sizes by name, `guards` what
    has to hold of them besides: sizes that happen to be equal, or 1, take the way of those that are
    not, so that a guard with != is no condition. `example_inputs` are what was exported with."""

    def __init__(
        self, graph: Graph, graph_signature: ExportGraphSignature, state_dict: Mapping[str, Any],
        constants: Mapping[str, Any], range_constraints: Mapping[str, ValueRanges],
        guards: tuple[SizeGuard, ...], arguments: Any, results: Any, example_inputs: Any,
    ):  # fmt: skip
        self.graph = graph
        self.graph_signature = graph_signature
        self.state_dict = dict(state_dict)
        self.constants = dict(constants)
        self.range_constraints = dict(range_constraints)
        self.guards = guards
        self.arguments = arguments
        self.results = results
        self.example_inputs = example_inputs

    def module(self, check_guards: bool = True) -> Module:
        """A Module of the graph, with tensors of its own and the names of the exported Module's."""
        return ExportedModule(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        return iter([(name, self.state_dict[name]) for name in self.graph_signature.parameters])

    def parameters(self) -> Iterator[Any]:
        return iter([parameter for _, parameter in self.named_parameters()])

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        known = {**self.state_dict, **self.constants}
        return iter([(name, known[name]) for name in self.graph_signature.buffers])

    def buffers(self) -> Iterator[Any]:
        return iter([buffer for _, buffer in self.named_buffers()])

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """The same with all composites expanded, as the compiler's first pass does. A table of
        decompositions of one's own is an error."""
        if decomp_table:
            raise NotImplementedError("run_decompositions: the compiler's own expansions alone")
        return ExportedProgram(
            decompose(self.graph), self.graph_signature, self.state_dict, self.constants,
            self.range_constraints, self.guards, self.arguments, self.results, self.example_inputs,
        )  # fmt: skip

    def __str__(self) -> str:
        return str(self.graph)

    def __repr__(self) -> str:
        inputs = ", ".join(self.graph_signature.user_inputs)
        return f"ExportedProgram({self.graph.name}({inputs}), {len(self.graph.nodes)} nodes)"


class ExportedModule(Module):
    """Runs an exported graph. Parameters and buffers have the exported Module's names."""

    def __init__(self, program: ExportedProgram):
        super().__init__()
        self.program = program
        self.argument_names = _argument_names(program)
        self.open_sizes = _named_sizes(program)
        self._paths: list[str | None] = []
        known = {**program.constants, **program.state_dict}
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                self._paths.append(None)
                continue
            self._paths.append(_attach(self, str(spec.target), known[str(spec.target)], spec))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The results. Raises ArgumentError for arguments of another structure, ShapeError for
        sizes the graph is not for."""
        program = self.program
        leaves: list[Tensor] = []
        structure = tree.flatten((args, kwargs), leaves)
        if structure != program.arguments:
            raise ArgumentError(
                "the arguments are not as they were exported: other numbers, names or containers",
                hint="pass tensors in the same places; numbers are part of what was exported",
            )
        arguments = iter(leaves)
        inputs = [next(arguments) if path is None else _at(self, path) for path in self._paths]
        sizes = _sizes_of(program, inputs)
        graph = at_sizes(program.graph, sizes) if sizes else program.graph
        outputs = run_graph(graph, inputs)
        specs = program.graph_signature.output_specs
        results = []
        for spec, output in zip(specs, outputs):
            if spec.kind is OutputKind.USER_OUTPUT:
                results.append(output)
                continue
            with no_grad():
                _at(self, str(spec.target)).copy_(output)
        return tree.build(program.results, iter(results))


def run_graph(graph: Graph, inputs: list[Tensor]) -> list[Tensor]:
    """A graph of numbers, op by op: eager and recorded, or nodes of the trace under way."""
    values: dict[Value, Tensor] = {}
    arguments = iter(inputs)
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            values[Value(identity)] = next(arguments)
            continue
        attributes: dict[str, Any] = dict(node.attributes)
        if node.op == CONSTANT:
            values[Value(identity)] = CONTEXT.constant(attributes["value"].array)
            continue
        op = lookup(node.op)
        regions = dict(zip(op.region_names, node.regions))
        operands = tuple([values[value] for value in node.operands])
        results = CONTEXT.apply(op, operands, {**attributes, **regions})
        values.update((Value(identity, i), result) for i, result in enumerate(results))
    return [values[value] for value in graph.outputs]


def _attach(root: Module, path: str, tensor: Any, spec: Any) -> str:
    *outer, name = path.split(".")
    module = root
    for part in outer:
        if part not in module._modules:
            module.register_module(part, Module())
        module = module._modules[part]
    copy = tensor.detach().clone()
    if spec.kind is InputKind.PARAMETER:
        if name not in module._parameters:
            module.register_parameter(name, Parameter(copy, tensor.requires_grad))
    elif name not in module._buffers:
        module.register_buffer(name, copy, persistent=spec.persistent is not False)
    return path


def _at(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _sizes_of(program: ExportedProgram, inputs: list[Tensor]) -> dict[str, Any]:
    """What the open sizes are. Raises for those that differ from what was exported."""
    sizes: dict[str, Any] = {}
    types = program.graph.input_types
    specs = program.graph_signature.input_specs
    for spec, expected, tensor in zip(specs, types, inputs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            continue
        name = spec.arg.name
        if tensor.dtype is not expected.dtype or tensor.dim() != expected.rank:
            raise ArgumentError(f"{name} is {tensor.tensor_type}, exported was {expected}")
        for axis, (extent, size) in enumerate(zip(expected.shape, tensor.shape)):
            if isinstance(extent, Dim):
                assert isinstance(extent.symbol, Symbol)
                known = sizes.setdefault(extent.symbol.name, size)
                if known is not size and known != size:
                    raise SizeBoundError(f"{name}, axis {axis}: {extent} is {size}, and {known}")
            elif extent != size:
                raise ShapeError(
                    f"{name} is {tensor.tensor_type}: axis {axis} was exported as {extent}",
                    hint="leave it open in dynamic_shapes",
                )
    for name, size in sizes.items():
        bounds = program.range_constraints[name]
        if size < bounds.lower or (bounds.upper is not None and size > bounds.upper):
            raise SizeBoundError(f"size {name} is {size}, exported for {bounds}")
    if all(type(size) is int for size in sizes.values()):
        for guard in program.guards:
            if guard.sign != "!=" and not guard.holds(sizes):
                raise ShapeError(f"sizes {sizes}: the graph is for those with {guard}")
    return {name: _extent(size) for name, size in sizes.items()}


def _extent(size: Any) -> Any:
    return size.extent if type(size) is SymInt else size


def _named_sizes(program: ExportedProgram) -> dict[str, dict[int, str]]:
    sizes: dict[str, dict[int, str]] = {}
    for spec, type in zip(program.graph_signature.input_specs, program.graph.input_types):
        if spec.kind is InputKind.USER_INPUT:
            axes = {i: str(n) for i, n in enumerate(type.shape) if isinstance(n, Dim)}
            if axes:
                sizes[spec.arg.name] = axes
    return sizes


def _argument_names(program: ExportedProgram) -> tuple[str, ...]:
    """What arguments by position are called: the names of their tensors have what leads to them in
    containers behind that."""
    tensors = iter(program.graph_signature.user_inputs)
    names = []
    for position, item in enumerate(program.arguments[2][0][2]):
        inside = [(next(tensors), path) for path in tree.paths(item, "")]
        names += [name.removesuffix(path) for name, path in inside[:1]] or [f"input{position}"]
    return tuple(names)


def without_aliases(graph: Graph) -> Graph:
    """The graph whose outputs are values, none the new content of an input."""
    return replace(graph, aliases=())
