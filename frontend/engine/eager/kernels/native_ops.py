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

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from frontend.engine.eager.kernels.kernel_families import family, known_results
from frontend.engine.eager.kernels.layouts import COPIED, Base, Layouts, base_of, layout_of
from frontend.engine.eager.kernels.merged_axes import merged_call
from frontend.engine.eager.kernels.pointwise import is_pointwise, known_pointwise, pointwise
from frontend.engine.tensors.bounded import Bounded
from graphc.errors import GraphError
from graphc.ir.nodes import exact
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Array, Arrays, Op, Types
from graphc.system import IMPORTING

if TYPE_CHECKING:
    from graphc.runtime.direct_call import DirectCall, Strides
    from graphc.runtime.executable import Executable

Run = Callable[[list[Array], Sequence[Array] | None], tuple[Array, ...]]

_MEMO: Bounded[Any, NativeOp] = Bounded(4096)
_LAYOUTS = 64
"""How many combinations of its operands' layouts an op remembers."""
SMALL = 48 << 10
"""Bytes of a result up to which a call that makes it and a copy cost less than one that is told
where to write: the first comes straight to native code."""


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
    """One op for given attributes and operand types. Nothing is compiled before it is called.

    `call` takes the arrays and returns the one result, or a tuple of several. It raises what
    NumPy's run of the op raises, IndexRangeError or ContentError, where a content check fails."""

    __slots__ = ("_by_layout", "_by_strides", "_direct", "attributes", "call", "op", "types")

    def __init__(self, op: Op, types: Types, attributes: dict[str, Any]):
        self.op = op
        self.types = types
        self.attributes = attributes
        self.call: Callable[..., Any] = self._called
        self._direct: DirectCall | None = None
        self._by_layout: Bounded[Layouts, Executable] = Bounded(_LAYOUTS)
        self._by_strides: Bounded[Any, tuple[Run, list[Base]]] = Bounded(_LAYOUTS)

    def all(self, arrays: Arrays) -> tuple[Array, ...]:
        """All results, as a tuple; raises as `call` does."""
        results = self.call(*arrays)
        return results if results.__class__ is tuple else (results,)

    def _called(self, *arrays: Array, places: Sequence[Array] | None = None) -> Any:
        """`call` where native code has not seen such arrays, or does not take them by itself."""
        key = tuple([None if array.flags.c_contiguous else array.strides for array in arrays])
        try:
            run, bases = self._by_strides.get(key) or self._prepared(key, arrays)
            operands = [a if base is None else base(a) for a, base in zip(arrays, bases)]
            results = run(operands, places)
        except GraphError:
            # Native code knows the extremes, NumPy names the first element that is wrong.
            self.op.run(arrays, self.attributes)
            raise
        return results[0] if len(results) == 1 else results

    def into(self, place: Array, arrays: Sequence[Array]) -> Any:
        """`call`, whose one result is written to `place`, an array of its type, which has to be
        contiguous where it is not small."""
        if place.nbytes <= SMALL:
            place[...] = self.call(*arrays)
            return place
        return self._called(*arrays, places=[place])

    def _prepared(self, key: tuple[Strides, ...], arrays: Arrays) -> tuple[Run, list[Base]]:
        """What runs arrays of these strides, and how each is passed to it."""
        layouts = tuple([layout_of(array) for array in arrays])
        bases = [base_of(array, layout) for array, layout in zip(arrays, layouts)]
        executable = self._by_layout.get(layouts)
        if executable is None:
            executable = self._by_layout[layouts] = self._executable(layouts)
        known = self._by_strides[key] = (executable.run, bases)
        if all([base is not COPIED for base in bases]):
            if self._direct is None:
                with IMPORTING:
                    from graphc.runtime.direct_call import DirectCall
                self._direct = DirectCall(self._called)
            self._direct.add(executable, self.types, key)
            self.call = self._direct.function
        return known

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
