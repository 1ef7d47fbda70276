"""The loader: batches of a dataset, in the order of a sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from frontend.utils.data.collate import default_collate
from frontend.utils.data.dataset import batch_of
from frontend.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Iterates over batches of `dataset`; `len()` is their number.

    `shuffle` draws a new order for each pass, from `generator` or the default one. A `sampler`
    gives indices instead, a `batch_sampler` lists of them; `batch_size=None` gives single items.
    Items are joined by `collate_fn`; by default batches of a TensorDataset are indexed at once.
    Raises ValueError for options that exclude each other, NotImplementedError for workers.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        *,
        generator: Any = None,
    ):
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if num_workers:
            raise NotImplementedError(
                f"num_workers={num_workers}: there are no worker processes yet; use num_workers=0"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        self.dataset = dataset
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.generator = generator
        self.collate_fn = default_collate if collate_fn is None else collate_fn
        if sampler is None:
            order = RandomSampler(dataset, generator=generator) if shuffle else None
            sampler = order if order is not None else SequentialSampler(dataset)
        self.sampler = sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            return (self.dataset[index] for index in self.sampler)
        return map(self._batch, self.batch_sampler)

    def _batch(self, indices: list[int]) -> Any:
        if self.collate_fn is default_collate:
            batch = batch_of(self.dataset, indices)
            if batch is not None:
                return batch
        return self.collate_fn([self.dataset[index] for index in indices])

    def __len__(self) -> int:
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
