"""The gradient rule of an op as an op of its own: what eager mode compiles as one program.

in : an op, which gradients are wanted, and those of which results are given
out: a composite whose definition is the rule, traced
"""

from __future__ import annotations

from typing import Any

from graphc.autodiff.sweep import Record, input_gradients
from graphc.ir.builder import GraphBuilder
from graphc.latest import Latest
from graphc.ops.kinds.composite import DEFINITIONS, Composite
from graphc.ops.kinds.op import Op

Flags = tuple[bool, ...]


class GradientRule(Composite):
    """The rule of an op for some wanted gradients, where those of some results are given. It is no
    op of graphs: it stands in none, and has no name there. Operands: the gradients, the results,
    the operands of the op."""

    def __init__(self, op: Op, wanted: Flags, present: Flags):
        self.name = f"{op.name}_gradient"
        self.of = op
        self.wanted = wanted
        self.present = present
        self.positions: tuple[int, ...] = ()
        """Operands of the op that have a gradient: known once the rule was traced."""
        self.parameters = op.parameters
        self.recipe = self.vjp = self.samples = self.check_rule = None
        self.has_own_gradient = self.differentiable = False
        self._definitions = Latest(DEFINITIONS)

    def define(self, *operands: Any, **attributes: Any) -> tuple[Any, ...]:
        rest = iter(operands)
        gradients = [next(rest) if there else None for there in self.present]
        outputs = tuple([next(rest) for _ in self.present])
        inputs = tuple(rest)
        keys = tuple([i if want else None for i, want in enumerate(self.wanted)])
        record = Record(self.of, attributes, inputs, outputs, keys, tuple(range(len(outputs))))
        gradients_of_inputs = input_gradients(record, gradients)
        self.positions = tuple(
            [i for i, each in enumerate(gradients_of_inputs) if each is not None]
        )
        return tuple([each for each in gradients_of_inputs if each is not None])


def applied(
    builder: GraphBuilder, op: Op, operands: tuple[Any, ...], attributes: dict[str, Any]
) -> tuple[Any, ...]:
    """The results of an op in a graph under construction: of a rule, those of its definition."""
    if isinstance(op, GradientRule):
        return op.define(*operands, **attributes)
    return builder.apply(op, operands, attributes)
