"""The unrolled forms of `CONTEXT.apply` do what it does: values, types, versions and records, over
the op table, on both backends, with and without gradients, on views and on meta."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend.eager.dispatch import CONTEXT, apply_binary, apply_unary
from frontend.tensors.tensor import Tensor, from_data
from graphc.errors import GraphError
from graphc.ops.kinds.op import SampleDrawer


def cases() -> Iterator[tuple[Any, list[np.ndarray]]]:
    """Ops of one result, of one or two operands and no attributes, with their samples."""
    for op in graphc.ops.table():
        for sample in op.samples(SampleDrawer()) if op.samples else ():
            if sample.attributes or len(sample.operands) not in (1, 2):
                continue
            arrays = [np.asarray(x, np.float32 if x.dtype.kind == "f" else None)
                      for x in sample.operands]  # fmt: skip
            yield op, arrays


def by_context(op: Any, *operands: Tensor) -> Tensor:
    return CONTEXT.apply(op, operands, {})[0]


def unrolled(op: Any, *operands: Tensor) -> Tensor:
    return apply_unary(op, *operands) if len(operands) == 1 else apply_binary(op, *operands)


def operands_of(arrays: list[np.ndarray], kind: str) -> list[Tensor]:
    operands = [from_data(x) for x in arrays]
    if kind == "meta":
        return [x.to("meta") for x in operands]
    if kind != "plain":
        operands = [x.requires_grad_(x.dtype.is_float) for x in operands]
    return [x.reshape(x.shape) for x in operands] if kind == "view" else operands


def made(call: Any, op: Any, arrays: list[np.ndarray], kind: str) -> Any:
    """All that can be seen of a call's result, and what it recorded; the error where it raises."""
    operands = operands_of(arrays, kind)
    try:
        result = call(op, *operands)
    except GraphError as error:
        return type(error), str(error).partition("\n")[0]
    counter = list(result._counter)  # numpy() below has it know of the memory
    bits = None if result.is_meta else result.detach().numpy().tobytes()
    return (
        bits,
        result.tensor_type,
        counter,
        result._requires_grad,
        recorded(result, operands),
    )


def recorded(result: Tensor, operands: list[Tensor]) -> Any:
    """The tape node of a result: its op, where gradients go, what it saves."""
    if result._edge is None:
        return None
    node, index = result._edge
    places = {id(x._edge[0] if x._edge else x): i for i, x in enumerate(operands)}
    # What an op is defined by may be recorded, node by node: then the last one leads inside.
    edges = [edge and (places.get(id(edge[0]), "inside"), edge[1]) for edge in node.edges]
    saved = [
        (places.get(id(x._edge[0] if x._edge else x), "inside"), count)
        for x, _, count in node.inputs or ()
    ]
    kept = [(value is result._value, at) for value, _, at in node.outputs or ()]
    return (
        node.op.name,
        dict(node.attributes),
        index,
        edges,
        saved,
        kept,
        (node.saves.inputs, node.saves.outputs),
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("kind", ["plain", "gradient", "view", "meta"])
def test_the_unrolled_forms_do_what_apply_does(kind: str, backend: str) -> None:
    seen = records = 0
    torch.set_eager_backend(backend)
    try:
        # Native kernels take their time to be compiled: a tenth of the samples.
        for op, arrays in islice(cases(), 0, None, 10 if backend == "native" else 1):
            wanted = made(by_context, op, arrays, kind)  # which prepares the op
            assert made(unrolled, op, arrays, kind) == wanted, op.name
            seen, records = seen + 1, records + (len(wanted) == 5 and wanted[4] is not None)
    finally:
        torch.set_eager_backend("native")
    assert seen > 20 and (records > 5) == (kind in ("gradient", "view"))
