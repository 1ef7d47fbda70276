"""Datasets: things with a length and items by index."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from types import GenericAlias
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.functions import random
from frontend.functions.creation import tensor


class Dataset:
    """Base of datasets: a subclass defines `__getitem__` and, for samplers, `__len__`; it may
    define `__getitems__` for lists of indices."""

    __class_getitem__: Any = classmethod(GenericAlias)

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base of datasets that are streams: a subclass defines `__iter__`. With workers each has the
    whole stream, unless it takes its part by `get_worker_info()`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]):
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class ConcatDataset(Dataset):
    """Datasets with items by index, one after the other."""

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        ends = self.cumulative_sizes
        which = bisect_right(ends, index)
        if which == len(ends):  # iteration relies on this error
            raise IndexError(f"list index out of range: {index} of {len(self)} items")
        return self.datasets[which][index - ends[which - 1] if which else index]


class StackDataset(Dataset):
    """Items are tuples (or, by name, dicts) of the items of several datasets of one length."""

    def __init__(self, *args: Any, **kwargs: Any):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        sizes = {len(x) for x in (args or kwargs.values())}
        if len(sizes) > 1:
            raise ValueError("Size mismatch between datasets")
        (self._length,) = sizes

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several items, by the same method of the datasets that have it."""
        if isinstance(self.datasets, dict):
            columns = [items_of(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*[items_of(dataset, indices) for dataset in self.datasets]))

    def __len__(self) -> int:
        return self._length


class TensorDataset(Dataset):
    """Items are tuples of rows, one row of each tensor. Raises AssertionError (as PyTorch does)
    where the tensors differ in their first size."""

    def __init__(self, *tensors: Tensor):
        if not tensors:
            raise ValueError("TensorDataset needs at least one tensor")
        if any(not x.ndim or x.shape[0] != tensors[0].shape[0] for x in tensors):
            listed = ", ".join(str(list(x.shape)) for x in tensors)
            raise AssertionError(f"Size mismatch between tensors: {listed} differ in size 0")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(x[index] for x in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """The items of `dataset` at `indices`. Raises NotImplementedError for a class that has a
    `__getitem__` of its own but no `__getitems__`, by which loaders ask."""

    def __init__(self, dataset: Any, indices: Sequence[int]):
        kind = type(self)
        own_items = kind.__getitem__ is not Subset.__getitem__
        if own_items and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing "
                "Subset and overriding __getitem__, you must also override __getitems__ to ensure "
                "DataLoader works correctly with your custom logic. A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several items, by the same method of the dataset where it has one."""
        return items_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def items_of(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """The items at `indices`, by `__getitems__` where the dataset has it. Raises ValueError where
    that gives more or fewer."""
    together = getattr(dataset, "__getitems__", None)
    if together is None:
        return [dataset[index] for index in indices]
    items = together(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ gave {len(items)} items for {len(indices)} "
            "indices"
        )
    return items


def batch_of(dataset: Any, indices: Sequence[int]) -> list[Tensor] | None:
    """The rows at `indices` of a TensorDataset, or of a Subset of one, indexed at once per tensor;
    None for any other dataset. Raises IndexError."""
    if type(dataset) is Subset:
        return batch_of(dataset.dataset, [dataset.indices[i] for i in indices])
    if type(dataset) is not TensorDataset:
        return None
    chosen = np.asarray(indices, np.int64)
    size = len(dataset)
    bad = chosen[(chosen < -size) | (chosen >= size)]
    if bad.size:
        raise IndexError(f"index {bad[0]} is out of bounds for a dataset of {size} items")
    rows = tensor(chosen)
    return [x[rows] for x in dataset.tensors]


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Any = None
) -> list[Subset]:
    """Disjoint random subsets of these lengths, or of these fractions (that add up to 1; what
    rounding leaves over goes to the first ones). Raises ValueError where they do not add up."""
    total = len(dataset)
    counts = _fractions(lengths, total) if _is_one(lengths) else [int(n) for n in lengths]
    if sum(counts) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=2,
            )
    order = random.randperm(total, generator=generator).tolist()
    ends = np.cumsum([0, *counts])
    return [Subset(dataset, order[a:b]) for a, b in pairwise(ends)]


def _is_one(lengths: Sequence[float]) -> bool:
    return math.isclose(sum(lengths), 1) and sum(lengths) <= 1


def _fractions(lengths: Sequence[float], total: int) -> list[int]:
    for i, fraction in enumerate(lengths):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in lengths]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    return counts
