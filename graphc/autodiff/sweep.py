"""The one reverse sweep. It turns records of what ran into gradients by the ops' own rules.

The rules work on handles, so the same sweep serves the eager tape (handles compute), the derived
backward graph (handles record) and, since a gradient is made of ordinary ops, higher orders.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from graphc.autodiff.parts import Gradients, OutputPart
from graphc.errors import GradientError, GraphError
from graphc.ir.builder import GraphBuilder
from graphc.ir.handle import Handle
from graphc.ir.nodes import Graph, Location
from graphc.ir.size_guards import equal
from graphc.ir.types import TensorType
from graphc.ir.undecided import forgets_answers
from graphc.ops.elementwise import cast
from graphc.ops.kinds.index import Gather
from graphc.ops.kinds.movement import Movement
from graphc.ops.kinds.op import Op
from graphc.ops.movement import reshape, slice_
from graphc.records import record


@record(frozen=False)
class Record:
    """One op that ran. Keys name the values gradients are collected for; an input key of None
    asks for no gradient. `inputs` and `outputs` hold handles, or `Unread` where the rule reads
    only type and shape."""

    op: Op
    attributes: dict[str, Any]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    input_keys: tuple[Hashable | None, ...]
    output_keys: tuple[Hashable, ...]
    location: Location | None = None


class Unread(Handle):
    """Stands for a value a gradient rule does not read: it has a type and nothing else."""

    __slots__ = ("tensor_type",)

    def __init__(self, type: TensorType):
        self.tensor_type = type

    @property
    def context(self) -> Any:
        raise GraphError("internal: a gradient rule read a value it was not traced to read")


_NOWHERE = nullcontext()


def sweep(
    records: Iterable[Record],
    cotangents: Gradients,
    on_record: Callable[[Record], Any] | None = None,
    after: Callable[[Record, list[Any], list[Any]], list[Any]] | None = None,
) -> None:
    """Run the rules of `records` (latest first), adding to `cotangents` by key.

    Gradients of a record's outputs are removed once used. `on_record(record)` may return a
    context manager the rule runs in (it hands on the source location). `after(record, gradients,
    results)` sees what a rule makes of its gradients and returns what goes on: a handle, or an
    `OutputPart` for the operand of a slice.
    """
    for recorded in records:
        gradients = [cotangents.pop(key, None) for key in recorded.output_keys]
        if not [gradient for gradient in gradients if gradient is not None]:
            continue
        with _NOWHERE if on_record is None else on_record(recorded):
            part = _part(recorded, gradients, on_record)
            results = input_gradients(recorded, gradients) if part is None else [part]
            if after is not None:
                results = after(recorded, gradients, results)
            for key, gradient in zip(recorded.input_keys, results, strict=True):
                if key is not None and gradient is not None:
                    cotangents.give(key, gradient)


def _part(
    record: Record, gradients: list[Any], on_record: Callable[[Record], Any] | None
) -> OutputPart | None:
    """The gradient of a slice's operand, not yet padded with zeros. Of an op of a frontend's that
    is a slice and a reshape, `sliced` says the start and has the gradient in the slice's shape."""
    if len(record.input_keys) != 1 or record.input_keys[0] is None:
        return None
    start, (gradient, *_) = None, gradients
    if record.op is slice_:
        if all(step == 1 for step in record.attributes["step"]):
            start = record.attributes["start"]
    elif (sliced := getattr(record.op, "sliced", None)) is not None:
        start, gradient = sliced(record.inputs[0], gradient)
    if start is None or 0 in gradient.shape:
        return None

    def place() -> Any:
        return nullcontext() if on_record is None else on_record(record)

    return OutputPart(record.inputs[0].tensor_type, start, gradient, place)


def gradients_by_key() -> Gradients:
    """An empty store for `sweep`."""
    return Gradients(added)


def added(left: Any, right: Any) -> Any:
    """The sum of two gradients of one type."""
    dtype = left.tensor_type.dtype
    if not dtype.is_storage:
        return left + right
    return cast(_widened(left) + _widened(right), dtype=dtype)


def _widened(x: Any) -> Any:
    """A value of a storage type in the type it computes in; others as they are."""
    type = getattr(x, "tensor_type", None)
    if type is None or not type.dtype.is_storage:
        return x
    dtype = type.dtype.computes_as
    if isinstance(x, Unread):
        return x.__class__(type.with_dtype(dtype))
    return cast(x, dtype=dtype)


def input_gradients(record: Record, gradients: list[Any]) -> list[Any]:
    """The gradients of a record's wanted inputs, from those of its outputs. Each has the type of
    its input (GraphError otherwise: a wrong rule must not pass on a wrong shape)."""
    op = record.op
    if op.vjp is None:
        raise GradientError(f"{op.name} has no gradient", location=record.location)
    inputs, outputs = record.inputs, record.outputs
    # Ops that only move elements take storage types, but the gradients of some are sums.
    in_storage = isinstance(op, Movement | Gather) and inputs[0].tensor_type.dtype.is_storage
    if in_storage:
        inputs, outputs = tuple(map(_widened, inputs)), tuple(map(_widened, outputs))
        gradients = list(map(_widened, gradients))
    if len(gradients) == 1:
        results = op.vjp(gradients[0], outputs[0], *inputs, **record.attributes)
    else:
        results = op.vjp(tuple(gradients), outputs, *inputs, **record.attributes)
    if len(results) != len(record.inputs):
        raise GraphError(f"the gradient rule of {op.name} gives {len(results)} gradients for "
                         f"{len(record.inputs)} operands")  # fmt: skip
    checked: list[Any] = []
    for key, operand, gradient in zip(record.input_keys, record.inputs, results, strict=True):
        if key is None or gradient is None:
            checked.append(None)
            continue
        computed = gradient() if callable(gradient) else gradient
        if in_storage and computed is not None:
            computed = cast(computed, dtype=operand.tensor_type.dtype)
        if computed is not None and computed.tensor_type is not operand.tensor_type:
            if computed.tensor_type != operand.tensor_type:
                computed = _as_operand(record, computed, operand)
        checked.append(computed)
    return checked


def _as_operand(record: Record, computed: Any, operand: Any) -> Any:
    """A gradient of another type than its operand: extents of both that are open sizes may be equal
    in the example (`3 * (n // 3)` and n)."""
    own, wanted = computed.tensor_type, operand.tensor_type
    pairs = [*zip(own.shape, wanted.shape)] if own.rank == wanted.rank else [(0, 1)]
    if own.dtype is wanted.dtype and all(equal(x, y) for x, y in pairs):
        return reshape(computed, shape=wanted.shape)
    raise GraphError(
        f"the gradient rule of {record.op.name} gives {own} for {wanted}", location=record.location
    )


Reads = tuple[tuple[bool, ...], tuple[bool, ...]]


def reads(
    op: Op,
    types: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    attributes: dict[str, Any],
    wanted: tuple[bool, ...],
) -> Reads:
    """Which operands and which results the gradient rule reads, for the wanted gradients.

    Found by tracing the rule once; a tape saves and version-checks only these. What a rule reads
    and then makes nothing of counts: it does so again where ops are run one by one. (Rules of the
    op table read nothing in vain: tests/test_gradient_rules.py.)
    """
    return _traced_reads(op, types, results, tuple(sorted(attributes.items())), wanted)


@forgets_answers
@lru_cache(maxsize=16384)
def _traced_reads(
    op: Op,
    types: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    attributes: tuple[tuple[str, Any], ...],
    wanted: tuple[bool, ...],
) -> Reads:
    graph = traced_rule(op, types, results, dict(attributes), wanted)
    read = {value.node for node in graph.nodes for value in node.operands}
    read |= {value.node for value in graph.outputs}
    first, middle = len(results), 2 * len(results)
    return (
        tuple(i in read for i in range(middle, middle + len(types))),
        tuple(i in read for i in range(first, middle)),
    )


def traced_rule(
    op: Op,
    types: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    attributes: dict[str, Any],
    wanted: tuple[bool, ...],
    present: tuple[bool, ...] | None = None,
) -> Graph:
    """The rule as a graph: from the gradients of the results (all, or those `present`),
    the results and the operands, in this order, to the gradients of the wanted operands."""
    builder = GraphBuilder("rule")
    with builder.at(None):
        gradients: list[Any] = [builder.input(f"g{i}", t) for i, t in enumerate(results)]
        outputs = tuple(builder.input(f"out{i}", type) for i, type in enumerate(results))
        inputs = tuple(builder.input(f"x{i}", type) for i, type in enumerate(types))
        keys = tuple(i if want else None for i, want in enumerate(wanted))
        record = Record(op, attributes, inputs, outputs, keys, tuple(range(len(results))))
        if present is not None:
            gradients = [g if there else None for g, there in zip(gradients, present, strict=True)]
        computed = input_gradients(record, gradients)
    return builder.finish(*[gradient for gradient in computed if gradient is not None])
