"""Calls on several threads: the same bits as on one, whatever else goes on in the process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
import graphc
from frontend import nn
from graphc import IndexRangeError, ops
from graphc.ir.handle import broadcast_to
from graphc.runtime import pool
from graphc.schedule import concurrency
from graphc.schedule import threads as model

f32 = np.float32


@pytest.fixture(autouse=True)
def _everything_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small work is worth a split, so that tests can be small."""
    for name in ("STEP_NS", "PART_NS", "CALL_NS", "BARRIER_NS"):
        monkeypatch.setattr(model, name, -1e9 if name == "CALL_NS" else 0.0)


def mlp() -> tuple[Any, Any, Any]:
    module = nn.Sequential(nn.Linear(40, 96), nn.ReLU(), nn.Linear(96, 33), nn.Linear(33, 10))
    return module, torch.optim.Adam(module.parameters(), lr=1e-2), (16, 40)


def cnn() -> tuple[Any, Any, Any]:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 10),
    )  # fmt: skip
    return module, torch.optim.SGD(module.parameters(), lr=1e-2, momentum=0.9), (4, 3, 16, 16)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 40)
        self.out = nn.Linear(40, 10)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(x)[0][-1])


def lstm() -> tuple[Any, Any, Any]:
    module = Recurrent()
    return module, torch.optim.SGD(module.parameters(), lr=1e-2), (6, 7, 12)


def trained(make: Callable[[], Any], threads: int) -> list[np.ndarray]:
    """Losses, parameters and buffers after a few steps."""
    torch.manual_seed(3)
    module, optimizer, shape = make()

    @torch.compile(threads=threads)
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(module(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    random = np.random.default_rng(5)
    losses = []
    for _ in range(4):
        x = torch.tensor(random.standard_normal(shape).astype(f32))
        y = torch.tensor(random.integers(0, 10, shape[1 if len(shape) == 3 else 0]))
        losses.append(step(x, y).detach().numpy())
    (executable,) = step.specializations[0].executables
    assert executable.schedule.threads == threads
    return [*losses, *(value.detach().numpy() for value in module.state_dict().values())]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", [mlp, cnn, lstm])
def test_a_training_step_gives_the_same_bits_on_any_number_of_threads(make: Any) -> None:
    expected = trained(make, 1)
    for threads in (2, 3):
        for value, other in zip(trained(make, threads), expected, strict=True):
            np.testing.assert_array_equal(value, other)


UNARY: list[Callable[[Any], Any]] = [
    ops.exp, ops.tanh, lambda x: x * 2 + 1, lambda x: ops.transpose(x, permutation=(1, 0)),
    lambda x: x - broadcast_to(ops.reduce.sum(x, axes=(0,)), x.shape),
    lambda x: x @ ops.transpose(x, permutation=(1, 0)), lambda x: ops.composite.softmax(x, axis=1),
    lambda x: ops.order.cumsum(x, axis=1),
]  # fmt: skip


def drawn(seed: int) -> tuple[graphc.Graph, list[np.ndarray]]:
    """A random graph of matrices, some of whose inputs are updated in place."""
    random = np.random.default_rng(seed)
    g = graphc.GraphBuilder(f"drawn{seed}")
    sizes = [(int(a), int(b)) for a, b in random.integers(5, 60, (3, 2))]
    inputs = [g.input(f"x{i}", f"f32[{a},{b}]") for i, (a, b) in enumerate(sizes)]
    values = list(inputs)
    for _ in range(12):
        x = values[random.integers(len(values))]
        same = [y for y in values if y.shape == x.shape]
        if random.integers(3) == 0:
            values.append(x + same[random.integers(len(same))])
        else:
            values.append(UNARY[random.integers(len(UNARY))](x) * 0.25)
    outputs = values[-4:]
    aliases = [
        (position, target)
        for target, old in enumerate(inputs)
        for position, value in enumerate(outputs)
        if value.shape == old.shape
    ][:1]
    arrays = [random.standard_normal(size).astype(f32) for size in sizes]
    return g.finish(*outputs, aliases=aliases), arrays


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_graphs_give_the_same_bits_on_any_number_of_threads(seed: int) -> None:
    graph, arrays = drawn(seed)
    results = []
    for threads in (1, 2, 3):
        arguments = [array.copy() for array in arrays]
        executable = graphc.compile(graph, threads=threads)
        for _ in range(3):
            outputs = executable(*arguments)
        results.append([*outputs, *arguments])
    for other in results[1:]:
        for value, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(value, expected)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_steps_that_are_not_split_run_beside_others_with_the_same_bits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, "LEAST_NS", 0.0)
    random = np.random.default_rng(seed)
    g = graphc.GraphBuilder("totals")
    sizes = [(int(a), int(b)) for a, b in random.integers(20, 90, (4, 2))]
    inputs = [g.input(f"x{i}", f"f32[{a},{b}]") for i, (a, b) in enumerate(sizes)]
    grown = [ops.exp(x @ ops.transpose(x, permutation=(1, 0)) * 0.01) for x in inputs]
    totals = [ops.reshape(ops.reduce.sum(x * x, axes=(0, 1)), shape=(1,)) for x in grown]
    norm = ops.elementwise.sqrt(ops.reduce.sum(ops.concat(*totals, axis=0), axes=(0,)))
    updated = [x * broadcast_to(norm, x.shape) * 1e-3 for x in inputs]
    graph = g.finish(*totals, *updated, aliases=[(4 + i, i) for i in range(4)])
    arrays = [random.standard_normal(size).astype(f32) for size in sizes]
    results = []
    for threads in (1, 2, 3):
        arguments = [array.copy() for array in arrays]
        executable = graphc.compile(graph, threads=threads)
        assert (threads > 1) == any(split.thread for split in executable.schedule.steps)
        for _ in range(40):
            actual = executable(*arguments)
        results.append([*actual, *arguments])
    for other in results[1:]:
        for value, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(value, expected)
    # Where memory is limited, threads do not make an arena larger.
    limited = graphc.compile(graph, threads=2, max_bytes=1 << 30)
    assert limited.plan.arena_bytes <= graphc.compile(graph, threads=1).plan.arena_bytes


def looped(x: Any) -> Any:
    """A while loop and a branch in it, all of matrices."""

    def halved(i: Any, y: Any) -> Any:
        grown = torch.cond(
            (y * y).mean() > 1e-3, lambda z: torch.tanh(z @ z) * 0.5, lambda z: z + 1, (y,)
        )
        return i + 1, grown

    count, last = torch.while_loop(lambda i, y: (i < 7) & (y.sum() < 1e9), halved,
                                   (torch.zeros((), dtype=torch.int64), x))  # fmt: skip
    return last * count


def test_loops_and_branches_give_the_same_bits_on_any_number_of_threads() -> None:
    x = torch.tensor(np.random.default_rng(2).standard_normal((33, 33)).astype(f32) * 0.1)
    results = []
    for threads in (1, 2, 3):
        run = torch.compile(looped, threads=threads)
        for _ in range(20):
            results.append(run(x).numpy())
        (executable,) = run.specializations[0].executables
        assert executable.schedule.threads == threads
        assert (threads > 1) == any(split.inner for split in executable.schedule.steps)
    for value in results[1:]:
        np.testing.assert_array_equal(value, results[0])


def product(size: int = 64, threads: int = 2) -> graphc.Executable:
    g = graphc.GraphBuilder("product")
    x, y = (g.input(name, f"f32[{size},{size}]") for name in "xy")
    return graphc.compile(g.finish(ops.exp(x @ y * 0.01) @ y), threads=threads)


def matrices(size: int = 64, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal((size, size)).astype(f32) for _ in range(2)]


def test_two_python_threads_call_one_and_two_functions_at_once() -> None:
    functions = [product(), product(48)]
    arguments = [[matrices(64, seed), matrices(48, seed)] for seed in range(4)]
    expected = [[f(*m)[0] for f, m in zip(functions, pair)] for pair in arguments]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(150):
            for f, m, e in zip(functions, arguments[seed], expected[seed]):
                if not np.array_equal(f(*m)[0], e):
                    wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not wrong


def test_a_check_that_fails_under_threads_leaves_state() -> None:
    g = graphc.GraphBuilder("checked")
    table, index = g.input("table", "f32[50,40]"), g.input("index", "i64[30]")
    rows = ops.take(table, index, axis=0)
    new = table * 0.5 + broadcast_to(ops.reduce.sum(rows, axes=(0,)), (50, 40))
    executable = graphc.compile(g.finish(new, aliases=[(0, 0)]), threads=2)
    assert executable.schedule.threads == 2
    state = np.random.default_rng(0).standard_normal((50, 40)).astype(f32)
    kept = state.copy()
    bad = np.arange(30)
    bad[7] = 50
    for _ in range(20):
        with pytest.raises(IndexRangeError, match="50"):
            executable(state, bad)
    np.testing.assert_array_equal(state, kept)
    executable(state, np.arange(30))
    assert not np.array_equal(state, kept)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_check_that_fails_in_a_loop_stops_all_threads(threads: int) -> None:
    def run(index: Any, table: Any, y: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, torch.tanh(y @ y) + F.embedding(index + i, table).sum()

        start = torch.zeros((), dtype=torch.int64)
        return torch.while_loop(lambda i, y: i < 5, body, (start, y))[1]

    compiled = torch.compile(run, threads=threads)
    random = np.random.default_rng(0)
    table, y = (torch.tensor(random.standard_normal(s).astype(f32)) for s in ((20, 8), (24, 24)))
    expected = compiled(torch.arange(10), table, y).numpy()
    for _ in range(10):
        with pytest.raises(IndexRangeError, match=r"20 is not in \[0, 20\)"):
            compiled(torch.arange(10) + 7, table, y)
    np.testing.assert_array_equal(compiled(torch.arange(10), table, y).numpy(), expected)


def test_where_the_system_gives_no_thread_calls_run_on_one_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool._Pool, "grow", lambda self, threads: "no more")
    executable = product(threads=200)
    with pytest.warns(UserWarning, match=r"no thread for compiled functions \(no more\)"):
        (value,) = executable(*matrices())
    np.testing.assert_array_equal(value, product(threads=1)(*matrices())[0])
    executable(*matrices())  # no second warning: warnings are errors here


# -- no allocation ------------------------------------------------------------------------------


def test_native_code_of_a_call_names_no_allocator() -> None:
    from graphc.codegen.program.barrier import barrier_text
    from graphc.codegen.program.driver import Driver
    from graphc.codegen.program.link import native_kernel
    from graphc.runtime.pool_text import pool_text
    from graphc.schedule.plan import Launch

    executable = product()
    kernels = {
        step.kernel: native_kernel(step.kernel, executable.target, {})
        for step in executable.plan.steps
        if isinstance(step, Launch)
    }
    triple = executable.target.triple
    driver = Driver(executable.plan, kernels, executable.schedule).text(triple)
    declared = {
        line.split("@")[1].split("(")[0]
        for text in (driver, barrier_text(triple), pool_text(triple, pool._parking()))
        for line in text.splitlines()
        if line.startswith("declare")
    }
    outside = {name for name in declared if not name.startswith(("kernel_", "llvm."))}
    assert outside == {"barrier", "sched_yield", "syscall"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_steady_over_many_calls() -> None:
    executable, arguments = product(), matrices()

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    for _ in range(200):
        executable(*arguments)
    before = resident()
    for _ in range(1000):
        executable(*arguments)
    assert resident() - before <= 16  # pages


# -- what is asked for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threads", "error"), [(0, ValueError), (-1, ValueError), (257, ValueError), (1.5, TypeError),
                           ("2", TypeError), (True, TypeError)],
)  # fmt: skip
def test_threads_that_make_no_sense_are_refused(threads: Any, error: type[Exception]) -> None:
    g = graphc.GraphBuilder()
    graph = g.finish(g.input("x", "f32[4]") * 2)
    with pytest.raises(error, match="threads must be"):
        graphc.compile(graph, threads=threads)
    with pytest.raises(error, match="threads must be"):
        torch.compile(lambda x: x, threads=threads)


def test_explain_tells_the_threads() -> None:
    run = torch.compile(lambda x: x @ x, threads=2)
    run(torch.ones(64, 64))
    assert "threads 2: saves about" in run.explain()
