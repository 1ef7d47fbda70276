"""The compile worker's own side: kernels in from a pipe, object code out.

In: pairs of kernel spec and target, pickled, one after the other on the standard input. Out: a
`CompiledSpec` for each, pickled, on what was the standard output. It ends when its input does, or
nobody reads what it says: the other side may end at any time. `serve` and `reply_pipe` are those of
the gradient worker too.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
from collections.abc import Callable
from typing import IO, Any


def serve(requests: IO[bytes], replies: IO[bytes], answer: Callable[[Any], Any]) -> None:
    """Give the answer to each request until the other side has ended, maybe within a message."""
    while True:
        try:
            asked = pickle.load(requests)
        except (EOFError, pickle.UnpicklingError):
            return
        if not reply(replies, answer(asked)):
            return


def reply(replies: IO[bytes], message: Any) -> bool:
    """Write a message; whether there is somebody to read it."""
    try:
        pickle.dump(message, replies)
        replies.flush()
    except BrokenPipeError:
        return False
    return True


def reply_pipe() -> Any:
    """What was the standard output. Nothing but replies goes there, whatever a library prints."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


def main() -> None:
    """The worker process."""
    gc.disable()  # it makes objects that stay until it ends
    pipe = reply_pipe()
    logging.getLogger("graphc.cache").disabled = True  # what it would say, the other side says
    # All that compiling takes is imported while the other side still looks for work.
    from graphc.codegen.program.compiled_spec import compiled_spec

    serve(sys.stdin.buffer, pipe, lambda asked: compiled_spec(asked[0], asked[1], {}))
    os._exit(0)  # who waits for the end need not wait for tidying up
