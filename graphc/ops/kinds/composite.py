"""The kind `composite`: a graph over other ops, with an own gradient where that is better."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.ir.undecided import memo_of
from graphc.latest import Latest
from graphc.ops.kinds.op import ANY, Arrays, Op, Types, keyword_parameters
from graphc.system import IMPORTING

DEFINITIONS = 1024
"""How many definitions of a composite are kept, those asked for last: there is one for each of its
sizes."""


class Composite(Op):
    """`define(*handles, **attributes)` writes the op as other ops. Without an own `vjp` its
    gradient is that of the definition. `recipe` names the kernel recipe that computes it whole,
    where `pays(types)`; of operands without elements it never does. `epilogue`: the recipe takes
    elementwise work behind the result into its kernel; `stores_anywhere`: it stores results
    where transposes, reshapes and joins put them. `dtypes`: those of all operands, where the
    definition does not say."""

    kind = "composite"

    def __init__(
        self, name: str, define: Callable[..., Any], *, recipe: str | None = None,
        pays: Callable[[Types], bool] = lambda types: True, epilogue: bool = False,
        stores_anywhere: bool = False, dtypes: tuple[DType, ...] | None = None, **rest: Any,
    ):  # fmt: skip
        rest.setdefault("vjp", None)
        own_gradient = rest["vjp"] is not None
        super().__init__(name, parameters=keyword_parameters(define), **rest)
        self.define = define
        self.recipe = recipe
        self.epilogue = epilogue
        self.stores_anywhere = stores_anywhere
        self._expected = dtypes
        self.dtypes = dtypes or ANY
        self._pays = pays
        self.has_own_gradient = own_gradient
        self.differentiable = rest.get("differentiable", True)
        self._definitions: Latest[Any, Graph] = Latest(DEFINITIONS)

    def has_kernel(self, types: Types) -> bool:
        """Whether a kernel of its own computes the op for these operands."""
        return (
            self.recipe is not None and all(type.numel != 0 for type in types) and self._pays(types)
        )

    def definition(self, types: Types, attributes: dict[str, Any]) -> Graph:
        """The graph of the definition for these types."""
        # The text tells 1 from 1.0 and True, and 0.0 from -0.0, which are equal as keys.
        key = (types, repr(sorted(attributes.items())))
        definitions: MutableMapping[Any, Graph] = self._definitions
        if any([type.is_symbolic for type in types]):
            definitions = memo_of(self, definitions)
        known = definitions.get(key)
        if known is None:
            builder = GraphBuilder(self.name)
            inputs = [builder.input(f"x{i}", type) for i, type in enumerate(types)]
            results = self.define(*inputs, **attributes)
            known = definitions[key] = builder.finish(
                *(results if isinstance(results, tuple) else (results,))
            )
        return known

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        for position, type in enumerate(types if self._expected is not None else ()):
            self.expect_dtype(type, self.dtypes, position)
        return tuple(self.definition(types, attributes).output_types)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        with IMPORTING:
            from graphc.ops.interpreter import evaluate

        types = tuple(TensorType.of(array) for array in arrays)
        return evaluate(self.definition(types, attributes), arrays, reference=False)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        with IMPORTING:
            from graphc.ops.interpreter import evaluate

        types = tuple(TensorType.of(array) for array in arrays)
        return evaluate(self.definition(types, attributes), arrays, reference=True)
