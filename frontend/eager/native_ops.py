"""Ops as compiled code, one at a time: what eager mode runs with `set_eager_backend("native")`.

in : an op, its attributes, the types of its operands; then arrays
out: the arrays of its results, by the kernels that the compiler makes for the op alone

A kernel's bits do not depend on what it is fused with (docs/arithmetic.md), so eager mode and
compiled functions of level *exact* give the same bits. Kernels are compiled at their first call and
come from the same memo and cache on disk as those of compiled functions.

Operands need not be contiguous. One that is a transposed or broadcast contiguous array is passed as
that array, and the kernel is one that reads it so; others are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from graphc.errors import GraphError
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.nodes import Graph, exact
from graphc.ir.types import Shape, TensorType
from graphc.ops.kinds.op import Array, Arrays, Op, Types
from graphc.ops.movement import broadcast, reshape, transpose

Run = Callable[[list[Array]], tuple[Array, ...]]
Base = Callable[[Array], Array] | None
"""Makes of an operand the contiguous array that is passed; None for one that is passed itself."""

_MEMO: dict[Any, NativeOp] = {}
_LIMIT = 4096
_LAYOUTS = 64
"""How many combinations of its operands' layouts an op remembers."""


def native_op(op: Op, types: Types, attributes: dict[str, Any]) -> NativeOp:
    """The compiled form of an op for canonical `attributes`; the same object every time, as long
    as fewer than 4096 are in use."""
    key = (op, types, *map(exact, attributes.items()))
    native = _MEMO.get(key)
    if native is None:
        if len(_MEMO) >= _LIMIT:
            _MEMO.clear()
        native = _MEMO[key] = NativeOp(op, types, attributes)
    return native


class NativeOp:
    """One op for given attributes and operand types. Nothing is compiled before it is called."""

    __slots__ = ("_by_layout", "_by_strides", "_run", "attributes", "op", "types")

    def __init__(self, op: Op, types: Types, attributes: dict[str, Any]):
        self.op = op
        self.types = types
        self.attributes = attributes
        self._run: Run = self._first  # for contiguous operands
        self._by_layout: dict[tuple[_Layout | None, ...], Run] = {}
        self._by_strides: dict[Any, tuple[Run, list[Base]]] = {}

    def one(self, *arrays: Array) -> Array:
        """The one result; raises as `all` does."""
        try:
            for array in arrays:
                if not array.flags.c_contiguous:
                    return self._strided(arrays)[0]
            return self._run(list(arrays))[0]
        except GraphError:
            self._explain(arrays)
            raise

    def all(self, arrays: Arrays) -> tuple[Array, ...]:
        """All results. Raises what NumPy's run of the op raises, IndexRangeError or ContentError,
        where a content check fails."""
        try:
            for array in arrays:
                if not array.flags.c_contiguous:
                    return self._strided(arrays)
            return self._run(list(arrays))
        except GraphError:
            self._explain(arrays)
            raise

    def _explain(self, arrays: Arrays) -> None:
        """Raise NumPy's error: native code knows the extremes, NumPy names the first element that
        is wrong."""
        self.op.run(arrays, self.attributes)

    def _first(self, arrays: list[Array]) -> tuple[Array, ...]:
        """The first call with contiguous operands: `_run`, until it is compiled."""
        self._run = self._run_for((None,) * len(self.types))
        return self._run(arrays)

    def _strided(self, arrays: Arrays) -> tuple[Array, ...]:
        key = tuple([array.strides for array in arrays])
        known = self._by_strides.get(key)
        if known is None:
            layouts = tuple([_layout(array) for array in arrays])
            if len(self._by_strides) >= _LAYOUTS:
                self._by_strides.clear()
            bases = [_base(array, layout) for array, layout in zip(arrays, layouts)]
            known = self._by_strides[key] = (self._run_for(layouts), bases)
        run, bases = known
        return run([a if base is None else base(a) for a, base in zip(arrays, bases)])

    def _run_for(self, layouts: tuple[_Layout | None, ...]) -> Run:
        if layouts not in self._by_layout:
            if len(self._by_layout) >= _LAYOUTS:
                self._by_layout.clear()
            from graphc.runtime.compile import compile  # not before it is needed: loads LLVM

            self._by_layout[layouts] = compile(self._graph(layouts), threads=1).run
        return self._by_layout[layouts]

    def _graph(self, layouts: tuple[_Layout | None, ...]) -> Graph:
        builder = GraphBuilder(self.op.name)
        with builder.at(None):
            operands = []
            for position, (layout, type) in enumerate(zip(layouts, self.types)):
                dense = type if layout is None else layout.dense(type)
                operand = builder.input(f"x{position}", dense)
                operands.append(operand if layout is None else layout.shown(operand, type.shape))
            return builder.finish(*builder.apply(self.op, tuple(operands), self.attributes))


# -- layouts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Layout:
    """An operand whose elements are those of a contiguous array: `order` are its axes from the
    outermost in memory; along the others, `spread`, all elements are the same one."""

    order: tuple[int, ...]
    spread: tuple[int, ...]

    def dense(self, type: TensorType) -> TensorType:
        """The type of the contiguous array."""
        return type.with_shape(tuple([type.shape[axis] for axis in self.order]))

    def shown(self, dense: Var, shape: Shape) -> Any:
        """The operand, of `shape`, as a node over the contiguous array."""
        back = tuple([self.order.index(axis) for axis in sorted(self.order)])
        ones = tuple([dim if axis in self.order else 1 for axis, dim in enumerate(shape)])
        turned = transpose(dense, permutation=back)
        return broadcast(reshape(turned, shape=ones), shape=shape)


def _layout(array: Array) -> _Layout | None:
    """How an operand is passed: None as it is, or as a contiguous copy."""
    strides, shape = array.strides, array.shape
    if array.flags.c_contiguous:
        return None
    spread = tuple([axis for axis, dim in enumerate(shape) if strides[axis] == 0 or dim == 1])
    order = [axis for axis in range(len(shape)) if axis not in spread]
    order.sort(key=lambda axis: -strides[axis])
    expected = array.itemsize
    for axis in reversed(order):
        if strides[axis] != expected:
            return None
        expected *= shape[axis]
    return _Layout(tuple(order), spread)


def _base(array: Array, layout: _Layout | None) -> Base:
    if array.flags.c_contiguous:
        return None
    if layout is None:
        return partial(np.asarray, order="C")
    index = (*[0 if axis in layout.spread else slice(None) for axis in range(array.ndim)], ...)
    kept = sorted(layout.order)
    permutation = tuple([kept.index(axis) for axis in layout.order])
    if permutation == tuple(range(len(kept))):
        return itemgetter(index)
    if not layout.spread:
        return methodcaller("transpose", permutation)
    return lambda array: array[index].transpose(permutation)
