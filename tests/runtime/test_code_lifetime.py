"""Machine code goes when nothing holds it any more, and not before. `benchmarks/many_graphs.py` is
the long form: it compiles 20,000 graphs and tells the bytes of the process."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.llvm import jit, loading
from graphc.codegen.program import link
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType
from graphc.latest import Latest

Array = np.ndarray[Any, Any]
KEPT = 4
"""Kernels of the memos here."""


@pytest.fixture(autouse=True)
def few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(link, "_native", Latest(KEPT))
    monkeypatch.setattr(jit, "_compiled", Latest(KEPT))
    monkeypatch.setattr(loading, "LIBRARIES", 8)
    monkeypatch.setattr(loading, "_engines", [])
    yield
    loading._give_back()


def scaled(factor: float, extent: Any = 16) -> graphc.Graph:
    g = graphc.GraphBuilder("scaled")
    x = g.input("x", TensorType(DType.f32, (extent,)))
    return g.finish(x * factor + 1.0)


def product(factor: float) -> graphc.Graph:
    """Of several kernels, which is worth threads."""
    g = graphc.GraphBuilder("product")
    x = g.input("x", "f32[128,128]")
    return g.finish((x @ (x * factor)) @ x)


@pytest.mark.slow
def test_code_of_dropped_executables_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    done = loading._Engine.end_if_done

    def noted(engine: Any) -> None:
        done(engine)
        ended.extend([engine] if engine.jit.closed else [])

    monkeypatch.setattr(loading._Engine, "end_if_done", noted)
    before = loading.loaded_functions()
    x = np.ones(16, np.float32)
    for factor in range(40):
        (y,) = graphc.compile(scaled(float(factor)), threads=1)(x)
        assert (y == factor + 1).all()
        graphc.compile(product(float(factor)), threads=2)
    gc.collect()
    assert loading.loaded_functions() <= before + 2 * KEPT + 4
    assert len(ended) >= 5, "engines end with their libraries"


def test_what_is_in_use_stays_when_the_memo_has_forgotten_it() -> None:
    x, square = np.ones(16, np.float32), np.ones((128, 128), np.float32)
    kept = [graphc.compile(scaled(float(n)), threads=1) for n in range(3 * KEPT)]
    several = [graphc.compile(product(float(n)), threads=2) for n in range(KEPT)]
    for n in range(100, 100 + 3 * KEPT):
        graphc.compile(scaled(float(n)), threads=1)(x)
    gc.collect()
    loading._give_back()
    for n, executable in enumerate(kept):
        assert (executable(x)[0] == n + 1).all()
    for n, executable in enumerate(several):
        assert (executable(square)[0] == 128.0 * 128 * n).all()


def test_an_instance_keeps_the_code_of_its_sizes() -> None:
    sized = graphc.compile(scaled(5.0, dim("n", 2)), threads=1, example={"n": 16})
    instance = sized.at(n=7)
    del sized
    for n in range(200, 200 + 3 * KEPT):
        graphc.compile(scaled(float(n)), threads=1)
    gc.collect()
    loading._give_back()
    assert (instance(np.ones(7, np.float32))[0] == 6).all()


def test_calls_go_on_while_others_are_compiled_and_dropped() -> None:
    square, wrong, stop = np.ones((128, 128), np.float32), list[int](), threading.Event()
    newest = [(1, graphc.compile(product(1.0), threads=2))]

    def call() -> None:
        while not stop.is_set():
            n, executable = newest[0]
            if not (executable(square)[0] == 128.0 * 128 * n).all():
                wrong.append(n)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for n in range(2, 14):
        newest[0] = (n, graphc.compile(product(float(n)), threads=2))
    stop.set()
    for caller in callers:
        caller.join()
    assert not wrong


def test_the_latest_are_remembered_by_use() -> None:
    latest: Latest[str, int] = Latest(2)
    latest["a"], latest["b"] = 1, 2
    assert latest["a"] == 1
    latest["c"] = 3
    assert set(latest) == {"a", "c"} and latest.get("b") is None and len(latest) == 2
    assert list(latest.values()) == [1, 3]
