"""Loads checkpoints that come in on standard input, under a limit of memory; a script of its own.

in : for each case four bytes of length, and a file's bytes
out: for each case a line: "loaded", "refused", or what else happened
"""

from __future__ import annotations

import io
import resource
import sys
import warnings
from pathlib import Path
from typing import Any

import frontend
from frontend.serialization import CheckpointError

MEMORY = 2 << 30  # bytes of addresses beyond what the interpreter has
FEW = 1 << 20


def touched(value: Any) -> None:
    """Read every element of every tensor."""
    if isinstance(value, frontend.Tensor):
        if value.numel() <= FEW:
            value.detach().numpy().tobytes()
    elif isinstance(value, dict):
        for key, item in value.items():
            touched(key)
            touched(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            touched(item)


def outcome(data: bytes) -> str:
    try:
        touched(frontend.load(io.BytesIO(data)))
    except CheckpointError as error:
        cause = error.__cause__
        bounds = isinstance(cause, MemoryError | RecursionError)
        return f"stopped by {type(cause).__name__}" if bounds else "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return "loaded"


def good() -> bytes:
    buffer = io.BytesIO()
    frontend.save({"x": frontend.arange(6.0).reshape(2, 3).t()}, buffer)
    return buffer.getvalue()


def main() -> None:
    warnings.simplefilter("ignore")
    known = good()
    outcome(known)  # imports all it needs
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + MEMORY, pages + MEMORY))
    while size := sys.stdin.buffer.read(4):
        result = outcome(sys.stdin.buffer.read(int.from_bytes(size, "little")))
        again = frontend.load(io.BytesIO(known))["x"].tolist()
        if again != [[0, 3], [1, 4], [2, 5]]:
            result = f"a good file now gives {again}"
        print(result, flush=True)


if __name__ == "__main__":
    main()
