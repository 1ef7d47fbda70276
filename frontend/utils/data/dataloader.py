"""The loader: batches of a dataset, in the order of a sampler, fetched here or by workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from types import GenericAlias
from typing import Any

from frontend.namespace.absent import absent_names
from frontend.utils.data.collate import default_collate, default_convert
from frontend.utils.data.dataset import IterableDataset
from frontend.utils.data.fetch import Ended, OfItems, OfStream
from frontend.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, random_seed
from graphc.system import IMPORTING

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


globals().update(  # iterators of PyTorch's that libraries ask about: none here is one
    absent_names(
        "utils.data.dataloader",
        "_BaseDataLoaderIter _MultiProcessingDataLoaderIter _SingleProcessDataLoaderIter",
        "iter(loader) makes an iterator",
    )
)


class DataLoader:
    """Iterates over batches of `dataset`; `len()` is their number.

    `shuffle` draws a new order for each pass, from `generator` or the default one. A `sampler`
    gives indices instead, a `batch_sampler` lists of them; `batch_size=None` gives single items.
    Items are joined by `collate_fn`; by default batches of a TensorDataset are indexed at once.

    With `num_workers`, that many processes fetch `prefetch_factor` (2) batches ahead each; batches
    come in the same order as without. Workers are forked where the system can (as in PyTorch), or
    started as `multiprocessing_context` says. `persistent_workers` keeps them from one pass to the
    next; with `in_order=False` batches come as they are ready. An exception of a worker is raised
    here, with its traceback in the message. Workers are seeded from `generator` and their number.
    `pin_memory` is accepted and has no effect. Raises ValueError for options that exclude each
    other, RuntimeError where a worker dies or nothing comes for `timeout` seconds.
    """

    __class_getitem__: Any = classmethod(GenericAlias)
    _made = False

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
        if multiprocessing_context is not None:
            _check_context(num_workers, multiprocessing_context)
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
        self.pin_memory_device = pin_memory_device
        self.in_order = in_order
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
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def _make_samplers(self, shuffle: bool | None) -> None:
        if self.sampler is None:
            order = RandomSampler(self.dataset, generator=self.generator) if shuffle else None
            self.sampler = order if order is not None else SequentialSampler(self.dataset)
        if self.batch_sampler is None and self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, self.drop_last)

    # -- iterating ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        # Drawn without workers too: the numbers that follow do not depend on how many there are.
        seed = random_seed(self.generator)
        if self.num_workers:
            return self._through_workers(seed)
        return _fetched(self._fetcher()(self.dataset), self._requests())

    def _requests(self) -> Iterator[Any]:
        """What to fetch, batch by batch."""
        if self._iterable:
            return repeat(self.batch_size)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def _fetcher(self) -> Any:
        """Makes, from a dataset, the function that fetches one request."""
        if self._iterable:
            return OfStream(self.collate_fn, self.drop_last)
        return OfItems(self.collate_fn, self._single)

    def _through_workers(self, seed: int) -> Iterator[Any]:
        with IMPORTING:
            from frontend.utils.data.pool import Fetched, Workers

        assert self.prefetch_factor is not None
        workers = self._workers
        if workers is None or not workers.close.alive:
            workers = Workers(
                self.num_workers, self.dataset, self._fetcher(), seed, self.worker_init_fn,
                self.multiprocessing_context,
            )  # fmt: skip
        else:
            self._pass.drain()
            workers.restart()
        finished = (lambda: None) if self.persistent_workers else workers.close
        batches = Fetched(
            workers, self._requests(), self.prefetch_factor, self.timeout, self.in_order, finished
        )
        if self.persistent_workers:  # others end with the pass
            self._workers, self._pass = workers, batches
        return batches

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
        except Ended:
            return
        yield batch


def _check_context(workers: int, context: Any) -> None:
    if not workers:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > "
            f"0), but got num_workers={workers}"
        )
    with IMPORTING:
        from frontend.utils.data.pool import context_of

    context_of(context)


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
    if prefetch is not None and prefetch < 1:
        raise ValueError("prefetch_factor option should be positive")
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
