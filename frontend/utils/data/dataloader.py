"""The loader: batches of a dataset, in the order of a sampler, fetched here or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any

from frontend.random import randint
from frontend.utils.data.collate import default_collate, default_convert
from frontend.utils.data.dataset import IterableDataset, batch_of
from frontend.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Iterates over batches of `dataset`; `len()` is their number.

    `shuffle` draws a new order for each pass, from `generator` or the default one. A `sampler`
    gives indices instead, a `batch_sampler` lists of them; `batch_size=None` gives single items.
    Items are joined by `collate_fn`; by default batches of a TensorDataset are indexed at once.

    With `num_workers`, that many processes fetch `prefetch_factor` (2) batches ahead each; batches
    come in the same order as without. Workers are forked where the system can (as in PyTorch), or
    started as `multiprocessing_context` says. `persistent_workers` keeps them from one pass to the
    next. An exception of a worker is raised here, with its traceback in the message. `pin_memory`
    is accepted and has no effect. Raises ValueError for options that exclude each other.
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
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ):
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
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
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.pin_memory = pin_memory
        self.generator = generator
        self._single = batch_size is None and batch_sampler is None
        default = default_convert if self._single else default_collate
        self.collate_fn = default if collate_fn is None else collate_fn
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        if not self._iterable:
            self._make_samplers(shuffle)
        self._workers: Any = None
        self._pass: Any = None

    def _make_samplers(self, shuffle: bool | None) -> None:
        if self.sampler is None:
            order = RandomSampler(self.dataset, generator=self.generator) if shuffle else None
            self.sampler = order if order is not None else SequentialSampler(self.dataset)
        if self.batch_sampler is None and self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, self.drop_last)

    # -- iterating ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers:
            return self._through_workers()
        fetch = self._fetcher()(self.dataset)
        return _fetched(fetch, self._requests())

    def _requests(self) -> Iterator[Any]:
        """What to fetch, batch by batch."""
        if self._iterable:
            return repeat(self.batch_size)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def _fetcher(self) -> Any:
        """Makes, from a dataset, the function that fetches one request."""
        if self._iterable:
            return _OfStream(self.collate_fn, self.drop_last)
        return _OfItems(self.collate_fn, self._single)

    def _through_workers(self) -> Iterator[Any]:
        from frontend.utils.data.worker import Fetched, Workers

        assert self.prefetch_factor is not None
        if self._workers is None or not self._workers.close.alive:
            seed = int(randint(0, 2**31, (), generator=self.generator).item())
            self._workers = Workers(
                self.num_workers, self.dataset, self._fetcher(), seed, self.worker_init_fn,
                self.multiprocessing_context,
            )  # fmt: skip
        else:
            self._pass.drain()
            for worker in range(self.num_workers):
                self._workers.restart(worker)
        workers = self._workers
        finished = (lambda: None) if self.persistent_workers else workers.close
        made = Fetched(workers, self._requests(), self.prefetch_factor, self.timeout, finished)
        if self.persistent_workers:
            self._pass = made
        else:
            self._workers = None  # they end with the pass
        return made

    def __len__(self) -> int:
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


def _fetched(fetch: Callable[[Any], Any], requests: Iterator[Any]) -> Iterator[Any]:
    for request in requests:
        try:
            batch = fetch(request)
        except _Ended:
            return
        yield batch


class _Ended(StopIteration):
    """An iterable dataset has no more items."""


class _OfItems:
    """Fetches from a dataset with items by index: a list of indices, or a single one."""

    def __init__(self, collate: Any, single: bool):
        self.collate = collate
        self.single = single

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        if self.single:
            return lambda index: self.collate(dataset[index])
        return lambda indices: self._batch(dataset, indices)

    def _batch(self, dataset: Any, indices: list[int]) -> Any:
        if self.collate is default_collate:
            batch = batch_of(dataset, indices)
            if batch is not None:
                return batch
        if hasattr(dataset, "__getitems__"):
            return self.collate(dataset.__getitems__(indices))
        return self.collate([dataset[index] for index in indices])


class _OfStream:
    """Fetches from an iterable dataset: so many items, or (None) a single one."""

    def __init__(self, collate: Any, drop_last: bool):
        self.collate = collate
        self.drop_last = drop_last

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        items = iter(dataset)

        def fetch(count: int | None) -> Any:
            if count is None:
                for item in items:
                    return self.collate(item)
                raise _Ended
            batch = list(islice(items, count))
            if not batch or (self.drop_last and len(batch) < count):
                raise _Ended
            return self.collate(batch)

        return fetch


def _check_workers(workers: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not workers and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 "
            "to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and not workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    start = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in (None, False):
        raise ValueError(f"{start} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{start} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{start} batch_sampler option, but got batch_sampler={batch_sampler}")
