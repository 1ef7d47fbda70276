"""`FILE.py:NAME` → a graph.

in : a Python file, the name of a graph, module or function in it, and the types of its inputs
out: the graph: the object itself, or what a tracer makes of it

Tracers are found through the entry points of the group `graphc.tracers`. Each is a callable
`(object, input types) -> TracedObject | Graph | None`; None says that it does not know the object.
So the compiler needs no import of a frontend.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from graphc.debug.traced import CallOptions, DrawnInput, TracedCall, TracedObject, drawn
from graphc.errors import GraphError
from graphc.ir.nodes import Graph, Location
from graphc.ir.types import TensorType
from graphc.ir.verifier import verify

TRACERS = "graphc.tracers"
Tracer = Callable[[Any, list[TensorType]], TracedObject | Graph | None]


class LoadError(GraphError):
    """No graph could be made of what the command line names."""


def load_graph(reference: str, input_types: list[TensorType]) -> Graph:
    """The graph of `FILE.py:NAME`. NAME may have dots (`model.encoder`).

    A Graph is taken as it is; `input_types`, where given, must be those of its inputs. Anything
    else goes to the tracers, where none are given with the inputs that its parameters declare. What
    the file prints goes to standard error.
    """
    path, name = _split(reference)
    with contextlib.redirect_stdout(sys.stderr), _imported(path) as module:
        member = _member(module, name, path)
        if isinstance(member, Graph):
            return _checked(member, name, input_types)
        with _blaming(path, f"{name} could not be traced"):
            types = input_types or [each.type for each in _declared(member)]
            traced = _traced(member, name, types)
            graph = traced.graph if isinstance(traced, TracedObject) else traced
            return _placed(verify(graph), path)


@contextlib.contextmanager
def loaded_calls(
    reference: str, inputs: Sequence[DrawnInput], level: str | None = None,
    threads: int | None = None,
) -> Iterator[list[TracedCall]]:  # fmt: skip
    """The native calls that one run of `FILE.py:NAME` makes on inputs drawn as they say, for as
    long as the file stays imported. `level` and `threads`: None for those of the object.

    A Graph is one call; where `inputs` are none they are drawn by its types."""
    path, name = _split(reference)
    with _imported(path) as module:
        with contextlib.redirect_stdout(sys.stderr):
            member = _member(module, name, path)
            calls = _calls(member, name, path, inputs, CallOptions(level or "", threads))
        yield calls


def _calls(
    member: Any, name: str, path: Path, inputs: Sequence[DrawnInput], options: CallOptions
) -> list[TracedCall]:
    if not isinstance(member, Graph):
        inputs = inputs or _declared(member)
    types = [each.type for each in inputs]
    if isinstance(member, Graph):
        return [_drawn_call(_checked(member, name, types), inputs, options)]
    with _blaming(path, f"{name} could not be traced"):
        traced = _traced(member, name, types)
        if isinstance(traced, TracedObject):
            return traced.calls(drawn(inputs), options.level or None, options.threads)
        return [_drawn_call(verify(traced), inputs, options)]


def _declared(member: Any) -> list[DrawnInput]:
    """The inputs that the parameters of a function or module say themselves, where all that have no
    default do: `x: Annotated[Tensor, "f32[64,1,8,8]"]`."""
    function = getattr(member, "forward", member)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, NameError, AttributeError, SyntaxError):
        return []  # annotations that mean nothing to Python are nobody's fault here
    found = []
    for parameter in parameters:
        texts = [t for t in getattr(hints.get(parameter.name), "__metadata__", ()) if _is_input(t)]
        if texts:
            found.append(DrawnInput.parse(texts[0]))
        elif parameter.default is parameter.empty:
            return []
    return found


def _is_input(text: Any) -> bool:
    try:
        return isinstance(text, str) and bool(DrawnInput.parse(text))
    except GraphError:
        return False


def _drawn_call(graph: Graph, inputs: Sequence[DrawnInput], options: CallOptions) -> TracedCall:
    """A call of a graph on arrays drawn for all its inputs."""
    chosen = inputs or [DrawnInput(type) for type in graph.input_types]
    options = replace(options, level=options.level or "exact")
    return TracedCall(graph, tuple(drawn(chosen)), options)


def _split(reference: str) -> tuple[Path, str]:
    """The file and the name."""
    file, _, name = reference.rpartition(":")
    if not file or not name:
        raise LoadError(f"{reference!r} names no object of a file", hint="write FILE.py:NAME")
    path = Path(file)
    if not path.is_file():
        raise LoadError(f"there is no file {file}")
    return path, name


# -- the file --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _imported(path: Path) -> Iterator[ModuleType]:
    """The file as a module under its own name, its folder first on sys.path. Both are undone at
    the end: a file may be called like a module that is imported already."""
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except SyntaxError as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        raise LoadError(f"{path} could not be imported\n  {text}") from None
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} is no Python file: {error}") from None
    name, folder = path.stem, str(path.resolve().parent)
    module = ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        with _blaming(path, f"{path} could not be imported"):
            exec(code, module.__dict__)
        yield module
    finally:
        sys.path.remove(folder)
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before


@contextlib.contextmanager
def _blaming(path: Path, what: str) -> Iterator[None]:
    """Errors raised below a line of the user's file become a LoadError with that line. Others,
    but for graphc's own, are ours and pass."""
    try:
        yield
    except LoadError:
        raise
    except (Exception, SystemExit) as error:
        place = _user_line(error, path)
        if place is None and not isinstance(error, GraphError):
            raise
        message = "".join(traceback.format_exception_only(error)).strip()
        raise LoadError(what + (place or "") + f"\n  {message}") from error


def _user_line(error: BaseException, path: Path) -> str | None:
    """The innermost line of the user's file in the traceback, as Python shows it."""
    own = path.resolve()
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if Path(frame.filename).resolve() == own]
    if not lines:
        return None
    last = lines[-1]
    return f'\n  File "{path}", line {last.lineno}, in {last.name}\n    {last.line}'


def _member(module: ModuleType, name: str, path: Path) -> Any:
    member: Any = module
    for part in name.split("."):
        if not hasattr(member, part):
            names = [
                key
                for key, value in vars(module).items()
                if not key.startswith("_") and not isinstance(value, ModuleType)
            ]
            near = difflib.get_close_matches(name, names, n=3) or names
            raise LoadError(
                f"{path} has no {name!r}", hint=f"one of {', '.join(near)}" if near else None
            )
        member = getattr(member, part)
    return member


# -- the graph -------------------------------------------------------------------------------------


def _checked(graph: Graph, name: str, input_types: Sequence[TensorType]) -> Graph:
    """`graph` itself, if `input_types` are none, or its own."""
    if input_types and tuple(input_types) != graph.input_types:
        raise LoadError(
            f"graph {name} takes {_listed(graph.input_types)}, not {_listed(input_types)}",
            hint="leave --input out: a graph knows its inputs",
        )
    return verify(graph)


def _traced(member: Any, name: str, input_types: list[TensorType]) -> TracedObject | Graph:
    tracers = entry_points(group=TRACERS)
    kind = type(member).__name__
    if not tracers:
        raise LoadError(
            f"{name} is a {kind}, no Graph, and no tracer is installed (entry points {TRACERS})",
            hint="install the package that has a tracer, or name a Graph",
        )
    if not callable(member):
        raise LoadError(f"{name} is a {kind}, which is neither a Graph nor callable")
    _check_count(member, name, input_types)
    for entry in tracers:
        traced = _tracer(entry)(member, list(input_types))
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
    if location is None or Path(location.path) != Path(script):
        return location
    return Location("", 0, "", location.module, location.phase) if location.module else None


def _tracer(entry: EntryPoint) -> Tracer:
    try:
        tracer: Tracer = entry.load()
    except (ImportError, AttributeError) as error:
        raise LoadError(f"tracer {entry.name} ({entry.value}) does not load: {error}") from error
    return tracer


def _check_count(member: Any, name: str, input_types: Sequence[TensorType]) -> None:
    """Whether the callable takes that many inputs. A module's inputs are those of `forward`."""
    function = getattr(member, "forward", member)
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
