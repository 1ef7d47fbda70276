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

BASE = "errors,config,system,latest,lazy,records,references"
ORDER = f"__main__ debug build runtime codegen schedule passes autodiff ops ir {BASE}"
RANK = {name: i for i, names in enumerate(ORDER.split()) for name in names.split(",")}
BY_NAME = ("import_module", "__import__")
Name = tuple[str, ...]  # ("graphc", "ir", "types")

FOLDERS: dict[Name, str] = {
    ("graphc", "codegen"): "program kernels nests elements,llvm libm,cache loop_ir target",
    ("graphc", "codegen", "kernels", "contraction"): (
        "recipe,arrays strategies operands emission cost problem"
    ),
    ("frontend",): (
        "startup quantization,gguf "
        "onnx,vision,audio,_C,_dynamo,_functorch,_inductor,_subclasses,ao,backends,cpu,cuda,"
        "distributions,fx,jit,masked,signal,testing export amp namespace.methods,namespace.lazily "
        "nn.parallel,nn.utils,nn.modules.synchronized distributed "
        "utils,library,serialization,optim,func nn sparse overrides autograd profiler namespace "
        "devices "
        "engine.compiled functions engine.tracing engine.sizes engine.outside engine.eager "
        "engine.tensors"
    ),
    ("frontend", "engine", "eager"): (
        "gradients,autocasting,fused,reinterpreting promotion,host_ops spreading dispatch prepared "
        "tape complex_forms node_names,uncompiled kernels"
    ),
}
"""Folders within a layer, in the order of their imports: those of one place in the list import
nothing of each other. A part of a folder may have a place of its own, where PyTorch's names have
put it there. What else stands in the layer, below none of them, may import all."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("nn.functional.linear_cross_entropy", "utils"): "its chunks are computed anew in backward",
    ("utils.data.sampler", "distributed"): "DistributedSampler asks for rank and world",
    ("nn.modules.module", "_dynamo"): "`Module.compile` makes an OptimizedModule",
    ("nn.__init__", "ao"): "`nn.quantized` is what `ao.nn.quantized` was called before",
    ("functions.quantized_tensor", "overrides"): "quantized tensors answer functions of tensors",
    ("functions.sparse_layouts", "sparse"): "methods of tensors that make sparse ones",
}
"""Imports of the frontend against the order, and why: a name of PyTorch's that rests on what stands
above its folder. Each is made where it is used."""


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
        texts = [*filter(None, map(text_of, node.args))]
        yield from ((node.lineno, tuple(text.split(".")), lazy) for text in texts)
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("sys.modules"):
        if text := text_of(node.slice):
            yield node.lineno, tuple(text.split(".")), lazy
    for child in ast.iter_child_nodes(node):
        yield from imports(child, module, lazy)


def text_of(node: ast.expr) -> str:
    """A text, or as much of a formatted one as is written ahead of its first value."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return str(node.value).rstrip(".") if isinstance(node, ast.Constant) else ""


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
        own, other = place(module[depth:], order), place(target[depth:], order)
        if own is None or module[depth] == "__init__" or own == other:
            continue
        same = module[depth] == target[depth] and module[depth] != "engine"
        if same or (".".join(module[depth:]), target[depth]) in EXCEPTIONS:
            continue
        if other is None and layer == ("frontend",) and is_loose(target[depth]):
            continue
        if other is None or ranks(order)[other] <= ranks(order)[own]:
            return f"against the order {order} of {'.'.join(layer)}"
    return None


def ranks(order: str) -> dict[str, int]:
    return {name: i for i, names in enumerate(order.split()) for name in names.split(",")}


def place(module: Name, order: str) -> str | None:
    """Where a module stands in an order: the longest of the names there that it begins with."""
    known = ranks(order)
    starts = (".".join(module[:count]) for count in range(len(module), 0, -1))
    return next((start for start in starts if start in known), None)


def is_loose(name: str) -> bool:
    """Whether it is no folder of the frontend: a file, or a name of the package itself."""
    spec = find_spec("frontend")
    assert spec is not None and spec.submodule_search_locations, "the frontend is not installed"
    return not (Path(spec.submodule_search_locations[0]) / name).is_dir()


def test_every_folder_of_the_frontend_has_its_place() -> None:
    spec = find_spec("frontend")
    assert spec is not None and spec.submodule_search_locations, "the frontend is not installed"
    root = Path(spec.submodule_search_locations[0])
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    engine = {f"engine.{path.parent.name}" for path in root.glob("engine/*/__init__.py")}
    known = ranks(FOLDERS["frontend",])
    assert folders and engine and (folders - {"engine"}) | engine <= known.keys()
    assert {name for name in known if name.startswith("engine.")} == engine


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


MIRRORED = (
    "_dynamo", "backends", "cpu", "cuda", "distributed/algorithms/ddp_comm_hooks",
    "distributed/checkpoint", "distributed/tensor", "fx/experimental", "fx/passes", "nn/parallel",
    "onnx", "testing", "utils", "utils/data/_utils", "vision/datasets",
)  # fmt: skip
"""Folders of the frontend whose files are PyTorch's modules, each with a line of its own."""


def folders_told() -> list[str]:
    """All folders of several files but the two roots and what is mirrored."""
    found = []
    for root in ("graphc", "frontend"):
        spec = find_spec(root)
        assert spec is not None and spec.origin is not None, f"{root} is not installed"
        top = Path(spec.origin).parent
        for init in sorted(top.rglob("__init__.py")):
            folder = init.parent.relative_to(top).as_posix()
            several = len([*init.parent.glob("*.py")]) > 2
            mirrored = root == "frontend" and folder in MIRRORED
            if folder != "." and several and not mirrored:
                found.append(f"{root}/{folder}".replace("/", "."))
    return found


@pytest.mark.parametrize("folder", folders_told())
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
            "graphc/codegen/elements/reduction",
            "from graphc.codegen.kernels.elementwise.widths import MOST_REGISTERS",
        ),
        ("graphc/codegen/llvm/ops", "def f(): from graphc.codegen.elements import algebra"),
        ("frontend/tensor", "class C:\n  from networkx import DiGraph"),
        ("graphc/codegen/llvm/kernel", "from graphc.codegen.elements.algebra import LoopAlgebra"),
        ("graphc/codegen/loop_ir/nodes", "def f(): from graphc.codegen.kernels.lower import lower"),
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
