"""`assert condition` in a function that is traced, where the condition is a tensor: a check at its
place, which the graph makes when it runs.

in : the tensor that Python asks for a bool, and the instruction of the user's code that asks
out: what the assertion needs it to be, and an output of the graph that holds the check; or None
     where Python wants to know more than that
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType, FrameType
from typing import NamedTuple

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.own_frames import is_own, may_be_caught
from graphc.ir.types import DType
from graphc.ops import elementwise, indexing, movement

_BEFORE_JUMPS = ("TO_BOOL", "CACHE", "NOT_TAKEN", "NOP")
_COMPARED_TO_BOOL = "bool("
"""How a comparison is shown that asks its result for a bool itself: Python 3.13's."""
_OF_MESSAGES = ("PRECALL", "CALL", "CACHE", "PUSH_NULL", "NOP")


class Asserted(NamedTuple):
    """What an `assert` at one instruction needs, and the text it fails with."""

    needed: bool
    message: str


class Assertions:
    """Those of one trace. `checks`: what the graph keeps of them."""

    def __init__(self) -> None:
        self.checks: list[Tensor] = []

    def needs(self, condition: Tensor, outermost: FrameType | None) -> bool | None:
        """What an `assert` needs `condition` to be; then the graph checks it. None where code of
        the user's, inside of `outermost`, asks otherwise, or may catch the error."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and is_own(frame):
            frame = frame.f_back
        if frame is None or condition.tensor_type.numel != 1 or may_be_caught(outermost):
            return None
        asserted = _asserted(frame.f_code, frame.f_lasti)
        if asserted is not None:
            self.checks.append(_checked(condition.detach(), asserted))
        return None if asserted is None else asserted.needed


def _checked(value: Tensor, asserted: Asserted) -> Tensor:
    if value.dtype is not DType.bool:
        value = value != 0
    if not asserted.needed:
        value = CONTEXT.apply(elementwise.logical_not, (value,), {})[0]
    value = CONTEXT.apply(movement.reshape, (value,), {"shape": ()})[0]
    attributes = {"message": asserted.message}
    return CONTEXT.apply(indexing.check_assertion, (value,), attributes)[0]


@functools.lru_cache(maxsize=1024)
def _asserted(code: CodeType, offset: int) -> Asserted | None:
    """What the instruction at `offset` needs if it is the test of an `assert` whose message, if it
    has one, is a constant."""
    steps = list(dis.get_instructions(code))
    places = {step.offset: i for i, step in enumerate(steps)}
    if (at := places.get(offset)) is None:  # within a call, whose offset is that of its cache
        return None
    if steps[at].argrepr.startswith(_COMPARED_TO_BOOL):
        at += 1
    while steps[at].opname in _BEFORE_JUMPS:
        at += 1
    name = steps[at].opname
    if "JUMP" not in name or not name.endswith(("IF_TRUE", "IF_FALSE")):
        return None
    jumps_if = name.endswith("IF_TRUE")
    if (message := _failing(steps, at + 1)) is not None:
        return Asserted(jumps_if, message)
    if (message := _failing(steps, places[steps[at].argval])) is not None:
        return Asserted(not jumps_if, message)
    return None


def _failing(steps: list[dis.Instruction], at: int) -> str | None:
    """The message with which the code from there on fails as an `assert` does."""
    rest = [step for step in steps[at : at + 12] if step.opname not in _OF_MESSAGES]
    names = [step.opname for step in rest]
    fails = "LOAD_ASSERTION_ERROR"
    if names[:1] == ["LOAD_COMMON_CONSTANT"] and rest[0].argrepr == "AssertionError":
        fails = "LOAD_COMMON_CONSTANT"
    if names[:2] == [fails, "RAISE_VARARGS"]:
        return "the assertion does not hold"
    if names[:3] == [fails, "LOAD_CONST", "RAISE_VARARGS"]:
        return str(rest[1].argval)
    return None
