"""The unrolled forms of `CONTEXT.apply` do what its general form does: values, types, versions,
views and records, over the op table, on both backends, with and without gradients, on views and on
meta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend.engine.eager.dispatch import CONTEXT, MOVED, apply_binary, apply_unary
from frontend.engine.tensors.observer import Note, Observer
from frontend.engine.tensors.state import STATE, swap_observer
from frontend.engine.tensors.tensor import Tensor, from_data
from graphc.errors import GraphError
from graphc.ops.kinds.op import SampleDrawer

Call = Callable[..., Tensor]


def cases() -> Iterator[tuple[Any, list[np.ndarray], dict[str, Any]]]:
    """Ops of one result, of one or two operands and no attributes, with their samples; and those
    that move elements."""
    for op in graphc.ops.table():
        for sample in op.samples(SampleDrawer()) if op.samples else ():
            plain = not sample.attributes and len(sample.operands) in (1, 2)
            if plain or op in MOVED:
                arrays = [np.asarray(x, np.float32 if x.dtype.kind == "f" else None)
                          for x in sample.operands]  # fmt: skip
                yield op, arrays, sample.attributes


def by_context(op: Any, *operands: Tensor, **attributes: Any) -> Tensor:
    return CONTEXT.apply(op, operands, attributes)[0]


def unrolled(op: Any, *operands: Tensor, **attributes: Any) -> Tensor:
    if attributes or len(operands) > 2:
        return by_context(op, *operands, **attributes)
    return apply_unary(op, *operands) if len(operands) == 1 else apply_binary(op, *operands)


class Nobody:
    """An observer that notes nothing: while it is there, nothing takes a short cut."""

    def __call__(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]
    ) -> nullcontext[Note | None]:
        return nullcontext()

    def run(self, executable: Any, arrays: list[Any]) -> Any:
        raise AssertionError("nothing is compiled here")


def generally(op: Any, *operands: Tensor, **attributes: Any) -> Tensor:
    """By the code for any op: not as a plain one, nor moved by NumPy alone."""
    observer: Observer = Nobody()
    before = swap_observer(observer)
    prepared = STATE.prepared.get((op, *[x.tensor_type for x in operands]))
    plain = prepared is not None and prepared.plain
    try:
        if plain:
            prepared.plain = False
        return by_context(op, *operands, **attributes)
    finally:
        if plain:
            prepared.plain = True
        swap_observer(before)


def operands_of(arrays: list[np.ndarray], kind: str) -> list[Tensor]:
    operands = [from_data(x) for x in arrays]
    if kind == "meta":
        return [x.to("meta") for x in operands]
    if kind != "plain":
        operands = [x.requires_grad_(x.dtype.is_float) for x in operands]
    return [x.reshape(x.shape) for x in operands] if kind == "view" else operands


def made(call: Call, op: Any, arrays: list[np.ndarray], attributes: Any, kind: str) -> Any:
    """All that can be seen of a call's result, and what it recorded; the error where it raises."""
    operands = operands_of(arrays, kind)
    try:
        result = call(op, *operands, **attributes)
    except GraphError as error:
        return type(error), str(error).partition("\n")[0]
    counter = list(result._counter)  # numpy() below has it know of the memory
    shared = [result._counter is x._counter for x in operands]
    view = result._view
    return (
        None if result.is_meta else result.detach().numpy().tobytes(),
        result.tensor_type,
        counter,
        shared,
        view and ([view.parent is x for x in operands], view.op, view.attributes, view.tracked),
        view and (view.seen, view.known),
        result._requires_grad,
        History(operands).of(result),
    )


class History:
    """What was recorded, as far as the operands, in words that two runs share: nodes by the order
    in which they are met, tensors by where they come from, values by their bits."""

    def __init__(self, operands: list[Tensor]):
        self.operands = operands
        self.ends = {id(x._edge[0] if x._edge else x): i for i, x in enumerate(operands)}
        self.met: dict[int, int] = {}

    def of(self, tensor: Tensor) -> Any:
        """Where a tensor comes from; of what takes no gradient, its bits."""
        for i, operand in enumerate(self.operands):
            if tensor is operand:
                return "operand", i
        if tensor._edge is not None:
            return self.edge(tensor._edge)
        return bits(tensor._value), tensor.tensor_type

    def edge(self, edge: Any) -> Any:
        if edge is None:
            return None
        node, index = edge
        if (end := self.ends.get(id(node))) is not None:
            return "operand", end, index
        if isinstance(node, Tensor):
            return "leaf", bits(node._value), index
        if id(node) in self.met:
            return "node", self.met[id(node)], index
        self.met[id(node)] = len(self.met)
        return (
            node.op.name,
            {name: repr(value) for name, value in node.attributes.items()},
            node.label,
            index,
            [self.edge(each) for each in node.edges],
            [(self.of(x), bits(value), count) for x, value, count in node.inputs or ()],
            [(bits(value), counter[0], at) for value, counter, at in node.outputs or ()],
            (node.saves.types, node.saves.result_types, node.saves.inputs, node.saves.outputs),
        )


def bits(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else type(value)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("kind", ["plain", "gradient", "view", "meta"])
def test_the_unrolled_forms_do_what_the_general_one_does(kind: str, backend: str) -> None:
    seen = records = composed = 0
    torch.set_eager_backend(backend)
    try:
        # Native kernels take their time to be compiled: a tenth of the samples.
        for op, arrays, attributes in islice(cases(), 0, None, 10 if backend == "native" else 1):
            by_context_alone = made(by_context, op, arrays, attributes, kind)  # prepares the op
            wanted = made(generally, op, arrays, attributes, kind)
            assert by_context_alone == wanted, op.name
            assert made(unrolled, op, arrays, attributes, kind) == wanted, op.name
            recorded = len(wanted) > 2 and wanted[6]
            seen, records = seen + 1, records + recorded
            composed += recorded and wanted[-1][0] != op.name
    finally:
        torch.set_eager_backend("native")
    recording = kind in ("gradient", "view")
    assert seen > 20 and (records > 5) == recording
    # What has no rule of its own is recorded as what it is made of. Few of the native samples are.
    assert recording or not composed
    if recording and backend == "numpy":
        assert composed
