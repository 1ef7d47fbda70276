"""`torch.multiprocessing`: Python's, and `spawn`. Tensors are pickled from one process to another,
not shared."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [*multiprocessing.__all__, "get_all_sharing_strategies", "get_sharing_strategy",
           "set_sharing_strategy", "spawn"]  # fmt: skip


class ProcessRaisedException(Exception):
    """A process that `spawn` started ended with another exit code than 0."""


class SpawnContext:
    """The processes of a `spawn` that was not joined."""

    def __init__(self, processes: list[Any]):
        self.processes = processes

    def pids(self) -> list[int | None]:
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait for all; whether all ended. Raises ProcessRaisedException where one failed."""
        for process in self.processes:
            process.join(timeout)
        for rank, process in enumerate(self.processes):
            if process.exitcode:
                raise ProcessRaisedException(
                    f"process {rank} terminated with exit code {process.exitcode}"
                )
        return all(process.exitcode is not None for process in self.processes)


def spawn(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:  # fmt: skip
    """`fn(rank, *args)` in processes of their own. Raises ProcessRaisedException if one fails."""
    method = multiprocessing.get_context(start_method)
    processes = [
        method.Process(target=fn, args=(rank, *args), daemon=daemon)  # type: ignore[attr-defined]
        for rank in range(nprocs)
    ]
    for process in processes:
        process.start()
    context = SpawnContext(processes)
    if not join:
        return context
    context.join()
    return None


def get_all_sharing_strategies() -> set[str]:
    """None: tensors are copied."""
    return set()


def get_sharing_strategy() -> str:
    """PyTorch's default; tensors are copied whatever it is."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing to switch: tensors are copied."""
