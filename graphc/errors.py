"""The one family of errors. Each names what was asked, with which shapes and dtypes, where in the
user's code, and one thing to try.

Where somebody listens (`note_errors`), each is noted when it is made: a trace has to know of those
that the traced function catches."""

from __future__ import annotations

import threading
from typing import Any


class _Noted(threading.local):
    errors: list[GraphError] | None = None


_NOTED = _Noted()


def note_errors(errors: list[GraphError] | None) -> list[GraphError] | None:
    """From now on, in this thread, errors are noted there as they are made; None: nowhere. Where
    they were noted before."""
    before, _NOTED.errors = _NOTED.errors, errors
    return before


class GraphError(RuntimeError):
    """Base of all errors of graphc. `location` is the user's source line, where one is known.
    `is_refusal`: whether it is one of traces alone, and eager mode goes on in its place.
    `told_apart`: of a trace with open sizes, which of them were taken to differ as written."""

    is_refusal = False
    told_apart: tuple[tuple[Any, Any], ...] = ()

    def __init__(self, message: str, *, location: object | None = None, hint: str | None = None):
        noted = _NOTED.errors
        if noted is not None:
            noted.append(self)
        self.message = message
        self.location = location
        self.hint = hint
        text = message
        if hint:
            text += f"\n  try: {hint}"
        if location is not None:
            text += f"\n  at: {location}"
        super().__init__(text)


class ShapeError(GraphError, ValueError):
    """Shapes that do not fit: broadcasting, contraction, axes, geometry of windows."""


class SizeBoundError(ShapeError):
    """A size known only when the program runs that is out of its bounds, or that does not fit."""


class UndecidedSizeError(ShapeError):
    """A question about sizes that are known only when the program runs, which their bounds do not
    answer."""

    is_refusal = True


class DTypeError(GraphError, TypeError):
    """A dtype an op does not take, or operands of different dtypes."""


class AttributeValueError(GraphError, ValueError):
    """An attribute of an op with an impossible value."""


class IndexRangeError(GraphError, IndexError):
    """An index (axis, gather index, label) outside its range."""


class ContentError(GraphError, ValueError):
    """An operand whose content an op does not take (a zero divisor, a negative variance)."""


class FailedAssertionError(GraphError, AssertionError):
    """An `assert` of a traced function that did not hold when its graph ran."""


class LinAlgError(GraphError):
    """A matrix without what was asked for: a singular one inverted, one that is not positive
    definite factored, a decomposition that does not converge."""


class GradientError(GraphError):
    """A gradient through an op that has none."""


class TraceError(GraphError):
    """Something that cannot be traced: data-dependent Python control flow, escaped tensors."""

    is_refusal = True


class VerifyError(GraphError):
    """A graph, plan or loop program that breaks a numbered rule of its level."""


class ParseError(GraphError, ValueError):
    """A text that is no graph. The message starts with `line L, column C`."""


class LoweringError(GraphError):
    """A graph that cannot be lowered to native code, with the node that is in the way."""


class TargetError(LoweringError, ValueError):
    """A target that is not known, or whose code this machine cannot run."""


class ArgumentError(GraphError, ValueError):
    """An executable or compiled function called with the wrong arrays."""


class MemoryLimitError(GraphError, MemoryError):
    """A compiled graph needs more memory than it was given."""


class PassError(GraphError):
    """A pass that did not converge or broke its graph."""
