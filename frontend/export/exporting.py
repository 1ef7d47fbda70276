"""`torch.export.export`, `save` and `load`.

A file is a zip with the graph as text, its signature as JSON and tensors in safetensors: reading
one runs nothing of it.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from frontend.engine.tensors import tree
from frontend.engine.tensors.tensor import Tensor
from frontend.export.capture import ARGUMENT, BUFFER, CONSTANT, PARAMETER, CapturedGraph, capture
from frontend.export.dynamic_shapes import Dim, open_sizes
from frontend.export.program import ExportedProgram, ValueRanges, without_aliases
from frontend.export.signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from graphc.errors import GraphError
from graphc.ir.size_guards import SizeGuard

_KINDS = {
    ARGUMENT: InputKind.USER_INPUT, PARAMETER: InputKind.PARAMETER, BUFFER: InputKind.BUFFER,
    CONSTANT: InputKind.CONSTANT_TENSOR,
}  # fmt: skip
VERSION = 1
MOST_BYTES = 1 << 30
"""Of a text in a file."""


class ExportError(GraphError, ValueError):
    """A Module that cannot be exported, or a file that is no exported program."""


def export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (), **ignored: Any,
) -> ExportedProgram:  # fmt: skip
    """The graph of a Module on arguments like these, forward alone, as an ExportedProgram.

    `dynamic_shapes` says which sizes are open, by parameter or in the order of the arguments: a
    `Dim`, a name or `Dim.AUTO` by axis; all others are those of the arguments. Numbers and texts
    among the arguments become part of the graph. Raises ValueError for what is no Module,
    TraceError for what cannot be traced, ShapeError where an open size is needed as a number.
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    if preserve_module_call_signature:
        raise NotImplementedError("preserve_module_call_signature: export the inner Module itself")
    sizes = open_sizes(mod, args, kwargs or {}, dynamic_shapes)
    captured = capture(mod, args, kwargs or {}, sizes)
    names = set(mod.state_dict(keep_vars=True))
    state: dict[str, Any] = dict(mod.state_dict(keep_vars=True))
    constants = {
        each.target: each.tensor
        for each in captured.inputs
        if each.kind != ARGUMENT and each.target not in names
    }
    return ExportedProgram(
        without_aliases(captured.graph), _signature(captured, names), state, constants,
        _ranges(captured, dynamic_shapes), captured.guards, captured.arguments, captured.results,
        (args, dict(kwargs or {})),
    )  # fmt: skip


def _signature(captured: CapturedGraph, persistent: set[str]) -> ExportGraphSignature:
    inputs = [
        InputSpec(
            _KINDS[each.kind], TensorArgument(each.name),
            None if each.kind == ARGUMENT else each.target,
            each.target in persistent if each.kind == BUFFER else None,
        )
        for each in captured.inputs
    ]  # fmt: skip
    count = len(captured.graph.outputs) - len(captured.updates)
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(f"output_{i}"), None)
        for i in range(count)
    ]
    outputs += [
        OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(f"output_{count + i}"), target)
        for i, target in enumerate(captured.updates)
    ]
    return ExportGraphSignature(tuple(inputs), tuple(outputs))


def _ranges(captured: CapturedGraph, dynamic_shapes: Any) -> dict[str, ValueRanges]:
    declared: dict[str, Dim] = {}
    parts = [dynamic_shapes]
    while parts:
        part = parts.pop()
        if isinstance(part, Dim):
            declared[part.name] = part
        elif isinstance(part, Mapping):
            parts += part.values()
        elif isinstance(part, tuple | list):
            parts += part
    return {
        name: ValueRanges(declared[name].min, declared[name].max)
        if name in declared
        else ValueRanges(0, None)
        for name in captured.sizes
    }


# -- files ---------------------------------------------------------------------------------------


def save(ep: ExportedProgram, f: Any, **ignored: Any) -> None:
    """Write an exported program to a path or open file. Raises ExportError for arguments that are
    neither tensors nor plain data."""
    from safetensors.numpy import save as packed

    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save() takes an ExportedProgram, not {type(ep).__name__}")
    tensors = {**ep.constants, **ep.state_dict}
    about = {
        "version": VERSION,
        "signature": ep.graph_signature.as_plain(),
        "state": {name: _requires(value) for name, value in ep.state_dict.items()},
        "constants": list(ep.constants),
        "ranges": {name: [r.lower, r.upper] for name, r in ep.range_constraints.items()},
        "guards": [_guard_text(guard) for guard in ep.guards],
        "arguments": _plain(ep.arguments),
        "results": _plain(ep.results),
    }
    # Not handed out: compiled functions keep packed copies of weights.
    arrays = {name: value._array("a file").copy() for name, value in tensors.items()}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("program.json", json.dumps(about))
        archive.writestr("graph.txt", str(ep.graph))
        archive.writestr("tensors.safetensors", packed(arrays))
    if hasattr(f, "write"):
        f.write(content.getvalue())
        return
    with open(os.fspath(f), "wb") as file:
        file.write(content.getvalue())


def load(f: Any, **ignored: Any) -> ExportedProgram:
    """The exported program in a file that `save` wrote. Runs nothing of it; raises ExportError for
    any other file."""
    from safetensors.numpy import load as unpacked

    import graphc

    try:
        with zipfile.ZipFile(f if hasattr(f, "read") else os.fspath(f)) as archive:
            names = ("program.json", "graph.txt", "tensors.safetensors")
            if any(archive.getinfo(name).compress_type for name in names):
                raise ValueError("it is compressed")
            about = json.loads(archive.read(names[0]))
            graph = graphc.parse(archive.read(names[1]).decode())
            arrays = unpacked(archive.read(names[2]))
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']}, not {VERSION}")
        state = {}
        for name, requires in about["state"].items():
            value = _tensor(arrays[name])
            state[name] = value if requires is None else Parameter(value, requires)
        constants = {name: _tensor(arrays[name]) for name in about["constants"]}
        ranges = {name: ValueRanges(*bounds) for name, bounds in about["ranges"].items()}
        symbols = {name: _symbol(graph, name) for name in ranges}
        guards = tuple([_guard(each, symbols) for each in about["guards"]])
        signature = ExportGraphSignature.of_plain(about["signature"])
        if len(signature.input_specs) != len(graph.input_names):
            raise ValueError("its signature is of another graph")
        return ExportedProgram(
            graph, signature, state, constants, ranges, guards, _structure(about["arguments"]),
            _structure(about["results"]), None,
        )  # fmt: skip
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ExportError(
            f"this is no exported program: {type(error).__name__}: {error}",
            hint="torch.export.save writes them; torch.load reads checkpoints",
        ) from None


def _requires(value: Any) -> bool | None:
    return bool(value.requires_grad) if isinstance(value, Parameter) else None


def _tensor(array: Any) -> Tensor:
    from frontend.functions.creation import tensor

    return tensor(array)


def _guard_text(guard: SizeGuard) -> list[str]:
    return [str(guard.left), guard.sign, str(guard.right)]


def _guard(parts: Any, symbols: Mapping[str, Any]) -> SizeGuard:
    from graphc.ir.extent_text import parse_extent

    left, sign, right = parts
    return SizeGuard(parse_extent(left, symbols), sign, parse_extent(right, symbols))


def _symbol(graph: Any, name: str) -> Any:
    from graphc.ir.dims import dim
    from graphc.ir.symbols import symbols_of

    for symbol in symbols_of(graph):
        if symbol.name == name:
            return dim(symbol.name, symbol.least, symbol.most)
    return dim(name)


_PLAIN = (int, float, bool, str, type(None))


def _plain(structure: Any) -> Any:
    """A structure of arguments as plain data."""
    match structure[0]:
        case "tensor":
            return ["tensor"]
        case "tuple" if structure[1] is tuple:
            return ["tuple", [_plain(item) for item in structure[2]]]
        case "list":
            return ["list", [_plain(item) for item in structure[1]]]
        case "dict" if structure[1] is dict and all(isinstance(k, str) for k in structure[2]):
            return ["dict", list(structure[2]), [_plain(item) for item in structure[3]]]
        case "static" if structure[1] in _PLAIN:
            value = structure[2].value if isinstance(structure[2], tree.Keyed) else structure[2]
            return ["static", value]
    raise ExportError(
        f"an exported program with a {getattr(structure[1], '__name__', structure[0])} among its "
        "arguments or results is no file",
        hint="tensors, numbers, texts, and tuples, lists and dicts of them",
    )


def _structure(data: Any) -> Any:
    match data:
        case ["tensor"]:
            return tree.TENSOR
        case ["tuple", items]:
            return ("tuple", tuple, tuple([_structure(item) for item in items]))
        case ["list", items]:
            return ("list", tuple([_structure(item) for item in items]))
        case ["dict", keys, items]:
            return ("dict", dict, tuple(keys), tuple([_structure(item) for item in items]))
        case ["static", value]:
            return tree.flatten(value, [])
    raise ValueError("its structure of arguments is damaged")
