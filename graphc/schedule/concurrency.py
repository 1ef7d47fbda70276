"""Concurrent steps: while one runs that cannot be split, others run on the other threads.

in : a plan, and how long each of its steps takes
out: the steps in an order in which they can run, in groups; the plan in that order

    a (split), b (split), c (split), d (cannot be split)  =>  b (split), [d | a, c]

Of a step group the first step runs on thread 0 and the others, which neither need it nor are needed
by it, on threads that would only wait for it: as many as take no longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.records import record, replace
from graphc.schedule.arena import aligned
from graphc.schedule.dependences import dependences, effects_of, unshared_buffer_ranges
from graphc.schedule.memory import laid_out
from graphc.schedule.plan import Plan, live_ranges

StepGroup = list[tuple[int, int]]  # steps that run concurrently, by number, and the thread of each

LEAST_NS = 500.0
"""Work that is worth running concurrently with another step."""


@record
class Cost:
    """Of a step: nanoseconds on one thread, and as it would run; whether only thread 0 runs it;
    which steps it may stand among (those with the same `part`)."""

    time: float
    wall: float
    alone: bool
    part: int


def step_groups(plan: Plan, costs: Sequence[Cost], threads: int) -> list[StepGroup]:
    """The steps in groups. Each stands behind all it needs, whatever memory buffers share in the
    arena now, and no two steps of a group depend on each other."""
    ranges = unshared_buffer_ranges(plan)
    needed = dependences([effects_of(step, ranges) for step in plan.steps])
    users: list[set[int]] = [set() for _ in costs]
    for step, others in enumerate(needed):
        for other in others:
            users[other].add(step)
    at = list(range(len(costs)))  # the first step of the group each is in
    groups: dict[int, StepGroup] = {step: [(step, 0)] for step in range(len(costs))}

    def can_run_with(step: int, first: int) -> bool:
        """Whether a step can run when `first` does."""
        if step == first or len(groups.get(step, ())) != 1:  # it has its place
            return False
        if costs[step].part != costs[first].part or costs[step].wall < LEAST_NS:
            return False
        if step < first:
            return all(at[user] > first for user in users[step])
        return all(at[other] < first for other in needed[step])

    longest = sorted(range(len(costs)), key=lambda step: -costs[step].wall)
    for first in longest:
        if not costs[first].alone or first not in groups or costs[first].wall < LEAST_NS:
            continue
        free = [costs[first].time] * threads
        for step in longest:
            thread = max(range(1, threads), key=lambda i: free[i])
            if costs[step].time <= free[thread] and can_run_with(step, first):
                free[thread] -= costs[step].time
                at[step] = first
                groups[first].append((step, thread))
                del groups[step]
    return [sorted(groups[first], key=lambda one: (one[1], one[0])) for first in sorted(groups)]


def reordered(plan: Plan, order: Sequence[StepGroup]) -> Plan:
    """The plan with its steps in this order, and an arena in which steps of one group share no
    memory."""
    steps = tuple(plan.steps[step] for group in order for step, _ in group)
    when = [time for time, group in enumerate(order) for _ in group]
    used = zip(plan.buffers, live_ranges(steps, plan.buffers))
    apiece = [aligned(b.type.nbytes) for b, life in used if b.place == "arena" and life is not None]
    share = plan.arena_bytes < sum(apiece)
    placed, total, least = laid_out(steps, plan.buffers, when, share)
    return replace(plan, steps=steps, buffers=placed, arena_bytes=total, arena_lower_bound=least)
