"""The list of hidden state in `frontend.engine.tensors.state` is the whole one.

What outlives a call and is reached by no argument stands at the top of some module. Two looks find
it, each what the other cannot see: at the source, names of a module that a function rebinds or
writes into; at the modules once imported, objects that are there to be filled or to count. Not
seen: a table that is filled at import and written through another name alone.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import pkgutil
import re
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frontend
from frontend.engine.tensors import state

WRITERS = {
    "_assign", "add", "append", "clear", "discard", "extend", "insert", "move_to_end", "pop",
    "popitem", "remove", "setdefault", "update",
}  # fmt: skip
MAKERS = {"__init__", "__new__", "__setstate__", "__init_subclass__"}
Name = tuple[str, str]  # ("engine.tensors.state", "STATE")


def listed() -> set[str]:
    """The names in the docstring: `tensors.state.STATE`."""
    return set(re.findall(r"^- `([\w.]+)`", state.__doc__ or "", re.MULTILINE))


def sources() -> dict[str, ast.Module]:
    """The modules of the frontend, by name without `frontend.`."""
    root = Path(next(iter(frontend.__path__)))
    trees = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text("utf-8"))
    return trees


def own_names(tree: ast.Module) -> set[str]:
    """What the top of a module assigns or defines as a class."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def homes(trees: dict[str, ast.Module]) -> dict[str, dict[str, Name]]:
    """For each module, which name of which module a name at its top is."""
    tops = {module: {n: (module, n) for n in own_names(tree)} for module, tree in trees.items()}
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("frontend."):
                known = tops.get((node.module or "").removeprefix("frontend."), {})
                for alias in node.names:
                    if alias.name in known:
                        tops[module].setdefault(alias.asname or alias.name, known[alias.name])
    return tops


def written(function: ast.AST) -> Iterator[str]:
    """The names of the module that a function rebinds or writes into."""
    inside = list(ast.walk(function))
    rebound = {name for node in inside if isinstance(node, ast.Global) for name in node.names}
    yield from rebound
    local = {node.arg for node in inside if isinstance(node, ast.arg)}
    local |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in inside:
        target: Any = None
        if isinstance(node, ast.Attribute | ast.Subscript):
            target = None if isinstance(node.ctx, ast.Load) else node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func if node.func.attr in WRITERS else None
        while isinstance(target, ast.Attribute | ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name) and target.id not in local - rebound:
            yield target.id
        if isinstance(target, ast.Call) and ast.unparse(target) == "globals()":
            yield "globals()"


def state_in_sources(trees: dict[str, ast.Module]) -> set[str]:
    """Names at the top of modules that functions write."""
    tops = homes(trees)
    names = set()
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                for name in written(node):
                    if name == "globals()":
                        names.add(module)
                    elif name in tops[module]:
                        names.add(".".join(tops[module][name]))
    return names


def changing_classes(trees: dict[str, ast.Module]) -> set[str]:
    """Classes with a method that writes into `self` after it was made."""
    names = set()
    for module, tree in trees.items():
        for kind in ast.walk(tree):
            for method in kind.body if isinstance(kind, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef) and method.name not in MAKERS:
                    parameters = [a.arg for a in method.args.args]
                    method.args.args = method.args.args[1:]  # so that `self` counts as outside
                    if parameters and parameters[0] in set(written(method)):
                        names.add(f"frontend.{module}.{kind.name}")
    return names


def is_state(value: Any, changing: set[str]) -> bool:
    """Whether an object at the top of a module is there to be filled or to count."""
    if isinstance(value, dict | list | set):
        return not value
    if isinstance(value, threading.local | itertools.count | types.MethodWrapperType):
        return True
    kind = type(value)
    filled = hasattr(value, "cache_clear") and not isinstance(value, type)
    return filled or f"{kind.__module__}.{kind.__qualname__}" in changing


def state_in_modules(changing: set[str], known: set[str]) -> set[str]:
    """Objects at the top of modules that are state, by where they were defined, but for parts of
    those that are known."""
    for module in pkgutil.walk_packages(frontend.__path__, "frontend."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name != "tensorboard":  # an extra, which its own tests need
                raise
    parts = {id(part) for name in known for part in getattr(at(name), "__dict__", {}).values()}
    known_objects = {id(at(name)) for name in known}
    names = set()
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("frontend."):
            for name, value in vars(module).items():
                if not name.startswith("__") and is_state(value, changing):
                    if id(value) not in parts | known_objects:
                        names.add(f"{module_name.removeprefix('frontend.')}.{name}")
    return names


def at(name: str) -> Any:
    """The object of a listed name; a module where that is what is listed."""
    module, _, last = f"frontend.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_the_list_of_hidden_state_is_whole() -> None:
    trees = sources()
    names = listed()
    unlisted = state_in_sources(trees) - names
    assert not unlisted, "written by functions, and not listed in frontend/engine/tensors/state.py"
    changing = changing_classes(trees)
    assert not state_in_modules(changing, names), "there to be filled, and not listed"
    # What is listed is there, and is state.
    idle = {n for n in names - state_in_sources(trees) if not is_state(at(n), changing)}
    assert idle <= {"engine.tensors.state.PREPARED"}, "listed, and nothing writes it"


def test_state_of_the_thread_is_written_where_it_is_defined() -> None:
    """Everybody else calls the functions there; the default dtype is set beside the dtypes."""
    trees = sources()
    tops = homes(trees)
    writers = {
        module
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(
            tops[module].get(name) == ("engine.tensors.state", "STATE") for name in written(node)
        )
    }
    assert writers == {"engine.tensors.state", "engine.tensors.dtypes"}


def test_what_functions_write_is_seen() -> None:
    source = """
TABLE, seen, held = {}, 0, []
class Kind:
    count = 0
def a(x): TABLE[x] = 1
def b():
    global seen
    seen += 1
def c(x): held.append(x)
def d(): Kind.count += 1
def e(held): held.append(1)
def f(): TABLE = {}; TABLE[1] = 2
"""
    tree = ast.parse(source)
    seen = {f.name: set(written(f)) for f in tree.body if isinstance(f, ast.FunctionDef)}
    expected = {"a": {"TABLE"}, "b": {"seen"}, "c": {"held"}, "d": {"Kind"}, "e": set(), "f": set()}
    assert seen == expected
