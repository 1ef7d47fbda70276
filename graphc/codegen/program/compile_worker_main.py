"""The compile worker's own side: kernels in from a pipe, object code out.

In: pairs of kernel spec and target, pickled, one after the other on the standard input. Out: a
`WorkerResult` for each, pickled, on what was the standard output. It ends when its input does.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from typing import IO, Any

from graphc.codegen.program.compile_worker import WorkerResult
from graphc.codegen.target import Target
from graphc.ir.dims import fixed
from graphc.schedule.plan import KernelSpec


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Compile what is asked for until the input ends."""
    while True:
        try:
            spec, target = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_compiled(spec, target), replies)
        replies.flush()


def _compiled(spec: KernelSpec, target: Target) -> WorkerResult:
    from graphc.codegen.llvm.jit import compile_kernel
    from graphc.codegen.llvm.kernel import scratch_layout
    from graphc.codegen.llvm.object_cache import user_cache
    from graphc.codegen.recipes.lower import lower

    kernel = lower(spec, target)
    code = compile_kernel(kernel, target, user_cache())
    return WorkerResult(code.symbol, fixed(kernel.extent), scratch_layout(kernel)[1], code.object)


def main() -> None:
    """The worker process."""
    gc.disable()  # it makes objects that stay until it ends
    # Nothing but replies goes to the pipe, whatever a library prints.
    pipe: Any = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # All that compiling takes is imported while the other side still looks for work.
    import graphc.codegen.llvm.jit
    import graphc.codegen.recipes.lower  # noqa: F401

    serve(sys.stdin.buffer, pipe)
    os._exit(0)  # who waits for the end need not wait for tidying up
