"""Runs a function on several ranks: forks of this process, which have imported everything."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Any

import frontend as torch
import frontend.distributed as dist
import frontend.distributed.rendezvous

FORK = multiprocessing.get_context("fork")
CACHE = tempfile.TemporaryDirectory(prefix="ranks-cache-")
"""What one rank has compiled the others, and later ones, need not compile."""


def _rank(rank: int, count: int, path: str, pipe: Any, function: Any, args: Any) -> None:
    os.environ |= {"GRAPHC_THREADS": "1", "GRAPHC_CACHE": CACHE.name}
    try:
        dist.init_process_group(
            "gloo", store=dist.FileStore(path, count), rank=rank, world_size=count,
            timeout=timedelta(seconds=60),
        )  # fmt: skip
        result = function(rank, count, *args)
        if dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((True, result))
    except BaseException:
        pipe.send((False, traceback.format_exc()))


class Failed(AssertionError):
    """A rank raised; the message is its traceback."""


def on_ranks(
    count: int, function: Callable[..., Any], *args: Any, limit: float = 90.0
) -> list[Any]:
    """`function(rank, count, *args)` on each rank: what it returned; for one that raised, Failed;
    for one that ended without either, its exit code."""
    torch.cat([torch.ones(2), torch.ones(2)]).sum()  # loads what native code takes, before the fork
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(count):
            reader, writer = FORK.Pipe(duplex=False)
            given = (rank, count, f"{folder}/store", writer, function, args)
            processes.append(FORK.Process(target=_rank, args=given))  # type: ignore[attr-defined]
            processes[-1].start()
            writer.close()
            pipes.append(reader)
        results: list[Any] = [None] * count
        end = time.monotonic() + limit
        waiting = set(pipes)
        while waiting and time.monotonic() < end:
            for pipe in wait([*waiting], timeout=1.0):
                waiting.discard(pipe)  # type: ignore[arg-type]
                rank = pipes.index(pipe)
                try:
                    fine, value = pipe.recv()  # type: ignore[union-attr]
                    results[rank] = value if fine else Failed(value)
                except EOFError:
                    processes[rank].join()
                    results[rank] = processes[rank].exitcode
        hang = [pipes.index(pipe) for pipe in waiting]
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
        assert not hang, f"ranks {hang} do not end"
        return results


def checked(count: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """The same where no rank may fail."""
    results = on_ranks(count, function, *args)
    for result in results:
        if isinstance(result, Failed):
            raise result
    return results
