"""Datasets, samplers, collation and loaders against PyTorch's: results, lengths, errors."""

from __future__ import annotations

import collections
import warnings
from typing import Any

import numpy as np
import pytest

import frontend

Pair = collections.namedtuple("Pair", "a b")


class Dict(dict):
    pass


class Array(np.ndarray):
    pass


class List(list):
    pass


def plain(value: Any) -> Any:
    """A result in words both systems share: tensors by dtype and numbers, containers by type."""
    if hasattr(value, "requires_grad"):
        return ["tensor", str(value.dtype), value.tolist()]
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), value.tolist()]
    if isinstance(value, collections.abc.Mapping):
        return [type(value).__name__, [[key, plain(item)] for key, item in value.items()]]
    if isinstance(value, tuple | list):
        return [type(value).__name__, [plain(item) for item in value]]
    return [type(value).__name__, value]


def same(peer: Any, call: Any) -> None:
    """`call(system)` gives the same, or raises the same type of exception in the same words (ours
    may say more)."""
    results = []
    for system in (peer.torch, frontend):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                outcome: Any = plain(call(system))
            except Exception as error:
                outcome = error
        results.append((outcome, [w.category for w in caught]))
    (expected, warned), (ours, warned_here) = results
    assert warned_here == warned
    if not isinstance(expected, Exception):
        assert not isinstance(ours, Exception), ours
        assert ours == expected
        return
    assert isinstance(ours, type(expected)), ours
    assert str(ours)[: len(str(expected))].startswith(str(expected)[:60])


def _of_generator(system: Any, draw: Any) -> list[Any]:
    """What is drawn, in order; whether a seed gives it again, and another seed something else."""
    first, again, other = (draw(system.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    return [sorted(first), len(first), first == again, first == other]


def items() -> dict[str, list[Any]]:
    return {
        "ints": [1, 2], "floats": [1.0, 2.0], "mixed": [1, 2.5], "bools": [True, False],
        "float32": [np.float32(1), np.float32(2)], "float64": [np.float64(1)],
        "int32": [np.int32(1)], "bool_": [np.bool_(True)],
        "arrays": [np.ones(2), np.zeros(2)], "0-d arrays": [np.array(3)] * 2,
        "bytes of images": [np.zeros((2, 2), np.uint8)] * 2,
        "strings": ["a", "b"], "byte strings": [b"a", b"b"], "numpy strings": [np.str_("a")],
        "arrays of strings": [np.array(["a"])],
        "dicts": [{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}],
        "own dicts": [Dict(a=1), Dict(a=2)], "ordered": [collections.OrderedDict(a=1)],
        "named": [Pair(1, 2.0), Pair(3, 4.0)], "tuples": [(1, "x"), (3, "y")],
        "lists": [[1, 2], [3, 4]], "own lists": [List([1, 2])], "nested": [[(1, 2)], [(3, 4)]],
        "uneven": [[1, 2], [3]], "uneven arrays": [np.ones(2), np.ones(3)],
        "objects": [object()], "none": [None], "sets": [{1}], "other keys": [{"a": 1}, {"b": 1}],
        "transposed arrays": [np.arange(6.0).reshape(2, 3).T] * 2,
        "arrays of two dtypes": [np.ones(2, np.float32), np.ones(2)],
        "own arrays": [np.ones(2).view(Array)] * 2,
        "one own array": [np.ones(2), np.ones(2).view(Array)],
        "empty arrays": [np.ones((0, 3), np.float32)] * 2, "big integers": [2**63 - 1, -(2**63)],
        "too big": [2**63, 1], "numpy numbers": [np.int64(1), np.float32(2)],
        "nothing": [], "ranges": [range(2), range(2)],
    }  # fmt: skip


@pytest.mark.parametrize("name", items())
def test_collation(peer: Any, name: str) -> None:
    same(peer, lambda t: t.utils.data.default_collate(items()[name]))


@pytest.mark.parametrize("name", [n for n in items() if n not in ("objects", "sets", "ranges")])
def test_conversion(peer: Any, name: str) -> None:
    same(peer, lambda t: t.utils.data.default_convert(items()[name]))


def tensors(t: Any) -> dict[str, Any]:
    """Items that are tensors, of all kinds that are stacked in ways of their own."""
    x = t.arange(24).reshape(4, 3, 2)
    w = t.ones(2, requires_grad=True)
    return {
        "rows": list(x), "numbers": list(x[0, 0]), "of no elements": [x[:0, 0]] * 2,
        "transposed": [row.T for row in x], "two dtypes": [x[0], x[1].float()],
        "two shapes": [x[0], x[1, :1]], "with a number": [x[0], 3],
        "parameters": [t.nn.Parameter(w)], "of a history": [w * 2, w * 3],
        "views with a history": list((w * 2)[None].expand(3, 2)),
    }  # fmt: skip


@pytest.mark.parametrize("name", tensors(frontend))
def test_collation_of_tensors(peer: Any, name: str) -> None:
    def collated(t: Any) -> Any:
        batch = t.utils.data.default_collate(tensors(t)[name])
        return [batch.detach(), batch.dtype == t.int64, batch.requires_grad, batch.is_contiguous()]

    same(peer, collated)


def test_types_in_the_default_map(peer: Any) -> None:
    """Users put types of theirs there, and functions of theirs for others."""

    def batches(t: Any) -> Any:
        known = t.utils.data._utils.collate.default_collate_fn_map
        data = t.utils.data.TensorDataset(t.arange(4.0))
        former = dict(known)
        known[set] = lambda batch, *, collate_fn_map=None: sorted(set.union(*batch))
        known[t.Tensor] = lambda batch, *, collate_fn_map=None: t.cat([x[None] for x in batch]) + 1
        try:
            collate = t.utils.data.default_collate
            arrays = [np.zeros(2), np.ones(2)]
            loader = t.utils.data.DataLoader(data, batch_size=2)
            return [collate([{1}, {2}]), collate([(t.ones(1), {3})]), collate(arrays), list(loader)]
        finally:
            known.clear()
            known.update(former)

    same(peer, batches)


def test_a_subset_with_items_of_its_own(peer: Any) -> None:
    def items_of(t: Any, also: bool) -> Any:
        class Doubled(t.utils.data.Subset):
            def __getitem__(self, index: Any) -> Any:
                return 2 * super().__getitem__(index)

            if also:

                def __getitems__(self, indices: Any) -> Any:
                    return [self[i] for i in indices]

        return list(t.utils.data.DataLoader(Doubled([1, 2, 3], [0, 2]), batch_size=2))

    same(peer, lambda t: items_of(t, True))
    same(peer, lambda t: items_of(t, False))


def streams(t: Any) -> Any:
    class Count(t.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(5))

    return Count


def at_once(t: Any) -> Any:
    class Tens(t.utils.data.Dataset):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> int:
            return index

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [index * 10 for index in indices]

    return Tens()


CALLS: dict[str, Any] = {
    "tensors": lambda t, d: d.TensorDataset(t.ones(3, 2), t.arange(3))[1],
    "tensors' length": lambda t, d: len(d.TensorDataset(t.ones(3, 2), t.ones(3))),
    "tensors sliced": lambda t, d: d.TensorDataset(t.arange(5))[1:3],
    "tensors of sizes": lambda t, d: d.TensorDataset(t.ones(3, 2), t.ones(2)),
    "tensors beyond": lambda t, d: d.TensorDataset(t.ones(3, 2))[5],
    "subset": lambda t, d: list(d.Subset([1, 2, 3], [2, 0])),
    "subset item": lambda t, d: [d.Subset(range(5), [1, 3])[-1], len(d.Subset(range(5), [1, 3]))],
    "subset at once": lambda t, d: d.Subset(at_once(t), [3, 1]).__getitems__([1, 0]),
    "subset beyond": lambda t, d: d.Subset(range(5), [1, 3])[2],
    "concat": lambda t, d: list(d.ConcatDataset([[1, 2], [3], [4, 5]])),
    "concat items": lambda t, d: [d.ConcatDataset([[1, 2], [3]])[i] for i in (-1, -3, 0, 2)],
    "concat sizes": lambda t, d: d.ConcatDataset([[1, 2], [3]]).cumulative_sizes,
    "concat of none": lambda t, d: d.ConcatDataset([]),
    "concat behind": lambda t, d: d.ConcatDataset([[1, 2], [3]])[3],
    "concat before": lambda t, d: d.ConcatDataset([[1, 2], [3]])[-5],
    "concat of streams": lambda t, d: d.ConcatDataset([streams(t)()]),
    "sum": lambda t, d: len(d.TensorDataset(t.ones(2)) + d.TensorDataset(t.ones(3))),
    "chain": lambda t, d: list(d.ChainDataset([streams(t)(), streams(t)()])),
    "sum of streams": lambda t, d: list(streams(t)() + streams(t)()),
    "chain of lists": lambda t, d: list(d.ChainDataset([[1]])),
    "stack": lambda t, d: [d.StackDataset([1, 2], [3, 4])[0], d.StackDataset(a=[1], b=[3])[0]],
    "stack at once": lambda t, d: d.StackDataset(at_once(t), [4, 5, 6, 7, 8]).__getitems__([0, 2]),
    "stack of sizes": lambda t, d: d.StackDataset([1, 2], [3]),
    "stack by names": lambda t, d: d.StackDataset(a=[1], b=[2, 3]),
    "stack of none": lambda t, d: d.StackDataset(),
    "stack of both": lambda t, d: d.StackDataset([1], a=[2]),
    "split": lambda t, d: [
        [len(part) for part in d.random_split(range(10), lengths)]
        for lengths in ([3, 7], [0.5, 0.3, 0.2], [1 / 3, 1 / 3, 1 / 3], [0.25, 0.25], [0.1, 0.2])
    ],
    # Which elements a generator chooses differs between the systems; what holds of them does not.
    "split with a generator": lambda t, d: _of_generator(
        t, lambda g: [i for part in d.random_split(range(10), [7, 3], generator=g) for i in part]
    ),
    "sampled with a generator": lambda t, d: _of_generator(
        t, lambda g: list(d.RandomSampler(range(10), generator=g))
    ),
    "loaded with a generator": lambda t, d: _of_generator(
        t,
        lambda g: [
            i for batch in d.DataLoader(range(10), 4, shuffle=True, generator=g)
            for i in batch.tolist()
        ],
    ),
    "split sum": lambda t, d: d.random_split(range(10), [3, 3]),
    "split of too much": lambda t, d: d.random_split(range(10), [0.5, 0.6]),
    "split into nothing": lambda t, d: [len(x) for x in d.random_split(range(1), [0.5, 0.5])],
    "split fractions": lambda t, d: d.random_split(range(10), [-0.5, 1.5]),
    "sequential": lambda t, d: list(d.SequentialSampler([5, 6, 7])),
    "random": lambda t, d: sorted(d.RandomSampler([5, 6, 7])),
    "random many": lambda t, d: len(list(d.RandomSampler([5, 6], num_samples=7))),
    "random again": lambda t, d: len(list(d.RandomSampler([5, 6], True))),
    "random of none": lambda t, d: d.RandomSampler([]),
    "random count": lambda t, d: d.RandomSampler([1], num_samples=-1),
    "random half": lambda t, d: d.RandomSampler([1], num_samples=2.0),
    "random replacement": lambda t, d: d.RandomSampler([1], replacement=3),
    "subset random": lambda t, d: sorted(d.SubsetRandomSampler([3, 5, 7])),
    "weighted": lambda t, d: list(d.WeightedRandomSampler([0, 1.0, 0], 3)),
    "weighted all": lambda t, d: sorted(d.WeightedRandomSampler([0.5, 0.5], 2, replacement=False)),
    "weights": lambda t, d: d.WeightedRandomSampler([1.0, 2.0], 2).weights,
    "weighted none": lambda t, d: d.WeightedRandomSampler([1.0], 0),
    "weighted replacement": lambda t, d: d.WeightedRandomSampler([1.0], 1, 3),
    "weighted 2-d": lambda t, d: d.WeightedRandomSampler([[1.0]], 1),
    "weighted too many": lambda t, d: list(d.WeightedRandomSampler([1.0], 2, False)),
    "batches": lambda t, d: [list(d.BatchSampler(range(5), 2, last)) for last in (True, False)],
    "batch counts": lambda t, d: [len(d.BatchSampler(range(5), 2, last)) for last in (True, False)],
    "batches of 0": lambda t, d: d.BatchSampler(range(5), 0, False),
    "batches of 2.0": lambda t, d: d.BatchSampler(range(5), 2.0, False),
    "batches of True": lambda t, d: d.BatchSampler(range(5), True, False),
    "last batch": lambda t, d: d.BatchSampler(range(5), 2, 3),
    "no item": lambda t, d: d.Dataset()[0],
    "no order": lambda t, d: list(d.Sampler()),
    "no worker": lambda t, d: d.get_worker_info(),
    "generic": lambda t, d: [
        issubclass(type("Mine", (d.Dataset,), {}), d.Dataset), bool(d.Dataset[int]),
        bool(d.DataLoader[int]), bool(d.Sampler[int]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_datasets_and_samplers(peer: Any, name: str) -> None:
    same(peer, lambda t: CALLS[name](t, t.utils.data))


LOADERS: dict[str, Any] = {
    "batches": lambda t, load: [list(load([1, 2, 3], n)) for n in (1, 2, 3, 4)],
    "drop last": lambda t, load: list(load([1, 2, 3], 2, drop_last=True)),
    "single": lambda t, load: list(load([1, 2.0, np.ones(1)], None)),
    "collate": lambda t, load: list(load([1, 2, 3], 2, collate_fn=list)),
    "lengths": lambda t, load: [
        len(load(range(7), n, drop_last=last)) for n in (1, 3, 7) for last in (True, False)
    ],
    "single length": lambda t, load: len(load(range(7), None)),
    "sampler": lambda t, load: [list(load([1, 2, 3], sampler=[2, 0])), len(load([1], sampler=[]))],
    "batch sampler": lambda t, load: list(load([1, 2, 3], batch_sampler=[[2], [0, 1]])),
    "attributes of batch sampler": lambda t, load: [
        load([1], batch_sampler=[[0]]).batch_size, load([1], batch_sampler=[[0]]).drop_last
    ],
    "empty": lambda t, load: list(load([])),
    "stream": lambda t, load: list(load(streams(t)(), 2)),
    "stream drop last": lambda t, load: list(load(streams(t)(), 2, drop_last=True)),
    "stream single": lambda t, load: list(load(streams(t)(), None)),
    "stream length": lambda t, load: len(load(streams(t)(), 2)),
    "at once": lambda t, load: list(load(at_once(t), 2, collate_fn=list)),
    "positions": lambda t, load: list(
        load([1, 2], 1, False, None, None, 0, None, False, False, 0, None, None, None)
    ),
    "attributes": lambda t, load: [
        getattr(load([1, 2]), name) for name in (
            "batch_size", "drop_last", "num_workers", "pin_memory", "timeout", "prefetch_factor",
            "persistent_workers", "worker_init_fn", "generator", "in_order", "dataset",
        )
    ],
    "prefetch": lambda t, load: load([1, 2], num_workers=2).prefetch_factor,
    "item beyond": lambda t, load: list(load([1, 2], sampler=[5])),
    "shuffle nothing": lambda t, load: load([], shuffle=True),
    "batch size 0": lambda t, load: load([1, 2], 0),
    "shuffle and sampler": lambda t, load: load([1, 2], shuffle=True, sampler=[0]),
    "batch sampler and size": lambda t, load: load([1, 2], batch_sampler=[[0]], batch_size=2),
    "batch sampler and shuffle": lambda t, load: load([1], batch_sampler=[[0]], shuffle=True),
    "batch sampler and sampler": lambda t, load: load([1], batch_sampler=[[0]], sampler=[0]),
    "batch sampler and last": lambda t, load: load([1], batch_sampler=[[0]], drop_last=True),
    "single and last": lambda t, load: load([1, 2], None, drop_last=True),
    "workers": lambda t, load: load([1, 2], num_workers=-1),
    "timeout": lambda t, load: load([1, 2], timeout=-1),
    "prefetch alone": lambda t, load: load([1, 2], prefetch_factor=2),
    "persistent alone": lambda t, load: load([1, 2], persistent_workers=True),
    "context alone": lambda t, load: load([1, 2], multiprocessing_context="fork"),
    "context": lambda t, load: load([1, 2], num_workers=1, multiprocessing_context="none"),
    "context type": lambda t, load: load([1, 2], num_workers=1, multiprocessing_context=3),
    "stream shuffle": lambda t, load: load(streams(t)(), shuffle=True),
    "stream sampler": lambda t, load: load(streams(t)(), sampler=[0]),
    "stream batches": lambda t, load: load(streams(t)(), batch_sampler=[[0]]),
    "set size": lambda t, load: setattr(load([1]), "batch_size", 3),
    "set dataset": lambda t, load: setattr(load([1]), "dataset", 3),
    "set collate": lambda t, load: setattr(load([1]), "collate_fn", list),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_loaders(peer: Any, name: str) -> None:
    same(peer, lambda t: LOADERS[name](t, t.utils.data.DataLoader))
