"""`torch.utils.data._utils.fetch`: answers to a loader's requests."""

from __future__ import annotations

from typing import Any

from frontend.utils.data.fetch import Ended, OfItems, OfStream


class _BaseDatasetFetcher:
    """What a loader's options say of requests. `fetch` answers one."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool):
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how it fetches")


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Items by index, one or a list of them."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.fetch = OfItems(collate_fn, not auto_collation)(dataset)  # type: ignore[assignment]


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """The next item of a stream, or as many as the request is long. Raises StopIteration at its
    end."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._answer = OfStream(collate_fn, drop_last, not auto_collation)(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        try:
            return self._answer(possibly_batched_index)
        except Ended:
            self.ended = True
            raise StopIteration from None
