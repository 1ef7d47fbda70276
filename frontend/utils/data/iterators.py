"""The iterators of a loader: requests in the order of its sampler, fetched here or by workers.

They ask a loader for no more than PyTorch's do, so that one of somebody else's will do: `dataset`,
`_dataset_kind`, `_auto_collation`, `_index_sampler`, `_IterableDataset_len_called`, `collate_fn`,
`drop_last`, `num_workers`, `timeout`, `generator`, `persistent_workers`; with workers
`worker_init_fn`, `multiprocessing_context`, `prefetch_factor`, `in_order` too.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from frontend.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from frontend.utils.data.fetch import OfItems, OfStream
from frontend.utils.data.sampler import random_seed
from graphc.system import IMPORTING


class _DatasetKind:
    """What a dataset is asked for: items by index, or the next ones."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> Any:
        """What answers requests, by `fetch`."""
        fetcher: Any = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader: Any):
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = False
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        # Drawn without workers too: the numbers that follow do not depend on how many there are.
        self._base_seed = random_seed(loader.generator)
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0

    def __iter__(self) -> Any:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begin another pass."""
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what comes next")

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        told = self._IterableDataset_len_called
        if told is not None and self._num_yielded > told:
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {told} (when "
                f"accessing len(dataloader)), but {self._num_yielded} samples have been fetched.",
                stacklevel=2,
            )
        return data

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass that fetches here."""

    def __init__(self, loader: Any):
        super().__init__(loader)
        if self._timeout != 0 or self._num_workers != 0:
            raise AssertionError(f"{type(self).__name__} requires num_workers == 0, timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn,
            self._drop_last,
        )  # fmt: skip

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches worker processes fetch ahead; with persistent workers several, one
    after another."""

    def __init__(self, loader: Any):
        super().__init__(loader)
        if self._num_workers <= 0:
            raise AssertionError(f"{type(self).__name__} requires num_workers > 0")
        self._in_order = getattr(loader, "in_order", True)
        self._prefetch_factor = loader.prefetch_factor
        self._context = loader.multiprocessing_context
        self._worker_init_fn = loader.worker_init_fn
        self._start()

    def _start(self) -> None:
        with IMPORTING:
            from frontend.utils.data.pool import Workers

        if self._dataset_kind == _DatasetKind.Map:
            fetcher: Any = OfItems(self._collate_fn, not self._auto_collation)
        else:
            fetcher = OfStream(self._collate_fn, self._drop_last, not self._auto_collation)
        self._workers = Workers(
            self._num_workers, self._dataset, fetcher, self._base_seed, self._worker_init_fn,
            self._context,
        )  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        """Send the first requests of a pass."""
        from frontend.utils.data.pool import Fetched

        finished = (lambda: None) if self._persistent_workers else self._workers.close
        self._batches = Fetched(
            self._workers, self._sampler_iter, self._prefetch_factor, self._timeout,
            self._in_order, finished,
        )  # fmt: skip

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        if not self._workers.close.alive:
            self._start()
            return
        self._batches.drain()
        self._workers.restart()
        self._begin()

    def _next_data(self) -> Any:
        return next(self._batches)
