"""Python source of a graph's calls.

in : nodes in order
out: source of `def forward(self, x): ...`, and the globals it names
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from frontend.engine.tensors.dtypes import device
from frontend.fx.node import Node, qualified_name, reachable_global
from graphc.ir.types import DType

OPERATORS = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}",
    "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}",
    "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}  # fmt: skip
"""How calls of functions of `operator` are written."""

_LITERALS = (str, int, float, bool, bytes, type(None), type(Ellipsis))


@dataclass
class PythonCode:
    """Source, and the globals it names. `src` defines `forward`."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0
    fn_args: list[str] = field(default_factory=list)


class CodeGen:
    """Writes the code; a subclass may write it otherwise."""

    def written(self, nodes: Iterable[Node], root_module: str) -> PythonCode:
        """The source for `nodes`; `root_module` is what the module is called in it."""
        listed = list(nodes)
        writer = _CodeWriter(root_module, {node.name for node in listed})
        last = _last_uses(listed)
        lines = [f"    {writer.statement(node)}{_freed(node, last)}" for node in listed
                 if node.op != "placeholder"]  # fmt: skip
        body = "\n".join(lines) or "    pass"
        parameters = [writer.parameter(node) for node in listed if node.op == "placeholder"]
        head = f"def forward({', '.join([root_module, *parameters])}):"
        return PythonCode(f"\n\n\n{head}\n{body}\n    ", writer.globals)


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """By node, the values nobody needs after it."""
    last: dict[Node, list[Node]] = {}
    used: set[Node] = set()
    for node in reversed(nodes):
        for operand in node.all_input_nodes:
            if operand not in used:
                used.add(operand)
                last.setdefault(node, []).append(operand)
        if node not in used and node.op not in ("placeholder", "output"):
            last.setdefault(node, []).append(node)
    return last


def _freed(node: Node, last: dict[Node, list[Node]]) -> str:
    values = last.get(node, ())
    if not values or node.op == "output":
        return ""
    return f";  {' = '.join([*(value.name for value in values), 'None'])}"


class _CodeWriter:
    """Statements, and the globals they come to need. `names` are those of values."""

    def __init__(self, root: str, names: set[str]):
        self.root = root
        self.names = names
        self.globals: dict[str, Any] = {}

    def parameter(self, node: Node) -> str:
        stars = str(node.target)[: len(str(node.target)) - len(str(node.target).lstrip("*"))]
        default = f" = {self.value(node.args[0])}" if node.args else ""
        return f"{stars}{node.name}{default}"

    def statement(self, node: Node) -> str:
        if node.op == "output":
            return f"return {self.value(node.args[0])}"
        return f"{node.name} = {self._call(node)}"

    def _call(self, node: Node) -> str:
        target: Any = node.target
        if node.op == "get_attr":
            return self._path(self.root, target)
        if node.op == "call_module":
            return f"{self._path(self.root, target)}({self._arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            owner, *rest = node.args
            return f"{self._operand(owner)}.{target}({self._arguments(rest, node.kwargs)})"
        name = qualified_name(target)
        module, _, last = name.rpartition(".")
        if module == "operator" and last in OPERATORS and not node.kwargs:
            return OPERATORS[last].format(*map(self._operand_of(last), node.args))
        reads = name == "builtins.getattr" and len(node.args) == 2
        if reads and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{self._operand(node.args[0])}.{node.args[1]}"
        return f"{self.function(target)}({self._arguments(node.args, node.kwargs)})"

    def _operand_of(self, name: str) -> Any:
        """`x[...]` takes any value as it is written; other operators bind."""
        return self.value if name == "getitem" else self._operand

    def _operand(self, value: Any) -> str:
        """An operand that binds as tightly as a name: -1 does not, in `(-1) ** x`."""
        text = self.value(value)
        return f"({text})" if text.startswith("-") else text

    def _arguments(self, args: Any, kwargs: dict[str, Any]) -> str:
        named = [f"{name} = {self.value(value)}" for name, value in kwargs.items()]
        return ", ".join([*map(self.value, args), *named])

    @staticmethod
    def _path(root: str, target: str) -> str:
        text = root
        for part in target.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def function(self, function: Any) -> str:
        path = reachable_global(function)
        if path is None or path.startswith("__main__."):
            return self._global(getattr(function, "__name__", type(function).__name__), function)
        root, _, rest = path.partition(".")
        if root == "builtins":
            return rest
        self.globals[root] = importlib.import_module("frontend" if root == "torch" else root)
        return path

    def _global(self, hint: str, value: Any) -> str:
        """A name of the code's globals for an object."""
        base = re.sub(r"\W", "_", hint)
        base = name = f"_{base}" if base[:1].isdigit() else base
        number = 0
        while name in self.names or self.globals.get(name, value) is not value:
            number += 1
            name = f"{base}_{number}"
        self.globals[name] = value
        return name

    def value(self, value: Any) -> str:
        """An expression for an argument."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = self._global(type(value).__name__, type(value))
            return f"{kind}({', '.join(map(self.value, value))})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.value(k)}: {self.value(v)}' for k, v in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.value, (value.start, value.stop, value.step)))})"
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        if type(value) is float and not math.isfinite(value):
            self.globals |= {"inf": math.inf, "nan": math.nan}
            return repr(value)
        if type(value) in _LITERALS:
            return repr(value)
        if isinstance(value, DType | device):
            self.globals["torch"] = importlib.import_module("frontend")
            return repr(value) if isinstance(value, DType) else f"torch.{value!r}"
        if callable(value) and hasattr(value, "__name__"):
            return self.function(value)
        return self._global(f"_{type(value).__name__}", value)


__all__ = ["OPERATORS", "CodeGen", "PythonCode"]
