"""Emitters are whole when they are made: no attribute is born in another method.

What a step makes is what its function gives back; a class whose attributes come and go with the
order of calls cannot be read one method at a time.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import graphc.codegen

ROOT = Path(graphc.codegen.__file__).parent
FOLDERS = ("recipes", "evaluate")
CONSTRUCTORS = ("__init__", "__post_init__")


def late_attributes(source: str) -> list[str]:
    """Class.attribute of all that is assigned through `self` in a method, and neither a field nor
    assigned in a constructor. A bare annotation is a field of dataclasses alone."""
    late = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            born = fields(node).union(
                *(assigned(each) for each in methods if each.name in CONSTRUCTORS)
            )
            late += [f"{node.name}.{name}" for each in methods for name in assigned(each) - born]
    return sorted(set(late))


def fields(node: ast.ClassDef) -> set[str]:
    is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    names = set()
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and (is_dataclass or item.value is not None):
            names.add(ast.unparse(item.target))
        elif isinstance(item, ast.Assign):
            names |= {ast.unparse(target) for target in item.targets}
    return names


def assigned(method: ast.FunctionDef) -> set[str]:
    return {
        item.attr
        for item in ast.walk(method)
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store)
        and isinstance(item.value, ast.Name) and item.value.id == "self"
    }  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_attribute_is_born_outside_a_constructor(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    late = {path.name: late_attributes(path.read_text()) for path in files}
    assert not {name: each for name, each in late.items() if each}


def test_late_attributes_are_found() -> None:
    source = """
class Late:
    bare: int
    constant = 1

    def __init__(self):
        self.early = 0

    def write(self):
        self.early, self.constant = 1, 2
        self.late = self.bare = 1
        with self.open() as self.block:
            self.count += 1


@dataclass
class Plan:
    field: int

    def write(self):
        self.field = 1
"""
    assert late_attributes(source) == ["Late.bare", "Late.block", "Late.count", "Late.late"]
