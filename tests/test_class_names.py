"""One class name, one meaning: no name is defined twice in graphc and frontend together; nor is a
function of the frontend's engine."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

TWICE = {
    "CheckpointError": "of frontend.load, and PyTorch's torch.utils.checkpoint.CheckpointError",
    "GradScaler": "PyTorch's torch.amp.GradScaler, and its former names by device",
    "autocast": "PyTorch's torch.amp.autocast, and its former names by device",
    "Buffer": "PyTorch's nn.Buffer, and memory of a kernel",
    "Dim": "PyTorch's torch.export.Dim, and a size known only at run time",
    "Graph": "PyTorch's fx.Graph, of Python calls, and the compiler's",
    "Identity": "PyTorch's nn.Identity, and nn.utils.prune.Identity",
    "Node": "PyTorch's fx.Node and autograd.graph.Node, and the compiler's",
    "TraceError": "PyTorch's fx.proxy.TraceError, and of frontend.compile",
    "Store": "PyTorch's distributed.Store, and a statement of loops",
    "Transformer": "PyTorch's nn.Transformer and fx.Transformer",
    "device": "PyTorch's torch.device, and its context manager torch.cuda.device",
}
AGAIN = (
    *(f"{name}{axes}d" for name in ("ConvReLU", "ConvBn", "ConvBnReLU", "Conv", "InstanceNorm")
      for axes in (1, 2, 3)),
    "BatchNorm2d", "BatchNorm3d", "Dropout", "ELU", "GroupNorm", "Hardswish", "LayerNorm",
    "LeakyReLU", "Linear", "LinearReLU", "PReLU",
)  # fmt: skip
TWICE |= dict.fromkeys(AGAIN, "PyTorch's layers of nn, and what stands for them in torch.ao.nn")
"""Names that stay double, with the reason: PyTorch's public ones cannot be chosen here."""


def classes(source: str) -> Iterator[tuple[str, int]]:
    """Name and line of each class, inner ones and those in functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno


def defined() -> dict[str, list[str]]:
    """Where each class name is defined."""
    lines: dict[str, list[str]] = defaultdict(list)
    for package in ("graphc", "frontend"):
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*.py")):
            for name, line in classes(path.read_text("utf-8")):
                lines[name].append(f"{package}/{path.relative_to(root)}:{line}")
    return lines


def test_no_class_name_is_defined_twice() -> None:
    double = {name: lines for name, lines in defined().items() if len(lines) > 1}
    new = [f"{name}: {', '.join(double[name])}" for name in double if name not in TWICE]
    assert not new, "one name for several classes, rename all but one:\n" + "\n".join(new)
    assert not TWICE.keys() - double.keys(), "these exceptions are not needed any more"


def test_classes_inside_classes_and_functions_are_seen() -> None:
    source = "class A:\n  class B: ...\ndef f():\n  class A: ..."
    assert sorted(classes(source)) == [("A", 1), ("A", 4), ("B", 2)]


def test_no_function_of_the_engine_is_defined_twice() -> None:
    """Those that other modules may import."""
    import frontend

    places: dict[str, list[str]] = defaultdict(list)
    engine = Path(frontend.__path__[0]) / "engine"
    for path in sorted(engine.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                places[node.name].append(f"{path.relative_to(engine)}:{node.lineno}")
    double = [f"{name}: {', '.join(lines)}" for name, lines in places.items() if len(lines) > 1]
    assert len(places) > 300 and not double, "\n".join(double)


VAGUE = {"found", "made", "given"}
"""What a value is, and not how it came about: these names say nothing of it."""


def test_values_are_named_for_what_they_are() -> None:
    vague, names = [], 0
    for package in ("graphc", "frontend"):
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(root.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = getattr(node, "id", None) or getattr(node, "arg", None)
                name = name or getattr(node, "attr", None) or getattr(node, "name", None)
                names += isinstance(name, str)
                if name in VAGUE:
                    vague.append(f"{package}/{path.relative_to(root)}:{node.lineno}: {name}")  # type: ignore[attr-defined]
    assert names > 100_000 and not vague, "\n".join(vague)
