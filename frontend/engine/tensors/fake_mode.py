"""A mode in which ops compute nothing but the types of their results.

in : ops on any tensors, with data or without
out: tensors on the device "meta", of the shapes and dtypes the ops would give

On tensors of that device ops do so without a mode; inside a `FakeMode` those on tensors with data
do too, and what is made is made without memory. So a model's shapes can be asked, or a large one
built, at the cost of its Python alone. Values are refused as they are on "meta"; a tensor with data
is never changed, and no random number is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import META
from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.mode import UnwatchedSweep
from frontend.engine.tensors.no_value import NO_DATA, escaped
from frontend.engine.tensors.state import STATE, swap_devices, swap_mode
from frontend.engine.tensors.symbolic_numbers import outermost_first
from frontend.engine.tensors.tensor import Tensor, make, without_data
from frontend.engine.tensors.views import TensorMode, View
from graphc.ir.types import DType, TensorType


class FakeMode:
    """Types alone. Use as a context manager, inside of a trace too; it nests."""

    prepared: dict[Any, Any] | None = None
    records = False
    in_region = False
    open_sizes = False

    def __init__(self) -> None:
        self._around: list[tuple[TensorMode | None, tuple[Any, ...]]] = []

    def __enter__(self) -> FakeMode:
        self._around.append((STATE.mode, STATE.devices))
        swap_devices((*STATE.devices, META))
        mode: TensorMode = self
        swap_mode(mode)
        return self

    def __exit__(self, *error: Any) -> None:
        mode, devices = self._around.pop()
        swap_mode(mode)
        swap_devices(devices)

    # -- ops and values ----------------------------------------------------------------------

    def emit(
        self, op: Any, operands: tuple[Tensor, ...], attributes: dict[str, Any],
        types: tuple[TensorType, ...], view: bool = False,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        results = tuple(map(without_data, types))
        if view:
            first = operands[0]
            seen, tracked = first._counter[0], bool(STATE.grad_enabled)
            self.show(results[0], View(first, op, attributes, seen, tracked))
        return results

    def value(self, tensor: Tensor) -> Any:
        return NO_DATA

    def constant(self, value: Any, type: TensorType) -> Tensor:
        return make(value, type) if isinstance(value, np.ndarray) else without_data(type)

    def known(
        self, tensor: Tensor, what: str = "a trace", guarded: bool = False
    ) -> np.ndarray | None:
        value = tensor._value
        if isinstance(value, np.ndarray):
            return value
        if value is not NO_DATA:
            raise escaped(what)
        return None

    # -- views and changes in place ----------------------------------------------------------

    def capture(self, tensor: Any) -> bool:
        return False

    def view(self, result: Tensor, parent: Tensor) -> bool:
        return result._view is not None

    def show(self, result: Tensor, view: View) -> None:
        result._value = NO_DATA
        result._counter = view.parent._counter
        result._view = view

    def detach(self, result: Tensor, parent: Tensor) -> None:
        self.show(result, View(parent, None, {}, parent._counter[0], None))

    def assign(self, target: Tensor, new: Tensor) -> None:
        root: Any = target
        while root._view is not None:
            root = root._view.parent
        if root._value is not NO_DATA:
            raise RuntimeError(
                f"a tensor {root.tensor_type} with data is changed in place where only types are "
                "computed: change a copy on the device 'meta' (x.to('meta'))"
            )
        count_write(target._counter)

    def memory_order(self, tensor: Tensor) -> list[int] | None:
        value = tensor._value
        row_major = not isinstance(value, np.ndarray) or value.flags.c_contiguous
        return None if row_major else outermost_first(value.strides)

    def memory(self, tensor: Tensor, whole: bool) -> tuple[Tensor, int]:
        return tensor, 0

    # -- gradients ---------------------------------------------------------------------------

    def read_flag(self, tensor: Any) -> None:
        pass

    def read_grad(self, tensor: Any) -> Any:
        return tensor._grad

    def write_grad(self, tensor: Any) -> None:
        pass

    def history(self, tensor: Any, needed: bool = False) -> Any:
        return None

    def backward(self, accumulates: bool) -> AbstractContextManager[UnwatchedSweep]:
        return nullcontext(UnwatchedSweep())

    # -- what comes from outside: nothing is kept, so nothing is guarded ----------------------

    def number(self, mapping: Any, key: Any, index: int | None, dtype: DType) -> Tensor:
        return without_data(TensorType(dtype, ()))

    def guard(self, key: Any, make: Callable[[], Any], kept: Sequence[Any] = ()) -> Any:
        return make()

    def write_attribute(self, owner: Any, name: str, value: Any, is_state: bool) -> None:
        pass

    # -- hooks, Modules, optimizers ----------------------------------------------------------

    def register_hook(self, handle: RemovableHandle, hook: Any) -> None:
        pass

    def follow(self, value: Any) -> None:
        pass

    def run_hook(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return hook(*args)

    def module(self, module: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def update(self) -> AbstractContextManager[None]:
        return nullcontext()

    def begin_parameter(self, parameter: Any) -> None:
        pass


def types_alone(*tensors: Tensor) -> bool:
    """Whether an op on these computes types alone: where one is on "meta", or by the mode."""
    mode = STATE.mode
    if mode is not None:
        return not mode.records
    return any(x._value is NO_DATA for x in tensors)
