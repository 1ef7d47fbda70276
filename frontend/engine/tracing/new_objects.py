"""Objects of the user's classes among the results of a traced function.

in : what the function returned, and the session
out: whether an object is one that the function made of what it computes (a dataclass of a loss and
     of logits, say): each call makes another one, with its own attributes. All others are one and
     the same object at each call.

A trace that changes an object from outside is refused, since what it relies on no longer holds
behind it (compiled.compiler); so what holds a tensor of the trace is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from frontend.engine.outside.kinds import is_nn_module
from frontend.engine.outside.source import ArgumentSource
from frontend.engine.tensors.handed_out import HandedOut
from frontend.engine.tensors.symbolic_numbers import StandIn
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.tree import attributes_of
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.size_floats import SizeFloat

if TYPE_CHECKING:
    from frontend.engine.tracing.session import Session

MOST = 1 << 16
"""Objects that are looked at below one."""


class NewObjects:
    """Called with an object of a result: whether it is made anew by each call."""

    def __init__(self, session: Session):
        self._session = session
        self._opened: dict[int, Any] = {}

    def __call__(self, value: Any) -> bool:
        if not _may_be_made(value) or not any(map(self._is_of_call, _below(value))):
            return False
        if id(value) in self._opened:
            raise TraceError(
                f"a {type(value).__name__} stands in the result more than once",
                hint="return it once, or tuples, lists and dicts",
                location=user_location(),
            )
        self._opened[id(value)] = value
        return True

    def _is_of_call(self, item: Any) -> bool:
        if _is_number(item):
            return True
        if not isinstance(item, Tensor):
            return False
        captured = self._session.captured.get(id(item))
        if captured is None:
            return True
        return captured.input is not None and type(captured.input.source) is ArgumentSource


def _is_number(value: Any) -> bool:
    """Whether it stands for a number of the call."""
    return type(type(value)) is StandIn or type(value) in (HandedOut, SizeFloat)


def _may_be_made(value: Any) -> bool:
    """Whether it is an instance of a class written in Python: no number, and no Module or tensor,
    which are state."""
    kind = type(value)
    if _is_number(value) or isinstance(value, type | Tensor) or is_nn_module(kind):
        return False
    return attributes_of(value) is not None


def _below(value: Any) -> Iterator[Any]:
    """What an object holds, and what that holds, each once."""
    seen, waiting = {id(value)}, [*(attributes_of(value) or {}).values()]
    while waiting and len(seen) < MOST:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple | set | frozenset):
            waiting.extend(item)
        elif _may_be_made(item):
            waiting.extend((attributes_of(item) or {}).values())
