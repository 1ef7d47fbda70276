"""No circle of imports between modules but for a few whose reason is said here. What stands inside
functions counts, what is for typing alone, and `import_module` of a text: what a module has to know
of another one it needs, in whatever way it comes to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("graphc", "frontend")

ALLOWED: dict[frozenset[str], str] = {
    frozenset({"graphc.ir.nodes", "graphc.ir.printer"}): "str(graph) is its text",
    frozenset({"graphc.codegen.loop_ir.nodes", "graphc.codegen.loop_ir.printer"}): (
        "str(kernel) is its text"
    ),
    frozenset({"graphc.codegen.nests.nest", "graphc.codegen.nests.printer"}): (
        "str(nest) is its text"
    ),
    frozenset({"graphc.ir.builder", "graphc.ir.handle"}): (
        "operators on handles name the user's line in errors, as the builder does"
    ),
    frozenset({"frontend.nn.parameter", "frontend.nn.uninitialized"}): (
        "PyTorch has uninitialized parameters in nn.parameter, and few programs ask for them"
    ),
    frozenset({"frontend.nn.modules.module", "frontend._dynamo.eval_frame"}): (
        "compile() of a Module is a Module around it"
    ),
}


def modules() -> dict[str, Path]:
    """Every module by its name."""
    by_name = {}
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
        root = Path(spec.submodule_search_locations[0])
        for path in root.rglob("*.py"):
            parts = (package, *path.relative_to(root).with_suffix("").parts)
            by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return by_name


def imported(node: ast.AST) -> Iterator[str]:
    """The full names of all that is imported, wherever the import stands."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        yield from (text.value for text in node.args if isinstance(text, ast.Constant))
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def edges(sources: dict[str, str]) -> dict[str, set[str]]:
    """For each module those it imports. A package itself is left out: what it re-exports is no part
    of what its modules need of each other."""
    needs: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for target in imported(ast.parse(source)):
            while target and target not in sources:
                target = target.rpartition(".")[0]
            if target not in {"", name, *PACKAGES}:
                needs[name].add(target)
    return needs


def circles(needs: dict[str, set[str]]) -> list[frozenset[str]]:
    """The sets of modules that need each other."""
    import networkx

    graph = networkx.DiGraph((name, target) for name in needs for target in needs[name])
    components = networkx.strongly_connected_components(graph)
    return [frozenset(component) for component in components if len(component) > 1]


def test_no_circle_but_those_allowed() -> None:
    components = circles(edges({name: path.read_text("utf-8") for name, path in modules().items()}))
    unexpected = [sorted(circle) for circle in components if circle not in ALLOWED]
    assert not unexpected, "\n".join(map(", ".join, unexpected))
    assert set(components) == set(ALLOWED), "an exception is no longer needed"


def test_a_circle_is_seen_through_late_imports_typing_and_texts() -> None:
    needs = edges(
        {
            "frontend.a": "def f():\n  from frontend.b import g",
            "frontend.b": "from frontend.c import C",
            "frontend.c": "import frontend.a",
            "frontend.d": "if TYPE_CHECKING:\n  from frontend.e import E",
            "frontend.e": "def f(): return import_module('frontend.d').D",
            "frontend.f": "from frontend.a import f, h\nimport frontend.d",
        }
    )
    assert set(circles(needs)) == {
        frozenset({"frontend.a", "frontend.b", "frontend.c"}),
        frozenset({"frontend.d", "frontend.e"}),
    }
