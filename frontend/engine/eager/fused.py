"""Several elementwise ops on tensors of one shape as one kernel that changes some of them in place:
what an optimizer does to each parameter, or a batch norm to its running statistics.

in : a formula of values and numbers; it is called with tensors, or with the values of a graph
out: a function that changes its first tensors to what the formula gives

A kernel's bits do not depend on what it is fused with, so they are those of the ops one by one,
which run where a kernel cannot: in traces, for other dtypes, for tensors that are no plain memory.
One kernel serves all shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.kernels.kernel_families import Variant
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType
from graphc.ops.movement import broadcast

_KINDS = (DType.f32, DType.f64)
_VARIANTS: dict[Any, Variant] = {}
_RUNS: Bounded[Any, tuple[Callable[[list[Any]], Any], int]] = Bounded(1024)


class Fused:
    """`formula(*values, *numbers, **flags)` gives new values for the first of its values, as many
    as it returns. Values are of one type, numbers Python's, or 0-d tensors that yield to it."""

    def __init__(self, formula: Callable[..., tuple[Any, ...]]):
        self._formula = formula

    def __call__(self, tensors: tuple[Tensor, ...], numbers: tuple[Any, ...], **flags: Any) -> None:
        """Change the first tensors. Raises as in-place ops on them do, with none changed."""
        first = tensors[0]
        type = first.tensor_type
        if STATE.watched or STATE.grad_enabled or STATE.backend != "native":
            return self._by_ops(tensors, numbers, flags)
        arrays: list[Any] = []
        for x in tensors:
            array = x._value
            plain = array.__class__ is np.ndarray and array.flags.c_contiguous
            if not plain or x.tensor_type is not type:
                return self._by_ops(tensors, numbers, flags)
            arrays.append(array.reshape(-1))
        if type.dtype not in _KINDS:
            return self._by_ops(tensors, numbers, flags)
        run, changes = self._run(type, len(tensors), len(numbers), flags)
        changed = tensors[:changes]
        for x in changed:
            if x._frozen is not None or not x._value.flags.writeable:
                return self._by_ops(tensors, numbers, flags)
        numpy = type.dtype.numpy
        for number in numbers:
            held = isinstance(number, Tensor)
            arrays.append(number._array("an update").astype(numpy) if held else _in(number, numpy))
        try:
            run(arrays)
        finally:  # an interrupt that comes behind the kernel finds the change counted
            for x in changed:
                count_write(x._counter)
        return None

    def _by_ops(
        self, tensors: tuple[Tensor, ...], numbers: tuple[Any, ...], flags: dict[str, Any]
    ) -> None:
        first = tensors[0].tensor_type
        if not first.shape:  # numbers that are 0-d tensors would not yield to another one
            same = lambda n: casted(n, first.dtype) if isinstance(n, Tensor) else n  # noqa: E731
            numbers = tuple(map(same, numbers))
        for x, new in zip(tensors, self._formula(*tensors, *numbers, **flags)):
            x._assign(casted(new, x.dtype))

    def _run(
        self, type: TensorType, values: int, numbers: int, flags: dict[str, Any]
    ) -> tuple[Callable[[list[Any]], Any], int]:
        """What runs the kernel for this many elements, and how many tensors it changes."""
        key = (self._formula, type.dtype, numbers, *flags.items())
        known = _RUNS.get((type.numel, key))
        if known is None:
            variant = _VARIANTS.get(key)
            if variant is None:
                graph = self._graph(type.dtype, values, numbers, flags)
                variant = _VARIANTS[key] = Variant(graph)
            run = variant.at({"n0": type.numel}).run
            known = _RUNS[type.numel, key] = (run, len(variant.graph.outputs))
        return known

    def _graph(self, kind: DType, values: int, numbers: int, flags: dict[str, Any]) -> Any:
        size: Any = (dim("n0", 0),)
        builder = GraphBuilder(self._formula.__name__.lstrip("_"))
        with builder.at(None):
            held = [builder.input(f"x{i}", TensorType(kind, size)) for i in range(values)]
            scalars = [builder.input(f"number{i}", TensorType(kind, ())) for i in range(numbers)]
            spread = [broadcast(number, shape=size) for number in scalars]
            results = self._formula(*held, *spread, **flags)
            return builder.finish(*results, aliases=[(i, i) for i in range(len(results))])


def _in(number: Any, numpy: Any) -> np.ndarray:
    if -1e30 < number < 1e30:  # NumPy has nothing to warn of
        return np.array(number, numpy)
    with np.errstate(all="ignore"):
        return np.array(number, numpy)
