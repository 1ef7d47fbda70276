"""Elements that data chooses, as many as the caller says: then there is a compiled form."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.creation import full
from frontend.functions.declarations import public
from frontend.functions.logic import logical_and
from frontend.functions.order import cumsum
from frontend.functions.pointwise import where
from frontend.functions.ranges import arange
from frontend.functions.scatter import scatter
from frontend.functions.shape import cat


@public(method=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Any = None) -> Tensor:
    """[size, dim]: the positions of the first `size` elements that are not 0, and rows of
    `fill_value` behind them. Unlike `nonzero` it has a compiled form."""
    need_tensors("nonzero_static", input=input)
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    kept = input.reshape(-1) != 0
    rank = cumsum(kept, 0)
    # What is not asked for goes to one place behind the last.
    place = where(logical_and(kept, rank <= size), rank - 1, size)
    positions = arange(input.numel())
    chosen = scatter(full((size + 1,), -1), 0, place, positions)[:size]
    columns = []
    for axis in range(input.dim()):
        behind = math.prod(input.shape[axis + 1 :])
        columns.append(chosen // max(behind, 1) % max(input.shape[axis], 1))
    if not columns:
        return stored(chosen.new_empty((size, 0)), out)
    rows = cat([column.unsqueeze(1) for column in columns], 1)
    return stored(where((chosen < 0).unsqueeze(1), fill_value, rows), out)
