"""Loaders with worker processes: the same batches, errors that come through, nothing left."""

from __future__ import annotations

import multiprocessing
import os
import signal
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
    get_worker_info,
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


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"prefetch_factor": 1}], ids=str)
def test_the_same_batches_in_the_same_order(workers: int, options: dict[str, Any]) -> None:
    plain = {k: v for k, v in options.items() if k != "prefetch_factor"}
    expected = flat(DataLoader(Squares(), 5, **plain))
    assert flat(DataLoader(Squares(), 5, num_workers=workers, **options)) == expected
    assert no_processes_left()


def test_shuffling_covers_everything_and_tensor_datasets_work() -> None:
    data = TensorDataset(torch.arange(20), torch.arange(20) * 2)
    torch.manual_seed(1)
    found = [x for batch in DataLoader(data, 6, shuffle=True, num_workers=2) for x in batch[0]]
    assert sorted(int(x) for x in found) == list(range(20))


def test_persistent_workers_are_the_same_processes() -> None:
    class Pids(Squares):
        def __getitem__(self, index: int) -> int:
            return os.getpid()

    loader = DataLoader(Pids(8), 2, num_workers=2, persistent_workers=True)
    first = {int(p) for batch in loader for p in batch}
    next(iter(loader))  # a pass that is left half way
    second = {int(p) for batch in loader for p in batch}
    assert first == second and len(first) == 2
    loader._workers.close()
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
    with pytest.raises(KeyError, match=r"Caught KeyError in DataLoader worker process[\s\S]*seven"):
        next(loader)
    assert len(list(loader)) == 8  # the rest goes on
    assert no_processes_left()


def test_a_worker_that_is_killed_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="exited unexpectedly with exit code -9"):
        list(DataLoader(Dying(), 2, num_workers=2))
    assert no_processes_left()


def test_time_out_and_leaving_early() -> None:
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
    ],
)  # fmt: skip
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(), **options)
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        DataLoader(Count(3), shuffle=True)
