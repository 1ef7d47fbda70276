"""Gradient rules on arrays: what backward runs for a node, found out once for all nodes of its op
and types.

in : a node of an op of the table whose gradients are neither recorded nor watched
out: the gradients of its operands, by native kernels and by NumPy's views

The steps are those of the rule's graph, each with the kernel that eager mode has for it, or, where
a rule of several steps can be one program, that program. A kernel's bits do not depend on what it
is fused with, so the gradients have the bits of the rule's ops run one by one. What a program does
not read is passed as one number, spread to its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import MOVED
from frontend.engine.eager.kernels.gradient_rule import GradientRule
from frontend.engine.eager.kernels.gradient_worker import settle
from frontend.engine.eager.kernels.native_ops import NativeOp, native_op
from frontend.engine.eager.kernels.openings import BATCHED, FACTORS
from frontend.engine.eager.tape import Saves, TapeNode
from frontend.engine.tensors.tensor import make
from graphc.autodiff.parts import Gradients
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType
from graphc.ops.composite import stack
from graphc.ops.contract import matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.op import Array, Op
from graphc.ops.kinds.region import Region
from graphc.ops.movement import broadcast, inverse_permutation, reshape, slice_, transpose
from graphc.ops.nn.products import addmm

Flags = tuple[bool, ...]
Step = tuple[NativeOp | None, Callable[..., Any] | None, Callable[..., Any], tuple[int, ...]]
"""A kernel or else a view, what takes its operands from among the values, and the places of its
results there."""

_Array = np.ndarray
_UNKNOWN: Any = object()
_SIMPLE = {INPUT, CONSTANT, broadcast.name, reshape.name, "extent"}


def passed_on(
    node: TapeNode, needed: Flags | None, gradients: Gradients, places: Mapping[Any, _Array]
) -> bool:
    """Whether the gradients of a node's results were handed on to its operands (`needed`: which of
    them; None: all that take one), written to `places` where there is one for an edge. Nothing was
    done where that is left to the op's own rule: for gradients of parts, sparse ones, types without
    kernels, errors."""
    rules = node.saves.rules
    if rules is None:
        return _moved_back(node, gradients)
    present: Flags = ()
    of_results, arrays, fit = [], [], True
    for index, type in enumerate(node.saves.result_types):
        gradient = gradients.pop((node, index), None)
        of_results.append(gradient)
        present += (gradient is not None,)
        if gradient is not None:
            arrays.append(gradient._value)
            fit &= gradient.tensor_type is type  # a hook may have put another one in its place
    rule = rules.get((needed, present), _UNKNOWN)
    if rule is _UNKNOWN:
        rule = rules[needed, present] = ArrayRule.of(node, needed, present) if arrays else None
    values = None if rule is None or not fit else rule.run(node, arrays, places)
    if rule is None or values is None:
        for index, gradient in enumerate(of_results):
            if gradient is not None:
                gradients[node, index] = gradient
        return False
    edges = node.edges
    for position, place, type in rule.gradients:
        gradients.give(edges[position], make(values[place], type))
    return True


def _moved_back(node: TapeNode, gradients: Gradients) -> bool:
    """`passed_on` for a movement of one operand that only says where elements lie."""
    op, edge = node.op, (node, 0)
    if op is not reshape and op is not transpose:
        return False
    gradient = gradients.get(edge)
    array = None if gradient is None else gradient._value
    type = node.saves.types[0]
    if array.__class__ is not np.ndarray or type.is_symbolic:
        return False
    if op is reshape:
        array = array.reshape(type.shape)
    else:
        array = array.transpose(inverse_permutation(node.attributes["permutation"]))
    del gradients[edge]
    gradients.give(node.edges[0], make(array, type))
    return True


class ArrayRule:
    """The rule of an op for operands of some types. Its values are those given (gradients, results,
    operands, as the rule's graph takes them), the constants, and what the steps make of them."""

    __slots__ = ("_blank", "_inputs", "_outputs", "_steps", "gradients", "makers")

    def __init__(
        self, saves: Saves, blank: list[Any], first: int, steps: list[Step],
        gradients: list[tuple[int, int, TensorType]],
    ):  # fmt: skip
        self._blank = blank
        self._outputs = tuple([first + i for i in saves.outputs])
        first += len(saves.result_types)
        self._inputs = tuple([first + i for i in saves.inputs])
        self._steps = steps
        self.gradients = gradients
        """Of each operand that gets one: its position, the gradient's place, its type."""
        self.makers = self._makers()
        """By step the position of the operand whose gradient alone it makes, and the views of it
        that follow, the latest first."""

    @staticmethod
    def of(node: TapeNode, needed: Flags | None, present: Flags) -> ArrayRule | None:
        """The rule of a node's op, None where it is not run on arrays."""
        op, saves, attributes = node.op, node.saves, node.attributes
        types, results = saves.types, saves.result_types
        wanted = tuple([edge is not None for edge in node.edges]) if needed is None else needed
        if not isinstance(op, Op) or isinstance(op, Region) or op.vjp is None:
            return None
        if op is slice_ or not all([_has_kernels(type) for type in (*types, *results)]):
            return None
        settle(op, attributes, types, wanted)
        of: Any = LINEAR if op is addmm else op
        rule = GradientRule(of, wanted, present)
        present_types = tuple([type for type, there in zip(results, present) if there])
        operands = (*present_types, *results, *types)
        graph = rule.definition(operands, attributes)
        if any([not _has_kernels(type) for each in graph.nodes for type in each.types]):
            return None
        if _can_be_one(of, len(types)) and sum(n.op not in _SIMPLE for n in graph.nodes) > 1:
            blank, steps, places = _as_program(op, wanted, present, operands, attributes)
        else:
            blank, steps, places = _as_steps(graph)
        gradients = [(i, at, types[i]) for i, at in zip(rule.positions, places, strict=True)]
        return ArrayRule(saves, blank, len(present_types), steps, gradients)

    def _makers(self) -> dict[int, tuple[int, list[Callable[..., Any]]]]:
        by_place = {at: i for i, (*_, results) in enumerate(self._steps) for at in results}
        sources: dict[int, tuple[int, list[Callable[..., Any]]]] = {}
        several: set[int] = set()
        for position, place, _ in self.gradients:
            views: list[Callable[..., Any]] = []
            step = by_place.get(place)
            while step is not None and (view := self._steps[step][1]) is not None:
                back = _undone(view)
                if back is None:
                    break
                views.append(back)
                (before,) = self._steps[step][2](range(len(self._blank)))
                step = by_place.get(before)
            if step is None or self._steps[step][1] is not None or len(self._steps[step][3]) > 1:
                continue
            several |= {step} & sources.keys()
            sources[step] = position, views
        return {step: source for step, source in sources.items() if step not in several}

    def _places(self, edges: Any, places: Mapping[Any, _Array]) -> dict[int, _Array]:
        """Where the results of steps are to lie."""
        result = {}
        for step, (position, views) in self.makers.items():
            place = places.get(edges[position])
            if place is not None:
                for back in views:
                    place = back(place)
                result[step] = place
        return result

    def run(
        self, node: TapeNode, arrays: list[Any], places: Mapping[Any, _Array]
    ) -> list[Any] | None:
        """All values, of the gradients and of what the node saved. None where one of these is no
        array, or was changed since."""
        values = self._blank[:]
        values[: len(arrays)] = arrays
        if node.freed or not self._fill(node, values):
            return None
        for gradient in arrays:
            if gradient.__class__ is not _Array:
                return None
        of_steps = self._places(node.edges, places) if places else {}
        for number, (native, view, fetch, results) in enumerate(self._steps):
            if number in of_steps:
                result = native.into(of_steps[number], fetch(values))  # type: ignore[union-attr]
            elif view is None:
                result = native.call(*fetch(values))  # type: ignore[union-attr]
            else:
                result = view(*fetch(values))
                if result.__class__ is not _Array:  # NumPy gives a number for all of a 0-d array
                    result = np.asarray(result)
            if len(results) == 1:
                values[results[0]] = result
            else:
                for at, part in zip(results, result):
                    values[at] = part
        return values

    def _fill(self, node: TapeNode, values: list[Any]) -> bool:
        """Put in what the node saved; whether these are arrays that are as they were."""
        if node.unpacks is not None:
            record = node.unpack((True,) * len(node.edges))
            for at, i in zip(self._outputs, node.saves.outputs):
                values[at] = record.outputs[i]._value
            for at, i in zip(self._inputs, node.saves.inputs):
                values[at] = record.inputs[i]._value
            saved = (*self._outputs, *self._inputs)
            return all([values[at].__class__ is _Array for at in saved])
        for at, (value, counter, version) in zip(self._outputs, node.outputs):
            if counter[0] != version or value.__class__ is not _Array:
                return False
            values[at] = value
        for at, (tensor, value, version) in zip(self._inputs, node.inputs):
            if tensor._counter[0] != version or value.__class__ is not _Array:
                return False
            values[at] = value
        return True


def _has_kernels(type: TensorType) -> bool:
    return type.dtype.is_computed and type.dtype.is_compiled and not type.dtype.is_storage


def _can_be_one(op: Any, operands: int) -> bool:
    """Whether one program may compute the rule."""
    if op in FACTORS or op in BATCHED:
        return False
    if isinstance(op, Composite):
        return op.has_own_gradient
    return isinstance(op, Elementwise) and operands == 1


def _as_program(
    op: Op, wanted: Flags, present: Flags, operands: tuple[TensorType, ...], attributes: Any
) -> tuple[list[Any], list[Step], list[int]]:
    """The first values, the steps, and the places of the results, of one program."""
    rule = _rule(op, wanted, present)
    native = native_op(rule, operands, attributes)
    count = len(rule.definition(operands, attributes).outputs)
    places = list(range(len(operands), len(operands) + count))
    step: Step = (native, None, itemgetter(slice(0, len(operands))), tuple(places))
    return [*map(_spread, operands), *[None] * count], [step], places


def _as_steps(graph: Graph) -> tuple[list[Any], list[Step], list[int]]:
    """The same, of the nodes of a rule's graph that its results depend on."""
    blank: list[Any] = []
    steps: list[Step] = []
    places: dict[Value, int] = {}
    known: set[int] = set()  # places of constants, and of views of them
    alive = ancestors(graph.nodes, graph.outputs)
    for number, node in enumerate(graph.nodes):
        if node.op != INPUT and number not in alive:
            continue
        results = tuple(range(len(blank), len(blank) + len(node.types)))
        places |= {Value(number, i): at for i, at in enumerate(results)}
        blank += [None] * len(results)
        if node.op == INPUT:
            continue
        operands = tuple([places[value] for value in node.operands])
        native, view = _step_of(node, tuple([graph.type_of(value) for value in node.operands]))
        if view is not None and known.issuperset(operands):
            blank[results[0]] = array = np.asarray(view(*[blank[at] for at in operands]))
            array.flags.writeable = False  # nobody takes it over
            known.update(results)
        else:
            steps.append((native, view, _taking(operands), results))
    return blank, steps, [places[value] for value in graph.outputs]


def _step_of(
    node: Node, types: tuple[TensorType, ...]
) -> tuple[NativeOp | None, Callable[..., Any] | None]:
    """The kernel of a node, or what NumPy does instead."""
    if node.op == CONSTANT:
        array = node.attribute("value").array
        return None, array.view
    op: Any = lookup(node.op)
    attributes = dict(node.attributes)
    if op in MOVED:
        view: Callable[..., Any] = _stacked if op is stack else op.view
        return None, partial(view, **attributes)
    return native_op(op, types, attributes), None


def _undone(view: Callable[..., Any]) -> Callable[..., Any] | None:
    """What makes of an array one that this view of it is equal to the first; None where it is no
    transposition."""
    if not isinstance(view, partial) or view.func != transpose.view:
        return None
    return partial(np.transpose, axes=inverse_permutation(view.keywords["permutation"]))


def _stacked(*arrays: Array, axis: int) -> Array:
    return np.stack(arrays, axis=axis)


def _taking(places: tuple[int, ...]) -> Callable[[list[Any]], Sequence[Any]]:
    """What gives the values at these places, as a sequence."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))


@lru_cache(maxsize=4096)
def _rule(op: Op, wanted: Flags, present: Flags) -> GradientRule:
    return GradientRule(op, wanted, present)


@lru_cache(maxsize=4096)
def _spread(type: TensorType) -> Array:
    """What is passed for a value that the rule does not read."""
    return np.broadcast_to(np.zeros((), type.dtype.numpy), type.shape)


class LinearRule:
    """The rule of a linear layer's product, whose weight stands in it transposed. The gradient is
    computed as the weight lies, so that none has to be turned when it is kept: the same sums."""

    name = addmm.name
    parameters = addmm.parameters

    def vjp(self, gradient: Any, result: Any, bias: Any, x: Any, weight: Any) -> tuple[Any, ...]:
        assert addmm.vjp is not None
        of_bias, of_x, _ = addmm.vjp(gradient, result, bias, x, weight)

        def of_weight() -> Any:
            product = matmul(transpose(gradient, permutation=(1, 0)), x)
            return transpose(product, permutation=(1, 0))

        return of_bias, of_x, of_weight


LINEAR: Any = LinearRule()
