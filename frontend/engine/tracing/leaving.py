"""The end of a trace, or of a part of one: tensors have their state back, and what the traced
function caught is looked at.

in : a session, the errors that were made while it lasted
out: an error, where code of the user's caught one that eager mode does not raise; guards on what
     decided the others
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from frontend.engine.tensors.state import STATE, put_back, state_now
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import user_location
from graphc.ir.own_frames import reached_user

if TYPE_CHECKING:
    from frontend.engine.tracing.session import Session


class leaving:
    """Leaves a session at the end once more: where an interrupt came ahead of its own leaving, or
    in the middle. What else the thread has set (grad mode, say) is as before where it failed."""

    def __init__(self, session: Session):
        self.session = session
        self.outside: dict[str, Any] = {}

    def __enter__(self) -> None:
        if STATE.mode is not None:
            raise TraceError("a trace begins in another mode", location=user_location())
        self.outside = state_now()
        self.session.outermost = sys._getframe(1)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.session.leave()
        try:
            # Another error may come of one that was caught.
            refused = getattr(error, "is_refusal", False)
            if kind is None or (isinstance(error, Exception) and not refused):
                check_caught(self.session, error)
            note_told_apart(error, self.session)
        except BaseException as other:
            note_told_apart(other, self.session)
            put_back(self.outside)
            raise
        finally:
            self.session.forget()
        if kind is not None:
            put_back(self.outside)


def note_told_apart(error: BaseException | None, session: Session) -> None:
    """Note on an error of a graph which sizes were taken to differ as they are written."""
    if isinstance(error, GraphError) and session.answers is not None:
        error.told_apart = tuple(session.answers.told_apart or ())


def check_caught(session: Session, leaving_with: BaseException | None) -> None:
    """Of the errors that code of the user's caught (no class of error survives `except:`, or a
    `return` in `finally`): raise the first that eager mode would not have raised. The others are
    eager mode's own: what decided them, also a comparison of sizes by how they are written, is a
    guard from here on."""
    caught = [error for error in session.errors if reached_user(error)]
    noted = set(map(id, session.errors))
    refused = next((error for error in caught if _is_refusal(error, noted)), None)
    if refused is not None:
        refused.add_note("the function catches this error, which eager mode does not raise")
        raise refused
    if not caught:
        return
    if all(error is leaving_with for error in caught):
        check = None  # it comes out, as eager mode's does
    else:
        check = session.root.content_check()
    if check is not None:
        raise TraceError(
            f"the function catches an error while {check.op} looks at values that are known only "
            "when the graph runs: whether that raises first, and what is caught, is not known",
            hint="check shapes by their sizes rather than by the error they make",
            location=check.location,
        )
    if session.answers is not None:
        session.answers.hold_apart(session.answers.told_apart or ())


def _is_refusal(error: BaseException | None, noted: set[int]) -> bool:
    """Whether an error, or one among those that were noted that it was made of, is one of traces
    alone."""
    while isinstance(error, GraphError) and id(error) in noted:
        if error.is_refusal:
            return True
        error = error.__context__
    return False
