"""Datasets, samplers and the loader."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    random_split,
)


class Squares(Dataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, index * index]), index


def pairs(count: int = 10) -> TensorDataset:
    return TensorDataset(torch.arange(count * 2).reshape(count, 2), torch.arange(count))


def test_tensor_dataset() -> None:
    data = pairs()
    assert len(data) == 10
    x, y = data[3]
    assert x.tolist() == [6, 7] and y.item() == 3
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors: \[2\], \[3\]"):
        TensorDataset(torch.zeros(2), torch.zeros(3))
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(torch.tensor(1.0))


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_in_order(drop_last: bool) -> None:
    loader = DataLoader(pairs(), batch_size=4, drop_last=drop_last)
    batches = list(loader)
    assert len(loader) == len(batches) == (2 if drop_last else 3)
    assert isinstance(batches[0], list)
    assert [y.tolist() for _, y in batches][:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches[0][0].shape == (4, 2) and batches[0][0].dtype == torch.int64


def test_the_fast_path_equals_collation() -> None:
    class Slow(TensorDataset):
        pass

    data = pairs()
    slow = Slow(*data.tensors)
    for fast, plain in zip(DataLoader(data, 4), DataLoader(slow, 4), strict=True):
        for a, b in zip(fast, plain, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
            assert a.dtype == b.dtype
    part = Subset(data, [7, 1, 3])
    assert [y.tolist() for _, y in DataLoader(part, 2)] == [[7, 1], [3]]


def test_a_batch_is_a_copy() -> None:
    data = pairs()
    x, _ = next(iter(DataLoader(data, 4)))
    x[0, 0] = 99
    assert data.tensors[0][0, 0].item() == 0


def orders(loader: DataLoader, passes: int = 2) -> list[list[int]]:
    return [[int(i) for _, y in loader for i in y] for _ in range(passes)]


def test_shuffling_follows_the_seed() -> None:
    loader = DataLoader(pairs(50), batch_size=8, shuffle=True)
    torch.manual_seed(1)
    first = orders(loader)
    assert sorted(first[0]) == list(range(50)) and first[0] != first[1]
    torch.manual_seed(1)
    assert orders(loader) == first
    own = [DataLoader(pairs(50), 8, shuffle=True, generator=torch.Generator().manual_seed(1))
           for _ in range(2)]  # fmt: skip
    assert orders(own[0]) == orders(own[1])


def test_samplers() -> None:
    assert list(SequentialSampler(range(3))) == [0, 1, 2]
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) == {0, 1, 2}
    assert sorted(RandomSampler(range(3), num_samples=6)) == [0, 0, 1, 1, 2, 2]
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert len(BatchSampler(range(5), 2, True)) == 2
    loader = DataLoader(pairs(), batch_size=2, sampler=[5, 0, 5])
    assert orders(loader, 1) == [[5, 0, 5]]
    loader = DataLoader(pairs(), batch_sampler=[[1], [2, 3]])
    assert [y.tolist() for _, y in loader] == [[1], [2, 3]] and len(loader) == 2


def test_collation() -> None:
    x, y = next(iter(DataLoader(Squares(), batch_size=3)))
    assert x.tolist() == [[0, 0], [1, 1], [2, 4]] and y.tolist() == [0, 1, 2]
    Point = namedtuple("Point", "x y")
    batch = next(iter(DataLoader([Point(1, 2.0), Point(3, 4.0)], batch_size=2)))
    assert isinstance(batch, Point) and batch.x.dtype == torch.int64
    assert batch.y.dtype == torch.float64
    items = [{"a": np.float32(1), "b": "x"}, {"a": np.float32(2), "b": "y"}]
    batch = next(iter(DataLoader(items, batch_size=2)))
    assert batch["a"].dtype == torch.float32 and batch["b"] == ["x", "y"]
    assert next(iter(DataLoader([3, 4], 2, collate_fn=sum))) == 7
    assert list(DataLoader([1, 2, 3], batch_size=None)) == [1, 2, 3]


def test_collation_errors() -> None:
    with pytest.raises(RuntimeError, match=r"got \[2\] at entry 0 and \[3\] at entry 1"):
        list(DataLoader([torch.zeros(2), torch.zeros(3)], batch_size=2))
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        list(DataLoader([[1, 2], [3]], batch_size=2))
    with pytest.raises(TypeError, match="batch must contain tensors, numpy arrays, numbers"):
        list(DataLoader([object()]))


def test_splits() -> None:
    torch.manual_seed(0)
    parts = random_split(pairs(10), [7, 3])
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    assert [len(part) for part in random_split(range(10), [0.55, 0.45])] == [6, 4]
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    first, second = (random_split(range(9), [4, 5], generator=g) for g in generators)
    assert first[0].indices == second[0].indices
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length"):
        random_split(range(3), [1, 1])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"batch_size": 0}, ValueError, "positive integer value, but got batch_size=0"),
        ({"shuffle": True, "sampler": [0]}, ValueError, "mutually exclusive with shuffle"),
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "batch_sampler option is mutually"),
        ({"batch_size": None, "drop_last": True}, ValueError, "disables auto-batching"),
    ],
)
def test_impossible_options(options: dict[str, Any], kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        DataLoader(pairs(), **options)


def test_out_of_range_and_empty() -> None:
    with pytest.raises(IndexError, match="index 12 is out of bounds for a dataset of 10 items"):
        list(DataLoader(pairs(), sampler=[3, 12], batch_size=2))
    with pytest.raises(ValueError, match="num_samples=0"):
        DataLoader(TensorDataset(torch.zeros(0, 2)), shuffle=True)
    assert list(DataLoader(TensorDataset(torch.zeros(0, 2)))) == []
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]
