"""Worker processes of a loader: they fetch batches ahead, in the order they will be asked for.

Each worker has a queue of requests and a pipe of results of its own. The parent waits on pipes and
on the processes themselves, so a worker that dies is an error, not a wait without end; workers end
when they are told to, when their parent is gone, or with the parent (they are daemons).
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import traceback
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

PARENT_CHECK = 5.0  # seconds between two looks of an idle worker at whether its parent lives
END = 5.0  # seconds a worker has to end before it is terminated


@dataclass(frozen=True)
class WorkerInfo:
    """What a dataset can find out inside a worker: see `get_worker_info`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Exhausted:
    """A worker's answer when its part of an iterable dataset has ended."""


class _Failure:
    """An exception of a worker, as it can be sent."""

    def __init__(self, error: BaseException, worker: int):
        self.kind = type(error)
        self.text = (
            f"Caught {self.kind.__name__} in DataLoader worker process {worker}.\n"
            f"Original {traceback.format_exc()}"
        )

    def reraise(self) -> None:
        """Raise the same kind of exception, with the worker's traceback for a message."""
        try:
            error = self.kind(self.text)
        except Exception:
            error = RuntimeError(self.text)
        raise error


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Inside a worker process: its id, their number, its seed and dataset; None in the parent."""
    return _info


def _work(
    fetcher: Callable[[Any], Callable[[Any], Any]], info: WorkerInfo, init: Any, requests: Any,
    results: Any,
) -> None:  # fmt: skip
    """The life of a worker: (number, what to fetch) in, (number, batch or failure) out."""
    global _info
    import random

    import numpy as np

    from frontend.random import manual_seed

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    parent = os.getppid()
    _info = info
    random.seed(info.seed)
    manual_seed(info.seed)
    np.random.seed(info.seed % 2**32)
    failed: _Failure | None = None
    fetch: Any = None
    try:
        if init is not None:
            init(info.id)
        fetch = fetcher(info.dataset)
    except Exception as error:
        failed = _Failure(error, info.id)
    while True:
        try:
            request = requests.get(timeout=PARENT_CHECK)
        except queue.Empty:
            if os.getppid() != parent:
                return
            continue
        if request is None:
            return
        number, what = request
        if what is _Exhausted:  # a new pass
            fetch = fetcher(info.dataset)
            continue
        answer: Any = failed
        if answer is None:
            try:
                answer = fetch(what)
            except StopIteration:
                answer = _Exhausted
            except Exception as error:
                answer = _Failure(error, info.id)
        try:
            results.send((number, answer))
        except BrokenPipeError:
            return
        except Exception as error:  # the batch cannot be pickled
            results.send((number, _Failure(error, info.id)))


class Workers:
    """The processes. `fetcher(dataset)` makes, in the worker, the function that fetches."""

    def __init__(
        self, count: int, dataset: Any, fetcher: Any, seed: int, init: Any, context: Any
    ):
        chosen: Any = context
        if context is None or isinstance(context, str):
            chosen = multiprocessing.get_context(context or _default_method())
        self.requests = [chosen.Queue() for _ in range(count)]
        pipes = [chosen.Pipe(duplex=False) for _ in range(count)]
        self.results = [reader for reader, _ in pipes]
        self.processes = []
        for i in range(count):
            info = WorkerInfo(i, count, seed + i, dataset)
            process = chosen.Process(
                target=_work, args=(fetcher, info, init, self.requests[i], pipes[i][1]),
                daemon=True,
            )  # fmt: skip
            process.start()
            pipes[i][1].close()  # so that a dead worker's pipe reads as ended
            self.processes.append(process)
        self.close = weakref.finalize(self, _end, self.processes, self.requests, self.results)

    def send(self, worker: int, number: int, what: Any) -> None:
        self.requests[worker].put((number, what))

    def restart(self, worker: int) -> None:
        """Tell a worker to begin its dataset anew."""
        self.requests[worker].put((-1, _Exhausted))

    def receive(self, timeout: float) -> list[tuple[int, int, Any]]:
        """(worker, number, answer) of what is ready; waits for at least one. Raises RuntimeError
        for a worker that ended, and after `timeout` seconds (0: never)."""
        sentinels = {process.sentinel: i for i, process in enumerate(self.processes)}
        ready = wait([*self.results, *sentinels], timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        found = []
        for worker, results in enumerate(self.results):
            if results in ready:
                try:
                    found.append((worker, *results.recv()))
                except EOFError:
                    raise self._ended(worker) from None
        if not found:
            raise self._ended(sentinels[ready[0]])
        return found

    def _ended(self, worker: int) -> RuntimeError:
        process = self.processes[worker]
        process.join(END)
        return RuntimeError(
            f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code "
            f"{process.exitcode}"
        )


def _end(processes: list[Any], requests: list[Any], results: list[Any]) -> None:
    """Let workers end, and end those that do not."""
    for channel in requests:
        channel.put(None)
        channel.close()
    for pipe in results:
        pipe.close()  # a worker that is sending sees a broken pipe
    for process in processes:
        process.join(END)
        if process.is_alive():
            process.terminate()
            process.join(END)
    for channel in requests:
        channel.cancel_join_thread()


def _default_method() -> str:
    """Fork where there is one, as PyTorch does: workers begin at once and share the dataset."""
    return "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"


class Fetched:
    """One pass through the workers: requests are spread over them in turn, `ahead` for each, and
    answers handed out in the order of the requests."""

    def __init__(
        self, workers: Workers, requests: Iterator[Any], ahead: int, timeout: float,
        finished: Callable[[], None],
    ):  # fmt: skip
        self.workers = workers
        self.requests = requests
        self.timeout = timeout
        self.finished = finished
        self.sent = self.wanted = 0
        self.answers: dict[int, Any] = {}
        self.owner: dict[int, int] = {}  # number of a request -> its worker
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
        while not self.done and self.wanted < self.sent:
            while self.wanted not in self.answers:
                self._receive()
            answer = self.answers.pop(self.wanted)
            worker = self.owner.pop(self.wanted)
            self.wanted += 1
            if answer is _Exhausted:
                if worker in self.active:
                    self.active.remove(worker)
                continue
            self._send()
            if isinstance(answer, _Failure):
                answer.reraise()
            return answer
        if not self.done:
            self.done = True
            self.finished()
        raise StopIteration

    def _receive(self) -> None:
        try:
            for _, number, answer in self.workers.receive(self.timeout):
                self.answers[number] = answer
        except BaseException:
            self.done = True
            self.workers.close()
            raise

    def drain(self) -> None:
        """Throw away what is under way, so that the workers can be used for another pass."""
        while self.owner and not self.done:
            for number in [n for n in self.owner if n in self.answers]:
                del self.owner[number], self.answers[number]
            if self.owner:
                self._receive()
        self.done = True
