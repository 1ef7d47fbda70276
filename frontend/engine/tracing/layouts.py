"""How tensors of a trace lie in memory in eager mode, which says what shares memory there: a
`reshape` is a view where the elements allow it, and else a copy.

Those from outside lie as they do at the trace; what an op computes counts as row-major.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.tensors.memory_tracking import offset_in_memory
from frontend.engine.tensors.symbolic_numbers import extents_in, outermost_first
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import IndexedView
from graphc.errors import UndecidedSizeError
from graphc.ir.dims import Dim, evaluate, is_symbolic

Strides = tuple[int, ...]


def generic(value: Any) -> Any:
    """Extents, also in tuples, as numbers: sizes known only at a call as large primes, one each, so
    that no two products are equal that are not so at all sizes."""
    if isinstance(value, tuple):
        return tuple([generic(item) for item in value])
    if not isinstance(value, Dim):
        return value
    for symbol in value.symbols():
        if symbol.name not in _PRIMES:
            _PRIMES[symbol.name] = _next_prime(max(_PRIMES.values(), default=1000) + 1)
    return evaluate(value, _PRIMES)


_PRIMES: dict[str, int] = {}


def _next_prime(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def row_major(shape: tuple[int, ...]) -> Strides:
    """The strides, in elements, of a shape whose last dimension is the innermost."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def strides_of(tensor: Any, captured: Any) -> Strides:
    """The strides of a traced tensor in elements. `captured(t)` is the array of one from outside,
    None of others."""
    view = tensor._view
    if view is None:
        array = captured(tensor)
        shape = tensor.tensor_type.shape
        if array is None or (array.flags.c_contiguous and is_symbolic(shape)):
            return row_major(generic(shape))
        for extent in shape:
            operator.index(extent)  # other strides are those of certain sizes
        return tuple(step // array.itemsize for step in array.strides)
    strides = strides_of(view.parent, captured)
    if view.op is None or view.op.name == "stop_gradient":
        return strides
    if isinstance(view, IndexedView):
        return row_major(generic(tensor.tensor_type.shape))
    parent = generic(view.parent.tensor_type.shape)
    if view.op.name == "reshape":
        shape = generic(view.attributes["shape"])
        known = reshaped_strides(parent, strides, shape)
        return row_major(shape) if known is None else known
    if view.op.name == "view_as_real":
        return (*(2 * step for step in strides), 1)
    if view.op.name == "view_as_complex":
        return tuple(step // 2 for step in strides[:-1])
    return _of_movement(view, parent, strides)


def _of_movement(view: Any, shape: tuple[int, ...], strides: Strides) -> Strides:
    """The strides of what a movement makes of an array like this. Nothing of it is read."""
    item = np.empty(1, np.int8)
    like = np.lib.stride_tricks.as_strided(item, shape, strides)
    (moved,) = view.op.compute((like,), {k: generic(v) for k, v in view.attributes.items()})
    return tuple(moved.strides)


def root_of(tensor: Any) -> Any:
    """What a view shows in the end."""
    while tensor._view is not None:
        tensor = tensor._view.parent
    return tensor


class Layouts:
    """What a trace asked of layouts. An answer about an argument holds for those that lie alike:
    `asked` has the argument, and tensors that share its memory or not because of that; where none
    of them is changed, it does not matter."""

    def __init__(self, array_of: Callable[[Any], Any]):
        self.array_of = array_of
        self.asked: list[tuple[Tensor, tuple[list[int], ...]]] = []
        self.offsets: dict[int, tuple[Tensor, int]] = {}

    def memory_order(self, tensor: Tensor) -> list[int] | None:
        """Its axes from the outermost in memory; None where it is row-major."""
        root = root_of(tensor)
        if root._view is not None or self.array_of(root) is not None:
            self.asked.append((root, ([1],)))
        strides = strides_of(tensor, self.array_of)
        return None if is_row_major(tensor, strides) else outermost_first(strides)

    def offset(self, root: Tensor) -> int:
        """Where in its memory a tensor that is no view of another begins, in elements; 0 for what
        is made inside. Of an argument `offsets` has it: the answer holds for those that begin
        there."""
        array = self.array_of(root)
        if array is None:
            return 0
        self.offsets[id(root)] = root, offset_in_memory(array)
        return self.offsets[id(root)][1]

    def shares(self, result: Tensor, parent: Tensor, shape: tuple[int, ...]) -> bool:
        """Whether `parent` in another shape is a view of it."""
        if parent._view is None and self.array_of(parent) is None:
            return True
        held = generic(parent.tensor_type.shape)
        known = reshaped_strides(held, strides_of(parent, self.array_of), generic(shape))
        root = root_of(parent)
        if self.array_of(root) is not None:
            self.asked.append((root, (root._counter, result._counter)))
        return known is not None

    def allows_view(self, parent: Tensor, shape: tuple[int, ...], handled: bool) -> bool:
        """Whether eager mode gives what comes from outside in another shape as a view; what is made
        inside counts as row-major, and yields any. That it does matters where an error would be
        handled: `handled`. Raises UndecidedSizeError where it may not at some of the sizes that are
        left open."""
        root = root_of(parent)
        if self.array_of(root) is None:
            return True
        held = generic(parent.tensor_type.shape)
        known = reshaped_strides(
            held, strides_of(parent, self.array_of), generic(extents_in(shape))
        )
        if known is None and is_symbolic((*parent.tensor_type.shape, *map(extents_in, shape))):
            raise UndecidedSizeError("whether these elements have a view depends on sizes")
        if known is None or handled:
            self.asked.append((root, ([1],)))
        return known is not None

    def relied_on(self) -> list[Tensor]:
        """The tensors from outside whose layout the trace relied on."""
        roots = {id(root): root for root, counters in self.asked if any(c[0] for c in counters)}
        return list(roots.values())


def is_row_major(tensor: Tensor, strides: Strides) -> bool:
    """Whether the elements follow each other in memory."""
    shape = generic(tensor.tensor_type.shape)
    expected = row_major(shape)
    alike = (n == 1 or have == want for n, have, want in zip(shape, strides, expected))
    return 0 in shape or all(alike)


def reshaped_strides(
    shape: tuple[int, ...], strides: Strides, new: tuple[int, ...]
) -> Strides | None:
    """The strides of the same elements as a view of another shape, None where there is none."""
    if 0 in shape:
        return row_major(new)
    kept = [(n, step) for n, step in zip(shape, strides) if n != 1]
    result: list[int] = []
    sizes = list(new)[::-1]
    while kept:
        size, step = kept.pop()
        # Dimensions that lie inside each other are one.
        while kept and kept[-1][1] == step * size:
            size *= kept.pop()[0]
        taken = 1
        while taken < size and sizes:
            result.append(step * taken)
            taken *= sizes.pop(0)
        if taken != size:
            return None
    result += [1] * len(sizes)
    return tuple(result[::-1])
