"""Writes `lazy_names`: what modules declare that `import frontend` leaves for later.

python -m frontend.namespace.lazily
"""

from __future__ import annotations

import sys
import textwrap
from importlib import import_module
from pathlib import Path

from frontend.functions.declarations import names_of

ROOT = Path(__file__).parents[1]
FOLDERS = ("functions", "nn")
TABLE = Path(__file__).with_name("lazy_names.py")
HEADER = '''\
"""What modules declare that are imported when a function of theirs is first asked for: written by
`python -m frontend.namespace.lazily`, which a test holds it to."""

LAZY: dict[str, dict[str, str]] = {
'''


STATIC_HEADER = """\
# Written by `python -m frontend.namespace.lazily`, which a test holds it to.
# ruff: noqa
# fmt: off
"""


def declaring_modules() -> list[str]:
    """The modules that declare public functions."""
    modules = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "declarations import public" in path.read_text("utf-8"):
                modules.append(
                    ".".join(("frontend", *path.relative_to(ROOT).with_suffix("").parts))
                )
    return modules


def kinds_of(module: str) -> dict[str, str]:
    """The names that a module declares, by what they are."""
    import_module(module)
    kinds: dict[str, list[str]] = {
        "torch": [], "methods": [], "in_place": [], "in_place_functions": []
    }  # fmt: skip
    for names in names_of(module):
        kinds["torch"] += names.in_namespace("torch")
        kinds["methods"] += names.methods()
        kinds["in_place"] += names.in_place_methods()
        kinds["in_place_functions"] += names.in_place_functions()
    return {kind: " ".join(sorted(each)) for kind, each in kinds.items()}


def table(imported: frozenset[str]) -> str:
    """The text of `lazy_names`, where these modules come with `import frontend`."""
    lines = [HEADER]
    for module in declaring_modules():
        if module in imported:
            continue
        lines.append(f'    "{module}": {{\n')
        for kind, names in kinds_of(module).items():
            parts = textwrap.wrap(names, 80) if len(names) > 86 else [names]
            if len(names) + len(kind) < 86:
                lines.append(f'        "{kind}": "{names}",\n')
                continue
            texts = [f'            "{part} "\n' for part in parts[:-1]]
            lines += [f'        "{kind}": (\n', *texts, f'            "{parts[-1]}"\n        ),\n']
        lines.append("    },\n")
    return "".join([*lines, "}\n"])


def static(namespace: str) -> str:
    """What a namespace has, as imports that type checkers and editors read."""
    lines = [STATIC_HEADER]
    in_place: list[str] = []
    for module in declaring_modules():
        import_module(module)
        for names in names_of(module):
            for name in names.in_namespace(namespace):
                source = name if name in names.own else next(iter(names.own), name)
                lines.append(f"from {module} import {source} as {name}\n")
            if namespace == "torch":
                in_place += names.in_place_functions()
    if in_place:
        lines += [
            "from typing import Any\n",
            "from frontend.engine.tensors.tensor import Tensor\n\n",
        ]
    for name in sorted(in_place):
        lines.append(
            f"def {name}(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...\n"
        )
    return "".join(lines)


STATIC = {"torch": "torch_names", "nn.functional": "functional_names"}
"""The stubs by the namespaces they show."""


def main() -> None:
    TABLE.write_text(table(frozenset(sys.modules)), "utf-8")
    for namespace, file in STATIC.items():
        TABLE.with_name(f"{file}.pyi").write_text(static(namespace), "utf-8")


if __name__ == "__main__":
    main()
