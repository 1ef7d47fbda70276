"""Loads checkpoints that come in on standard input, and measures it; a script of its own.

in : for each case four bytes of length, and a file's bytes
out: for each case a line: "loaded", "refused", or what else happened; that it took more memory or
     processor time than docs/trust.md allows a file of its size
"""

from __future__ import annotations

import ctypes
import gc
import io
import resource
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import frontend
from frontend.serialization import CheckpointError

ADDRESSES = 2 << 30  # bytes beyond what the interpreter has
FREE, OF_FILE = (
    64 << 20,
    36,
)  # bytes: 4 times the file, 16 times its texts and numbers, its containers
SLACK = 32 << 20
SECONDS, LARGE = 10.0, 100 << 20
FEW = 1 << 20
STATUS = Path("/proc/self/status")


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


def memory(kind: str) -> int:
    """Bytes: "VmRSS" of now, "VmHWM" the most since `forget`."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(kind))
    return 1024 * int(line.split()[1])


def resting(before: int) -> int:
    """The memory between two cases, what the first left behind given back."""
    if memory("VmRSS") > before + SLACK // 2:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    return memory("VmRSS")


def measured(data: bytes, before: int) -> str:
    """How loading ended, or that it took too much; `before` is the memory without it."""
    before = resting(before)
    most_seconds = SECONDS * max(1.0, len(data) / LARGE)
    # What does not come back ends the process by its own clock: others may hold up the wall's.
    signal.setitimer(signal.ITIMER_PROF, 2 * most_seconds)
    Path("/proc/self/clear_refs").write_text("5")  # forget the most that there was
    start = time.process_time()
    file = io.BytesIO(data)
    end = outcome(file)
    seconds, most = time.process_time() - start, memory("VmHWM") - before
    signal.setitimer(signal.ITIMER_PROF, 0)
    if seconds > most_seconds:
        return f"{end}, but it took {seconds:.0f} s for {len(data):,} bytes"
    if most > FREE + OF_FILE * len(data) + SLACK:
        return f"{end}, but it took {most >> 20} MB for {len(data):,} bytes"
    return end


def outcome(file: io.BytesIO) -> str:
    try:
        touched(frontend.load(file))
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
    outcome(io.BytesIO(known))  # imports all it needs
    limit = memory("VmSize") + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = memory("VmRSS")
    while size := sys.stdin.buffer.read(4):
        result = measured(sys.stdin.buffer.read(int.from_bytes(size, "little")), before)
        again = frontend.load(io.BytesIO(known))["x"].tolist()
        if again != [[0, 3], [1, 4], [2, 5]]:
            result = f"a good file now gives {again}"
        print(result, flush=True)


if __name__ == "__main__":
    main()
