"""`torch.utils.swap_tensors`: two tensors become each other."""

from __future__ import annotations

from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.state import tracing
from frontend.engine.tensors.tensor import Tensor
from graphc.errors import TraceError
from graphc.ir.builder import user_location

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange all that two tensors are: values, gradients, attributes and classes; whoever holds
    one of them then holds the other. Raises TraceError in a trace."""
    if tracing():
        raise TraceError(
            "swap_tensors in a trace", hint="swap them outside", location=user_location()
        )
    first, second = dict(t1._instance_state), dict(t2._instance_state)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    object.__setattr__(t1, "_instance_state", second)
    object.__setattr__(t2, "_instance_state", first)
    changed()
