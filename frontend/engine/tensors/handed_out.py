"""A value of a traced tensor that is only handed out: `return loss.item()`, `losses.append(...)`,
`print(...)`. It is an object until the call has run, and anything else that is done with it ends
the trace.
"""

from __future__ import annotations

from typing import Any

from graphc.errors import TraceError
from graphc.ir.builder import user_location

CONVERSIONS = ("item", "tolist")
"""Methods of tensors whose result may be handed out."""


class HandedOut:
    """What `tensor.item()` gives in a trace; `conversion` is the name of the method."""

    __slots__ = ("__weakref__", "conversion", "tensor")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what `isinstance` asks for
        raise used(self)

    def __init__(self, tensor: Any, conversion: str):
        object.__setattr__(self, "tensor", tensor)
        object.__setattr__(self, "conversion", conversion)

    def __getattr__(self, name: str) -> Any:
        raise used(self)


def used(value: HandedOut, how: str = "") -> TraceError:
    """The error of a use that is more than to hand it out."""
    return TraceError(
        f".{value.conversion}() needs the value of a tensor {value.tensor.tensor_type} while it is "
        f"traced{how and f', and is {how}'}; it is known only when the graph runs, and until then "
        "may be returned, appended to a list that nothing reads, or printed",
        hint="return it and use it outside; where() or cond for a choice, while_loop for a loop",
        location=user_location(),
    )


def _refusing(self: HandedOut, *others: Any, **keywords: Any) -> Any:
    raise used(self)


_USES = """
bool int float complex index str repr format hash eq ne lt le gt ge len iter next getitem setitem
delitem contains call enter exit add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv
rfloordiv mod rmod divmod rdivmod pow rpow lshift rlshift rshift rrshift and rand or ror xor rxor
neg pos abs invert round trunc floor ceil bytes reversed array reduce_ex copy deepcopy setattr dir
"""
for _name in _USES.split():
    setattr(HandedOut, f"__{_name}__", _refusing)


def converted(tensor: Any, conversion: str) -> Any:
    """The value, once it is known."""
    return getattr(tensor, conversion)()
