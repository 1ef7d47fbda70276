"""The life of a worker process: requests in, batches or failures out."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from frontend.utils.data.fetch import Ended

PARENT_CHECK = 5.0  # seconds between two looks of an idle worker at whether its parent lives


@dataclass(frozen=True)
class WorkerInfo:
    """What a dataset can find out inside a worker: see `get_worker_info`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Inside a worker process: its id, their number, its seed and dataset; None in the parent."""
    return _info


class Exhausted:
    """As an answer: the worker's part of a stream has ended. As a request: begin it anew."""


class _Text(str):
    """A text that shows as it is where an exception shows its `repr`, as KeyError does."""

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception of a worker, as it can be sent."""

    def __init__(self, error: BaseException, worker: int):
        kind = type(error)
        self.text = (
            f"Caught {kind.__name__} in DataLoader worker process {worker}.\n"
            f"Original {''.join(traceback.format_exception(error))}"
        )
        self.kind: type[BaseException] = RuntimeError
        # A StopIteration would end the parent's loop as if all was well.
        if issubclass(kind, StopIteration):
            return
        try:
            pickle.dumps(kind)
        except Exception:  # a class of a function, say
            return
        self.kind = kind

    def reraise(self) -> None:
        """Raise the same kind of exception, with the worker's traceback for a message."""
        try:
            error = self.kind(_Text(self.text))
        except Exception:  # it takes other arguments
            error = RuntimeError(self.text)
        try:
            raise error
        finally:
            del error  # or frame and exception would keep each other, and the workers, alive


def work(
    fetcher: Callable[[Any], Callable[[Any], Any]], info: WorkerInfo, init: Any, requests: Any,
    results: Any, inherited: list[Any],
) -> None:  # fmt: skip
    """Answer requests (number, what to fetch) by (number, batch or Failure), until there is a None,
    or nobody who would read. `inherited` are the parent's ends of pipes, open here by a fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    for pipe in inherited:
        pipe.close()  # so that it can be seen when the parent has closed its own
    parent = os.getppid()
    answer = _prepared(fetcher, info, init)
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
        if what is Exhausted:
            answer = _begun(fetcher, info)
            continue
        if not _sent(results, number, answer(what), info.id):
            return


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The seeds of NumPy's global generator in a worker, as PyTorch makes them."""
    import numpy as np

    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]


def _prepared(fetcher: Any, info: WorkerInfo, init: Any) -> Callable[[Any], Any]:
    """Seed everything, run the user's `worker_init_fn`, begin the dataset."""
    global _info
    import random

    import numpy as np

    import frontend.multiprocessing  # noqa: F401  (large tensors go by shared memory)
    from frontend.functions.random import manual_seed

    _info = info
    random.seed(info.seed)
    manual_seed(info.seed)
    np.random.seed(_generate_state(info.seed - info.id, info.id))
    try:
        if init is not None:
            init(info.id)
    except Exception as error:
        failed = Failure(error, info.id)
        return lambda what: failed
    return _begun(fetcher, info)


def _begun(fetcher: Any, info: WorkerInfo) -> Callable[[Any], Any]:
    """What answers requests: by batches, by Exhausted, or by what went wrong."""
    try:
        fetch = fetcher(info.dataset)
    except Exception as error:
        failed = Failure(error, info.id)
        return lambda what: failed

    def answer(what: Any) -> Any:
        try:
            return fetch(what)
        except Ended:
            return Exhausted
        except Exception as error:
            return Failure(error, info.id)

    return answer


def _sent(results: Any, number: int, answer: Any, worker: int) -> bool:
    """Whether there is still somebody to send to."""
    try:
        results.send((number, answer))
    except (BrokenPipeError, ConnectionResetError):
        return False
    except Exception as error:  # the batch cannot be pickled
        return _sent(results, number, Failure(error, worker), worker)
    return True
