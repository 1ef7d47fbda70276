"""Tensors from one device to another: the CPU, and "meta", where they have a type and no data."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.host_ops import eager_only
from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.dtypes import device
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, without_data


class _Move:
    """The op of a tape node between two devices. Gradients that reach it are on "meta": they have
    no data for a tensor that has."""

    name, node_name = "to", "ToCopyBackward0"

    def vjp(self, g: Any, out: Any, x: Any) -> tuple[Any]:
        return (g,)


_MOVE = _Move()


def moved(x: Tensor, place: device) -> Tensor:
    """`x` on a device; itself where it is there. Raises NotImplementedError from meta to the CPU,
    TraceError in a trace."""
    if x.device is place:
        return x
    if x.is_meta:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() "
            "instead of torch.nn.Module.to() when moving module from meta to a different device."
        )
    eager_only("to('meta')")
    result = without_data(x.tensor_type)
    if STATE.grad_enabled and x.requires_grad:
        reads: Any = ((False,), (False,))
        kinds = (x.tensor_type,)
        record(_MOVE, {}, (x,), (result,), Saves(kinds, kinds, reads))
    return result
