"""The memory around a tensor from outside, as an input of the graph of its own.

`as_strided` reaches elements beside those of an argument that is a part of something larger. They
are read: `compiled.overlap` refuses that both are inputs where the argument is changed in place.
"""

from __future__ import annotations

from typing import Any

from frontend.tensors.memory_tracking import place_in_memory
from frontend.tensors.tensor import Tensor, make
from frontend.tracing.sources import MemorySource
from graphc.ir.types import TensorType


def memory_around(session: Any, tensor: Tensor) -> tuple[Tensor, int] | None:
    """The elements of the memory of a tensor from outside, in a row, and where there it begins.
    None where it has none beside its own, or where gradients would come to it."""
    array = session.layouts.array_of(tensor)
    place = None if array is None else place_in_memory(array)
    if place is None or place[0] == array.size or tensor.requires_grad:
        return None
    session.value_of(tensor)  # it is an input itself, before what lies around it
    source = session.source_of(tensor)
    for known in session.inputs:
        if isinstance(known.source, MemorySource) and known.source.source is source:
            return known.tensor, place[1]
    around = make(None, TensorType(tensor.dtype, place[:1]))
    around._value = session.add_input("memory", MemorySource(source, place), around).var
    return around, place[1]
