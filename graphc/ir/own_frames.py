"""Which lines are graphc's and its frontend's own, and which the user's.

in : frames of the stack, tracebacks of errors
out: whether a frame is one of ours; whether an error came to code of the user's, or may come to a
     handler of theirs
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

_PACKAGES = {"graphc", "frontend"}
BY_FILE: dict[str, bool] = {}
"""What `is_own` knows, for walks of many frames."""


def is_own(frame: FrameType) -> bool:
    """Whether a frame runs code of graphc or of its frontend."""
    file = frame.f_code.co_filename
    own = BY_FILE.get(file)
    if own is None:
        own = BY_FILE[file] = _is_own(file, frame.f_globals)
    return own


def _is_own(file: str, scope: dict[str, Any]) -> bool:
    name = str(scope.get("__name__", ""))
    if name == "__main__":
        # `python -m graphc` and the console script start the dump tool; no user wrote them.
        package = getattr(scope.get("__spec__"), "parent", "")
        stem = os.path.basename(file).removesuffix(".py")
        return package in _PACKAGES or stem in _PACKAGES
    # contextlib frames stand between ours; they are never the user's line.
    return name.partition(".")[0] in _PACKAGES | {"contextlib"}


def reached_user(error: BaseException) -> bool:
    """Whether an error that was raised and caught since was seen by code of the user's: it passed
    one of their frames, as its traceback tells. What our own code catches of its own does not."""
    step = error.__traceback__
    while step is not None:
        if not is_own(step.tb_frame):
            return True
        step = step.tb_next
    return False


def may_be_caught(within: FrameType | None) -> bool:
    """Whether code of the user's that is running inside of this frame handles errors."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not within:
        if not is_own(frame) and _handles_errors(frame.f_code):
            return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=1024)
def _handles_errors(code: CodeType) -> bool:
    """Whether there is a `try` in it, or a `with` that may be as one."""
    names = [step.opname for step in dis.get_instructions(code)]
    handlers = [then for name, then in pairwise(names) if name == "PUSH_EXC_INFO"]
    return any(then != "WITH_EXCEPT_START" for then in handlers) or (
        bool(handlers) and "suppress" in code.co_names
    )
