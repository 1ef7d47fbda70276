"""The threads that help with a call: made once per process, parked while there is nothing to do.

A worker is a thread of native code that never touches Python. It looks at its ticket for about 50
microseconds, then sleeps until the ticket changes: in a futex, or on a condition variable where the
system has none. `share` hands a call to
the workers 1 … threads - 1 and does part 0 itself. Where another Python thread's call has the
workers, it runs the driver on one thread: the same bits, later.

`CELL` tells native code whether there are enough workers. It is empty at first and after a fork of
the process (threads are not copied to the child), so the next call that wants workers returns to
Python, which makes them with `ensure`. At exit the workers are ended before their code is unloaded.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import math
import os
import signal
import sys
import threading
import time
import warnings
from typing import Any

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver
from graphc.codegen.llvm.native import CALL_LEVEL
from graphc.codegen.program.barrier import PADDING
from graphc.codegen.target import host, running
from graphc.runtime.pool_text import (
    FUNCTIONS,
    LINE,
    NUMBER,
    PAUSES,
    POOL,
    SYSTEM_CALLS,
    WORKERS,
    condition_text,
    futex_text,
    pool_text,
)
from graphc.runtime.processors import MOST_THREADS, available, checked_threads
from graphc.system import after_fork, c_function

SPIN_SECONDS = 50e-6
_THREADS = "pthread_create", "pthread_join", "pthread_cond_wait", "sched_yield"


class Cell(ctypes.Structure):
    """How many threads a call may have, workers and caller; how to start one; the pool."""

    _fields_ = (
        ("size", ctypes.c_int64), ("share", ctypes.c_void_p), ("pool", ctypes.c_void_p),
    )  # fmt: skip


CELL = Cell(0, None, None)


def supported() -> bool:
    """Whether this system has threads that workers can be, and the means for them to sleep."""
    return all(c_function(name) is not None for name in _THREADS)


def _parking() -> str:
    """The native code by which workers sleep on this system."""
    number = SYSTEM_CALLS.get(_machine())
    if sys.platform == "linux" and number is not None:
        return futex_text(number)
    return condition_text()


def chosen_threads(threads: int | None) -> tuple[int, str]:
    """The most threads a call may have, and why not more than one. `threads`: as asked for, None
    for all processors this process may use. Raises TypeError or ValueError naming `threads`."""
    wanted = checked_threads(threads)
    if wanted == 1:
        return 1, "one thread is asked for"
    if not supported():
        return 1, f"there is no thread pool for {sys.platform} on {_machine()}"
    if wanted is not None:
        return wanted, ""
    return min(available(), MOST_THREADS), "one processor is available"


class _Pool:
    """The workers of this process."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(WORKERS + MOST_THREADS * LINE + PADDING)
        self.address = -(-ctypes.addressof(self._memory) // PADDING) * PADDING
        self._addresses = _addresses(_functions().address)
        self.workers: list[Any] = []
        self._spins = self._calibrated()

    def _calibrated(self) -> int:
        """Pauses in the time a worker looks before it sleeps."""
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._addresses["pauses"])
        count, least = 2000, math.inf
        for _ in range(3):
            started = time.perf_counter()
            function(count)
            least = min(least, time.perf_counter() - started)
        return max(int(count * SPIN_SECONDS / least), 1)

    def grow(self, threads: int) -> str:
        """Make workers until `threads` threads can run; what went wrong, or nothing."""
        # Signals are for Python's threads: new threads inherit what is blocked here.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while len(self.workers) + 1 < threads:
                line = self.address + WORKERS + len(self.workers) * LINE
                ctypes.c_int64.from_address(line + POOL).value = self.address
                ctypes.c_int64.from_address(line + NUMBER).value = len(self.workers) + 1
                ctypes.c_int64.from_address(line + PAUSES).value = self._spins
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._addresses["prepare"])(line)
                identity = ctypes.c_ulong()
                code = c_function("pthread_create")(
                    ctypes.byref(identity), None, ctypes.c_void_p(self._addresses["worker"]),
                    ctypes.c_void_p(line),
                )  # fmt: skip
                if code:
                    return os.strerror(code)
                self.workers.append(identity)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return ""

    def publish(self) -> None:
        """Let native code have the workers."""
        CELL.share, CELL.pool = self._addresses["share"], self.address
        CELL.size = len(self.workers) + 1

    def stop(self) -> None:
        """End the workers, unless a call that does not return has them."""
        CELL.size = 0
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        stop = function(self._addresses["stop"])
        for _ in range(1000):
            if stop(self.address, len(self.workers)):
                break
            time.sleep(1e-3)
        else:
            return
        for identity in self.workers:
            c_function("pthread_join")(identity, None)


@functools.cache
def _functions() -> LoadedFunction:
    """The pool's code, for the life of the process: a worker may be in it."""
    text = pool_text(running().triple, _parking())
    return compile_driver(text, {}, "functions", store=user_cache(), level=CALL_LEVEL)


def _addresses(functions: int) -> dict[str, int]:
    table = (ctypes.c_int64 * len(FUNCTIONS))()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions)(ctypes.addressof(table))
    return dict(zip(FUNCTIONS, table))


class _State:
    """What this module keeps: the pool, a lock for making it, and whether the process ends."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: _Pool | None = None
        self.ending = False


_state = _State()


def ensure(threads: int) -> bool:
    """Have workers for calls on so many threads. False, with a warning, where the system gives
    none: such calls have to run on one thread."""
    with _state.lock:
        if _state.ending:
            return False
        if _state.pool is None:
            _state.pool = _Pool()
        problem = _state.pool.grow(threads)
        _state.pool.publish()
    if problem:
        warnings.warn(
            f"no thread for compiled functions ({problem}): they run on fewer", stacklevel=4
        )
    return not problem


def _after_fork() -> None:
    """In the child: its parent's workers are not here, and its locks may be held by nobody."""
    CELL.size = 0
    _state.lock = threading.Lock()
    _state.pool = None


def _at_exit() -> None:
    with _state.lock:
        _state.ending = True
        if _state.pool is not None:
            _state.pool.stop()
            _state.pool = None


after_fork(_after_fork)
atexit.register(_at_exit)


def _machine() -> str:
    return host().triple.partition("-")[0]
