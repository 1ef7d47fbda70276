"""What a loader fetches, and how: from a dataset with items by index, or from a stream.

A fetcher can be sent to a worker; called there with the dataset, it gives the function that answers
requests: a list of indices, or a single index; of a stream the length of the list counts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.utils.data.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
)
from frontend.utils.data.dataset import batch_of, items_of


class Ended(Exception):
    """A stream has no more items."""


class OfItems:
    """Fetches from a dataset with items by index."""

    def __init__(self, collate: Callable[[Any], Any], single: bool):
        self.collate = collate
        self.single = single

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        if self.single:
            return lambda index: self.collate(dataset[index])
        return lambda indices: self._batch(dataset, indices)

    def _batch(self, dataset: Any, indices: list[int]) -> Any:
        # Where rows are stacked, they are those that an index of positions gives.
        stacks = default_collate_fn_map.get(Tensor) is collate_tensor_fn
        if self.collate is default_collate and stacks:
            batch = batch_of(dataset, indices)
            if batch is not None:
                return batch
        return self.collate(items_of(dataset, indices))


class OfStream:
    """Fetches from an iterable dataset: as many items as a request is long, or a single one."""

    def __init__(self, collate: Callable[[Any], Any], drop_last: bool, single: bool):
        self.collate = collate
        self.drop_last = drop_last
        self.single = single

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        items = iter(dataset)

        def fetch(request: Any) -> Any:
            if self.single:
                for item in items:
                    return self.collate(item)
                raise Ended
            batch = list(islice(items, len(request)))
            if not batch or (self.drop_last and len(batch) < len(request)):
                raise Ended
            return self.collate(batch)

        return fetch
