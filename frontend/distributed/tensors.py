"""Several tensors in one message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frontend.distributed.exchange import Round, broadcast
from frontend.distributed.groups import ProcessGroup
from frontend.distributed.world import current
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.tensor import Tensor


def broadcast_tensors(
    tensors: Sequence[Tensor], chosen: ProcessGroup, what: str, root: int = 0
) -> None:
    """Make tensors what they are on one rank: by one message for all."""
    arrays = [tensor._array("broadcast") for tensor in tensors]
    total = sum(array.nbytes for array in arrays)
    if chosen.size() == 1 or not total:
        return
    flat = np.empty(total, np.uint8)
    if chosen.rank() == root:
        np.concatenate(
            [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in arrays], out=flat
        )
    name = f"{what} ({total} bytes)"
    steps = broadcast(Round(chosen._members, name), flat, root)
    current().start(name, steps, chosen._timeout).wait()
    if chosen.rank() == root:
        return
    at = 0
    for tensor, array in zip(tensors, arrays):
        part = flat[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        array[...] = part
        count_write(tensor._counter)
        at += array.nbytes
