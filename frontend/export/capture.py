"""A function or Module as one graph, before any pass, with what its inputs are.

in : the function, example arguments, which of their sizes are left open
out: `CapturedGraph`: the traced graph (composites kept), where each of its inputs comes from, the
     structure of arguments and results, the open sizes and what has to hold of them

It is forward alone: a function that calls `backward()`, or whose inputs Python computes anew for
each call, raises TraceError.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.engine.outside.kinds import forward_of
from frontend.engine.outside.source import ArgumentSource, CapturedSource
from frontend.engine.sizes.open_sizes import SizeHistory
from frontend.engine.sizes.size_rules import LEAST, rules_of
from frontend.engine.tensors import tree
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.tracer import labels_of, name_of, run_trace
from frontend.functions.repeating import repeat_interleave
from graphc.errors import ShapeError, TraceError
from graphc.ir.nodes import Graph, Location
from graphc.ir.size_floats import text_of
from graphc.ir.size_guards import SizeGuard
from graphc.records import replace

ARGUMENT, PARAMETER, BUFFER, CONSTANT = "argument", "parameter", "buffer", "constant"
EXAMPLE_SIZE = 3
"""The size that an open axis is traced at where the example has 0 or 1: code for these differs."""


class _Exporting(threading.local):
    """Whether this thread traces for an export: libraries ask."""

    under_way = False


EXPORTING = _Exporting()


@dataclass(frozen=True)
class CapturedInput:
    """One input of a captured graph. `kind` says what it is, `target` where: the path of a
    parameter or buffer in the Module, the name of an argument, or of a tensor that the function
    reads from elsewhere. `tensor` is what was there."""

    name: str
    kind: str
    target: str
    tensor: Tensor


@dataclass(frozen=True)
class CapturedGraph:
    """A traced graph. Its outputs are the results in the order of `results`, a structure; then,
    with the path of each in `updates`, the new contents of buffers that were changed in place.
    `examples` are the arguments it was traced with, `sizes` the open sizes there."""

    graph: Graph
    inputs: tuple[CapturedInput, ...]
    arguments: Any
    results: Any
    updates: tuple[str, ...]
    examples: tuple[Tensor, ...]
    sizes: Mapping[str, int]
    guards: tuple[SizeGuard, ...]
    labels: tuple[str, ...]


def capture(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
    sizes: Mapping[str, Mapping[int, str]],
) -> CapturedGraph:  # fmt: skip
    """Trace a function. `sizes` names those left open, by label of the argument and axis. Raises
    TraceError for what is no forward of tensors, ShapeError where an open size is needed as a
    number."""
    leaves: list[Tensor] = []
    structure = tree.flatten((tuple(args), dict(kwargs)), leaves)
    labels = labels_of(function, structure)
    unknown = sizes.keys() - {*labels}
    if unknown:
        raise TypeError(
            f"sizes of {', '.join(sorted(unknown))} are to be open, but the tensors among the "
            f"arguments are {', '.join(labels) or 'none'}"
        )
    leaves = [_large_enough(leaf, sizes.get(label, {})) for label, leaf in zip(labels, leaves)]
    rules = rules_of(sizes, labels, leaves)
    types = [leaf.tensor_type for leaf in leaves]
    numbers = tree.numbers(structure)
    sized = SizeHistory().sized(types, numbers, False, rules) if sizes else None
    sized = None if sized is None else replace(sized, stay_open=True)
    EXPORTING.under_way = True
    try:
        with no_grad():
            traced = run_trace(_called(function), leaves, structure, name_of(function), sized)
    finally:
        EXPORTING.under_way = False
    session = traced.session
    with leaving(session), session:
        graph = traced.graph()
    session.put_back()
    # What Modules keep for later (a table of positions) is no part of a graph that is written once.
    kept = len(session.attributes.results)
    if session.backward_called or traced.grads or len(session.taps) > kept:
        raise TraceError("export takes forward alone", hint="export the model, not a step")
    results = len(traced.returned) + len(traced.updated)
    graph = replace(graph, outputs=graph.outputs[:results])
    guards = session.answers.guards if session.answers is not None else ()
    _check_open(guards, {} if session.answers is None else session.answers.fixed)
    paths = _paths(function)
    inputs = tuple([_input(each, labels, paths) for each in session.inputs])
    order = {id(each): inputs[i].target for i, each in enumerate(session.inputs)}
    return CapturedGraph(
        graph, inputs, structure, traced.structure, tuple([order[id(x)] for x in traced.updated]),
        tuple(leaves), {} if sized is None else dict(sized.example), guards, tuple(labels),
    )  # fmt: skip


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """What calls the function, of no package: a graph that is written once relies on nothing that
    the code of the function reads by name."""

    @functools.wraps(forward_of(function))
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__module__ = ""
    vars(call)["argument_names"] = inspect.getattr_static(function, "argument_names", ())
    return call


def _large_enough(leaf: Tensor, axes: Mapping[int, str]) -> Tensor:
    """The example with its open axes of size 1 repeated: of a size that stands for others."""
    for axis in axes:
        if not -leaf.dim() <= axis < leaf.dim():
            raise IndexError(f"a tensor of {leaf.dim()} dimensions has no dimension {axis}")
        size = leaf.shape[axis]
        if size == 0:
            raise ShapeError("an open size of the example is 0", hint="give it one element")
        if size < LEAST:
            leaf = repeat_interleave(leaf.detach(), EXAMPLE_SIZE, axis)
    return leaf


def _check_open(
    guards: Sequence[SizeGuard], fixed: Mapping[str, tuple[Location | None, str]]
) -> None:
    """Raise ShapeError, with the line where it is known, for a guard that makes a size a number."""
    for guard in guards:
        if guard.decides:
            place, _ = fixed.get(text_of(guard.left), (None, ""))
            raise ShapeError(
                f"the function needs {guard}: the size is no open one",
                hint="leave it out of the open sizes, or write the code for any size",
                location=place,
            )


def _paths(function: Any) -> dict[int, tuple[str, str]]:
    """What is known of tensors by identity: kind, and path in the Module."""
    paths: dict[int, tuple[str, str]] = {}
    if hasattr(function, "named_parameters"):
        for path, tensor in function.named_parameters(remove_duplicate=False):
            paths.setdefault(id(tensor), (PARAMETER, path))
        for path, tensor in function.named_buffers(remove_duplicate=False):
            paths.setdefault(id(tensor), (BUFFER, path))
    return paths


def _input(each: Any, labels: Sequence[str], paths: Mapping[int, tuple[str, str]]) -> CapturedInput:
    if isinstance(each.source, ArgumentSource):
        label = labels[each.source.position]
        return CapturedInput(each.name, ARGUMENT, label, each.tensor)
    if not isinstance(each.source, CapturedSource):
        raise TraceError(
            f"{each.name} is computed by Python for each call (a power or root of an open size, a "
            "number from outside): a file cannot say that",
            hint="leave the size closed, or compute it with tensors",
        )
    kind, path = paths.get(id(each.source.captured), (CONSTANT, each.name))
    return CapturedInput(each.name, kind, path, each.source.captured)
