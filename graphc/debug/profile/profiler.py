"""A compiled call run many times behind a driver that reads the clock: its `Profile`.

in : an executable and the arrays of a call
out: for each launch its time by thread, and how far that is from what the machine can do

The times of all launches and of the whole call are means over the same passes: the quietest quarter
of them. So their sum and the whole fit together; what is left is the way into native code and out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.codegen.program.profiling_driver import ThreadRecord
from graphc.debug.places import SourcePlace, place_of_step, steps_with_plans
from graphc.debug.profile.limits import LaunchLimit, limits
from graphc.debug.profile.machine import Machine, machine
from graphc.records import record
from graphc.runtime.executable import Executable
from graphc.runtime.step_clock import StepClock
from graphc.schedule.plan import Branch, Launch, Loop, Plan, Step, all_steps, kernels
from graphc.schedule.threads import WorkSplit

SECONDS, LEAST_PASSES, MOST_PASSES = 1.0, 12, 400
WARM_UP = 3
QUIET = 1.1
"""How far the median pass may be above the least for the machine to count as quiet."""
NEAR = 0.05
"""How far the steps' sum may be from the whole."""


@record
class StepProfile:
    """One step of the plan, by its number in `all_steps`: a launch, check, loop or branch.

    Times are seconds of one call, `by_thread` of each thread (a loop's own are those of its turns'
    control). `within` are the numbers of the loops and branches around it."""

    number: int
    kind: str
    name: str
    place: SourcePlace
    within: tuple[int, ...]
    runs: int
    by_thread: tuple[float, ...]
    waits: tuple[float, ...]
    limit: LaunchLimit | None

    @property
    def seconds(self) -> float:
        """The time of the thread that took longest."""
        return max(self.by_thread, default=0.0)

    @property
    def limit_seconds(self) -> float:
        """The least time of all its runs."""
        return 0.0 if self.limit is None else self.limit.seconds * self.runs

    @property
    def fraction(self) -> float:
        """Which part of its limit it reaches; 1 for what has none."""
        return self.limit_seconds / self.seconds if self.limit and self.seconds else 1.0

    @property
    def flops(self) -> float:
        """Operations of its products, two each."""
        return 0.0 if self.limit is None else 2.0 * self.limit.work.products * self.runs

    @property
    def nbytes(self) -> float:
        """Bytes read and written."""
        return 0.0 if self.limit is None else float(self.limit.work.nbytes * self.runs)


@record
class Profile:
    """What a call takes. `whole` and the steps are means over `kept` of `passes` passes, `plain` is
    the least time of the same call without clocks; seconds. `median` is that of all passes over the
    least, `on_processor` the part of the kept passes in which the calling thread had a processor.
    `events` are those of the best pass: by thread when it began, then (slot, when it was
    over) in nanoseconds."""

    name: str
    machine: Machine
    threads: int
    schedule: str
    passes: int
    kept: int
    whole: float
    plain: float
    median: float
    on_processor: float
    steps: tuple[StepProfile, ...]
    events: tuple[tuple[int, list[tuple[int, int]]], ...]

    @property
    def launches(self) -> list[StepProfile]:
        return [step for step in self.steps if step.kind == "launch"]

    @property
    def in_kernels(self) -> float:
        """Seconds of the calling thread in kernels and checks."""
        return sum(step.by_thread[0] for step in self.steps)

    @property
    def waiting(self) -> float:
        """Seconds in which the calling thread waits for others."""
        return sum(step.waits[0] for step in self.steps)

    @property
    def outside(self) -> float:
        """Seconds of the call that are in no step: the way into native code and out."""
        return self.whole - self.in_kernels - self.waiting

    @property
    def quiet(self) -> bool:
        """Whether the machine did little else meanwhile."""
        return self.median <= QUIET and self.on_processor >= 1 - NEAR


def profile(
    executable: Executable, arrays: Sequence[Any], seconds: float = SECONDS,
    measured: Machine | None = None,
) -> Profile:  # fmt: skip
    """Run a call for about so many seconds. `arrays` are copied: updates go to the copies, pass
    after pass. Raises as the call does, ValueError for no positive time."""
    if not seconds > 0:
        raise ValueError(f"profile() takes a positive number of seconds, not {seconds!r}")
    clock = StepClock(executable)
    passes = _passes(executable, clock, [np.array(array) for array in arrays], seconds)
    passes.sort(key=lambda each: each.whole)
    kept = passes[: max(len(passes) // 4, 1)]
    wholes = [each.whole for each in passes]
    known = measured or machine()
    return Profile(
        executable.graph.name, known, executable.schedule.threads, str(executable.schedule),
        len(passes), len(kept), statistics.fmean(each.whole for each in kept),
        min(each.plain for each in passes), statistics.median(wholes) / wholes[0],
        min(sum(each.on_processor for each in kept) / sum(each.whole for each in kept), 1.0),
        tuple(_steps(executable, [each.records for each in kept], known)),
        tuple((record.began, record.events) for record in kept[0].records),
    )  # fmt: skip


@record
class _Pass:
    whole: float
    plain: float
    on_processor: float
    records: list[ThreadRecord]


def _passes(
    executable: Executable, clock: StepClock, arrays: list[Any], seconds: float
) -> list[_Pass]:
    for _ in range(WARM_UP):
        executable.run(list(arrays))
        clock.run(list(arrays))
    passes: list[_Pass] = []
    end = time.perf_counter() + seconds
    while len(passes) < LEAST_PASSES or time.perf_counter() < end:
        arguments = list(arrays)
        started = time.perf_counter()
        executable.run(arguments)
        plain = time.perf_counter() - started
        clocked = clock.run(list(arrays))
        passes.append(_Pass(clocked.seconds, plain, clocked.on_processor, clocked.records))
        if len(passes) == MOST_PASSES:
            break
    return passes


def _steps(
    executable: Executable, records: Sequence[list[ThreadRecord]], known: Machine
) -> Iterator[StepProfile]:
    plan = executable.plan
    splits = list(_splits(plan, executable.schedule.steps))
    bounds = limits(plan, known, {n: split.threads for n, split in enumerate(splits)})
    names, around = kernels(plan), list(_within(plan, ()))
    threads = range(len(records[0]))
    means = [np.mean([each[t].nanoseconds for each in records], 0) * 1e-9 for t in threads]
    for number, (owner, step) in enumerate(steps_with_plans(plan)):
        kind = type(step).__name__.lower()
        name = names[step.kernel] if isinstance(step, Launch) else kind
        runs = max(int(records[0][t].counts[2 * number + 1]) for t in threads)
        yield StepProfile(
            number, kind, name, place_of_step(owner, step), around[number], runs,
            tuple(float(means[t][2 * number + 1]) for t in threads),
            tuple(float(means[t][2 * number]) for t in threads),
            bounds.get(number),
        )  # fmt: skip


def _within(plan: Plan, around: tuple[int, ...], number: int = 0) -> Iterator[tuple[int, ...]]:
    """For each of all steps the loops and branches around it."""
    for step in plan.steps:
        yield around
        mine = number
        number += 1
        for inner in step.plans if isinstance(step, Loop | Branch) else ():
            yield from _within(inner, (*around, mine), number)
            number += sum(1 for _ in all_steps(inner))


def _splits(plan: Plan, splits: Sequence[WorkSplit]) -> Iterator[WorkSplit]:
    """How each of all steps runs; inside what one thread goes through alone, on one."""
    for step, split in zip(plan.steps, splits, strict=True):
        yield split
        yield from _inner_splits(step, split)


def _inner_splits(step: Step, split: WorkSplit) -> Iterator[WorkSplit]:
    for number, inner in enumerate(step.plans if isinstance(step, Loop | Branch) else ()):
        alone = tuple(WorkSplit(1, False, split.reason) for _ in inner.steps)
        yield from _splits(inner, split.inner[number] if split.inner else alone)
