"""Sizes that are taken for different because they are written so, errors that are noted as they are
made, and whose code has seen one."""

from __future__ import annotations

import pytest

from graphc.errors import (
    DTypeError,
    GraphError,
    ShapeError,
    TraceError,
    UndecidedSizeError,
    note_errors,
)
from graphc.ir.dims import dim
from graphc.ir.own_frames import may_be_caught, reached_user
from graphc.ir.size_guards import SizeAnswers
from graphc.ir.types import DType, TensorType, broadcast_shapes
from graphc.ir.undecided import answering

N, M = dim("n", 2), dim("m", 2)


def _answers(n: int, m: int) -> SizeAnswers:
    return SizeAnswers({"n": n, "m": m}, is_trace=True)


def test_what_bounds_leave_open_becomes_a_guard() -> None:
    answers = _answers(4, 5)
    with (
        answering(answers),
        pytest.raises(ShapeError, match=r"\[m, 3\] do not broadcast"),
    ):
        broadcast_shapes((N, 3), (M, 3))
    with answering(answers):
        assert TensorType(DType.f32, (N,)) != TensorType(DType.f32, (3,))
        assert N != 1 and dim("n", 2) == N and N + 1 != N
    assert not answers.guards
    answers.hold_apart(answers.told_apart or ())
    assert {str(guard) for guard in answers.guards} <= {"m != n", "n != m", "n != 3", "3 != n"}
    assert len(answers.guards) >= 2
    assert not all(guard.holds({"n": 6, "m": 6}) for guard in answers.guards)


def test_sizes_that_are_equal_in_the_example_were_not_to_be_told_apart() -> None:
    answers = _answers(6, 6)
    with answering(answers):
        assert N != M
    with pytest.raises(UndecidedSizeError, match="taken to differ"):
        answers.hold_apart(answers.told_apart or ())


def test_nothing_is_noted_where_no_code_is_traced() -> None:
    assert N != M
    answers = SizeAnswers({"n": 4, "m": 5})
    with answering(answers):
        assert N != M
    assert answers.told_apart is None


def test_errors_are_noted_as_they_are_made() -> None:
    errors: list[GraphError] = []
    note_errors(errors)
    try:
        raised = [TraceError("a"), UndecidedSizeError("b"), DTypeError("c")]
    finally:
        note_errors(None)
    ShapeError("not noted")
    assert errors == raised and [error.is_refusal for error in errors] == [True, True, False]


def test_whose_code_has_seen_an_error() -> None:
    seen = ShapeError("raised and caught here")
    own = {"__name__": "graphc.inside", "error": ShapeError("raised and caught inside")}
    exec(compile("try:\n    raise error\nexcept Exception:\n    pass", "inside.py", "exec"), own)
    try:
        raise seen
    except ShapeError:
        assert reached_user(seen) and not reached_user(own["error"])
    assert not reached_user(ShapeError("never raised"))


def test_whether_an_error_may_be_caught() -> None:
    import sys

    frame = sys._getframe()

    def tries() -> bool:
        try:
            return may_be_caught(frame)
        except KeyError:
            raise

    assert tries() and not may_be_caught(frame)
