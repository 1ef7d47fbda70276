"""Gradients of ops that hold graphs.

Importing this gives the region ops their gradient rules.

A scan is differentiated by a scan that runs the other way. Its forward keeps, as further ys, the
carry that each step began with and what the minimum cut of a step's joint graph says to save. The
gradient of an invariant is the sum over the steps: where a step's part is a product or a sum, the
parts are one product or one sum over all steps, behind the loop; else they are added up in it.

The backward of a branch is a branch: each side computes its forward again, then its gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from graphc.autodiff.joint import derive_joint, joint
from graphc.autodiff.sweep import added
from graphc.ir.builder import GraphBuilder, Var, rebuilt
from graphc.ir.copying import copy_graph, extract
from graphc.ir.graph_queries import descendants
from graphc.ir.handle import apply, filled_like
from graphc.ir.nodes import Graph, Node, Value
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import TensorType
from graphc.ir.undecided import remembered_by_answers
from graphc.ops.kinds.op import Types
from graphc.ops.kinds.region import GRADIENT_RULES, RECORDED_FORMS
from graphc.ops.movement import reshape, transpose
from graphc.records import record
from graphc.system import import_module


def _floats(types: Sequence[Any]) -> list[int]:
    return [position for position, type in enumerate(types) if type.dtype.is_float]


# -- scan ----------------------------------------------------------------------------------------


def _recorded_scan(types: Types, attributes: dict[str, Any]) -> dict[str, Any]:
    """The scan with what its gradient needs among the ys: all carries a step began with, then
    the values saved. Those nobody reads in the end are pruned by a pass."""
    body: Graph = attributes["body"]
    if not _floats(body.input_types) or not _floats(body.output_types):
        return attributes
    grown = _saving(body, attributes["carry"])
    saved = len(grown.outputs) - len(body.outputs)
    return {**attributes, "saved": saved, "body": grown}


@remembered_by_answers(256)
def _saving(body: Graph, carry: int) -> Graph:
    whole = derive_joint(body, seeds=_floats(body.output_types), share=True)
    partition: Any = import_module("graphc.autodiff.partition")  # only scans need it here
    forward = partition.partition(whole).forward
    count = len(body.outputs)
    begun = tuple(Value(position) for position in range(carry))
    outputs = (*forward.outputs[:count], *begun, *forward.outputs[count:])
    return Graph(body.name, forward.nodes, outputs)


def _scan_rule(
    g: Any, out: Any, *operands: Any, carry: int, sequences: int, length: int, reverse: bool,
    saved: int, body: Graph,
) -> tuple[Any, ...]:  # fmt: skip
    gradients = g if isinstance(g, tuple) else (g,)
    outputs = out if isinstance(out, tuple) else (out,)

    @functools.cache
    def gradient_of_operand() -> dict[int, Any]:
        arriving = tuple([gradient is not None for gradient in gradients])
        backward = _scan_backward(body, carry, sequences, saved, arriving)
        return backward.gradients(operands, outputs, gradients, length, reverse)

    positions = _floats(body.input_types)
    return tuple(
        functools.partial(lambda i: gradient_of_operand().get(i), i) if i in positions else None
        for i in range(len(operands))
    )


@remembered_by_answers(256)
def _step_backward(
    body: Graph, seeds: tuple[int, ...], carry: int, saved: int
) -> tuple[Graph, tuple[int, ...]]:
    """One step's backward: takes the saved values, the xs and invariants, the cotangents; returns
    the gradients of the float inputs. Also which of those each of its inputs is."""
    # Shared, so that what is derived again is found among the saved values.
    joined = derive_joint(body, _floats(body.input_types), seeds=seeds, share=True)
    whole, count = joined.graph, joined.outputs
    inputs = [
        *(whole.outputs[i] for i in range(count - saved, count)),
        *(Value(i) for i in range(carry, len(body.inputs))),
        *(Value(i) for i in joined.cotangents),
    ]
    # A value may be saved twice: as a carry, and as what was cut. The first stands for both.
    unique = list(dict.fromkeys(inputs))
    step = extract(whole, "backward", unique, list(whole.outputs[count:]))
    return step, tuple(inputs.index(value) for value in unique)


class _Stands(Enum):
    """What an input of a step's backward is a step of."""

    RESULT = "saved"
    OPERAND = "x"
    COTANGENT = "cotangent"
    CARRY = "carry"
    """Of a carry its cotangent, which the scan passes on from step to step: nothing is outside."""


@record
class _StepInput:
    """An input of a step's backward: the type that it has there, what it stands for outside and of
    which number, and whether it is sliced."""

    stands: _Stands
    number: int
    type: TensorType
    sliced: bool = True

    @property
    def is_carry(self) -> bool:
        return self.stands is _Stands.CARRY

    @property
    def name(self) -> str:
        stands = _Stands.COTANGENT if self.is_carry else self.stands
        return f"{stands.value}_{self.number}"


@remembered_by_answers(256)
def _scan_backward(
    body: Graph, carry: int, sequences: int, saved: int, arriving: tuple[bool, ...]
) -> _ScanBackward:
    return _ScanBackward(body, carry, sequences, saved, arriving)


class _ScanBackward:
    """The scan that computes the gradients of another one, as far as that is known without its
    operands. `arriving`: of which results there is a cotangent."""

    def __init__(
        self, body: Graph, carry: int, sequences: int, saved: int, arriving: tuple[bool, ...]
    ):
        self.carry = carry
        self.sequences = sequences
        self.body = body
        self.arriving = arriving
        count = len(body.outputs)
        types = body.output_types
        # Every carry has a gradient after the first step, a y only where it was given one.
        self.seeds = [i for i in _floats(types) if i < carry or arriving[i]]
        self.wanted = _floats(body.input_types)
        self.saved = range(count - saved, count)
        self.step, self.order = _step_backward(body, tuple(self.seeds), carry, saved)
        first = saved + len(body.inputs) - carry
        self.cotangent_at = {
            seed: self.order.index(first + number) for number, seed in enumerate(self.seeds)
        }
        self.sources = self._sources()
        self.hoister = _Hoister(self.step, self._stacked_inputs())
        self.carried = [i for i in self.wanted if i < carry]
        self.along = [(at, i) for at, i in enumerate(self.wanted) if carry <= i < carry + sequences]
        self.accumulated = [
            (at, operand)
            for at, operand in enumerate(self.wanted)
            if operand >= carry + sequences and not self.hoister.hoistable(self.step.outputs[at])
        ]
        # What is handed out once serves as a gradient and for a sum over the steps.
        outputs = (self.step.outputs[at] for at, _ in self.along)
        self.stacks = list(dict.fromkeys([*outputs, *self.hoister.asked]))
        outside = [source for source in self.sources if not source.is_carry]
        self.outside = sorted(outside, key=lambda source: not source.sliced)
        self.graph = self._graph()
        self.reached = self._reached()

    def _reached(self) -> set[int]:
        """The operands with a gradient: those from which a way leads to a result that has one."""
        carried = {i for i in self.seeds if self.arriving[i]}
        while True:
            behind = descendants(self.step, [Value(self.cotangent_at[i]) for i in carried])
            reached = {i for i, output in zip(self.wanted, self.step.outputs) if output in behind}
            more = {i for i in reached if i < self.carry} - carried
            if not more:
                return reached
            carried |= more

    def _graph(self) -> Graph:
        """A step: takes the cotangents of carries, the sums, what is sliced, the rest."""
        step = self.step
        builder = GraphBuilder("backward")
        with builder.at(None):
            inner = [builder.input(source.name, source.type) for source in self.sources]
            sums = [
                builder.input(f"sum_{operand}", step.type_of(step.outputs[at]))
                for at, operand in self.accumulated
            ]
            results = copy_graph(step, [inner[i] for i in self.order], builder.copied)
            parts = [results[value] for value in step.outputs]
            totals = [added(total, parts[at]) for total, (at, _) in zip(sums, self.accumulated)]
        returned = [
            *(parts[at] for at, i in enumerate(self.wanted) if i < self.carry), *totals,
            *(results[value] for value in self.stacks),
        ]  # fmt: skip
        inputs = dict(zip(self.sources, inner, strict=True))
        states = {source.number: x for source, x in inputs.items() if source.is_carry}
        order = [
            *(states[i] for i in self.carried), *sums, *(inputs[each] for each in self.outside)
        ]  # fmt: skip
        return _ordered_inputs(builder.finish(*returned), order)

    def gradients(
        self, operands: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any],
        length: int, reverse: bool,
    ) -> dict[int, Any]:  # fmt: skip
        """By operand its gradient."""
        step = self.step
        of = {
            _Stands.RESULT: outputs, _Stands.OPERAND: operands, _Stands.COTANGENT: cotangents,
        }  # fmt: skip
        start = [
            cotangents[i] if cotangents[i] is not None else filled_like(0, operands[i])
            for i in self.carried
        ] + [filled_like(0, operands[operand]) for _, operand in self.accumulated]
        scanned = apply(
            lookup("scan"), *start, *(of[each.stands][each.number] for each in self.outside),
            carry=len(start), sequences=sum(each.sliced for each in self.outside),
            length=length, reverse=not reverse, body=self.graph,
        )  # fmt: skip
        scanned = scanned if isinstance(scanned, tuple) else (scanned,)
        gradients = dict(zip([*self.carried, *(i for _, i in self.accumulated)], scanned))
        handed = dict(zip(self.stacks, scanned[len(gradients) :]))
        gradients.update({operand: handed[step.outputs[at]] for at, operand in self.along})
        stacks = {
            value: of[source.stands][source.number]
            for value, source in self._stacked_inputs().items()
        }
        stacks.update(handed)
        for at, operand in enumerate(self.wanted):
            if operand not in gradients:
                gradients[operand] = self.hoister.total(step.outputs[at], stacks)
        if not length:
            return gradients
        return {operand: gradients[operand] for operand in gradients if operand in self.reached}

    def _sources(self) -> list[_StepInput]:
        """What the inputs of a step's backward stand for outside, in `_step`'s order."""
        inputs, results = self.body.input_types, self.body.output_types
        saved = [_StepInput(_Stands.RESULT, i, results[i]) for i in self.saved]
        operands = [
            _StepInput(_Stands.OPERAND, i, inputs[i], i < self.carry + self.sequences)
            for i in range(self.carry, len(self.body.inputs))
        ]
        cotangents = [
            _StepInput(_Stands.CARRY, i, inputs[i])
            if i < self.carry
            else _StepInput(_Stands.COTANGENT, i, results[i])
            for i in self.seeds
        ]
        return [*saved, *operands, *cotangents]

    def _stacked_inputs(self) -> dict[Value, _StepInput]:
        """The inputs of a step's backward that lie outside as stacks over all steps."""
        return {
            Value(position): self.sources[i]
            for position, i in enumerate(self.order)
            if self.sources[i].sliced and not self.sources[i].is_carry
        }


class _Hoister:
    """Sums over all steps of parts that are products or sums: taken once, of whole stacks.

    `stacked` are the values of a step that are stacks outside, `asked` those that the loop has to
    hand out as stacks too."""

    def __init__(self, step: Graph, stacked: Collection[Value]):
        self.step = step
        self.stacked = stacked
        self.asked: list[Value] = []

    def hoistable(self, value: Value) -> bool:
        """Whether the sum over all steps of `value` can be taken behind the loop; notes what that
        needs."""
        needed = self._needed(value)
        if needed is None:
            return False
        self.asked += [
            v for v in dict.fromkeys(needed) if v not in self.stacked and v not in self.asked
        ]
        return True

    def _needed(self, value: Value) -> list[Value] | None:
        node = self.step.nodes[value.node]
        if node.op in ("transpose", "reshape"):
            return self._needed(node.operands[0])
        if node.op == "add":
            left, right = map(self._needed, node.operands)
            return None if left is None or right is None else left + right
        if node.op == "sum":
            return [node.operands[0]]
        if node.op == "matmul" and len(node.types[0].shape) == 2:
            transposed = self._transposed(node)
            return None if transposed is None else [transposed, node.operands[1]]
        return None

    def _transposed(self, node: Node) -> Value | None:
        """a of the product aᵀ b, whose steps lie one behind the other along its reduction."""
        left = self.step.nodes[node.operands[0].node]
        is_transposed = left.op == "transpose" and left.attribute("permutation") == (1, 0)
        return left.operands[0] if is_transposed else None

    def total(self, value: Value, stacks: Mapping[Value, Any]) -> Any:
        """The sum over all steps of a value that is hoistable."""
        node = self.step.nodes[value.node]
        if node.op in ("transpose", "reshape"):
            return apply(lookup(node.op), self.total(node.operands[0], stacks), **parameters(node))
        if node.op == "add":
            return added(*[self.total(operand, stacks) for operand in node.operands])
        if node.op == "sum":
            axes = (0, *(axis + 1 for axis in node.attribute("axes")))
            return apply(lookup("sum"), stacks[node.operands[0]], axes=axes)
        transposed = self._transposed(node)
        assert transposed is not None
        left, right = map(_rows, (stacks[transposed], stacks[node.operands[1]]))
        return apply(lookup("matmul"), transpose(left, permutation=(1, 0)), right)


def _rows(stack: Any) -> Any:
    """[T, B, n] as [T·B, n]."""
    steps, rows, columns = stack.shape
    return reshape(stack, shape=(steps * rows, columns))


def _ordered_inputs(graph: Graph, order: Sequence[Var]) -> Graph:
    """`graph` with its inputs in another order. `order` holds handles of the builder it came
    from, whose inputs were made first."""
    return extract(graph, graph.name, [var.value for var in order], list(graph.outputs))


# -- cond ----------------------------------------------------------------------------------------


def _cond_rule(
    g: Any, out: Any, predicate: Any, *operands: Any, then: Graph, otherwise: Graph
) -> tuple[Any, ...]:
    gradients = g if isinstance(g, tuple) else (g,)
    seeds = [i for i, gradient in enumerate(gradients) if gradient is not None]
    wanted = _floats([operand.tensor_type for operand in operands])

    @functools.cache
    def gradients_reached() -> dict[int, Any]:
        sides = [_branch_backward(branch, wanted, seeds) for branch in (then, otherwise)]
        results = apply(
            lookup("cond"), predicate, *operands, *(gradients[i] for i in seeds),
            then=sides[0], otherwise=sides[1],
        )  # fmt: skip
        first = len(operands)
        reached = {
            operand
            for side in sides
            for behind in [descendants(side, map(Value, range(first, len(side.inputs))))]
            for operand, output in zip(wanted, side.outputs)
            if output in behind
        }
        every = dict(zip(wanted, results if isinstance(results, tuple) else (results,)))
        return {operand: gradient for operand, gradient in every.items() if operand in reached}

    def gradient_of(operand: int) -> Callable[[], Any] | None:
        return (lambda: gradients_reached().get(operand)) if operand in wanted else None

    return (None, *map(gradient_of, range(len(operands))))


def _branch_backward(branch: Graph, wanted: list[int], seeds: list[int]) -> Graph:
    """Takes the operands and the cotangents, returns the gradients of the wanted operands."""
    whole = joint(branch, wanted, seeds=seeds)
    builder, inputs = rebuilt(whole, branch.name)
    results = copy_graph(whole, inputs, builder.copied)
    return builder.finish(*(results[v] for v in whole.outputs[len(branch.outputs) :]))


GRADIENT_RULES.update({"scan": _scan_rule, "cond": _cond_rule})
RECORDED_FORMS["scan"] = _recorded_scan
