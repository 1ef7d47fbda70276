"""`graphc build`: what was compiled, as an object file."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.debug.commands.arguments import REFERENCE, add_alias, program_of
from graphc.debug.load import is_graph_file, loaded_object, named_object, read_graph
from graphc.debug.program import blaming
from graphc.debug.terminal import show
from graphc.debug.traced import DrawnInput, TracedObject
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.passes.pipelines import LEVELS
from graphc.records import replace

if TYPE_CHECKING:
    from graphc.build.built_source import ObjectSource


def add_build(commands: Any) -> None:
    parser = commands.add_parser(
        "build",
        help="write a function as an object file with a C header, its state, and a proof",
        description="Write what a function, module or graph computes as one object file with a C "
        "header, its state as a safetensors file, and a C program that compares every bit with "
        "this process.",
    )
    parser.add_argument(
        "reference", metavar=REFERENCE,
        help="what to build; or FILE.graph, the text of a graph. Arguments of the program itself "
        "stand behind --",
    )  # fmt: skip
    add_alias(parser)
    parser.add_argument(
        "--input", metavar="TYPE", action="append", default=[], dest="inputs",
        help="type of an input, once for each, in order: f32[32,64], i64[32]<10 (drawn from 0 to "
        "9), or with sizes that stay open, f32[batch=32,64] (32 in examples)",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="where to")
    parser.add_argument(
        "--target", metavar="TARGET",
        help="host (the default), x86-64-v2, x86-64-v3, x86-64-v4, aarch64, "
        "x86_64-windows, wasm32 or wasm32+relaxed",
    )  # fmt: skip
    parser.add_argument(
        "--kind", metavar="KIND", default="object",
        help="object (the default); shared, a library with a Python module; wheel; or page, an "
        "HTML file that runs it",
    )  # fmt: skip
    parser.add_argument(
        "--threads", metavar="N", type=int, default=1,
        help="as many as the caller may bring (1): NAME_part is then called by each",
    )  # fmt: skip
    parser.add_argument(
        "--name", metavar="NAME", help="of the C function, else that of FILE.py:NAME"
    )
    add_data(parser)
    parser.add_argument(
        "--level", choices=tuple(LEVELS), help="default: that of a compiled function, else exact"
    )
    parser.add_argument(
        "--keep-grads", action="store_true", help="the state has the gradients of a step, too"
    )
    parser.set_defaults(run=_run_build)


def add_data(parser: argparse.ArgumentParser) -> None:
    """`--data` of what a page runs."""
    parser.add_argument(
        "--data", metavar="NAME",
        help="of a page: arrays for its inputs, or what gives them, in the same file; their rows "
        "are batches",
    )  # fmt: skip


def data_of(arguments: argparse.Namespace) -> list[np.ndarray[Any, Any]] | None:
    """The arrays that `--data` names; None where it does not. Raises ArgumentError for others."""
    if arguments.data is None:
        return None
    if is_graph_file(arguments.reference):
        raise ArgumentError("a graph's text has no data", hint="leave out --data")
    file = arguments.reference.rpartition(":")[0]
    reference = f"{file}:{arguments.data}"
    with (
        contextlib.redirect_stdout(sys.stderr),
        named_object(reference, program_of(arguments)) as (path, name, named),
        blaming(path, f"{name} gave no data"),
    ):
        arrays = named() if callable(named) else named
        if not isinstance(arrays, list | tuple):
            raise ArgumentError(f"{name} is no list or tuple of arrays")
        return [np.array(array) for array in arrays]


def _run_build(arguments: argparse.Namespace) -> None:
    from graphc.build.building import build, target_of

    target_of(arguments.kind, arguments.target)
    data = data_of(arguments)
    with source_named(arguments, arguments.keep_grads) as source:
        built = build(
            source, arguments.output, target=arguments.target, kind=arguments.kind,
            name=arguments.name, threads=arguments.threads, data=data,
        )  # fmt: skip
    show(str(built).splitlines())


@contextlib.contextmanager
def source_named(arguments: argparse.Namespace, keep_grads: bool = False) -> Iterator[ObjectSource]:
    """What is named, for as long as its file stays imported."""
    from graphc.build.built_source import source_of_graph

    inputs = [DrawnInput.parse(text) for text in arguments.inputs]
    program = program_of(arguments)
    level = arguments.level
    if is_graph_file(arguments.reference):
        if inputs:
            raise ArgumentError("a graph's text says what its inputs are", hint="leave out --input")
        yield source_of_graph(read_graph(arguments.reference, program), level=level or "exact")
        return
    with loaded_object(arguments.reference, inputs, program) as (named, arrays):
        if isinstance(named, Graph):
            yield _called_so(source_of_graph(named, arrays, level or "exact"), arguments)
            return
        assert isinstance(named, TracedObject)
        named.traced()  # raises what tracing raises
        if named.source is None:
            raise ArgumentError(f"the tracer of {arguments.reference} knows no way to build it")
        source = named.source(arrays, [each.names for each in inputs], level, keep_grads)
        yield _called_so(source, arguments)


def _called_so(source: ObjectSource, arguments: argparse.Namespace) -> ObjectSource:
    """The source under the name that stands behind the file, whatever it calls itself: a Module has
    but the name of its class."""
    return replace(source, name=arguments.reference.rpartition(":")[2])
