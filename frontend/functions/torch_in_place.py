"""The in-place functions that PyTorch has at the top level beside the methods: `abs_(x)` is
`x.abs_()`. Those of functions that declare them (`in_place="torch"`) are added
by `frontend.namespace`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public


def calling(name: str) -> Callable[..., Tensor]:
    """A function that calls the method of this name."""

    def function(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        method: Callable[..., Tensor] = getattr(input, name)
        return method(*arguments, **keywords)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`input.{name}(…)`."
    return function


as_strided_ = public()(calling("as_strided_"))
detach_ = public()(calling("detach_"))
fill_ = public()(calling("fill_"))
zero_ = public()(calling("zero_"))


@public()
def detach(input: Tensor) -> Tensor:
    """The same memory, off the tape."""
    return input.detach()


@public()
def fill(input: Tensor, value: Any) -> Tensor:
    """`value` (a number or a 0-d tensor) in the shape and dtype of `input`."""
    result: Tensor = input.clone().fill_(value)
    return result
