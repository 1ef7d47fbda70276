"""Kernels compiled by a worker, a subprocess."""

from __future__ import annotations

import logging
import os
import pickle
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.program import compile_worker, link
from graphc.codegen.target import running
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, kernels


def products(count: int, start: int) -> graphc.Graph:
    """Products of so many different sizes: a kernel each."""
    g = graphc.GraphBuilder("products")
    outputs = []
    for size in range(start, start + count):
        x = g.input(f"x{size}", f"f32[{size},3]")
        outputs.append(x @ g.input(f"w{size}", f"f32[3,{size}]"))
    return g.finish(*outputs)


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_worker, "MANY", 2)
    monkeypatch.setattr(compile_worker, "_processors", lambda: 2)
    monkeypatch.setenv("GRAPHC_CACHE", "off")


def check(graph: graphc.Graph) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) for t in graph.input_types]
    want = graphc.run(graph, *arrays)
    for got, expected in zip(graphc.compile(graph)(*arrays), want, strict=True):
        assert np.allclose(got, expected, atol=1e-5)


@pytest.mark.usefixtures("two_processors")
def test_both_processes_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = list(kernels(plan_graph(products(6, 30))[1]))
    here: list[KernelSpec] = []
    gate: list[Any] = []

    def compiled_here(spec: KernelSpec) -> None:
        here.append(spec)
        if not gate:  # one is held until the other process has had its turn
            gate.append(None)
            import time

            time.sleep(2.0)
        link.native_kernel(spec, running(), {})

    compiled = compile_worker.compile_all(specs, running(), compiled_here)
    assert compiled and here and not set(compiled) & set(here)
    assert set(compiled) | set(here) == set(specs)
    for spec, code in compiled.items():
        own = link.native_kernel(spec, running(), {})
        assert (own.symbol, own.extent, own.scratch_bytes) == (
            code.facts.symbol, code.facts.extent, code.facts.scratch_bytes,
        )  # fmt: skip


@pytest.mark.usefixtures("two_processors")
def test_a_graph_is_the_same_whoever_compiles_it() -> None:
    check(products(5, 40))


@pytest.mark.usefixtures("two_processors")
def test_a_process_that_dies_is_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compile_worker, "PROGRAM", "raise SystemExit(3)")
    with caplog.at_level(logging.WARNING, "graphc.compile"):
        check(products(4, 50))
    assert "failed" in caplog.text


@pytest.mark.usefixtures("two_processors")
def test_where_no_thread_can_be_started_all_is_compiled_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(compile_worker.threading.Thread, "start", refused)
    with caplog.at_level(logging.WARNING, "graphc.compile"):
        check(products(3, 56))
    assert "can't start new thread" in caplog.text


def test_a_worker_says_nothing_where_the_other_side_ends(capfd: pytest.CaptureFixture[str]) -> None:
    """Before its first message, within one, before it took the answer; nor does it get a SIGINT
    that a terminal sends to all processes of its session."""
    request = pickle.dumps((next(iter(kernels(plan_graph(products(1, 33))[1]))), running()))
    workers = [compile_worker.start_worker(compile_worker.PROGRAM) for _ in range(3)]
    for worker, written in zip(workers, (b"", request[:-3], request), strict=True):
        assert worker.stdin is not None and worker.stdout is not None
        assert os.getsid(worker.pid) == worker.pid
        worker.stdout.close()
        worker.stdin.write(written)
        worker.stdin.close()
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("two_processors")
def test_an_error_here_ends_the_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(spec: KernelSpec) -> None:
        raise KeyboardInterrupt

    specs = list(kernels(plan_graph(products(4, 60))[1]))
    with pytest.raises(KeyboardInterrupt):
        compile_worker.compile_all(specs, running(), broken)


def test_one_process_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_worker, "MANY", 2)
    specs = list(kernels(plan_graph(products(3, 80))[1]))
    here: list[KernelSpec] = []
    assert compile_worker.compile_all(specs, running(), here.append) == {} and len(here) == 3
    monkeypatch.setenv("GRAPHC_PROCESSES", "many")
    with pytest.raises(graphc.GraphError, match="GRAPHC_PROCESSES='many'"):
        compile_worker.compile_all(specs, running(), here.append)


def test_few_kernels_are_compiled_here() -> None:
    specs = list(kernels(plan_graph(products(2, 70))[1]))
    here: list[KernelSpec] = []
    assert compile_worker.compile_all(specs, running(), here.append) == {}
    assert here == specs[::-1]


def test_a_process_started_ahead_takes_part_or_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_worker, "NODES", 1)
    monkeypatch.setattr(compile_worker, "_processors", lambda: 2)
    with compile_worker.worker_started_early(5):
        (process,) = compile_worker._early_workers
    assert not compile_worker._early_workers
    assert process.returncode is not None

    specs = list(kernels(plan_graph(products(6, 50))[1]))
    monkeypatch.setattr(compile_worker, "MANY", 2)
    with compile_worker.worker_started_early(5):
        (process,) = compile_worker._early_workers
        compiled = compile_worker.compile_all(
            specs, running(), lambda spec: link.native_kernel(spec, running(), {})
        )
        assert not compile_worker._early_workers
    assert process.returncode == 0
    assert len(compiled) <= len(specs)


def test_neither_the_worker_nor_who_asks_it_needs_the_linker() -> None:
    """The worker's side imports who asks, never the other way round."""
    import subprocess
    import sys

    code = (
        "import sys, graphc.codegen.program.compile_worker_main as main; "
        "assert 'graphc.codegen.program.link' not in sys.modules; "
        "del sys.modules[main.__name__]; import graphc.codegen.program.link; "
        "assert main.__name__ not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
