"""Ops that run in NumPy alone, LAPACK's among them: computed from arrays, recorded on the tape with
a gradient rule of their own. The rules are made of ordinary functions of tensors, so that second
derivatives follow. Compiled code has no such ops: in a trace they raise TraceError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.eager.tape import Saves, record
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor, make
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import TensorType


class HostOp:
    """`compute(*arrays, **attributes)` gives an array, or a tuple of arrays. `vjp(g, out, *inputs,
    **attributes)` gives the operands' gradients as a rule of graphc.ops does; it may read the
    operands and results at the positions `reads` = (operands, results)."""

    def __init__(
        self, name: str, compute: Callable[..., Any], vjp: Callable[..., tuple[Any, ...]],
        reads: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    ):  # fmt: skip
        self.name = name
        self.node_name = "".join(map(str.capitalize, name.split("."))) + "Backward0"
        self.compute = compute
        self.vjp = vjp
        self.reads = reads

    def __call__(self, *operands: Tensor, **attributes: Any) -> Any:
        """The result, or a tuple of results, on the tape where an operand requires gradients."""
        eager_only(self.name)
        arrays = [x._array(self.name) for x in operands]
        with np.errstate(all="ignore"):
            computed = self.compute(*arrays, **attributes)
        single = not isinstance(computed, tuple)
        results = tuple(map(from_host, (computed,) if single else computed))
        if STATE.grad_enabled:
            self._record(operands, results, attributes)
        return results[0] if single else results

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


def from_host(array: Any) -> Tensor:
    """A tensor over an array that NumPy made, laid out in row-major order."""
    value = np.ascontiguousarray(array).reshape(np.shape(array))
    return make(value, TensorType.of(value))


def eager_only(name: str) -> None:
    """Raise TraceError in a trace: `name` has no compiled form."""
    if STATE.session is not None:
        raise TraceError(
            f"{name}() runs eagerly only: compiled code cannot call it yet",
            hint="call it outside of the compiled function and pass its result in",
            location=user_location(),
        )
