"""Loaders with worker processes: the same batches, errors that come through, nothing left."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    pool,
)


class Squares(Dataset):
    def __init__(self, count: int = 23):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, index * index]), {"name": f"n{index}"}


class Failing(Squares):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise KeyError("seven")
        return super().__getitem__(index)


class Dying(Squares):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Slow(Squares):
    def __getitem__(self, index: int) -> Any:
        time.sleep(30)


class Count(IterableDataset):
    def __init__(self, count: int):
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))


def no_processes_left() -> bool:
    for _ in range(100):
        if not multiprocessing.active_children():
            return True
        time.sleep(0.05)
    return False


def flat(batches: Any) -> Any:
    return [(x.tolist(), names["name"]) for x, names in batches]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"prefetch_factor": 1}], ids=str)
def test_the_same_batches_in_the_same_order(workers: int, options: dict[str, Any]) -> None:
    plain = {k: v for k, v in options.items() if k != "prefetch_factor"}
    expected = flat(DataLoader(Squares(), 5, **plain))
    assert flat(DataLoader(Squares(), 5, num_workers=workers, **options)) == expected
    assert no_processes_left()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("options", [
    {"shuffle": True}, {"shuffle": True, "generator": True},
    {"sampler": "weighted"}, {"batch_size": None, "shuffle": True},
], ids=str)  # fmt: skip
def test_the_order_does_not_depend_on_the_number_of_workers(options: dict[str, Any]) -> None:
    data = TensorDataset(torch.arange(20), torch.arange(20) * 2)

    def orders(workers: int) -> list[Any]:
        torch.manual_seed(1)
        taken = {"batch_size": 6, **options}
        if "generator" in taken:
            taken["generator"] = torch.Generator().manual_seed(5)
        if "sampler" in taken:
            taken["sampler"] = WeightedRandomSampler(torch.arange(20.0), 15)
        loader = DataLoader(data, num_workers=workers, **taken)
        return [[x[0].tolist() for x in loader] for _ in range(2)] + [torch.rand(1).item()]

    expected = orders(0)
    assert expected[0] != expected[1]
    assert orders(1) == orders(2) == expected


def test_batches_as_they_come() -> None:
    class OneSlow(Squares):
        def __getitem__(self, index: int) -> int:
            time.sleep(0.3 if index == 0 else 0)
            return index

    loader = DataLoader(OneSlow(6), 1, num_workers=2, in_order=False)
    got = [int(x) for x in loader]
    assert sorted(got) == list(range(6)) and got[0] != 0
    assert [int(x) for x in DataLoader(OneSlow(6), 1, num_workers=2)] == list(range(6))


def test_persistent_workers_are_the_same_processes() -> None:
    class Pids(Squares):
        def __getitem__(self, index: int) -> int:
            return os.getpid()

    loader = DataLoader(Pids(8), 2, num_workers=2, persistent_workers=True)
    first = {int(p) for batch in loader for p in batch}
    next(iter(loader))  # a pass that is left half way
    second = {int(p) for batch in loader for p in batch}
    assert first == second and len(first) == 2
    loader._iterator._workers.close()
    assert no_processes_left()


def test_streams_are_shared_out_by_the_dataset() -> None:
    loader = DataLoader(Count(11), 2, num_workers=2)
    for _ in range(2):
        assert sorted(int(x) for batch in loader for x in batch) == list(range(11))
    assert [x.tolist() for x in DataLoader(Count(5), 2)] == [[0, 1], [2, 3], [4]]
    assert [x.tolist() for x in DataLoader(Count(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Count(3), None)) == [0, 1, 2]


def test_an_exception_comes_through_with_its_traceback() -> None:
    loader = iter(DataLoader(Failing(), 2, num_workers=2))
    got = [next(loader) for _ in range(3)]
    assert len(got) == 3
    with pytest.raises(KeyError) as caught:
        next(loader)
    text = str(caught.value)
    assert "Caught KeyError in DataLoader worker process" in text and 'KeyError("seven")' in text
    assert "\n  File" in text  # lines, not the repr of a text
    assert len(list(loader)) == 8  # the rest goes on
    assert no_processes_left()


class Odd(Exception):
    def __init__(self, first: Any, second: Any):
        super().__init__(first, second)


def odd() -> Any:
    raise Odd(1, 2)


def local() -> Any:
    class Local(Exception):
        pass

    raise Local("of a function")


def stopped() -> Any:
    raise StopIteration("early")


def unpicklable() -> Any:
    return lambda: 3


@pytest.mark.parametrize(
    ("item", "kind", "message"),
    [
        (odd, RuntimeError, "Caught Odd"), (local, RuntimeError, "of a function"),
        (stopped, RuntimeError, "Caught StopIteration"),
        (unpicklable, Exception, "[Pp]ickl"),
    ],
)  # fmt: skip
def test_exceptions_that_cannot_be_sent_or_would_mislead(
    item: Any, kind: type[Exception], message: str
) -> None:
    class Bad(Squares):
        def __getitem__(self, index: int) -> Any:
            return item()

    with pytest.raises(kind, match=message):
        list(DataLoader(Bad(), 1, num_workers=1, collate_fn=lambda items: items[0]))
    assert no_processes_left()


def test_a_stream_that_cannot_begin() -> None:
    class Broken(IterableDataset):
        def __iter__(self) -> Iterator[int]:
            raise OSError("no stream")

    with pytest.raises(OSError, match="no stream"):
        list(DataLoader(Broken(), num_workers=2))
    assert no_processes_left()


def test_a_worker_that_is_sending_much_ends_at_once() -> None:
    class Large(Squares):
        def __getitem__(self, index: int) -> Any:
            return torch.zeros(10**6)  # far more than a pipe holds

    started = time.monotonic()
    for batch in DataLoader(Large(), 1, num_workers=2):
        assert batch.shape == (1, 10**6)
        break
    assert no_processes_left()
    assert time.monotonic() - started < pool.GRACE


def test_two_loaders_at_once_and_one_inside_the_other() -> None:
    outer, inner = (DataLoader(Squares(4), 2, num_workers=2) for _ in range(2))
    count = sum(1 for _ in outer for _ in inner)
    assert count == 4
    both = zip(DataLoader(Squares(5), 1, num_workers=1), DataLoader(Squares(3), 1, num_workers=1))
    assert len(list(both)) == 3
    del both
    assert no_processes_left()


SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
from frontend.utils.data import DataLoader

class Slow:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        time.sleep(0.05)
        return os.getpid()

seen = set()
try:
    for i, batch in enumerate(DataLoader(Slow(), 1, num_workers=2)):
        seen.add(int(batch))
        if i == 5:
            print(*seen, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_leaves_no_process() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    workers = [int(pid) for pid in child.stdout.readline().split()]
    os.killpg(child.pid, signal.SIGINT)  # as the terminal does: all processes get it
    out, _ = child.communicate(timeout=20)
    assert out == "interrupted\n" and child.returncode == 0
    assert len(workers) == 2
    for pid in workers:
        with pytest.raises(ProcessLookupError, match="No such process"):
            os.kill(pid, 0)


def test_workers_end_when_their_parent_is_killed() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stdout is not None
    workers = [int(pid) for pid in child.stdout.readline().split()]
    child.kill()
    child.communicate()
    assert len(workers) == 2 and all(_ends(pid) for pid in workers)


def _ends(pid: int) -> bool:
    """Whether a process ends within two seconds (an orphan may stay as a zombie of init's)."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
def test_spawned_workers() -> None:
    loader = DataLoader(torch.arange(4), 2, num_workers=1, multiprocessing_context="spawn")
    assert [x.tolist() for x in loader] == [[0, 1], [2, 3]]
    assert no_processes_left()


def test_a_worker_that_is_killed_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="exited unexpectedly with exit code -9"):
        list(DataLoader(Dying(), 2, num_workers=2))
    assert no_processes_left()


def test_time_out_and_leaving_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "GRACE", 0.1)
    with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds"):
        list(DataLoader(Slow(), 2, num_workers=1, timeout=0.2))
    for _ in DataLoader(Squares(), 2, num_workers=2):
        break
    assert no_processes_left()


def test_init_function_and_seeds() -> None:
    class Random(Squares):
        def __getitem__(self, index: int) -> Any:
            info = get_worker_info()
            assert info is not None
            return float(np.random.random()), torch.rand(()).item(), info.id

    def init(worker: int) -> None:
        os.environ["MARK"] = str(worker)

    torch.manual_seed(3)
    loader = DataLoader(Random(8), 1, num_workers=2, worker_init_fn=init)
    first = [x for batch in loader for x in batch]
    torch.manual_seed(3)
    second = [x for batch in DataLoader(Random(8), 1, num_workers=2) for x in batch]
    assert [x.tolist() for x in first] == [x.tolist() for x in second]
    assert len({float(x) for x in first[0::3]}) == 8  # no two workers draw the same
    assert get_worker_info() is None

    def broken(worker: int) -> None:
        raise ValueError("no init")

    with pytest.raises(ValueError, match="no init"):
        list(DataLoader(Squares(), 2, num_workers=1, worker_init_fn=broken))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "non-negative"), ({"timeout": -1}, "timeout option"),
        ({"prefetch_factor": 2}, "prefetch_factor option"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
        ({"num_workers": 1, "prefetch_factor": 0}, "should be positive"),
        ({"multiprocessing_context": "fork"}, r"num_workers > 0\), but got num_workers=0"),
        ({"num_workers": 1, "multiprocessing_context": "thread"}, "valid start method"),
    ],
)  # fmt: skip
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(), **options)
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(Count(3), shuffle=True)
