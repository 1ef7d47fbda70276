"""Which steps are split over threads and where barriers stand, and why."""

from __future__ import annotations

import pytest

import graphc
from graphc import ops
from graphc.ir.types import DType, TensorType
from graphc.ops.nn.attention import attention
from graphc.records import replace
from graphc.schedule import threads as model
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Check, KernelSpec, Launch, Plan, PlanBuffer, Step
from graphc.schedule.threads import Schedule, SerialWork, estimate, schedule

SIZE = TensorType(DType.f32, (16,))  # 64 bytes
FLAG = TensorType(DType.i64, ())


def kernel(name: str) -> KernelSpec:
    g = graphc.GraphBuilder(name)
    return KernelSpec("nest", g.finish(ops.exp(g.input("x0", "f32[16]"))))


SMALL, LARGE, WHOLE = kernel("small"), kernel("large"), kernel("whole")
WORK = {
    SMALL: SerialWork(16, 100.0),
    LARGE: SerialWork(16, 40_000.0),
    WHOLE: SerialWork(1, 40_000.0),
}


def planned(buffers: list[tuple[str, int]], steps: list[Step]) -> Plan:
    """A plan of buffers (place, slot), all of 64 bytes."""
    arguments = sum(place == "argument" for place, _ in buffers)
    outputs = sum(place == "output" for place, _ in buffers)
    plan_buffers = tuple(PlanBuffer(SIZE, place, slot) for place, slot in buffers)
    return Plan(
        "made",
        (SIZE,) * arguments,
        (SIZE,) * outputs,
        (),
        plan_buffers,
        tuple(steps),
        (),
        (),
        1 << 12,
        1,
    )


def run(spec: KernelSpec, read: int, written: int) -> Launch:
    return Launch(spec, (read,), (written,))


def barriers(chosen: Schedule) -> list[bool]:
    return [step.barrier for step in chosen.steps]


ARENA = [("argument", 0), *(("arena", 64 * i) for i in range(6))]


def test_a_step_waits_for_what_it_reads() -> None:
    plan = planned(ARENA, [run(LARGE, 0, 1), run(LARGE, 1, 2), run(LARGE, 2, 3)])
    chosen = schedule(plan, WORK, 2)
    assert chosen.threads == 2 and barriers(chosen) == [False, True, True]


def test_independent_neighbours_do_not_wait() -> None:
    plan = planned(ARENA, [run(LARGE, 0, 1), run(LARGE, 0, 2), run(SMALL, 0, 3), run(LARGE, 0, 4)])
    assert barriers(schedule(plan, WORK, 2)) == [False] * 4


def test_a_step_waits_before_it_writes_over_what_is_still_read_or_written() -> None:
    plan = planned(ARENA, [run(LARGE, 1, 2), run(LARGE, 0, 1)])
    assert barriers(schedule(plan, WORK, 2)) == [False, True]
    plan = planned(ARENA, [run(LARGE, 0, 1), run(LARGE, 2, 1)])
    assert barriers(schedule(plan, WORK, 2)) == [False, True]


def test_reuse_of_arena_bytes_counts_as_the_same_memory() -> None:
    places = [("argument", 0), ("arena", 0), ("arena", 128), ("arena", 32)]
    plan = planned(places, [run(LARGE, 0, 1), run(LARGE, 0, 2), run(LARGE, 0, 3)])
    assert barriers(schedule(plan, WORK, 2)) == [False, False, True]


def test_steps_of_thread_0_do_not_wait_for_each_other() -> None:
    steps = [run(LARGE, 0, 1), run(SMALL, 1, 2), run(WHOLE, 2, 3), run(SMALL, 3, 4),
             run(LARGE, 4, 5)]  # fmt: skip
    chosen = schedule(planned(ARENA, steps), WORK, 2)
    assert [step.threads for step in chosen.steps] == [2, 1, 1, 1, 2]
    assert barriers(chosen) == [False, True, False, False, True]


def test_what_thread_0_does_after_a_barrier_is_waited_for() -> None:
    steps = [run(LARGE, 0, 1), run(SMALL, 1, 2), run(LARGE, 2, 3)]
    assert barriers(schedule(planned(ARENA, steps), WORK, 2)) == [False, True, True]


def test_a_check_is_made_by_all_after_what_it_reads() -> None:
    plan = planned(ARENA, [run(SMALL, 0, 1), Check(1, 1, 5, "{}"), run(LARGE, 0, 2)])
    buffers = tuple(
        replace(buffer, type=FLAG) if number == 1 else buffer
        for number, buffer in enumerate(plan.buffers)
    )
    plan = replace(plan, buffers=buffers)
    chosen = schedule(plan, WORK, 2)
    assert barriers(chosen) == [False, True, False]
    overwritten = replace(plan, steps=(*plan.steps, run(LARGE, 0, 1)))
    assert barriers(schedule(overwritten, WORK, 2)) == [False, True, False, True]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [(SMALL, "about 0.1 us, below 2 us"), (WHOLE, "about 40.0 us, a range of 1 cannot be cut")],
)
def test_a_call_without_work_to_split_has_one_thread(spec: KernelSpec, reason: str) -> None:
    chosen = schedule(planned(ARENA, [run(spec, 0, 1)]), WORK, 4)
    assert chosen.threads == 1 and str(chosen) == "threads 1: no step is worth a split"
    assert chosen.steps[0].reason == reason


def test_a_call_that_would_save_little_has_one_thread() -> None:
    work = {LARGE: SerialWork(16, 3000.0)}
    chosen = schedule(planned(ARENA, [run(LARGE, 0, 1)]), work, 2)
    assert chosen.threads == 1 and "saves about 1.4 us of a call, below 4 us" in chosen.reason


def test_no_thread_gets_less_than_a_part_is_worth() -> None:
    work = {LARGE: SerialWork(100, 9000.0)}
    plan = planned(ARENA, [run(LARGE, 0, 1)] * 3)
    assert [step.threads for step in schedule(plan, work, 64).steps] == [9, 9, 9]
    few = {LARGE: SerialWork(3, 90_000.0)}
    assert schedule(plan, few, 64).threads == 3


def test_the_time_of_kernels_is_told_in_the_right_order_of_magnitude() -> None:
    def time(function: object, *types: str) -> float:
        g = graphc.GraphBuilder()
        inputs = [g.input(f"x{i}", type) for i, type in enumerate(types)]
        graph = g.finish(function(*inputs))  # type: ignore[operator]
        _, plan = plan_graph(graph)
        return sum(estimate(s.kernel).nanoseconds for s in plan.steps if isinstance(s, Launch))

    product = time(lambda x, y: x @ y, "f32[512,512]", "f32[512,512]")
    assert 0.4e6 < product < 4e6
    chain = time(lambda x: ops.exp(x) + x, "f32[1000000]")
    assert 50e3 < chain < 1e6
    assert time(lambda x: x + x, "f32[8]") < 100
    assert time(lambda x: ops.argsort(x, axis=0), "f32[100000]") > 100e3
    types = ("f32[4,256,64]",) * 3
    assert 50e3 < time(lambda q, k, v: attention(q, k, v)[0], *types) < 5e6

    def added(table: object, rows: object, at: object) -> object:
        return ops.indexing.index_add(table, at, rows, axis=0)

    assert 10e3 < time(added, "f32[65,256]", "f32[1024,256]", "i64[1024]") < 100e3  # 34 measured


def test_the_table_names_every_step() -> None:
    plan = planned(ARENA, [run(LARGE, 0, 1), run(SMALL, 1, 2)])
    text = model.table(plan, schedule(plan, WORK, 2))
    assert text.splitlines()[1:] == [
        "  k0_exp: threads 2: about 40.0 us, range of 16",
        "  k1_exp: barrier, threads 1: about 0.1 us, below 2 us",
    ]
