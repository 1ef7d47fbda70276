"""Steps that run concurrently with one that is not split: which, in what memory, to what end."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.ir.types import DType, TensorType
from graphc.records import replace
from graphc.schedule import threads as model
from graphc.schedule.arena import aligned
from graphc.schedule.build import plan_graph
from graphc.schedule.concurrency import Cost, reordered, step_groups
from graphc.schedule.dependences import HazardTracker, effects_of, root_buffer_ranges
from graphc.schedule.plan import Check, KernelSpec, Launch, Plan, PlanBuffer, Step
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import run_plan
from graphc.schedule.threads import SerialWork, schedule, spread

SIZE = TensorType(DType.f32, (16,))  # 64 bytes


def kernel(name: str, inputs: int = 1) -> KernelSpec:
    g = graphc.GraphBuilder(name)
    read = [g.input(f"x{i}", "f32[16]") for i in range(inputs)]
    return KernelSpec("nest", g.finish(ops.exp(read[0]) if inputs == 1 else read[0] + read[1]))


WHOLE, LARGE, BOTH = kernel("whole"), kernel("large"), kernel("both", 2)
WORK = {
    WHOLE: SerialWork(1, 90_000.0),
    LARGE: SerialWork(16, 40_000.0),
    BOTH: SerialWork(16, 40_000.0),
}


def planned(steps: list[Step], places: list[tuple[str, int]] | None = None) -> Plan:
    """A plan over an argument, b0, and nine buffers of 64 bytes."""
    places = places or [("argument", 0), *(("arena", 64 * i) for i in range(9))]
    plan_buffers = tuple(PlanBuffer(SIZE, place, slot) for place, slot in places)
    return Plan("made", (SIZE,), (), (), plan_buffers, tuple(steps), (), (), 64 * 9, 64)


def run(spec: KernelSpec, *buffers: int) -> Launch:
    return Launch(spec, buffers[:-1], buffers[-1:])


def shown(plan: Plan, threads: int = 2) -> list[tuple[int, int, int, bool]]:
    """By step the buffer it writes, threads, the one that runs it, and whether behind a barrier."""
    moved, chosen = spread(plan, WORK, threads)
    return [
        (step.writes[0], split.threads, split.thread, split.barrier)
        for step, split in zip(moved.steps, chosen.steps, strict=True)
        if isinstance(step, Launch)
    ]


def test_what_neither_needs_the_other_runs_concurrently_with_a_step_that_is_not_split() -> None:
    # b2 is made before the long step and read by nobody, b4 behind it.
    steps = [run(LARGE, 0, 1), run(LARGE, 1, 2), run(WHOLE, 1, 3), run(LARGE, 1, 4)]
    expected = [(1, 2, 0, False), (3, 1, 0, True), (2, 1, 1, False), (4, 1, 1, False)]
    assert shown(planned(steps)) == expected
    assert schedule(planned(steps), WORK, 2).steps[1].threads == 2  # in the plan's own order
    assert shown(planned(steps), 3)[2:] == [(2, 1, 1, False), (4, 1, 2, False)]


def test_no_more_runs_concurrently_than_it_takes_itself() -> None:
    steps = [run(WHOLE, 0, 1), *(run(LARGE, 0, i) for i in range(2, 6))]
    assert [step[2] for step in shown(planned(steps))] == [0, 1, 1, 0, 0]


def test_steps_that_need_it_or_that_it_needs_do_not_run_concurrently() -> None:
    steps = [run(LARGE, 0, 1), run(WHOLE, 1, 2), run(LARGE, 2, 3), run(LARGE, 3, 4)]
    plan = planned(steps)
    assert spread(plan, WORK, 2)[0] is plan
    # b3 needs b2, which runs concurrently with the long step.
    steps = [run(WHOLE, 0, 1), run(LARGE, 0, 2), run(LARGE, 2, 3)]
    assert [step[2] for step in shown(planned(steps))] == [0, 1, 0]


def test_what_updates_an_argument_waits_for_its_readers() -> None:
    steps = [run(LARGE, 0, 1), run(WHOLE, 0, 2), run(LARGE, 1, 0)]
    assert [step[:3] for step in shown(planned(steps))] == [(2, 1, 0), (1, 1, 1), (0, 2, 0)]


def test_nothing_moves_past_a_check() -> None:
    flag = Check(8, 9, 3, "text")
    for steps in (
        [run(LARGE, 0, 1), run(LARGE, 0, 8), run(LARGE, 0, 9), flag, run(WHOLE, 0, 2)],
        [run(LARGE, 0, 8), run(LARGE, 0, 9), run(WHOLE, 0, 2), flag, run(LARGE, 0, 1)],
    ):
        moved, _ = spread(planned(steps), WORK, 2)
        at = moved.steps.index(flag)
        assert at == steps.index(flag) and set(moved.steps[:at]) == set(steps[:at])


def test_where_little_is_not_split_the_order_stays() -> None:
    work = {**WORK, WHOLE: SerialWork(1, 2_000.0)}
    plan = planned([run(LARGE, 0, 1)] * 3 + [run(WHOLE, 0, 2), run(LARGE, 0, 3)])
    moved, chosen = spread(plan, work, 2)
    assert moved is plan and chosen == schedule(plan, work, 2)


def reuses() -> Plan:
    """b1 and b3 share a place, so as it stands the last step waits for the second."""
    places = [("argument", 0), ("arena", 0), ("arena", 64), ("arena", 0)]
    steps = [run(LARGE, 0, 1), run(LARGE, 1, 2), run(WHOLE, 0, 3)]
    return replace(planned(steps, places), arena_bytes=128)


def test_concurrent_steps_share_no_memory() -> None:
    assert verify_plan(reuses()).arena_bytes == 128
    moved, chosen = spread(reuses(), WORK, 2)
    assert [split.thread for split in chosen.steps] == [0, 0, 1]
    assert moved.arena_bytes == 192
    assert [split.barrier for split in chosen.steps] == [False, True, False]


def test_an_arena_that_may_not_grow_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = reuses()
    assert spread(plan, WORK, 2, grows=False)[0] is plan
    monkeypatch.setattr(model, "GROWTH_BYTES", 63)
    assert spread(plan, WORK, 2)[0] is plan


def drawn(seed: int) -> tuple[graphc.Graph, list[np.ndarray]]:
    """Chains of matrices with sums of all of some of them, and one input updated in place."""
    random = np.random.default_rng(seed)
    g = graphc.GraphBuilder(f"drawn{seed}")
    inputs = [g.input(f"x{i}", "f32[24,24]") for i in range(3)]
    values, totals = list(inputs), []
    for _ in range(24):
        x, y = (values[random.integers(len(values))] for _ in range(2))
        kind = random.integers(4)
        values.append(x @ y * 0.1 if kind == 0 else ops.tanh(x) + y if kind == 1 else x @ x * 0.1)
        if kind > 1:
            totals.append(ops.reduce.sum(values[-1] * y, axes=(0, 1)))
    graph = g.finish(*totals, values[-1], aliases=[(len(totals), 0)])
    return graph, [random.standard_normal((24, 24)).astype(np.float32) for _ in inputs]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_drawn_plans_hold_and_give_the_same_in_any_order_of_a_batch(seed: int, share: bool) -> None:
    graph, arrays = drawn(seed)
    _, plan = plan_graph(graph, plan_memory=share)
    random = np.random.default_rng(seed)
    costs, part = [], 0
    for step in plan.steps:
        part += not isinstance(step, Launch)
        alone = bool(random.integers(2))
        time = float(random.integers(600, 4000))
        costs.append(Cost(time, time if alone else time / 3, alone, part))
    order = step_groups(plan, costs, 3)
    assert sorted(step for group in order for step, _ in group) == list(range(len(plan.steps)))
    assert len(order) < len(plan.steps)
    moved = verify_plan(reordered(plan, order))
    if not share:
        used = [b for b in moved.buffers if b.place == "arena"]
        assert moved.arena_bytes == sum(aligned(b.type.nbytes) for b in used)
    at = root_buffer_ranges(moved)
    swapped, first = [], 0
    for group in order:
        steps = moved.steps[first : first + len(group)]
        first += len(group)
        hazards = HazardTracker()
        for number, step in enumerate(steps):
            assert not hazards.with_step(number, effects_of(step, at))
            hazards.add(number, effects_of(step, at))
        swapped += reversed(steps)
    expected = run_plan(plan, tuple(arrays))
    for other in (moved, replace(moved, steps=tuple(swapped))):
        for value, wanted in zip(run_plan(other, tuple(arrays)), expected, strict=True):
            np.testing.assert_array_equal(value, wanted)
