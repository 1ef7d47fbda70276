"""What Linux has and other systems may lack, taken away piece by piece."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import system
from graphc.codegen import target
from graphc.codegen.loop_ir import operations
from graphc.errors import LoweringError
from graphc.ir.types import DType
from graphc.ops.kinds import numpy_algebra
from graphc.runtime import allocator, pool, processors


def product() -> graphc.Graph:
    g = graphc.GraphBuilder("product")
    x, y = (g.input(name, "f32[64,64]") for name in "xy")
    return g.finish(x @ y)


@pytest.fixture
def no_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    target.host()  # LLVM's own library is there

    def refused(name: Any = None, *_: Any, **__: Any) -> Any:
        raise TypeError("a name is needed")

    monkeypatch.setattr(ctypes, "CDLL", refused)


def test_without_affinity_all_processors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(processors, "_quota", lambda *_: None)
    assert system.processors() == processors.available() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert system.processors() == 1


def test_without_hooks_for_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: registered.append(hooks))
    system.after_fork(ignored := lambda: None)
    monkeypatch.delattr(os, "register_at_fork")
    system.after_fork(lambda: registered.append("called"))
    assert registered == [{"after_in_child": ignored}]


def test_without_a_c_library_there_is_one_thread(no_c_library: None) -> None:
    assert system.c_function("malloc") is None
    function = graphc.compile(product(), threads=4)
    assert function.schedule.threads == 1
    assert "there is no thread pool" in str(function.schedule)
    x = np.eye(64, dtype=np.float32)
    np.testing.assert_array_equal(function(x, x * 3)[0], x * 3)


def test_the_c_library_is_told_to_keep_freed_memory_unless_somebody_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[int, int]] = []
    known: dict[str, Any] = {"mallopt": lambda option, value: told.append((option, value))}
    monkeypatch.setattr(allocator, "c_function", known.get)
    for name in [each for each in os.environ if each.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)
    allocator.keep_freed_memory.__wrapped__()
    assert told == [(-3, 32 << 20), (-1, 64 << 20)]
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    allocator.keep_freed_memory.__wrapped__()
    monkeypatch.delenv("MALLOC_ARENA_MAX")
    known.clear()
    allocator.keep_freed_memory.__wrapped__()  # no C library: nobody is told
    assert len(told) == 2


def test_without_a_c_library_python_knows_the_gamma_function(
    no_c_library: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_algebra, "_c_lgamma", numpy_algebra._c_lgamma.__wrapped__)
    values = numpy_algebra.NUMPY.lgamma(np.array([0.5, 7.0]))
    np.testing.assert_allclose(values, [0.5723649429247001, 6.579251212010101], rtol=1e-14)


def test_without_a_c_library_the_interpreter_says_what_it_lacks(no_c_library: None) -> None:
    with pytest.raises(LoweringError, match=r"C library .* has no fma"):
        operations.libm_function.__wrapped__("fma", DType.f64, 3)


@pytest.mark.parametrize("lacking", ["pthread_create", "pthread_cond_wait"])
def test_without_threads_of_posix(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = pool.c_function
    monkeypatch.setattr(pool, "c_function", lambda name: None if name == lacking else there(name))
    threads, why = pool.chosen_threads(4)
    assert threads == 1 and why.startswith("there is no thread pool for ")


def test_without_sys_caches_are_of_a_common_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(target, "Path", lambda _: tmp_path / "missing")
    assert target._cache_bytes(1, "Data", 12345) == 12345
    assert processors._quota(tmp_path, tmp_path / "missing") is None


def test_on_other_systems_workers_sleep_on_condition_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool.sys, "platform", "darwin")
    assert "pthread_cond_wait" in pool._parking() and "syscall" not in pool._parking()


@pytest.fixture
def collection() -> Iterator[tuple[int, int, int]]:
    """Thresholds of Python's search for cycles, put back afterwards."""
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    gc.enable()
    gc.set_threshold(701, 11, 12)
    yield gc.get_threshold()
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def test_nothing_is_collected_while_a_graph_is_compiled(collection: tuple[int, int, int]) -> None:
    with system.uncollected():
        assert gc.get_threshold() == (0, 11, 12)
        with system.uncollected():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold() == collection
    with pytest.raises(KeyError, match="in the middle"), system.uncollected():
        raise KeyError("in the middle")
    assert gc.get_threshold() == collection


def test_what_is_set_meanwhile_stays(collection: tuple[int, int, int]) -> None:
    with system.uncollected():
        gc.disable()
        gc.set_threshold(500, 5, 5)
    assert not gc.isenabled() and gc.get_threshold() == (500, 5, 5)
