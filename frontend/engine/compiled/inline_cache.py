"""The inline cache of a compiled function: which specialization the last call took, and what its
arguments were like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.compiled.specialization import Specialization
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.threads import THREADS


class InlineCache:
    """The specialization of the last call and what its arguments were like: distinct tensors and
    nothing else. A call with the same needs no key and no search."""

    __slots__ = (
        "autocast", "count", "default_dtype", "expected", "grad_enabled", "specialization",
        "threads",
    )  # fmt: skip

    def __init__(self, specialization: Specialization, arguments: Sequence[Tensor]):
        self.specialization = specialization
        self.count = len(arguments)
        self.expected = [(x.__class__, x.tensor_type, x._requires_grad) for x in arguments]
        self.grad_enabled = STATE.grad_enabled
        self.default_dtype = STATE.default_dtype
        self.autocast = STATE.autocast
        self.threads = THREADS.asked

    def fits(self, arguments: Sequence[Any]) -> bool:
        """Whether a call with these arguments is one of the same specialization."""
        if len(arguments) != self.count or STATE.watched:
            return False
        if (
            STATE.grad_enabled is not self.grad_enabled
            or STATE.default_dtype is not self.default_dtype
            or STATE.autocast is not self.autocast
            or THREADS.asked != self.threads
        ):
            return False
        for argument, (kind, type, requires_grad) in zip(arguments, self.expected):
            if (
                argument.__class__ is not kind
                or argument.tensor_type is not type
                or argument._requires_grad is not requires_grad
            ):
                return False
        if self.count > 1 and len({id(argument) for argument in arguments}) != self.count:
            return False
        one = self.specialization
        return one.check(one, arguments)
