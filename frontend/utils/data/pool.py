"""Worker processes of a loader, as the parent sees them: they fetch batches ahead.

Each worker has a queue of requests and a pipe of results of its own. The parent waits on pipes and
on the processes themselves, so a worker that dies is an error, not a wait without end; workers end
when they are told to, when nobody reads what they send, or with the parent (they are daemons).
"""

from __future__ import annotations

import multiprocessing
import os
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

from frontend.utils.data.worker import Exhausted, Failure, WorkerInfo, work

GRACE = 2.0  # seconds a worker has to end before it is terminated


def context_of(method: Any) -> Any:
    """A multiprocessing context from one, or from the name of a start method. The default is fork
    where there is one, as in PyTorch: workers begin at once and share the dataset. Raises
    ValueError, TypeError."""
    methods = multiprocessing.get_all_start_methods()
    if method is None:
        return multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    if isinstance(method, str):
        if method not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={method!r}"
            )
        return multiprocessing.get_context(method)
    if not isinstance(method, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={method}"
        )
    return method


class Workers:
    """The processes. `fetcher(dataset)` makes, in the worker, the function that fetches."""

    def __init__(self, count: int, dataset: Any, fetcher: Any, seed: int, init: Any, context: Any):
        chosen = context_of(context)
        self.requests: list[Any] = []
        self.results: list[Any] = []
        self.processes: list[Any] = []
        self.close = weakref.finalize(
            self, _end, os.getpid(), self.processes, self.requests, self.results
        )
        forks = chosen.get_start_method() == "fork"
        for i in range(count):
            reader, writer = chosen.Pipe(duplex=False)
            self.requests.append(chosen.Queue())
            self.results.append(reader)
            process = chosen.Process(
                target=work,
                args=(
                    fetcher, WorkerInfo(i, count, seed + i, dataset), init, self.requests[i],
                    writer, list(self.results) if forks else [],
                ),
                daemon=True,
            )  # fmt: skip
            process.start()
            writer.close()  # so that a dead worker's pipe reads as ended
            self.processes.append(process)

    def send(self, worker: int, number: int, what: Any) -> None:
        self.requests[worker].put((number, what))

    def restart(self) -> None:
        """Tell all workers to begin their dataset anew."""
        for requests in self.requests:
            requests.put((-1, Exhausted))

    def receive(self, timeout: float) -> list[tuple[int, Any]]:
        """(number, answer) of what is ready; waits for at least one. Raises RuntimeError for a
        worker that ended, and after `timeout` seconds (0: never)."""
        sentinels = {process.sentinel: i for i, process in enumerate(self.processes)}
        ready = wait([*self.results, *sentinels], timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        messages: list[tuple[int, Any]] = []
        for worker, results in enumerate(self.results):
            if results in ready:
                try:
                    messages.append(results.recv())
                except EOFError:
                    raise self._ended(worker) from None
        if not messages:
            raise self._ended(sentinels[ready[0]])
        return messages

    def _ended(self, worker: int) -> RuntimeError:
        process = self.processes[worker]
        process.join(GRACE)
        return RuntimeError(
            f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code "
            f"{process.exitcode}"
        )


def _end(owner: int, processes: list[Any], requests: list[Any], results: list[Any]) -> None:
    """Let workers end, and end those that do not."""
    if os.getpid() != owner:
        return  # a forked process holds a copy of the object; the workers are not its own
    for channel in requests:
        channel.put(None)
        channel.close()
    for pipe in results:
        pipe.close()  # a worker that is sending sees a broken pipe
    for process in processes:
        process.join(GRACE)
        if process.is_alive():
            process.terminate()
            process.join()
    for channel in requests:
        channel.cancel_join_thread()


class Fetched:
    """One pass through the workers: requests are spread over them in turn, `ahead` for each, and
    answers handed out in the order of the requests, or (not `in_order`) as they come."""

    def __init__(
        self, workers: Workers, requests: Iterator[Any], ahead: int, timeout: float,
        in_order: bool, finished: Callable[[], Any],
    ):  # fmt: skip
        self.workers = workers
        self.requests = requests
        self.timeout = timeout
        self.in_order = in_order
        self.finished = finished
        self.sent = self.wanted = 0
        self.answers: dict[int, Any] = {}
        self.owner: dict[int, int] = {}  # number of a request that is not answered -> its worker
        self.active = list(range(len(workers.processes)))
        self.turn = 0
        self.done = False
        for _ in range(ahead * len(self.active)):
            self._send()

    def __iter__(self) -> Fetched:
        return self

    def _send(self) -> None:
        if not self.active:
            return
        try:
            what = next(self.requests)
        except StopIteration:
            return
        worker = self.active[self.turn % len(self.active)]
        self.turn += 1
        self.workers.send(worker, self.sent, what)
        self.owner[self.sent] = worker
        self.sent += 1

    def __next__(self) -> Any:
        while not self.done and self.owner:
            number = self._answered()
            answer, worker = self.answers.pop(number), self.owner.pop(number)
            self.wanted += 1
            if answer is Exhausted:
                if worker in self.active:
                    self.active.remove(worker)
                continue
            self._send()
            if isinstance(answer, Failure):
                answer.reraise()
            return answer
        if not self.done:
            self.done = True
            self.finished()
        raise StopIteration

    def _answered(self) -> int:
        """The number of the answer to hand out next; waits for it."""
        while not self.answers or (self.in_order and self.wanted not in self.answers):
            self._receive()
        return self.wanted if self.in_order else next(iter(self.answers))

    def _receive(self) -> None:
        try:
            self.answers.update(self.workers.receive(self.timeout))
        except BaseException:
            self.done = True
            self.workers.close()
            raise

    def drain(self) -> None:
        """Throw away what is under way, so that the workers can be used for another pass."""
        while not self.done and self.owner.keys() - self.answers.keys():
            self._receive()
        self.done = True
