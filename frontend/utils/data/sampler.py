"""Samplers: the order in which a loader reads a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from types import GenericAlias
from typing import Any

from frontend.engine.tensors.dtypes import float64
from frontend.functions import random
from frontend.functions.creation import as_tensor
from frontend.functions.sampling import multinomial


class Sampler:
    """Base of samplers: a subclass defines `__iter__` over indices, and `__len__`."""

    __class_getitem__: Any = classmethod(GenericAlias)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler):
    """0, 1, 2, … up to the dataset's length."""

    def __init__(self, data_source: Sized):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


_AT_ONCE = 32
"""How many independent draws are made at once, as in PyTorch: `num_samples` may be of any size."""


def random_seed(generator: Any) -> int:
    """A seed of 63 bits from a generator, None the default one."""
    return int(random.whole_numbers(0, 2**63, (), generator).item())


class RandomSampler(Sampler):
    """A random order, anew at each iteration; with `replacement`, independent draws.

    Drawn from `generator`, or from one whose seed the default one draws. Raises ValueError
    for an empty dataset.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ):
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, "
                f"but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many are drawn: as many as the dataset has by now, unless given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, left = len(self.data_source), self.num_samples
        if not size:
            raise ValueError(f"there is nothing to draw {left} samples from: the dataset is empty")
        generator = self.generator
        if generator is None:
            generator = random.Generator().manual_seed(random_seed(None))
        at_once = _AT_ONCE if self.replacement else size
        # PyTorch draws once more also where nothing is left: one's own generator goes on as there.
        for start in range(0, left + 1, at_once):
            if self.replacement:
                count = min(left - start, at_once)
                yield from random.randint(0, size, (count,), generator=generator).tolist()
            else:
                yield from random.randperm(size, generator=generator).tolist()[: left - start]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """`indices` in a random order, anew at each iteration."""

    def __init__(self, indices: Sequence[int], generator: Any = None):
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = random.randperm(len(self.indices), generator=self.generator).tolist()
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn by `weights`, with replacement or without."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True,
        generator: Any = None,
    ):  # fmt: skip
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices of `sampler`; the last may be shorter, or is left out
    (`drop_last`)."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


class DistributedSampler(Sampler):
    """The part of a dataset that process `rank` of `num_replicas` reads: every `num_replicas`-th
    index of an order that `seed` and `set_epoch` decide. Where they do not divide the dataset,
    indices from the start come again, or (`drop_last`) the rest is left out. Without `num_replicas`
    and `rank` the process group is asked. Raises ValueError for a rank that is none, and where
    there is no process group to ask."""

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
        shuffle: bool = True, seed: int = 0, drop_last: bool = False,
    ):  # fmt: skip
        if num_replicas is None or rank is None:
            from frontend.distributed.groups import get_rank, get_world_size

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = random.Generator().manual_seed(self.seed + self.epoch)
            indices = random.randperm(len(indices), generator=generator).tolist()
        while len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Another order for each epoch."""
        self.epoch = epoch
