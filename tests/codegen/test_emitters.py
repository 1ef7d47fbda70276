"""Emitters are whole when they are made: no attribute is born in another method.

What a step makes is what its function gives back; a class whose attributes come and go with the
order of calls cannot be read one method at a time. The rule holds for all classes of the compiler,
and each class by itself: what a base class has is assigned by the methods of the base class.
"""

from __future__ import annotations

import ast
from pathlib import Path

import graphc

ROOT = Path(graphc.__file__).parent
CONSTRUCTORS = ("__init__", "__post_init__")


def late_attributes(source: str) -> list[str]:
    """Class.attribute of all that is assigned through `self` in a method, and neither a field nor
    assigned in a constructor. A bare annotation is a field of records alone."""
    late = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            born = constructed(node)
            late += [f"{node.name}.{x}" for each in methods(node) for x in assigned(each) - born]
    return sorted(set(late))


def methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [item for item in node.body if isinstance(item, ast.FunctionDef)]


def constructed(node: ast.ClassDef) -> set[str]:
    """The fields, and what is assigned in a constructor."""
    constructors = [each for each in methods(node) if each.name in CONSTRUCTORS]
    return fields(node).union(*map(assigned, constructors))


def attributes(source: str) -> dict[str, set[str]]:
    """What the classes with attributes assign in their constructors, or have as fields."""
    born = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            born[node.name] = constructed(node)
    return {name: names for name, names in born.items() if names}


def fields(node: ast.ClassDef) -> set[str]:
    is_record = any(ast.unparse(each).startswith("record") for each in node.decorator_list)
    names = set()
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and (is_record or item.value is not None):
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


def test_no_attribute_is_born_outside_a_constructor() -> None:
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.rglob("*.py")
    }
    examined = {name: attributes(source) for name, source in sources.items()}
    assert "labels" in examined["codegen/llvm/kernel.py"]["_Emitter"]
    assert sum(map(len, examined.values())) > 100, "hardly any class was looked at"
    assert sum(len(names) for each in examined.values() for names in each.values()) > 500
    late = {name: late_attributes(source) for name, source in sources.items()}
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


@record
class Plan:
    field: int

    def write(self):
        self.field = 1
"""
    assert late_attributes(source) == ["Late.bare", "Late.block", "Late.count", "Late.late"]
