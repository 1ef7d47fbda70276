"""Ops as compiled code, one at a time: what eager mode runs unless NumPy is chosen.

in : an op, its attributes, the types of its operands; then arrays
out: the arrays of its results, by the kernels that the compiler makes for the op alone

A kernel's bits do not depend on what it is fused with (docs/arithmetic.md), so eager mode and
compiled functions of level *exact* give the same bits. Kernels are compiled at their first call,
for all sizes where that can be done (`kernel_families`, `pointwise`), and come from the same memo
and cache on disk as those of compiled functions.

Operands need not be contiguous. One that is a transposed or broadcast contiguous array is passed as
that array, and the kernel is one that reads it so; others are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from frontend.eager.kernel_families import family, known_results
from frontend.eager.layouts import Base, Layouts, base_of, layout_of
from frontend.eager.merged_axes import merged_call
from frontend.eager.pointwise import is_pointwise, known_pointwise, pointwise
from frontend.tensors.bounded import Bounded
from graphc.errors import GraphError
from graphc.ir.nodes import exact
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Array, Arrays, Op, Types

if TYPE_CHECKING:
    from graphc.runtime.executable import Executable

Run = Callable[[list[Array]], tuple[Array, ...]]

_MEMO: Bounded[Any, NativeOp] = Bounded(4096)
_LAYOUTS = 64
"""How many combinations of its operands' layouts an op remembers."""


def native_op(op: Op, types: Types, attributes: dict[str, Any]) -> NativeOp:
    """The compiled form of an op for canonical `attributes`; the same object every time, as long
    as fewer than 4096 are in use."""
    key = (op, types, *map(exact, attributes.items()))
    native = _MEMO.get(key)
    if native is None:
        native = _MEMO[key] = NativeOp(op, types, attributes)
    return native


def result_types(op: Op, types: Types, attributes: dict[str, Any]) -> Types:
    """What `op.infer` gives. Of a composite that was compiled for other sizes, its definition is
    not made again. Raises GraphError as `op.infer` does."""
    known = None
    if isinstance(op, Composite) and not any([type.is_symbolic for type in types]):
        known = known_pointwise(op, types, attributes) or known_results(op, types, attributes)
    return tuple(op.infer(types, attributes)) if known is None else known


class NativeOp:
    """One op for given attributes and operand types. Nothing is compiled before it is called."""

    __slots__ = ("_by_layout", "_by_strides", "_run", "attributes", "op", "types")

    def __init__(self, op: Op, types: Types, attributes: dict[str, Any]):
        self.op = op
        self.types = types
        self.attributes = attributes
        self._run: Run = self._first  # for contiguous operands
        self._by_layout: Bounded[Layouts, Run] = Bounded(_LAYOUTS)
        self._by_strides: Bounded[Any, tuple[Run, list[Base]]] = Bounded(_LAYOUTS)

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
            layouts = tuple([layout_of(array) for array in arrays])
            bases = [base_of(array, layout) for array, layout in zip(arrays, layouts)]
            known = self._by_strides[key] = (self._run_for(layouts), bases)
        run, bases = known
        return run([a if base is None else base(a) for a, base in zip(arrays, bases)])

    def _run_for(self, layouts: Layouts) -> Run:
        if layouts not in self._by_layout:
            self._by_layout[layouts] = self._executable(layouts).run
        return self._by_layout[layouts]

    def _executable(self, layouts: Layouts) -> Executable:
        if is_pointwise(self.op, self.types, self.attributes):
            return pointwise(self.op, self.types, self.attributes, layouts)
        merged = merged_call(self.op, self.types, self.attributes, layouts)
        if merged is not None:
            fewer = merged.layouts(layouts)
            known = family(self.op, merged.types, merged.attributes, fewer)
            pairs = zip(self.types, layouts)
            dense = tuple([t if layout is None else layout.dense(t) for t, layout in pairs])
            return known.executable(merged.types, merged.attributes, (dense, merged.results))
        known = family(self.op, self.types, self.attributes, layouts)
        return known.executable(self.types, self.attributes)
