"""`torch.multiprocessing`: Python's, with `spawn`, and with tensors that go from one process to
another by shared memory: those that `share_memory_` moved there stay one memory, large ones are
copied into it once, small ones are pickled. Who sends a tensor lives until it is received.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from multiprocessing import *  # noqa: F403
from multiprocessing import reduction
from multiprocessing.connection import wait
from typing import Any

from frontend.engine.tensors.no_value import NO_DATA
from frontend.engine.tensors.shared_memory import (
    LEAST,
    block_of,
    map_block,
    offset_in,
    over,
    shared_copy,
)
from frontend.engine.tensors.tensor import Tensor, added_attributes, make
from frontend.nn.parameter import Parameter
from graphc.ir.types import TensorType

__all__ = [*multiprocessing.__all__, "ProcessContext", "ProcessExitedException",
           "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
           "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]  # fmt: skip

GRACE = 5.0
"""Seconds that the other processes have to end when one has failed."""


# -- tensors from one process to another ---------------------------------------------------------


def _reduced(tensor: Tensor) -> Any:
    """How multiprocessing's pickler writes a tensor."""
    value = tensor._value
    if value is NO_DATA or tensor._edge is not None:
        return tensor.__reduce_ex__(2)
    array = tensor._array("pickling")
    block = block_of(array)
    if block is None and array.nbytes < LEAST:
        return tensor.__reduce_ex__(2)
    if block is None or not array.flags.c_contiguous:
        array = shared_copy(array)
        block = block_of(array)
    assert block is not None
    popen: Any = multiprocessing.context.get_spawning_popen()
    if popen is not None:  # its descriptors are handed on when the process is started
        popen.blocks = [*getattr(popen, "blocks", ()), block]
    handle = reduction.DupFd(block.descriptor)
    place = (len(block), offset_in(block, array), array.shape, tensor.dtype)
    rest = (type(tensor), tensor._requires_grad)
    return _rebuilt, (handle, *place, *rest), added_attributes(tensor) or None


def _rebuilt(
    handle: Any, size: int, offset: int, shape: Any, dtype: Any, kind: Any, requires_grad: bool
) -> Any:
    from frontend.engine.tensors.memory_tracking import exposed_counter

    try:
        descriptor = handle.detach()
    except (FileNotFoundError, ConnectionError, EOFError) as error:
        raise RuntimeError(
            "the process that sent a tensor ended before it was received: have it wait"
        ) from error
    array = over(map_block(descriptor, size), offset, shape, dtype.numpy)
    tensor = make(array, TensorType.of(array))
    tensor._counter = exposed_counter()
    return Tensor._make_subclass(kind, tensor, requires_grad)


for _kind in (Tensor, Parameter):
    reduction.ForkingPickler.register(_kind, _reduced)


def get_all_sharing_strategies() -> set[str]:
    """The one way: by descriptors of files."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """By descriptors of files."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing to switch: there is one. Raises ValueError for a name that is none of PyTorch's."""
    if new_strategy not in ("file_descriptor", "file_system"):
        raise ValueError(f"no sharing strategy {new_strategy!r}")


# -- processes -----------------------------------------------------------------------------------


class ProcessException(Exception):
    """A process that `spawn` started failed."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None):
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """It raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """It ended, by a signal or with another exit code than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int | None, exit_code: int,
        signal_name: str | None = None,
    ):  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (
            self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name,
        )  # fmt: skip


def _run(fn: Any, index: int, args: tuple[Any, ...], path: str) -> None:
    """What a process runs: the function; what it raises is kept for who joins it."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception as error:
        _tell_ranks(error)
        with open(path, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        raise SystemExit(1) from None


def _tell_ranks(error: Exception) -> None:
    """Let other ranks know at once: nothing else runs at the end of such a process."""
    world = sys.modules.get("frontend.distributed.world")
    if world is not None and world.HERE.world is not None:
        world.HERE.world.leave(world.reason_of(error))


class ProcessContext:
    """The processes of a `spawn` that was not joined."""

    def __init__(self, processes: list[Any], error_files: list[str]):
        self.processes, self.error_files = processes, error_files

    def pids(self) -> list[int | None]:
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one fails, or all have ended: whether they have. When one has failed the
        others are ended. Raises ProcessRaisedException or ProcessExitedException."""
        running = {p.sentinel: i for i, p in enumerate(self.processes) if p.exitcode is None}
        ready = wait([*running], timeout)
        for sentinel in ready:
            self.processes[running[sentinel]].join()
        failed = [i for i, p in enumerate(self.processes) if p.exitcode]
        if failed:
            self._end(GRACE if grace_period is None else grace_period)
            self._raise(failed[0])
        return all(p.exitcode is not None for p in self.processes)

    def _end(self, grace: float) -> None:
        """End those that run: they may see by themselves that one is gone."""
        end = time.monotonic() + grace
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(GRACE)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, first: int) -> None:
        # One that was killed, or was the first to raise, rather than one that saw it.
        written = [i for i, path in enumerate(self.error_files) if os.path.getsize(path)]
        silent = [i for i, p in enumerate(self.processes) if p.exitcode and i not in written]
        index = first
        if silent:
            index = silent[0]
        elif written:
            index = min(written, key=lambda i: os.path.getmtime(self.error_files[i]))
        process = self.processes[index]
        if index in written:
            with open(self.error_files[index], "rb") as file:
                text = pickle.load(file)
            said = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(said, index, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            said = f"process {index} terminated with signal {name}"
            raise ProcessExitedException(said, index, process.pid, code, name)
        said = f"process {index} terminated with exit code {code}"
        raise ProcessExitedException(said, index, process.pid, code)

    def __del__(self) -> None:
        for path in self.error_files:
            if os.path.exists(path):
                os.unlink(path)


SpawnContext = ProcessContext


def start_processes(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """`fn(index, *args)` in processes of their own. Where one fails the others are ended. Raises
    ProcessRaisedException with the traceback of one that raised, ProcessExitedException for one
    that ended otherwise; with `join` False the context to be joined is returned."""
    method = multiprocessing.get_context(start_method)
    processes, files = [], []
    for index in range(nprocs):
        descriptor, path = tempfile.mkstemp(prefix="process-error-")
        os.close(descriptor)
        task = (fn, index, args, path)
        process = method.Process(target=_run, args=task, daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        files.append(path)
    context = ProcessContext(processes, files)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """`start_processes`, by new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
