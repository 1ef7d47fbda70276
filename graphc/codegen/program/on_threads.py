"""Plan → the plan as it runs on several threads, and how its steps are split over them.

in : a plan, the extent of each of its kernels, and the most threads that a call may have
out: a `ThreadedPlan`
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.codegen.program.size_table import SizeProgram, function_of_sizes
from graphc.ir.dims import Extent, evaluate
from graphc.records import record
from graphc.schedule.instances import plan_at
from graphc.schedule.open_schedule import OpenSchedule, open_schedule
from graphc.schedule.plan import KernelSpec, Plan
from graphc.schedule.threads import Schedule, one_thread, spread, work_of


@record
class ThreadedPlan:
    """`schedule` is what a driver is written for. Where sizes are known only at run time and more
    than one thread may pay, `by_size` decides at each call, by the numbers that `work` makes of its
    sizes."""

    plan: Plan
    schedule: Schedule
    by_size: OpenSchedule | None = None
    work: SizeProgram | None = None


def on_threads(
    plan: Plan, extents: Mapping[KernelSpec, Extent], threads: int, reason: str = "", *,
    grows: bool = True,
) -> ThreadedPlan:  # fmt: skip
    """How a plan runs on at most `threads` threads. `reason`: why not on more, where the number 1
    was not asked for. `grows`: the arena may be larger for the sake of threads."""
    if threads == 1:
        return ThreadedPlan(plan, one_thread(plan, reason or "one thread is asked for"))
    if not plan.example:
        work = work_of({spec: evaluate(extent, {}) for spec, extent in extents.items()})
        return ThreadedPlan(*spread(plan, work, threads, grows=grows))
    # It keeps its order: what overlaps in memory is the same at all sizes. Of one run or one row,
    # parts of a stack would not show that they overlap.
    instance = plan_at(plan, {name: max(size, 2) for name, size in plan.example})
    by_size, numbers = open_schedule(plan, instance, extents, threads)
    if by_size.most == 1:
        return ThreadedPlan(plan, one_thread(plan, "no step can be split"))
    names = tuple(name for name, _ in plan.example)
    return ThreadedPlan(plan, by_size.schedule, by_size, function_of_sizes(names, numbers))
