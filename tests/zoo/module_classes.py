"""The classes of modules that a library's files define, found without importing it."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def module_classes(library: str) -> frozenset[str]:
    """Names as `library.file.Class`: what derives from a class called Module, or from another of
    the file that does."""
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{library} is not installed (tests/zoo/requirements.txt)")
    root = Path(spec.origin).parent
    classes = set()
    for path in sorted(root.glob("**/*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        kinds = {"Module", "Sequential"}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                if bases & kinds:
                    kinds.add(node.name)
                    classes.add(".".join((library, *parts, node.name)))
    return frozenset(classes)
