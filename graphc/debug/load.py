"""`FILE.py:NAME` or `FILE.graph` → a graph.

in : a Python file, the name of a graph, module or function in it, and the types of its inputs; or
     a file with the text of a graph
out: the graph: the object itself, or what a tracer makes of it

Tracers are found through the entry points of the group `graphc.tracers`. Each is a callable
`(object, input types) -> TracedObject | Graph | None`; None says that it does not know the object.
So the compiler needs no import of a frontend.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np

from graphc.debug.program import (
    AS_IT_IS,
    LoadError,
    ProgramOptions,
    blaming,
    imported,
    member,
)
from graphc.debug.traced import CallOptions, DrawnInput, TracedCall, TracedObject, drawn
from graphc.errors import GraphError, ParseError
from graphc.ir.dims import Extent
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph, Location
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.ir.verifier import verify
from graphc.records import replace

TRACERS = "graphc.tracers"
GRAPH_SUFFIX = ".graph"
Tracer = Callable[[Any, list[TensorType]], TracedObject | Graph | None]


def load_graph(
    reference: str, input_types: list[TensorType], program: ProgramOptions = AS_IT_IS
) -> Graph:
    """The graph of `FILE.py:NAME`, or of `FILE.graph`, its text. NAME may have dots.

    A Graph is taken as it is; `input_types`, where given, must be those of its inputs. Anything
    else goes to the tracers, where none are given with the inputs that its parameters declare. What
    the file prints goes to standard error.
    """
    if is_graph_file(reference):
        return _checked(read_graph(reference, program), reference, input_types)
    with (
        contextlib.redirect_stdout(sys.stderr),
        named_object(reference, program) as (path, name, named),
    ):
        if isinstance(named, Graph):
            return _checked(named, name, input_types)
        with blaming(path, f"{name} could not be traced"):
            types = input_types or [each.type for each in declared_inputs(named)]
            traced = _traced(named, name, types)
            graph = traced.traced() if isinstance(traced, TracedObject) else traced
            return _placed(verify(graph), path)


@contextlib.contextmanager
def loaded_calls(
    reference: str, inputs: Sequence[DrawnInput], level: str | None = None,
    threads: int | None = None, program: ProgramOptions = AS_IT_IS,
) -> Iterator[list[TracedCall]]:  # fmt: skip
    """The native calls that one run of `FILE.py:NAME` or `FILE.graph` makes on inputs drawn as they
    say, for as long as the file stays imported. `level` and `threads`: None for those of the
    object.

    A Graph is one call; where `inputs` are none they are drawn by its types."""
    options = CallOptions(level or "", threads)
    if is_graph_file(reference):
        graph = _checked(read_graph(reference, program), reference, [each.type for each in inputs])
        yield [_drawn_call(graph, inputs, options)]
        return
    with contextlib.ExitStack() as stack:
        with contextlib.redirect_stdout(sys.stderr):
            path, name, named = stack.enter_context(named_object(reference, program))
            calls = _calls(named, name, path, inputs, options)
        yield calls


@contextlib.contextmanager
def loaded_object(
    reference: str, inputs: Sequence[DrawnInput], program: ProgramOptions = AS_IT_IS
) -> Iterator[tuple[TracedObject | Graph, list[np.ndarray[Any, Any]]]]:
    """What a tracer found of `FILE.py:NAME`, or a Graph, and arrays drawn for its inputs, for as
    long as the file stays imported. An object that cannot be traced is there too: its graph is not.
    """
    if is_graph_file(reference):
        graph = _checked(read_graph(reference, program), reference, [each.type for each in inputs])
        yield graph, _arrays_of(graph, inputs)
        return
    with contextlib.ExitStack() as stack:
        with contextlib.redirect_stdout(sys.stderr):
            path, name, named = stack.enter_context(named_object(reference, program))
            inputs = inputs if isinstance(named, Graph) else inputs or declared_inputs(named)
            types = [each.type for each in inputs]
            if isinstance(named, Graph):
                traced: TracedObject | Graph = _checked(named, name, types)
            else:
                with blaming(path, f"{name} could not be traced"):
                    traced = _traced(named, name, types)
        arrays = _arrays_of(traced, inputs) if isinstance(traced, Graph) else drawn(inputs)
        yield traced, arrays


def is_graph_file(reference: str) -> bool:
    """Whether a reference names a file with the text of a graph."""
    return reference.endswith(GRAPH_SUFFIX)


def read_graph(path: str, program: ProgramOptions = AS_IT_IS) -> Graph:
    """The graph whose text a file has. Raises LoadError with the file's name, and for text that is
    no graph with line and column; for options of programs, which a graph has none of."""
    from graphc.ir.parser import parse

    if program != AS_IT_IS:
        raise LoadError(f"{path} is a graph, not a program: it takes no --as and no arguments")
    try:
        return verify(parse(Path(path).read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LoadError(f"{path} cannot be read: {reason}") from None
    except ParseError as error:
        raise LoadError(f"{path}: {error}") from None


def _calls(
    named: Any, name: str, path: Path, inputs: Sequence[DrawnInput], options: CallOptions
) -> list[TracedCall]:
    if not isinstance(named, Graph):
        inputs = inputs or declared_inputs(named)
    types = [each.type for each in inputs]
    if isinstance(named, Graph):
        return [_drawn_call(_checked(named, name, types), inputs, options)]
    with blaming(path, f"{name} could not be traced"):
        traced = _traced(named, name, types)
        if isinstance(traced, TracedObject):
            return traced.calls(drawn(inputs), options.level or None, options.threads)
        return [_drawn_call(verify(traced), inputs, options)]


def declared_inputs(named: Any) -> list[DrawnInput]:
    """The inputs that the parameters of a function or module say themselves, where all that have no
    default do: `x: Annotated[Tensor, "f32[64,1,8,8]"]`."""
    function = getattr(named, "forward", named)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError):
        return []  # annotations that mean nothing to Python are nobody's fault here
    inputs = []
    for parameter in parameters:
        texts = [t for t in getattr(hints.get(parameter.name), "__metadata__", ()) if _is_input(t)]
        if texts:
            inputs.append(DrawnInput.parse(texts[0]))
        elif parameter.default is parameter.empty:
            return []
    return inputs


def _is_input(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(DrawnInput.parse(text))
    except GraphError:
        return False


def _drawn_call(graph: Graph, inputs: Sequence[DrawnInput], options: CallOptions) -> TracedCall:
    """A call of a graph on arrays drawn for all its inputs."""
    options = replace(options, level=options.level or "exact")
    return TracedCall(graph, tuple(_arrays_of(graph, inputs)), options)


def _arrays_of(graph: Graph, inputs: Sequence[DrawnInput]) -> list[np.ndarray[Any, Any]]:
    names = [symbol.name for symbol in symbols_of(graph)]
    if names:
        raise LoadError(
            f"{graph.name} leaves sizes open: {_words(names)}",
            hint="give --input for each input, in order, with the sizes to take",
        )
    return drawn(inputs or [DrawnInput(type) for type in graph.input_types])


@contextlib.contextmanager
def named_object(reference: str, program: ProgramOptions) -> Iterator[tuple[Path, str, Any]]:
    """The file, the name, and what it names."""
    path, name = _split(reference)
    with imported(path, program) as module:
        with blaming(path, f"{name} could not be made"):
            value = member(module, name, path)
        yield path, name, value


def _split(reference: str) -> tuple[Path, str]:
    """The file and the name."""
    file, _, name = reference.rpartition(":")
    if not file or not name:
        raise LoadError(
            f"{reference!r} names no object of a file",
            hint=f"write FILE.py:NAME, or a file of a graph's text, FILE{GRAPH_SUFFIX}",
        )
    path = Path(file)
    if not path.is_file():
        raise LoadError(f"there is no file {file}")
    return path, name


# -- the graph -------------------------------------------------------------------------------------


def _checked(graph: Graph, name: str, input_types: Sequence[TensorType]) -> Graph:
    """`graph` itself, if `input_types` are none, or its own; at the sizes that these give where it
    leaves some open."""
    if input_types and symbols_of(graph):
        graph = at_sizes(graph, _sizes_in(graph, name, input_types))
    if input_types and tuple(input_types) != graph.input_types:
        raise LoadError(
            f"graph {name} takes {_listed(graph.input_types)}, not {_listed(input_types)}",
            hint="leave --input out: a graph knows its inputs",
        )
    return verify(graph)


def _sizes_in(graph: Graph, name: str, types: Sequence[TensorType]) -> dict[str, Extent]:
    """What the open sizes of a graph are for inputs of these types."""
    names = {symbol.name for symbol in symbols_of(graph)}
    sizes: dict[str, Extent] = {}
    for own, type in zip(graph.input_types, types):
        for extent, size in zip(own.shape, type.shape):
            if str(extent) in names:
                sizes.setdefault(str(extent), size)
    if names - sizes.keys():
        raise LoadError(f"graph {name}: --input says nothing of {_words(names - sizes.keys())}")
    return sizes


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _traced(named: Any, name: str, input_types: list[TensorType]) -> TracedObject | Graph:
    tracers = entry_points(group=TRACERS)
    kind = type(named).__name__
    if not tracers:
        raise LoadError(
            f"{name} is a {kind}, no Graph, and no tracer is installed (entry points {TRACERS})",
            hint="install the package that has a tracer, or name a Graph",
        )
    if not callable(named):
        raise LoadError(f"{name} is a {kind}, which is neither a Graph nor callable")
    _check_count(named, name, input_types)
    for entry in tracers:
        traced = _tracer(entry)(named, list(input_types))
        if traced is not None:
            return traced
    asked = ", ".join(entry.name for entry in tracers)
    raise LoadError(f"no tracer knows {name}, a {kind} (asked: {asked})")


def _placed(graph: Graph, path: Path) -> Graph:
    """The graph without lines of the script that started this command: nodes that no line of the
    user's made (a module that is traced as it is) have none."""
    script = getattr(sys.modules["__main__"], "__file__", None) or ""
    if not script or Path(script).resolve() == path.resolve():
        return graph
    nodes = (
        replace(
            node,
            location=_elsewhere(node.location, script),
            regions=tuple(_placed(region, path) for region in node.regions),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


def _elsewhere(location: Location | None, script: str) -> Location | None:
    """The location, without its line where that is of the script."""
    frozen = location is not None and location.path.startswith("<frozen ")  # `python -m graphc`
    if location is None or not (frozen or Path(location.path) == Path(script)):
        return location
    return Location("", 0, "", location.module, location.phase) if location.module else None


def _tracer(entry: EntryPoint) -> Tracer:
    try:
        tracer: Tracer = entry.load()
    except (ImportError, AttributeError) as error:
        raise LoadError(f"tracer {entry.name} ({entry.value}) does not load: {error}") from error
    return tracer


def _check_count(named: Any, name: str, input_types: Sequence[TensorType]) -> None:
    """Whether the callable takes that many inputs. A module's inputs are those of `forward`."""
    function = getattr(named, "forward", named)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # built in, or otherwise without a signature: the call itself will say
    try:
        signature.bind(*input_types)
    except TypeError as error:
        raise LoadError(
            f"{name}{signature} does not take {_listed(input_types)}: {error}",
            hint="give one --input for each tensor, in order",
        ) from None


def _listed(types: Sequence[TensorType]) -> str:
    count = f"{len(types)} input{'' if len(types) == 1 else 's'}"
    return f"{count} ({', '.join(map(str, types))})" if types else count
