"""Caches with a limit: the oldest go, a few at once; those of eager mode are such caches."""

from __future__ import annotations

import importlib
from threading import Thread

import frontend as torch
from frontend.tensors.bounded import Bounded
from frontend.tensors.state import PREPARED


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
        "dispatch": ["_FILLED"], "native_ops": ["_MEMO"], "pointwise": ["_VARIANTS", "_POINTWISE"],
        "kernel_families": ["_FAMILIES", "_OF_ANY_LAYOUT"], "gradient_programs": ["_STEPS"],
    }.items():  # fmt: skip
        module = importlib.import_module(f"frontend.eager.{name}")
        assert all(isinstance(getattr(module, cache), Bounded) for cache in caches), name
    assert all(isinstance(cache, Bounded) for cache in PREPARED.values())


def test_ops_beyond_the_limit_leave_the_latest_known() -> None:
    known = PREPARED["native"]
    before = dict(known)
    try:
        for number in range(known._limit):
            known["filler", number] = None
        latest = torch.ones(3, 5, 7).neg().tensor_type
        newest = [*known][-1]
        assert latest in newest and ("filler", known._limit - 1) in known
        assert known._limit * 7 // 8 <= len(known) <= known._limit
    finally:
        known.clear()
        known.update(before)
