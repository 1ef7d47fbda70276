"""Caches with a limit: the oldest go, a few at once; those of eager mode are such caches."""

from __future__ import annotations

import importlib
from collections import Counter
from threading import Thread
from typing import Any

import pytest

import frontend as torch
from frontend.engine.eager import dispatch
from frontend.engine.eager.kernels import native_ops, pointwise
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.state import PREPARED
from graphc.ir.registry import unregister
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import neg
from graphc.ops.kinds.composite import DEFINITIONS, Composite


def test_the_oldest_go_and_the_rest_stays() -> None:
    cache: Bounded[int, int] = Bounded(16)
    for number in range(17):
        cache[number] = -number
    assert [*cache] == [*range(2, 17)] and cache[16] == -16
    for number in range(100):
        cache[number] = number
        assert len(cache) <= 16
    assert [*cache][-3:] == [97, 98, 99]
    tiny: Bounded[int, int] = Bounded(1)
    tiny[1], tiny[2] = 1, 2
    assert tiny == {2: 2}


def test_threads_share_one() -> None:
    cache: Bounded[int, int] = Bounded(64)

    def fill(first: int) -> None:
        for number in range(first, first + 3000):
            cache[number] = number

    threads = [Thread(target=fill, args=(first,)) for first in (0, 2000, 4000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < len(cache) <= 66 and all(key == value for key, value in cache.items())


def test_caches_of_eager_mode_are_bounded() -> None:
    for name, caches in {
        "dispatch": ["_FILLED"], "kernels.native_ops": ["_MEMO"],
        "kernels.pointwise": ["_VARIANTS", "_POINTWISE"],
        "kernels.kernel_families": ["_FAMILIES", "_OF_ANY_LAYOUT"],
    }.items():  # fmt: skip
        module = importlib.import_module(f"frontend.engine.eager.{name}")
        assert all(isinstance(getattr(module, cache), Bounded) for cache in caches), name
    assert all(isinstance(cache, Bounded) for cache in PREPARED.values())


def test_ops_beyond_the_limit_leave_the_latest_known() -> None:
    known = PREPARED["native"]
    before = dict(known)
    try:
        for number in range(known._limit):
            known["filler", number] = None
        latest = torch.ones(3, 5, 23).neg().tensor_type
        newest = [*known][-1]
        assert latest in newest and ("filler", known._limit - 1) in known
        assert known._limit * 7 // 8 <= len(known) <= known._limit
    finally:
        known.clear()
        known.update(before)


@pytest.mark.parametrize("limit", [512, pytest.param(8192, marks=pytest.mark.slow)])
def test_sizes_that_do_not_end_evict_a_few_at_a_time(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More sizes of one op than the caches hold: each is prepared once, one kernel serves them all,
    and no call throws away more than an eighth of a cache; what came last is still known."""
    prepared: Counter[Any] = Counter()
    make = dispatch.Prepared

    def counted(op: Any, types: Any, attributes: Any, backend: str) -> Any:
        prepared[op, types] += 1
        return make(op, types, attributes, backend)

    caches: list[Bounded[Any, Any]] = [Bounded(limit), Bounded(limit // 2)]
    monkeypatch.setattr(dispatch, "Prepared", counted)
    monkeypatch.setitem(PREPARED, "native", caches[0])
    monkeypatch.setattr(native_ops, "_MEMO", caches[1])
    block, sizes = torch.ones(2 * limit), range(2, limit * 11 // 8)
    torch.set_eager_backend("native")  # which takes what it knows anew
    try:
        torch.neg(block[:2])
        kernels, lengths = len(pointwise._VARIANTS), [len(cache) for cache in caches]
        most, gone = 0.0, [0, 0]
        for size in sizes[1:]:
            torch.neg(block[:size])
            for i, cache in enumerate(caches):
                evicted, lengths[i] = lengths[i] + 1 - len(cache), len(cache)
                most, gone[i] = max(most, evicted / cache._limit), gone[i] + evicted
        assert most == 1 / 8 and gone == [limit * 3 // 8, limit * 7 // 8]
        assert len(pointwise._VARIANTS) == kernels
        for size in sizes[-limit * 7 // 8 :]:
            torch.neg(block[:size])
        assert prepared == {(neg, (TensorType(DType.f32, (size,)),)): 1 for size in sizes}
    finally:
        monkeypatch.undo()
        torch.set_eager_backend("native")


def test_definitions_of_a_composite_evict_the_oldest() -> None:
    def define(x: Any) -> Any:
        defined.append(x.type.shape[0])
        return x + x

    defined: list[int] = []
    op = Composite("doubled_here", define, samples=None)
    unregister(op.name)
    of_sizes = [TensorType(DType.f32, (size,)) for size in range(1, DEFINITIONS + 101)]
    for type in of_sizes:
        op.definition((of_sizes[0],), {})
        op.definition((type,), {})
    assert defined == [type.shape[0] for type in of_sizes]
    assert len(op._definitions) == DEFINITIONS
