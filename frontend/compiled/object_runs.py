"""A function run again and again, eagerly or compiled: what ladders compare.

in : a function or Module, its arguments, and the way to run it
out: an `ObjectRun`
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from frontend.compiled.compiler import CompiledFunction
from frontend.compiled.options import Options
from frontend.eager import dispatch
from frontend.tensors.state import set_eager_backend, swap_observer
from frontend.tensors.tensor import Tensor
from frontend.tracing import tree
from graphc.debug.traced import ObjectRun, WayToRun


def object_run(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: Options, way: WayToRun
) -> ObjectRun:
    """Runs `function` on these arguments. Eager runs choose this thread's backend, for good."""
    if way.compile is None:
        if way.eager is not None:
            set_eager_backend(way.eager)
        run: Callable[..., Any] = function
    else:
        chosen = replace(
            options, compiler=way.compile, keep_grads=way.keep_grads, level="exact", dynamic=False
        )
        run = CompiledFunction(function, chosen)
    return ObjectRun(lambda: run(*arguments), _arrays, lambda: _counted(lambda: run(*arguments)))


def _arrays(result: Any) -> list[np.ndarray]:
    tensors: list[Tensor] = []
    tree.flatten(result, tensors)
    return [np.array(tensor.detach().numpy()) for tensor in tensors]


def _counted(step: Callable[[], Any]) -> tuple[int, int]:
    """How many ops compute something in a step, views left out, and the bytes they read and
    write."""
    counts = [0, 0]
    plain = {name: getattr(dispatch, name) for name in ("_computed_plainly", "_computed")}

    def counting(computed: Callable[..., Any]) -> Callable[..., Any]:
        def compute(op: Any, operands: tuple[Any, ...], prepared: Any) -> Any:
            results = computed(op, operands, prepared)
            bases = {id(_base(operand)) for operand in operands}
            if op.kind != "movement" or all(id(_base(r)) not in bases for r in results):
                counts[0] += 1
                counts[1] += sum(_nbytes(x) for x in (*operands, *results))
            return results

        return compute

    @contextlib.contextmanager
    def watched(op: Any, operands: Any) -> Iterator[None]:
        yield

    before = swap_observer(watched)  # ops take no short cut past `dispatch` while one looks on
    for name, computed in plain.items():
        setattr(dispatch, name, counting(computed))
    try:
        step()
    finally:
        for name, computed in plain.items():
            setattr(dispatch, name, computed)
        swap_observer(before)
    return counts[0], counts[1]


def _value(tensor: Any) -> np.ndarray:
    array: np.ndarray = tensor._value
    return array


def _nbytes(tensor: Any) -> int:
    """Bytes of a tensor in memory: what is broadcast lies there once."""
    return min(_value(tensor).nbytes, _base(tensor).nbytes)


def _base(tensor: Any) -> Any:
    """The array that holds a tensor's memory."""
    array = _value(tensor)
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
