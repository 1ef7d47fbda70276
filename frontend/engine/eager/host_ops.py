"""Ops that Python computes, LAPACK's among them: recorded on the tape with a gradient rule of their
own. The rules are made of ordinary functions of tensors, so that second derivatives follow. In a
trace they are nodes of the kind `host`, which compiled code calls back for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.no_value import NO_DATA
from frontend.engine.tensors.state import STATE, tracing
from frontend.engine.tensors.tensor import Tensor, make, without_data
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import TensorType
from graphc.ops.kinds.host import Host, HostFunction


class HostOp:
    """`vjp(g, out, *inputs, **attributes)` gives the operands' gradients as a rule of graphc.ops
    does; it may read the operands and results at the positions `reads` = (operands, results)."""

    def __init__(
        self, name: str, op: Host | HostFunction, vjp: Callable[..., tuple[Any, ...]],
        reads: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ):  # fmt: skip
        self.name = name
        self.node_name = "".join(map(str.capitalize, name.split("."))) + "Backward0"
        self.op = op
        self.vjp = vjp
        self.reads = reads

    def __call__(self, *operands: Tensor, **attributes: Any) -> Any:
        """The result, or a tuple of results, on the tape where an operand requires gradients."""
        results, single = self._results(operands, attributes)
        if STATE.grad_enabled:
            self._record(operands, results, attributes)
        return results[0] if single else results

    def _results(
        self, operands: tuple[Tensor, ...], attributes: dict[str, Any]
    ) -> tuple[tuple[Tensor, ...], bool]:
        """The results, and whether it is one and no tuple."""
        has_data = all(x._value is not NO_DATA for x in operands)
        mode = STATE.mode
        if mode is not None or not has_data:
            types = self.op.infer(tuple(x.tensor_type for x in operands), attributes)
            if has_data and mode is not None:
                canonical = self.op.canonical(attributes)
                return mode.emit(self.op, operands, canonical, types), len(types) == 1
            return tuple(map(without_data, types)), len(types) == 1
        # Row-major, as in compiled code: BLAS sums in another order where they are not.
        arrays = [_row_major(x._array(self.name)) for x in operands]
        with np.errstate(all="ignore"):
            computed = self.op.function(*arrays, **attributes)
        single = not isinstance(computed, tuple)
        return tuple(map(from_host, (computed,) if single else computed)), single

    def _record(
        self, operands: tuple[Tensor, ...], results: tuple[Tensor, ...], attributes: dict[str, Any]
    ) -> None:
        for x in operands:
            if x._view is not None:
                x._view.bring_history(x)
        if not any(x._requires_grad for x in operands):
            return
        kinds = tuple(x.tensor_type for x in operands)
        shown = tuple(x.tensor_type for x in results)
        reads: Any = tuple(
            tuple(i in wanted for i in range(len(all_)))
            for wanted, all_ in zip(self.reads, (kinds, shown))
        )
        record(self, attributes, operands, results, Saves(kinds, shown, reads))


def _row_major(array: Any) -> Any:
    return array if array.flags.c_contiguous else array.copy(order="C")


def from_host(array: Any) -> Tensor:
    """A tensor over an array that NumPy made, laid out in row-major order."""
    value = np.ascontiguousarray(array).reshape(np.shape(array))
    return make(value, TensorType.of(value))


def eager_only(name: str) -> None:
    """Raise TraceError in a trace: `name` has no compiled form."""
    if tracing():
        raise TraceError(
            f"{name}() runs eagerly only: compiled code cannot call it yet",
            hint="call it outside of the compiled function and pass its result in",
            location=user_location(),
        )
