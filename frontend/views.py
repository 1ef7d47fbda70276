"""Views inside a trace: what shows what, so that a mutation through a view reaches its base."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.tensor import Tensor
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.handle import lift
from graphc.ops import elementwise
from graphc.ops import movement as m


class View:
    """A tensor is `op` of `parent` (None: the same elements), made when the version was `seen`."""

    __slots__ = ("attributes", "op", "parent", "seen")

    def __init__(self, parent: Tensor, op: Any, attributes: dict[str, Any], seen: int):
        self.parent = parent
        self.op = op
        self.attributes = attributes
        self.seen = seen


def written_back(view: View, new: Tensor) -> Tensor:
    """The new value of the view's parent where the view takes the value `new`."""
    shape = view.parent.tensor_type.shape
    if view.op is None:
        return new
    if view.op is m.reshape:
        return m.reshape(new, shape=shape)
    if view.op is m.transpose:
        inverse = m.inverse_permutation(view.attributes["permutation"])
        return m.transpose(new, permutation=inverse)
    if view.op is m.slice_ and all(step > 0 for step in view.attributes["step"]):
        return _unsliced(view, new, shape)
    raise TraceError(
        f"in-place operation on a view made by {view.op.name}, whose elements share memory",
        hint="clone() it first",
        location=user_location(),
    )


def _unsliced(view: View, new: Tensor, shape: tuple[int, ...]) -> Tensor:
    start, size, step = (view.attributes[name] for name in ("start", "size", "step"))
    if 0 in size:
        return view.parent
    span = tuple((n - 1) * by + 1 for n, by in zip(size, step))
    geometry = {
        "low": start,
        "high": tuple(dim - at - n for dim, at, n in zip(shape, start, span)),
        "interior": tuple(by - 1 for by in step),
    }
    placed = m.pad(new, lift(0, new), **geometry)
    inside = new.context.constant(np.ones(size, bool))
    mask = m.pad(inside, lift(False, inside), **geometry)
    return elementwise.where(mask, placed, view.parent)
