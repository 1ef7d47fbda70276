"""What a loader is made of, as libraries use it that bring a loader of their own."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import frontend as torch
from frontend.utils.data import DataLoader, IterableDataset, TensorDataset, _utils
from frontend.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)


class Numbers(IterableDataset):
    """0, 1, … below `end`; `told` is the length it says it has."""

    def __init__(self, end: int, told: int):
        self.end = end
        self.told = told

    def __iter__(self) -> Any:
        return iter(range(self.end))

    def __len__(self) -> int:
        return self.told


class Stream:
    """A loader of somebody else's, as fastai's: no more than the iterators ask for."""

    _IterableDataset_len_called = generator = timeout = worker_init_fn = None
    multiprocessing_context = None
    _auto_collation = drop_last = persistent_workers = pin_memory = False
    _dataset_kind = _DatasetKind.Iterable
    _index_sampler: Any = property(lambda self: count())
    prefetch_factor = 2

    def __init__(self, dataset: Any, num_workers: int):
        self.dataset = dataset
        self.num_workers = num_workers
        self.timeout = 0  # type: ignore[assignment]

    def collate_fn(self, item: Any) -> Any:
        return item


@pytest.mark.parametrize(
    "kind, workers", [(_SingleProcessDataLoaderIter, 0), (_MultiProcessingDataLoaderIter, 1)]
)
def test_an_iterator_of_another_loader(kind: Any, workers: int) -> None:
    stream = kind(Stream([[1, 2], [3]], workers))
    assert isinstance(stream, _BaseDataLoaderIter) and list(stream) == [[1, 2], [3]]
    assert stream._num_yielded == 2 and list(stream) == []


def test_what_iterating_makes() -> None:
    loader = DataLoader(TensorDataset(torch.arange(4)), batch_size=2)
    batches = iter(loader)
    assert isinstance(batches, _SingleProcessDataLoaderIter) and len(batches) == 2
    assert loader._index_sampler is loader.batch_sampler and loader._auto_collation
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        batches.__getstate__()


def test_persistent_workers_have_one_iterator() -> None:
    loader = DataLoader(Numbers(3, 3), num_workers=1, persistent_workers=True, batch_size=2)
    first = iter(loader)
    assert [batch.tolist() for batch in first] == [[0, 1], [2]]
    again = iter(loader)
    assert again is first and [batch.tolist() for batch in again] == [[0, 1], [2]]
    loader._iterator._workers.close()


def test_a_stream_that_is_longer_than_it_says() -> None:
    loader = DataLoader(Numbers(3, 1))
    assert len(loader) == 1
    with pytest.warns(UserWarning, match="was reported to be 1"):
        assert len(list(loader)) == 3


def test_fetchers() -> None:
    fetch = _DatasetKind.create_fetcher(_DatasetKind.Map, "abcd", True, "".join, False).fetch
    assert fetch([0, 2]) == "ac"
    stream = _DatasetKind.create_fetcher(_DatasetKind.Iterable, "abcd", True, "".join, False)
    assert [stream.fetch([None] * 3), stream.fetch([None] * 3)] == ["abc", "d"]
    with pytest.raises(StopIteration, match=r"^$"):
        stream.fetch([None])


def test_collating_by_type() -> None:
    class Point:
        def __init__(self, x: int):
            self.x = x

    def points(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return [each.x for each in batch]

    collate, known = _utils.collate.collate, _utils.collate.default_collate_fn_map
    batch = [{"p": Point(1), "t": torch.ones(1)}, {"p": Point(2), "t": torch.zeros(1)}]
    result = collate(batch, collate_fn_map={**known, Point: points})
    assert result["p"] == [1, 2] and result["t"].tolist() == [[1], [0]]
    with pytest.raises(TypeError, match=r"found .*Point"):
        collate(batch, collate_fn_map=known)
