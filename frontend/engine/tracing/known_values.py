"""Values that a trace knows: constants, what is made of them alone, and what captured tensors have
while a guard says so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from frontend.engine.outside.check import Values
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import CapturedSource, ValueSource
from frontend.engine.tensors.pairs import as_pairs, stored_type
from frontend.engine.tracing.captured import GraphInput
from frontend.engine.tracing.current_trace import CurrentTrace
from frontend.engine.tracing.regions import Builder
from graphc.ir.builder import Var
from graphc.ir.nodes import CONSTANT
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType


def known_value(builder: Builder, root: Builder | None, var: Var) -> np.ndarray | None:
    """The value of a variable of `builder` that depends on no input; without `root`, the graph's
    builder, that of a constant alone. None for any other."""
    node = builder.node_of(var)
    if node.op == CONSTANT:
        array: np.ndarray = node.attribute("value").array
        return array
    return None if root is None else root.known_value(var)


def guarded_value(
    trace: CurrentTrace, root: Builder, inputs: Sequence[GraphInput], var: Var
) -> np.ndarray | None:
    """The same of one that may depend on captured tensors, whose values are guarded from here on;
    None where they are not to be."""
    needed = root.inputs_of(var)
    read = [each for each in inputs if each.var.value.node in needed]
    outside = [trace.captured.get(id(each.tensor)) for each in read]
    captured = [
        each
        for each, at in zip(outside, read)
        if each is not None and isinstance(at.source, CapturedSource) and each.can_be_guarded
    ]
    if len(captured) < len(needed):
        return None
    arrays = [each.state_outside["_value"] for each in captured]
    known = root.known_value(var, [*zip([each.var for each in read], arrays)])
    for each, array in zip(captured, arrays):
        content = partial(Guard, ValueSource(each.tensor), Values(array))
        trace.guard(("content", id(each.tensor)), content)
    return known


def constant_pairs(builder: Builder, value: Any, type: TensorType) -> Var:
    """An array of complex numbers, or a number repeated to the shape of a type, as pairs."""
    pairs = as_pairs(np.asarray(value).astype(type.dtype.numpy))
    var = builder.constant(np.ascontiguousarray(pairs))
    shape = stored_type(type).shape
    if pairs.shape == shape:
        return var
    return builder.apply(lookup("broadcast"), (var,), {"shape": shape})[0]
