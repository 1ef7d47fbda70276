"""The kind `host`: what Python computes, NumPy's LAPACK above all. Compiled code calls back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.errors import GradientError
from graphc.ops.kinds.op import Arrays, Op, Types, keyword_parameters


class HostFunction:
    """`function(*arrays, **attributes)` gives an array or a tuple of them, `types(*types,
    **attributes)` their types. No graph holds it as it is, since its arrays may be complex:
    `in_graphs` says by the operands' types which op stands for it there, of pairs."""

    def __init__(
        self, name: str, function: Callable[..., Any], types: Callable[..., Any],
        in_graphs: Callable[..., Op],
    ):  # fmt: skip
        self.name = name
        self.function = function
        self.types = types
        self.in_graphs = in_graphs

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        result_types = self.types(*types, **attributes)
        return result_types if isinstance(result_types, tuple) else (result_types,)

    def canonical(self, attributes: dict[str, Any]) -> dict[str, Any]:
        return attributes


class Host(Op):
    """`function(*arrays, **attributes)` gives an array or a tuple of them, `types(*types,
    **attributes)` their types. The function raises for no content: results that say so are among
    its own. Every level calls this one function, so that results are the same bits in each, on any
    number of threads; they are not promised to be those of another machine or another NumPy.

    Graphs have no gradient rule for it: the frontend's tape has one of its own."""

    kind = "host"

    def __init__(
        self, name: str, function: Callable[..., Any], types: Callable[..., Any], *,
        cost: float = 1000.0, **rest: Any,
    ):  # fmt: skip
        """`cost` counts in additions by element, as that of elementwise ops: for the schedule."""
        rest.setdefault("exempt", {"gradient": "the frontend's tape has a rule for it"})
        super().__init__(name, parameters=keyword_parameters(function), vjp=self._no_rule, **rest)
        self.function = function
        self.types = types
        self.cost = cost

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        result_types = self.types(*types, **attributes)
        return result_types if isinstance(result_types, tuple) else (result_types,)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        results = self.function(*arrays, **attributes)
        return results if isinstance(results, tuple) else (results,)

    def _no_rule(self, *_: Any, **__: Any) -> tuple[Any, ...]:
        raise GradientError(
            f"{self.name} has no gradient in graphs",
            hint="differentiate with the frontend, outside of the bodies of traced loops",
        )
