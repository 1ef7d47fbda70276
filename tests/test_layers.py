"""The order of the layers: each may import only what stands to its right (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

BASE = "errors,config,system,latest,references"
ORDER = f"__main__ debug build runtime codegen schedule passes autodiff ops ir {BASE}"
RANK = {name: i for i, names in enumerate(ORDER.split()) for name in names.split(",")}
BY_NAME = ("import_module", "__import__")
Name = tuple[str, ...]  # ("graphc", "ir", "types")

FOLDERS: dict[Name, str] = {
    ("graphc", "codegen"): "program recipes nests evaluate,llvm loop_ir target",
    ("frontend",): "compiled functions tracing eager tensors",
}
"""Folders within a layer, in the order of their imports: those of one place in the list import
nothing of each other. What else stands in the layer, below none of them, may import all."""


def imports(node: ast.AST, module: Name, lazy: bool = False) -> Iterator[tuple[int, Name, bool]]:
    """Line, full name and laziness (in a function or under TYPE_CHECKING) of every import below
    `node`. `from .types import F32` in graphc.ir.nodes is graphc.ir.types.F32; a module named in a
    string counts: `import_module("graphc.ops")`."""
    lazy |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    lazy |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Import):
        yield from ((node.lineno, tuple(alias.name.split(".")), lazy) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = (module[: -node.level] if node.level else ()) + tuple((node.module or "").split("."))
        yield from ((node.lineno, (*filter(None, base), a.name), lazy) for a in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(BY_NAME):
        texts = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
        yield from ((node.lineno, tuple(text.split(".")), lazy) for text in texts)
    for child in ast.iter_child_nodes(node):
        yield from imports(child, module, lazy)


def breach(module: Name, target: Name, lazy: bool) -> str | None:
    """Why `module` may not import `target`; None where it may."""
    if target[0] == "networkx" and not lazy:
        return "networkx is imported inside the function that needs it"
    if target[0] == "llvmlite" and module[:2] not in {("graphc", "codegen"), ("graphc", "runtime")}:
        return "llvmlite belongs to codegen and runtime"
    if target[0] == "frontend" and module[0] == "graphc":
        return "graphc never imports frontend"
    if reason := folder_breach(module, target):
        return reason
    if target[0] != "graphc" or module[0] != "graphc" or module[1] == "__init__":
        return None
    if len(target) < 2 or not {module[1], target[1]} <= RANK.keys():
        return f"import from the module that defines the name, in one of the layers {ORDER}"
    return f"against the order {ORDER}" if RANK[target[1]] < RANK[module[1]] else None


def folder_breach(module: Name, target: Name) -> str | None:
    """Why a folder may not import another one of its layer; None where it may."""
    for layer, order in FOLDERS.items():
        depth = len(layer)
        if module[:depth] != layer or target[:depth] != layer or len(target) <= depth:
            continue
        rank = {name: i for i, names in enumerate(order.split()) for name in names.split(",")}
        own, other = module[depth], target[depth]
        if own not in rank or own == other or own == "__init__":
            continue
        if other not in rank or rank[other] <= rank[own]:
            return f"against the order {order} of {'.'.join(layer)}"
    return None


@pytest.mark.parametrize("package", ["graphc", "frontend"])
def test_each_layer_imports_only_what_stands_to_its_right(package: str) -> None:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    root = Path(spec.submodule_search_locations[0])
    breaches: list[str] = []
    for path in sorted(root.rglob("*.py")):
        module = (package, *path.relative_to(root).with_suffix("").parts)
        for line, target, lazy in imports(ast.parse(path.read_text("utf-8")), module):
            if reason := breach(module, target, lazy):
                breaches.append(f"{'/'.join(module)}.py:{line} {'.'.join(target)}: {reason}")
    assert not breaches, "\n" + "\n".join(breaches)


def test_a_loose_file_of_the_frontend_is_a_name_that_scripts_import() -> None:
    """What computes stands in a folder."""
    import frontend

    loose = {path.stem for path in Path(frontend.__path__[0]).glob("*.py")} - {"__init__"}
    assert loose - {*frontend._MODULES} == {"install", "run"}


FOLDERS_TOLD = (
    "graphc.build",
    "graphc.codegen", "graphc.codegen.evaluate", "graphc.codegen.llvm", "graphc.codegen.loop_ir",
    "graphc.codegen.program", "graphc.codegen.recipes", "graphc.codegen.recipes.contraction",
    "graphc.codegen.recipes.nest", "graphc.ops", "graphc.ops.kinds", "graphc.ops.nn",
    "graphc.ops.scalar_functions", "graphc.schedule",
)  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS_TOLD)
def test_a_folder_says_what_each_file_in_it_is_for(folder: str) -> None:
    """A file that its folder's docstring does not name belongs elsewhere, or the docstring has to
    say why it is there."""
    spec = find_spec(folder)
    assert spec is not None and spec.origin is not None, f"{folder} is not installed"
    path = Path(spec.origin)
    told = set(re.findall(r"\w+", ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""))
    files = {each.stem for each in path.parent.glob("*.py")} - {"__init__"}
    assert files and not files - told, sorted(files - told)


def test_importing_the_frontend_loads_neither_networkx_nor_llvmlite() -> None:
    code = "import sys, frontend; print({'networkx', 'llvmlite'} & sys.modules.keys())"
    # -P keeps the current folder off sys.path: the installed wheel is what is imported.
    command = [sys.executable, "-P", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "set()\n"), result.stdout + result.stderr


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("graphc/ir/graph", "def f():\n  from ..ops.table import OPS"),
        ("graphc/ir/graph", "from graphc import GraphBuilder"),
        ("graphc/helpers", "import graphc.ir"),
        ("graphc/__init__", "def f(): import_module('frontend.engine.tracing.tracer')"),
        ("graphc/passes/dce", "import llvmlite.binding"),
        (
            "graphc/codegen/evaluate/reduction",
            "from graphc.codegen.recipes.nest.widths import MOST_REGISTERS",
        ),
        ("graphc/codegen/llvm/ops", "def f(): from graphc.codegen.evaluate import algebra"),
        ("frontend/tensor", "class C:\n  from networkx import DiGraph"),
        ("graphc/codegen/llvm/kernel", "from graphc.codegen.evaluate.algebra import LoopAlgebra"),
        ("graphc/codegen/loop_ir/nodes", "def f(): from graphc.codegen.recipes.lower import lower"),
        ("frontend/engine/eager/tape", "from frontend.functions.shape import stack"),
        (
            "frontend/engine/tensors/tensor",
            "def f(): from frontend.nn.modules.module import Module",
        ),
    ],
)
def test_a_breach_is_seen(path: str, source: str) -> None:
    module = tuple(path.split("/"))
    _, target, lazy = next(imports(ast.parse(source), module))
    assert breach(module, target, lazy)
