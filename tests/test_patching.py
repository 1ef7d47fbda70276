"""Nothing is replaced by name in what another folder made: who wants to look on, or to stand in,
is asked there (as `tensors.state.swap_observer` has it). The few that put things there say why."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ALLOWED = {
    (
        "frontend.engine.eager.dispatch",
        "Tensor",
    ): "the context of all tensors, which computes above them",
    ("frontend.namespace.methods", "Tensor"): "the methods that functions declare",
    ("frontend.fx._symbolic_trace", "Module"): (
        "while it traces symbolically, as PyTorch's does; a hook would cost each call of a Module"
    ),
    ("frontend.engine.tensors.dtypes", "DType"): "what PyTorch's dtypes can say",
}
PATCHES = ("setattr", "delattr", "_patch_class")


def patched(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    """Line and name where something is written into what an import of another folder gave."""
    taken: set[str] = set()
    folder = module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            home = node.module or ""
            own_folder = folder in (home, home.rpartition(".")[0])
            if home.split(".")[0] in ("graphc", "frontend") and not own_folder:
                taken |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            own = [a for a in node.names if a.name.split(".")[0] in ("graphc", "frontend")]
            taken |= {alias.asname or alias.name for alias in own}
    for node in ast.walk(tree):
        for owner in owners(node):
            name = owner.id if isinstance(owner, ast.Name) else ast.unparse(owner)
            if name in taken:
                yield owner.lineno, name


def owners(node: ast.AST) -> Iterator[ast.expr]:
    """Whose attributes a statement or call writes or deletes."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.value
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        holder = node.value
        if isinstance(holder, ast.Call) and ast.unparse(holder.func) == "vars" and holder.args:
            yield holder.args[0]
        elif isinstance(holder, ast.Attribute) and holder.attr == "__dict__":
            yield holder.value
    if isinstance(node, ast.Call) and ast.unparse(node.func) in PATCHES:
        yield from node.args[:2]


def test_what_another_folder_made_is_not_replaced_by_name() -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for package in ("graphc", "frontend"):
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*.py")):
            module = ".".join((package, *path.relative_to(root).with_suffix("").parts))
            for line, name in patched(ast.parse(path.read_text("utf-8")), module):
                found.setdefault((module, name), []).append(f"{path}:{line}")
    instances = {key for key in found if key[1].isupper()}  # state, which has fields to be written
    assert found.keys() - instances == ALLOWED.keys(), found


@pytest.mark.parametrize(
    "source",
    [
        "from frontend.engine.eager import dispatch\ndispatch._computed = None",
        "def f():\n  from frontend.engine.eager import dispatch as d\n  setattr(d, name, None)",
        "import frontend.engine.eager.dispatch as d\nvars(d)['x'] = 1",
        "from graphc.ir.nodes import Graph\ndel Graph.x",
        "from graphc.ir.nodes import Graph\nGraph.__dict__['x'] = 1",
    ],
)
def test_replacing_is_seen(source: str) -> None:
    assert [*patched(ast.parse(source), "frontend.engine.compiled.object_runs")]
    assert not [*patched(ast.parse("x.y = 1; self.z = 2"), "frontend.engine.compiled.object_runs")]
