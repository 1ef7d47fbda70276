"""A Python file as a program: its module, as `python FILE.py ARGS` would see it.

in : a file, its arguments, and under which other name a package is to be imported (`torch`)
out: the module, for as long as it is wanted; what an error below a line of the file says

What stands in for a package is found through the entry points of the group `graphc.aliases`: each
is a callable `(name) -> context manager`, which gives the name back at the end.
"""

from __future__ import annotations

import contextlib
import difflib
import dis
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from graphc.errors import GraphError
from graphc.records import record

ALIASES = "graphc.aliases"


class LoadError(GraphError):
    """No graph could be made of what the command line names."""


@record
class ProgramOptions:
    """How a file is imported: its own arguments (`sys.argv[1:]`), and the package that others take
    the place of (`--as torch`)."""

    arguments: tuple[str, ...] = ()
    alias: str | None = None


AS_IT_IS = ProgramOptions()


def started(script: str, arguments: Sequence[str]) -> None:
    """Make `sys.argv` and `sys.path` those of a run of `script`: its folder comes first."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))


@contextlib.contextmanager
def imported(path: Path, options: ProgramOptions = AS_IT_IS) -> Iterator[ModuleType]:
    """The file as a module under its own name, its folder first on sys.path and `sys.argv` its own.
    All is undone at the end: a file may be called like a module that is imported already. Raises
    LoadError for a file that cannot be imported, or an alias that nothing provides."""
    try:
        code = compile(path.read_bytes(), str(path), "exec")
    except SyntaxError as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        raise LoadError(f"{path} could not be imported\n  {text}") from None
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} is no Python file: {error}") from None
    name = path.stem
    module = ModuleType(name)
    module.__file__ = str(path)
    before, argv, paths = sys.modules.get(name), sys.argv, list(sys.path)
    with _standing_in(options.alias):
        sys.modules[name] = module
        started(str(path), options.arguments)
        try:
            with blaming(path, f"{path} could not be imported"):
                exec(code, module.__dict__)
            yield module
        except LoadError as error:
            raise _with_alias(error, code, path, options) from error.__cause__
        finally:
            sys.argv, sys.path[:] = argv, paths
            if before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before


def _with_alias(error: LoadError, code: CodeType, path: Path, options: ProgramOptions) -> LoadError:
    """The error; of a file that imports a package which others could take the place of, and nothing
    does, it says so: its own objects are none that a tracer knows."""
    imports = (step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
    roots = {name.partition(".")[0] for name in imports}
    names = [entry.name for entry in entry_points(group=ALIASES) if entry.name in roots]
    if options.alias is not None or not names:
        return error
    (name, *_) = names
    return LoadError(
        f"{error}\n  try: --as {name}: {path} imports {name} itself, and so runs by that"
    )


def _standing_in(alias: str | None) -> AbstractContextManager[Any]:
    """What stands in for the package `alias`; nothing for None."""
    if alias is None:
        return nullcontext()
    known = {entry.name: entry for entry in entry_points(group=ALIASES)}
    if alias not in known:
        names = ", ".join(known) or "none is installed"
        raise LoadError(f"--as {alias}: nothing stands in for {alias!r} ({ALIASES}: {names})")
    try:
        install = known[alias].load()
        manager: AbstractContextManager[Any] = install(alias)
    except (ImportError, AttributeError, RuntimeError) as error:
        raise LoadError(f"--as {alias}: {error}") from error
    return manager


@contextlib.contextmanager
def blaming(path: Path, what: str) -> Iterator[None]:
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


def member(module: ModuleType, name: str, path: Path) -> Any:
    """What `name`, which may have dots, is in the module. Raises LoadError with near names."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = [
                key
                for key in dir(module)
                if not key.startswith("_") and not isinstance(module.__dict__.get(key), ModuleType)
            ]
            near = difflib.get_close_matches(name, names, n=3) or names[:NAMES_SHOWN]
            raise LoadError(
                f"{path} has no {name!r}", hint=f"one of {', '.join(near)}" if near else None
            )
        value = getattr(value, part)
    return value


NAMES_SHOWN = 20
