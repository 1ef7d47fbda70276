"""Profiles: what they hold, never how long something took."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn, optim
from graphc.debug.cli import main
from graphc.debug.profile import machine as machines
from graphc.debug.profile import rates
from graphc.debug.profile.calls import profile_calls
from graphc.debug.profile.machine import Machine, MemoryLevel
from graphc.debug.profile.perf_map import perf_map
from graphc.debug.profile.profiler import profile
from graphc.debug.profile.residency import CacheModel
from graphc.debug.profile.table import grouped, text
from graphc.debug.profile.work import work_of_body
from graphc.debug.traced import CallOptions, DrawnInput, TracedCall, drawn
from graphc.ir.parser import parse
from graphc.runtime.compile import compile
from graphc.runtime.step_clock import StepClock
from graphc.schedule.plan import all_steps

FAKE = Machine(
    "a test", 1e9, 1e9,
    (MemoryLevel("L1", 1000, 4e9), MemoryLevel("L2", 10_000, 2e9), MemoryLevel("DRAM", None, 1e9)),
)  # fmt: skip


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is measured here."""
    machines.machine.cache_clear()
    monkeypatch.setattr(machines, "_read", lambda: FAKE)


def looped(x: Any, w: Any) -> Any:
    """A product in front of a loop of seven turns."""

    def turn(h: Any, row: Any) -> Any:
        h = torch.tanh(h @ w + row)
        return h, h * 2

    return torch.scan(turn, x[0], x @ w)[1]


def arrays_of(graph: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.input_types]


@pytest.fixture(scope="module")
def loop_graph() -> Any:
    return torch.trace(looped, torch.zeros(7, 512, 64), torch.zeros(64, 64))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_clock_changes_no_bit_and_counts_every_turn(threads: int, loop_graph: Any) -> None:
    executable = compile(loop_graph, threads=threads)
    assert executable.schedule.threads == threads
    arrays = arrays_of(loop_graph)
    clock = StepClock(executable)
    clocked = clock.run(list(arrays))
    for x, y in zip(clocked.results, executable(*arrays), strict=True):
        np.testing.assert_array_equal(x, y, strict=True)
    steps = list(all_steps(executable.plan))
    assert len(clocked.records) == threads
    measured = profile(executable, arrays, 1e-3)
    for number, step in enumerate(measured.steps):
        assert step.kind == type(steps[number]).__name__.lower()
        inside = [steps[around] for around in step.within]
        runs = 7 if inside else 1
        assert step.kind == "loop" or step.runs == runs, (step, inside)
    assert any(step.within for step in measured.launches)
    assert measured.in_kernels + measured.waiting + measured.outside == pytest.approx(
        measured.whole
    )
    assert 0 < measured.in_kernels <= measured.whole


def test_each_launch_has_work_and_a_limit(loop_graph: Any) -> None:
    executable = compile(loop_graph, threads=1)
    measured = profile(executable, arrays_of(loop_graph), 1e-3)
    assert measured.machine is FAKE and measured.passes >= measured.kept > 0
    assert sum(step.flops for step in measured.launches) == 2 * 2 * 7 * 512 * 64 * 64
    for step in measured.launches:
        assert step.limit is not None and step.nbytes > 0
        assert step.limit.parts[step.limit.bound] == max(step.limit.parts.values())
        assert sum(step.limit.served) == step.limit.work.nbytes
    by_line = grouped(measured, "line")
    assert sum(group.launches for group in by_line) == len(measured.launches)
    shown = "\n".join(text(measured, top=1))
    assert "more launches" in shown and "test_profile.py" in shown
    json.dumps(profile_calls([TracedCall(loop_graph, tuple(arrays_of(loop_graph)), CallOptions(
        threads=1))], 1e-3).chrome_trace())  # fmt: skip


def test_the_trace_nests_a_loops_launches_in_it(loop_graph: Any) -> None:
    from graphc.debug.profile.chrome_trace import chrome_trace

    executable = compile(loop_graph, threads=1)
    events = chrome_trace(profile(executable, arrays_of(loop_graph), 1e-3))["traceEvents"]
    (loop,) = [e for e in events if e.get("cat") == "loop" and e["dur"] > 0][:1]
    within = [
        e for e in events if e["ph"] == "X" and e is not loop
        and loop["ts"] <= e["ts"] and e["ts"] + e["dur"] <= loop["ts"] + loop["dur"] + 1e-6
    ]  # fmt: skip
    assert len([e for e in within if e["cat"] == "launch"]) % 7 == 0 and len(within) >= 7


def test_perf_is_told_where_each_kernel_lies(loop_graph: Any) -> None:
    lines = [line.split() for line in perf_map(compile(loop_graph, threads=1))]
    spans = [(int(address, 16), int(size, 16)) for address, size, _ in lines]
    assert all(size > 0 for _, size in spans)
    assert all(a + n <= b for (a, n), (b, _) in pairwise(spans))
    assert all(name.startswith("looped.k") for _, _, name in lines)


def test_what_was_touched_last_lies_nearest() -> None:
    caches = CacheModel([100, 1000, float("inf")])
    a, b, c = ("arena", 0, 60), ("arena", 60, 120), ("argument 0", 0, 2000)
    assert caches.touch(a) == 2  # never touched before
    assert caches.touch(a) == 0
    assert caches.touch(b) == 2
    assert caches.touch(a) == 1  # a and b together have no room in the first
    assert caches.touch(("arena", 30, 60)) == 0  # a part of it
    assert caches.touch(c) == 2
    assert caches.touch(a) == 2  # c has driven all out


def test_slices_and_lookups_read_what_they_take() -> None:
    body = parse("""
        graph body(%x: f32[100,8], %t: f32[1000,8], %i: i64[5]) {
          %1 = slice(%x) size=[10, 8] start=[0, 0] step=[1, 1] : f32[10,8]
          %2 = take(%t, %i) axis=0 : f32[5,8]
          return %1, %2
        }""")
    assert work_of_body(body).reads == (10 * 8 * 4, 5 * 8 * 4, 40)


def test_products_that_meet_padding_are_no_work() -> None:
    same = "dilation=[1] groups=1 padding=[1]"
    body = parse(f"""
        graph body(%x: f32[2,3,8], %w: f32[4,3,3], %g: f32[2,4,4]) {{
          %1 = conv(%x, %w) {same} stride=[2] : f32[2,4,4]
          %2 = conv_input_grad(%g, %w) {same} size=[8] stride=[2] : f32[2,3,8]
          %3 = conv_weight_grad(%x, %g) {same} kernel=[3] stride=[2] : f32[4,3,3]
          return %1, %2, %3
        }}""")
    met = 4 * 3 - 1  # of four places with three taps each, one tap lies in front of the image
    assert work_of_body(body).products == 3 * (2 * 3 * 4 * met)


def test_inputs_are_drawn_the_same_each_time() -> None:
    kinds = [DrawnInput.parse(text) for text in ("f32[3,2]", "i64[50]<4", "i32[3]", "bool[2]")]
    arrays = drawn(kinds)
    for x, y in zip(arrays, drawn(kinds), strict=True):
        np.testing.assert_array_equal(x, y, strict=True)
    assert set(arrays[1]) == {0, 1, 2, 3} and not arrays[2].any() and not arrays[3].any()


def test_profiling_a_step_leaves_all_state_as_it_was() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @torch.compile(threads=1)
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.ones(3, 4)
    before = {name: value.numpy().copy() for name, value in net.state_dict().items()}
    random = torch.get_rng_state().numpy().copy()
    measured = step.profile(x, seconds=1e-3)
    assert len(measured) == 1 and "share" in str(measured)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    np.testing.assert_array_equal(torch.get_rng_state().numpy(), random)
    assert len(optimizer.state) == 0 and all(p.grad is None for p in net.parameters())
    assert not step.specializations


STEP = """
from typing import Annotated, Any
import frontend as torch

w = torch.ones(8, 4)

def scores(x: Annotated[Any, "f32[3,8]"], y: Annotated[Any, "i64[3]<4"]):
    return torch.nn.functional.cross_entropy(x @ w, y)
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, trace = tmp_path / "step.py", tmp_path / "trace.json"
    file.write_text(STEP, "utf-8")
    command = ["profile", f"{file}:scores", "--seconds", "0.001", "--threads", "1"]
    assert main([*command, "--trace", str(trace)]) == 0
    shown = capsys.readouterr().out
    assert "scores: " in shown and "step.py:8" in shown
    assert json.loads(trace.read_text("utf-8"))["traceEvents"]
    for wrong, said in (
        (["--seconds", "0"], "--seconds 0"),
        (["--threads", "0"], "--threads 0"),
        (["--trace", str(tmp_path / "no" / "t.json")], "cannot write"),
        (["--input", "f32[3,8]<4", "--input", "i64[3]"], "for integers"),
        (["--input", "f32[3,8]"], "does not take 1 input"),
    ):
        assert main([*command, *wrong]) == 2
        assert said in capsys.readouterr().err


def test_the_machine_is_measured_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(rates, "BURSTS", 1)
    monkeypatch.setattr(rates, "BURST_SECONDS", 1e-6)
    monkeypatch.setattr(machines, "cache_sizes", lambda: {"L1": 1 << 12, "L2": 1 << 13})
    machines.machine.cache_clear()
    first = machines.machine()
    assert [level.name for level in first.levels] == ["L1", "L2", "DRAM"]
    assert all(rate > 0 for rate in (first.products, first.additions))
    machines.machine.cache_clear()
    monkeypatch.setattr(machines, "measured", None)
    assert machines.machine() == first
    machines.machine.cache_clear()


def test_a_size_is_profiled_with_the_kernels_that_serve_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from graphc.codegen.program import link
    from graphc.ir.symbols import symbols_of

    graph = parse("""
        graph layer(%x: f32[n,48], %w: f32[48,40]) where 2 <= n {
          %h = matmul(%x, %w) : f32[n,40]
          %t = exp(%h) : f32[n,40]
          %s = sum(%t) axes=[0] : f32[40]
          return %t, %s
        }""")
    lowered: list[Any] = []
    plain = link.compiled_spec

    def noted(spec: Any, *rest: Any) -> Any:
        lowered.append(spec)
        return plain(spec, *rest)

    monkeypatch.setattr(link, "compiled_spec", noted)
    for threads in (1, 2):
        sized = compile(graph, threads=threads, example={"n": 4})
        for n in (3, 700):
            instance = sized.at(n=n)
            arrays = arrays_of(instance.graph)
            measured = profile(instance, arrays, seconds=1e-3)
            assert len(measured.launches) == len(measured.steps) == len(instance.plan.steps)
            assert all(step.runs == 1 for step in measured.steps)
            assert measured.threads == instance.schedule.threads
            assert len(perf_map(instance)) >= len({step.name for step in measured.launches})
            clocked = StepClock(instance).run(list(arrays)).results
            for x, y in zip(clocked, instance(*arrays), strict=True):
                assert x.tobytes() == y.tobytes()
    assert all(symbols_of(spec.body) for spec in lowered), "nothing is lowered for a size"
    assert {sized.at(n=n).schedule.threads for n in (3, 700)} == {1, 2}
