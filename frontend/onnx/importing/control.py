"""If, Loop and Scan: operators that hold graphs.

What decides is read as a number where it is one: eagerly always, in a trace where it depends on no
input. Else a trace keeps the branch or loop (`cond`, `while_loop`, `scan`). A loop of a known
number of rounds is a `scan` in a trace where its body can be, and is unrolled where the body needs
its round as a number, or carries what changes its shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.compiled.eager_parts import is_compiling
from frontend.engine.tensors.dtypes import int64
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import control
from frontend.functions.creation import tensor, zeros
from frontend.functions.ranges import arange
from frontend.functions.shape import movedim, stack
from frontend.onnx.importing.element_types import DTYPES
from frontend.onnx.importing.errors import OnnxError, OnnxNotHere
from frontend.onnx.importing.graphs import OnnxGraph, OnnxNode
from frontend.onnx.importing.numbers import as_numbers, to_tensor
from graphc.errors import DTypeError, ShapeError, TraceError

Values = list[Any]
Run = Callable[[OnnxGraph, Values], Values]
"""Runs a held graph with these inputs, and what its node sees around it."""


def run_if(node: OnnxNode, inputs: Values, run: Run) -> Values:
    """The branch that the condition names."""
    yes, no = node.attributes["then_branch"], node.attributes["else_branch"]
    try:
        condition = as_numbers(inputs[0])
        if len(condition) != 1:
            raise OnnxError(f"the condition has {len(condition)} elements, not 1")
        return run(yes if condition[0] else no, [])
    except TraceError:
        if not isinstance(inputs[0], Tensor) or inputs[0].numel() != 1:
            raise
    results = control.cond(inputs[0].reshape(()), _tensors(run, yes), _tensors(run, no))
    return list(results)


def _tensors(run: Run, graph: OnnxGraph) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *inputs: tuple(map(to_tensor, run(graph, list(inputs))))


def run_loop(node: OnnxNode, inputs: Values, run: Run) -> Values:
    """A loop of at most `inputs[0]` rounds, while `inputs[1]` and what the body says hold."""
    body = node.attributes["body"]
    state = inputs[2:]
    most = (
        None if inputs[0] is None else as_numbers(inputs[0])[0] if _known(inputs[0]) else inputs[0]
    )
    flag = inputs[1] if len(inputs) > 1 else None
    going = True if flag is None else bool(as_numbers(flag)[0]) if _known(flag) else flag
    if is_compiling():
        if going is True and _goes_on(body) and most is not None and not isinstance(most, Tensor):
            try:
                return _scanned(body, most, state, run)
            except (TraceError, ShapeError, DTypeError):
                pass  # its round as a number, or another shape each round: unrolled
        elif isinstance(most, Tensor) or isinstance(going, Tensor) or not _goes_on(body):
            try:
                return _while(body, most, going, state, run)
            except (ShapeError, DTypeError, OnnxNotHere):
                if isinstance(most, Tensor) or isinstance(going, Tensor):
                    raise
    return _unrolled(node, body, most, going, state, run)


def _known(value: Any) -> bool:
    """Whether a value is a number now."""
    try:
        as_numbers(value)
    except TraceError:
        return False
    return True


def _goes_on(body: OnnxGraph) -> bool:
    """Whether a body never ends its loop itself: it hands its condition through."""
    makers = {name: node for node in body.nodes for name in node.outputs}
    name = body.outputs[0]
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    value = body.constants.get(name)
    return name == body.inputs[1].name or (isinstance(value, np.ndarray) and bool(value.all()))


def _scanned(body: OnnxGraph, most: Any, state: Values, run: Run) -> Values:
    count = len(state)

    def step(carry: Any, index: Tensor) -> Any:
        results = run(body, [index, np.array(True), *carry])[1:]
        return (
            tuple(map(to_tensor, results[:count])),
            tuple(map(to_tensor, results[count:])),
        )

    if most < 1:
        raise ShapeError("a scan has at least one step")
    carry, stacked = control.scan(step, tuple(map(to_tensor, state)), arange(most, dtype=int64))
    return [*carry, *stacked]


def _while(body: OnnxGraph, most: Any, going: Any, state: Values, run: Run) -> Values:
    count = len(state)
    if len(body.outputs) > 1 + count:
        raise OnnxNotHere(
            "a loop whose number of rounds depends on an input stacks no results in a trace",
            hint="pass what decides as a number, or run it eagerly",
        )
    least = tensor(1 << 62) if most is None else to_tensor(np.asarray(most)) if not isinstance(
        most, Tensor) else most.reshape(())  # fmt: skip
    flag = tensor(True) if going is True else to_tensor(np.asarray(going)) if not isinstance(
        going, Tensor) else going.reshape(())  # fmt: skip

    def goes_on(index: Tensor, flag: Tensor, *carry: Tensor) -> Tensor:
        return (index < least) & flag

    def step(index: Tensor, flag: Tensor, *carry: Tensor) -> Any:
        after, *results = map(to_tensor, run(body, [index, flag, *carry]))
        return index + 1, after.reshape(()), *results

    carried = (tensor(0), flag, *map(to_tensor, state))
    return list(control.while_loop(goes_on, step, carried)[2:])


def _unrolled(
    node: OnnxNode, body: OnnxGraph, most: Any, going: Any, state: Values, run: Run
) -> Values:
    count, index = len(state), 0
    stacked: list[Values] = [[] for _ in body.outputs[1 + count :]]
    while (most is None or index < most) and going:
        flag, *results = run(body, [np.array(index), np.array(True), *state])
        going = bool(as_numbers(flag)[0])
        state = results[:count]
        for rows, value in zip(stacked, results[count:]):
            rows.append(to_tensor(value))
        index += 1
    return [*state, *(stack(rows) if rows else _nothing(node) for rows in stacked)]


def _nothing(node: OnnxNode) -> Tensor:
    """What a loop without a round stacks: nothing, of a shape that no round says."""
    known = [DTYPES[kind] for kind in node.input_types[2:] if kind in DTYPES]
    return zeros(0, dtype=known[0] if known else None)


def run_scan(node: OnnxNode, inputs: Values, run: Run) -> Values:
    """A loop over slices of the last `num_scan_inputs` inputs."""
    if node.opset < 9:
        raise OnnxNotHere("Scan of operator set 8, with a batch", hint="export opset 9 or later")
    body, count = node.attributes["body"], node.attributes["num_scan_inputs"]
    held = len(inputs) - count
    stacked = len(body.outputs) - held

    def option(name: str, length: int) -> list[int]:
        return list(node.attributes.get(name) or [0] * length)

    backward = option("scan_input_directions", count)
    axes = option("scan_input_axes", count)
    xs = [
        movedim(to_tensor(x), axis, 0).flip(0) if back else movedim(to_tensor(x), axis, 0)
        for x, axis, back in zip(inputs[held:], axes, backward)
    ]
    step = _tensors(run, body)
    carry = tuple(map(to_tensor, inputs[:held]))
    if is_compiling():

        def traced(carry: Any, slices: Any) -> Any:
            results = step(*carry, *slices)
            return results[:held], results[held:]

        carry, ys = control.scan(traced, carry, tuple(xs))
        ys = list(ys)
    else:
        rows: list[Values] = [[] for _ in range(stacked)]
        for t in range(xs[0].shape[0]):
            results = step(*carry, *(x[t] for x in xs))
            carry = results[:held]
            for row, value in zip(rows, results[held:]):
                row.append(value)
        ys = [stack(row) if row else zeros(0) for row in rows]
    backward = option("scan_output_directions", stacked)
    axes = option("scan_output_axes", stacked)
    ys = [movedim(y.flip(0) if back else y, 0, axis) for y, axis, back in zip(ys, axes, backward)]
    return [*carry, *ys]


CONTROL: dict[str, Callable[[OnnxNode, Values, Run], Values]] = {
    "If": run_if, "Loop": run_loop, "Scan": run_scan,
}  # fmt: skip
"""What runs an operator that holds graphs."""
DECIDING = {"If": 1, "Loop": 2, "Scan": 0}
"""How many of their first inputs decide what is run."""
