"""The graph of a function, a Module or a compiled function, without compiling it.

graph = frontend.trace(model, example)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.engine.compiled.compiler import CompiledFunction
from frontend.engine.compiled.options import Options
from frontend.engine.tensors import tree
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.tracer import labels_of, name_of, run_trace
from frontend.functions.linalg import trace as matrix_trace
from graphc.ir.types import TensorType
from graphc.records import replace
from graphc.system import IMPORTING

if TYPE_CHECKING:
    from graphc.build.built_source import ObjectSource
    from graphc.debug.traced import ObjectRun, TracedCall, TracedObject, WayToRun


def trace(function: Any, *example_inputs: Any, **keywords: Any) -> Any:
    """The graph of a function or Module on inputs like these (Tensors or NumPy arrays). Of a
    matrix, as in PyTorch, the sum of its diagonal.

    Inputs: the tensor arguments by parameter name, then what the function captured (parameters by
    their path, state, `.grad`s). Outputs: the returned tensors in order, then the new contents of
    inputs changed in place, aliased to them, then gradients left in `.grad`. Raises TraceError
    where Python needs the value of a tensor.
    """
    if isinstance(function, Tensor):
        return matrix_trace(function)
    if isinstance(function, CompiledFunction):
        function = function.function
    if not callable(function):
        raise TypeError(f"trace() takes a function or Module, not {type(function).__name__}")
    arguments = tuple(_as_tensors(value) for value in example_inputs)
    leaves: list[Tensor] = []
    structure = tree.flatten((arguments, keywords), leaves)
    traced = run_trace(function, leaves, structure, name_of(function))
    with leaving(traced.session), traced.session:
        return traced.graph()


def _as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return make(np.asarray(value), TensorType.of(np.asarray(value)))
    return value


def trace_callable(obj: Any, input_types: list[TensorType]) -> TracedObject | None:
    """The graph of a Module or function on inputs of these types, and how to run it: what the
    commands of graphc ask for. None where `obj` is neither."""
    is_module = hasattr(type(obj), "named_modules")
    known = is_module or isinstance(obj, CompiledFunction) or inspect.isroutine(obj)
    if not known or inspect.isbuiltin(obj):
        return None
    with IMPORTING:
        from frontend.engine.compiled.inspection import OptimizerStates
        from graphc.debug.traced import TracedObject

    examples = [make(np.zeros(t.shape, t.dtype.numpy), t) for t in input_types]
    graph: Any
    try:
        with OptimizerStates():
            graph = trace(obj, *examples)
    except Exception as error:  # of any code of the user's: who wants the graph raises it
        graph = error
    return TracedObject(
        graph, functools.partial(_calls, obj), functools.partial(_running, obj),
        functools.partial(_sweep, obj), functools.partial(_source, obj),
    )  # fmt: skip


def _calls(
    obj: Any, arguments: Sequence[np.ndarray], level: str | None, threads: int | None
) -> list[TracedCall]:
    with IMPORTING:
        from frontend.engine.compiled.inspection import traced_calls

    function, options = obj, Options()
    if isinstance(obj, CompiledFunction):
        function, options = obj.function, obj.options
    options = replace(options, level=level or options.level, threads=threads or options.threads)
    tensors = tuple(_as_tensors(array) for array in arguments)
    return traced_calls(function, tensors, {}, options)


def _running(obj: Any, arguments: Sequence[np.ndarray], way: WayToRun) -> ObjectRun:
    with IMPORTING:
        from frontend.engine.compiled.object_runs import object_run

    compiled = isinstance(obj, CompiledFunction)
    options = obj.options if compiled else Options()
    function = obj.function if compiled else obj
    return object_run(function, tuple(_as_tensors(array) for array in arguments), options, way)


def _source(
    obj: Any, arguments: Sequence[np.ndarray], names: Sequence[Mapping[int, str]],
    level: str | None, keep_grads: bool,
) -> ObjectSource:  # fmt: skip
    with IMPORTING:
        from frontend.engine.compiled.building import source_of

    compiled = isinstance(obj, CompiledFunction)
    function = obj.function if compiled else obj
    options = obj.options if compiled else Options()
    tensors = tuple(_as_tensors(array) for array in arguments)
    if any(names):
        labels = labels_of(function, tree.flatten((tensors, {}), []))
        options = replace(options, dynamic=dict(zip(labels, names)))
    options = replace(options, level=level or options.level)
    return source_of(function, tensors, {}, options, keep_grads)


def _sweep(obj: Any, sets: Sequence[Sequence[np.ndarray]], seconds: float) -> list[dict[str, Any]]:
    from frontend.engine.compiled.object_runs import sweep

    compiled = obj
    if not isinstance(obj, CompiledFunction):
        compiled = CompiledFunction(obj, Options(fullgraph=True))
    return sweep(compiled, [tuple(map(_as_tensors, arrays)) for arrays in sets], seconds)
