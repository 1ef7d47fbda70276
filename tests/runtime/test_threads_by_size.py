"""Programs of sizes known only at run time on several threads: each call decides by its own sizes,
with the bits of one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from graphc import IndexRangeError, ops
from graphc.ir.dims import Extent, dim
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.ops.control import cond, scan
from graphc.runtime.sized_executable import SizedExecutable
from graphc.schedule import threads as model
from graphc.schedule.dependences import HazardTracker, buffer_ranges, effects_of, root_buffer_ranges
from graphc.schedule.plan import Branch, Check, Loop, Plan
from graphc.schedule.threads import Schedule, WorkSplit, all_splits

Array = np.ndarray[Any, Any]
N = dim("n", 1)
SIZES = (1, 2, 3, 17, 64, 300)


def graph_of(program: Callable[..., Any], *types: tuple[Extent, ...] | TensorType) -> Graph:
    builder = graphc.GraphBuilder("by_size")
    operands = [
        builder.input(f"x{i}", t if isinstance(t, TensorType) else rows(*t))
        for i, t in enumerate(types)
    ]
    results = program(*operands)
    return builder.finish(*(results if isinstance(results, tuple) else (results,)))


def rows(*shape: Extent) -> TensorType:
    return TensorType(DType.f32, shape)  # type: ignore[arg-type]


def layers(x: Any, w: Any, v: Any) -> Any:
    return ops.softmax(ops.matmul(ops.relu(ops.matmul(x, w)), v), axis=1)


def recurrent() -> Graph:
    """A loop whose steps are worth threads where there are many rows."""
    b = graphc.GraphBuilder("step")
    h, x = (
        b.input("h", TensorType(DType.f32, (N, 32))),
        b.input("x", TensorType(DType.f32, (N, 32))),
    )
    w = b.input("w", "f32[32,32]")
    new = ops.tanh(ops.matmul(h, w) + x)
    body = b.finish(new, new * 2.0)

    def program(start: Any, xs: Any, w: Any, v: Any) -> Any:
        last, ys = scan(start, xs, w, carry=1, sequences=1, length=5, body=body)
        return ops.matmul(last, v), ops.exp(ys)

    return graph_of(program, (N, 32), (5, N, 32), (32, 32), (32, 24))


def branching() -> Graph:
    def branch(name: str, factor: float) -> Graph:
        b = graphc.GraphBuilder(name)
        x, w = b.input("x", rows(N, 192)), b.input("w", rows(192, 192))
        return b.finish(ops.matmul(ops.matmul(x, w) * factor, w))

    def program(flag: Any, x: Any, w: Any) -> Any:
        chosen = cond(flag, x, w, then=branch("then", 2.0), otherwise=branch("otherwise", 3.0))
        return ops.relu(ops.matmul(chosen, w))

    # Columns for three parts and more, with the vectors of every target.
    return graph_of(program, TensorType(DType.bool, ()), (N, 192), (192, 192))


def looked_up() -> Graph:
    """Contents are checked, by all threads."""
    return graph_of(
        lambda table, at, w: ops.matmul(ops.take(table, at, axis=0), w),
        (50, 32), TensorType(DType.i64, (N,)), (32, 40),  # type: ignore[arg-type]
    )  # fmt: skip


def images() -> Graph:
    """Of two size classes."""

    def program(x: Any, w: Any) -> Any:
        geometry: Any = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
        return ops.relu(ops.contract.conv(x, w, **geometry))

    return graph_of(program, (N, 16, 4, 4), (16, 16, 3, 3))


GRAPHS: dict[str, Callable[[], Graph]] = {
    "layers": lambda: graph_of(layers, (N, 48), (48, 64), (64, 10)),
    "recurrent": recurrent, "branching": branching, "looked up": looked_up, "images": images,
}  # fmt: skip


def drawn(graph: Graph, n: int) -> list[Array]:
    draw = np.random.default_rng(3)
    return [
        draw.standard_normal(t.shape).astype(t.dtype.numpy) if t.dtype.is_float
        else np.asarray(draw.integers(0, 50, t.shape)).astype(t.dtype.numpy)
        for t in at_sizes(graph, {"n": n}).input_types
    ]  # fmt: skip


def sized(graph: Graph, threads: int, example: int = 2) -> SizedExecutable:
    executable = graphc.compile(graph, threads=threads, example={"n": example})
    assert isinstance(executable, SizedExecutable)
    return executable


@pytest.fixture
def everything_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STEP_NS", "PART_NS", "CALL_NS", "BARRIER_NS"):
        monkeypatch.setattr(model, name, -1e9 if name == "CALL_NS" else 0.0)


@pytest.mark.parametrize("first", [1, 2, 600])
def test_threads_follow_the_size_of_the_call_whatever_was_seen_first(first: int) -> None:
    executable = sized(graph_of(layers, (N, 32), (32, 64), (64, 10)), 4, first)
    by_size = {n: executable.at(n=n).schedule.threads for n in (1, 2, 8, 600)}
    assert by_size[1] == by_size[2] == 1 and by_size[600] == 4, by_size
    assert executable.programs == 1
    small, large = executable.at(n=2), executable.at(n=600)
    assert small.memory_bytes < large.memory_bytes
    assert "no step is worth a split" in str(small.schedule)
    assert "2 of 3 steps split" in str(large.schedule)


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("everything_is_split")
@pytest.mark.parametrize("name", GRAPHS)
def test_the_bits_of_one_thread_at_every_size(name: str) -> None:
    graph = GRAPHS[name]()
    alone, several = sized(graph, 1), [sized(graph, threads) for threads in (2, 3)]
    for n in SIZES:
        arrays = drawn(graph, n)
        expected = alone(*arrays)
        for executable in several:
            for _ in range(2):
                for x, y in zip(executable(*arrays), expected, strict=True):
                    assert x.tobytes() == y.tobytes(), f"{name} at {n}"
    assert {executable.at(n=300).schedule.threads for executable in several} == {2, 3}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("split", [True, False])
def test_barriers_stand_where_a_call_needs_them(
    name: str, split: bool, request: pytest.FixtureRequest
) -> None:
    """Whatever a size splits, no step runs before what it needs of other threads is done."""
    if split:
        request.getfixturevalue("everything_is_split")
    executable = sized(GRAPHS[name](), 4)
    for n in (2, 5, 64, 5000):
        instance = executable.at(n=n)
        if instance.schedule.threads > 1:
            held(instance.plan, instance.schedule)


def held(plan: Plan, chosen: Schedule) -> None:
    sequence(plan, chosen.steps, root_buffer_ranges(plan))


def sequence(plan: Plan, splits: tuple[WorkSplit, ...], at: Any) -> None:
    hazards = HazardTracker()
    for step, split in zip(plan.steps, splits, strict=True):
        owner = None if split.threads > 1 or split.inner or isinstance(step, Check) else 0
        effects = effects_of(step, at)
        if split.barrier:
            hazards.after_barrier()
        assert not hazards.with_step(owner, effects), f"{step} needs a barrier"
        hazards.add(owner, effects)
        if isinstance(step, Loop | Branch) and split.inner:
            memory = None if step.memory is None else at[step.memory]
            arguments, outputs = [at[i] for i in step.reads], [at[i] for i in step.writes]
            for inner, its in zip(step.plans, split.inner, strict=True):
                sequence(inner, its, buffer_ranges(inner, arguments, outputs, memory))
            hazards.after_unknown()


def test_a_loop_is_gone_through_by_all_threads_or_by_one() -> None:
    executable = sized(recurrent(), 4)
    for n, every in ((2, False), (4000, True)):
        schedule = executable.at(n=n).schedule
        loops = [split for split in schedule.steps if split.inner]
        assert bool(loops) is every, str(schedule)
        assert not every or any(split.threads > 1 for split in all_splits(loops[0].inner[-1]))


@pytest.mark.usefixtures("everything_is_split")
def test_a_check_that_fails_stops_all_threads() -> None:
    graph = looked_up()
    executable = sized(graph, 3)
    table, at, w = drawn(graph, 64)
    at[17] = 50
    with pytest.raises(IndexRangeError, match="index 50 is out of bounds for dimension 0"):
        executable(table, at, w)
    at[17] = 49
    expected = sized(graph, 1)(table, at, w)
    assert executable(table, at, w)[0].tobytes() == expected[0].tobytes()


def test_a_program_from_disk_decides_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path))
    graph = graph_of(layers, (N, 32), (32, 64), (64, 10))
    first = sized(graph, 2)
    again = sized(graph, 2)
    assert "load" in again.timings
    for n in (2, 600):
        assert first.at(n=n).schedule == again.at(n=n).schedule
    arrays = drawn(graph, 600)
    assert again(*arrays)[0].tobytes() == first(*arrays)[0].tobytes()


def test_a_compiled_function_that_first_sees_a_small_batch() -> None:
    linear = torch.nn.Linear(64, 96)

    @torch.compile(threads=2)
    def step(x: Any) -> Any:
        return linear(x).relu()

    threads = {}
    for rows in (2, 3, 512, 5, 700):
        step(torch.ones(rows, 64))
        executable = step.specializations[-1].executables[0]
        threads[rows] = executable.schedule.threads
    assert threads[3] == threads[5] == 1 and threads[512] == threads[700] == 2, threads
