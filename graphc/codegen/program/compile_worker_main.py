"""The compile worker's own side: kernels in from a pipe, object code out.

In: pairs of kernel spec and target, pickled, one after the other on the standard input. Out: a
`CompiledSpec` for each, pickled, on what was the standard output. It ends when its input does.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
from typing import IO, Any


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Compile what is asked for until the input ends."""
    from graphc.codegen.program.compiled_spec import compiled_spec

    while True:
        try:
            spec, target = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(compiled_spec(spec, target, {}), replies)
        replies.flush()


def main() -> None:
    """The worker process."""
    gc.disable()  # it makes objects that stay until it ends
    # Nothing but replies goes to the pipe, whatever a library prints.
    pipe: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.getLogger("graphc.cache").disabled = True  # what it would say, the other side says
    # All that compiling takes is imported while the other side still looks for work.
    import graphc.codegen.llvm.jit
    import graphc.codegen.recipes.lower  # noqa: F401

    serve(sys.stdin.buffer, pipe)
    os._exit(0)  # who waits for the end need not wait for tidying up
