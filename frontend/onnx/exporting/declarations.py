"""The table of ops of graphs that have an operator of ONNX, or a few.

`@exports("softmax")` declares a function `f(w, node, *operands, **attributes)`: names of values in,
the names of the op's results out, by way of `w.add(operator, inputs, **attributes)`. A `since`
is the first operator set that has what it writes; below it a composite is expanded, and others
raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
_RULES: dict[str, tuple[int, Rule]] = {}


def exports(*names: str, since: int = 13) -> Callable[[Rule], Rule]:
    """Declare how ops of these names are written, from operator set `since` on."""

    def declare(rule: Rule) -> Rule:
        for name in names:
            if name in _RULES:
                raise ValueError(f"{name} is declared twice")
            _RULES[name] = since, rule
        return rule

    return declare


def rule_of(name: str, opset: int) -> Rule | None:
    """How an op is written in this operator set; None where it is not."""
    since, rule = _RULES.get(name, (0, None))
    return rule if since <= opset else None


def declared_ops() -> list[str]:
    """The names of all ops that have a rule."""
    return sorted(_RULES)
