"""The order of the frontend's folders, and no modules that import each other (docs/frontend.md).

Imports inside functions and for typing count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import frontend

ORDER = ("tensors", "eager", "tracing", "functions", "compiled")
# The top level's layers are those of nn; what attaches methods attaches them too.
ON_TOP = {"functions.layers", "functions.spatial", "functions.methods"}
# How a Module is loaded, and what it holds: each says a little of the other.
ENTANGLED = {frozenset({"nn.modules.loading", "nn.modules.state_dict"})}


def modules() -> dict[str, ast.Module]:
    """The modules of the frontend, by name without `frontend.`; "" is the package itself."""
    root = Path(next(iter(frontend.__path__)))
    trees = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text("utf-8"))
    return trees


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The modules of the frontend that one imports anywhere, but for the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = [f"{node.module or ''}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            package, _, name = target.partition(".")
            while package == "frontend" and name and name not in known:
                name = name.rpartition(".")[0]
            if package == "frontend" and name:
                yield name


def rank(module: str) -> int:
    folder = module.partition(".")[0]
    return ORDER.index(folder) if folder in ORDER and module not in ON_TOP else len(ORDER)


def reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    """The modules that a module's imports lead to."""
    seen: set[str] = set()
    work = list(edges[start])
    while work:
        module = work.pop()
        if module not in seen:
            seen.add(module)
            work += edges[module]
    return seen


def edges() -> dict[str, set[str]]:
    trees = modules()
    return {name: set(imported(tree, set(trees))) - {name} for name, tree in trees.items()}


def test_folders_import_in_one_direction() -> None:
    against = [
        f"{module} imports {target}"
        for module, targets in edges().items()
        for target in sorted(targets)
        if rank(target) > rank(module)
    ]
    assert not against, f"the order is {' ◄ '.join(ORDER)} ◄ everything else"


def test_no_modules_import_each_other() -> None:
    known = edges()
    behind = {module: reached(module, known) for module in known}
    circles = {
        frozenset(other for other in behind[module] if module in behind[other])
        for module in known
        if module in behind[module]
    }
    assert circles == ENTANGLED
