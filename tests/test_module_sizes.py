"""A module has at most 600 lines, or says in its first 30 why it has more (`# Long because: ...`);
a function has at most 60 lines and 20 branches, or stands here with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

LINES = 600
REASON = "# Long because: "
FUNCTION_LINES = 60
BRANCHES = 20
# Tuples: isinstance of a union takes several times as long, and every node is asked.
BRANCHING = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.match_case)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

LONG_FUNCTIONS = {
    "graphc/runtime/native_call.py: _text": "one function of LLVM text, in the order it runs",
    "graphc/runtime/direct_call.py: _text": "one function of LLVM text, in the order it runs",
    "graphc/runtime/native_call.py: _fits": "two functions of LLVM text",
    "graphc/runtime/pool_text.py: pool_text": "one module of LLVM text",
    "graphc/codegen/program/profiling_driver.py: _functions": "one text of LLVM functions",
    "frontend/nn/functional/multi_head.py: multi_head_attention_forward": "PyTorch's parameters",
    "frontend/utils/data/dataloader.py: __init__": "PyTorch's parameters, each checked",
}
"""By file and name, why a function is longer."""


def root(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    return Path(spec.submodule_search_locations[0])


def branches(function: ast.AST) -> int:
    """How many branches a function has, without those of functions and classes in it."""
    inner = (
        child
        for child in ast.iter_child_nodes(function)
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef))
    )
    return sum(isinstance(child, BRANCHING) + branches(child) for child in inner)


def long_functions(tree: ast.AST) -> Iterator[tuple[str, int, int]]:
    """Name, lines and branches of the functions that are too long."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            lines, count = (node.end_lineno or 0) - node.lineno + 1, branches(node)
            if lines > FUNCTION_LINES or count > BRANCHES:
                yield node.name, lines, count


@pytest.mark.parametrize("package", ["graphc", "frontend"])
def test_no_long_module_without_a_reason(package: str) -> None:
    long: list[str] = []
    for path in sorted(root(package).rglob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        if len(lines) > LINES and not any(line.startswith(REASON) for line in lines[:30]):
            long.append(f"{package}/{path.relative_to(root(package))}: {len(lines)} lines")
    assert not long, f"over {LINES} lines, no `{REASON}...` at the top:\n" + "\n".join(long)


def test_no_long_function_without_a_reason() -> None:
    found: dict[str, str] = {}
    for package in ("graphc", "frontend"):
        for path in sorted(root(package).rglob("*.py")):
            for name, lines, count in long_functions(ast.parse(path.read_text("utf-8"))):
                key = f"{package}/{path.relative_to(root(package)).as_posix()}: {name}"
                found[key] = f"{lines} lines, {count} branches"
    unexpected = [f"{key}: {size}" for key, size in found.items() if key not in LONG_FUNCTIONS]
    assert not unexpected, "\n".join(unexpected)
    assert found.keys() == LONG_FUNCTIONS.keys(), "an exception is no longer needed"


def test_a_long_and_a_branching_function_are_seen() -> None:
    long = "def long():\n" + "    x = 1\n" * 60
    branching = "def branching():\n" + "    x = 1 if y else 2\n" * 21
    inside = "def outer():\n    def inner():\n" + "        if y: pass\n" * 20 + "    if y: pass\n"
    seen = [name for name, *_ in long_functions(ast.parse(long + branching + inside))]
    assert seen == ["long", "branching"]
