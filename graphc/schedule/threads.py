"""Which steps of a plan are split over threads, and where barriers stand.

in : a plan, the extent of each kernel's range, and how many threads there may be
out: a `Schedule`: for each step its threads with the reason, and whether a barrier is before it

All threads of a call run the same steps. A step that is split does a fixed part of its kernel's
range on each thread; one that is not runs on thread 0, or concurrently with another such step, on
another thread. A loop or branch runs on thread 0 as a whole, or, where steps in it are worth a
split, on all: each thread goes round the loop. A barrier stands before a step with a hazard against
what another thread may have done since the last barrier: on the memory of a buffer, or of another
buffer in the same place of the arena (graphc.schedule.dependences).

The cost model is a rough one on purpose. It has to tell 1 from 10 microseconds, no more: a wrong
decision near the threshold costs as little as it gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphc.ir.dims import Extent, fixed
from graphc.ir.nodes import CONSTANT, INPUT, Node
from graphc.ir.registry import lookup
from graphc.ops.work import Terms, additions, terms
from graphc.records import record
from graphc.schedule.concurrency import Cost, StepGroup, reordered, step_groups
from graphc.schedule.dependences import (
    HazardTracker,
    MemoryRange,
    buffer_ranges,
    effects_of,
    root_buffer_ranges,
)
from graphc.schedule.plan import (
    Branch,
    Check,
    KernelSpec,
    Launch,
    Loop,
    Plan,
    Step,
    all_checks,
    kernels,
)
from graphc.schedule.plan_verifier import verify_plan

# What one thread does in a nanosecond: additions, which all work is counted in (graphc.ops.work),
# those of products, and bytes from and to the second-level cache.
ADDITIONS, PRODUCTS, BYTES = 100.0, 40.0, 40.0

STEP_NS = 2000.0
"""Work from which a step is split."""
PART_NS = 1000.0
"""The least work for one thread."""
BARRIER_NS = 100.0
"""What a barrier takes of threads that run (two cores of one socket)."""
CALL_NS = 4000.0
"""What a call must save to wake other threads: little where they still spin, about 12 microseconds
where they sleep."""
ALONE_SHARE = 0.02
"""Of a call's time that steps which are not split must take before others run concurrently."""
GROWTH_BYTES = 1 << 20
"""By which the arena may grow for that."""
RUNS = 8
"""Assumed of a loop whose runs are not counted beforehand."""


@record
class WorkSplit:
    """How one step runs. `barrier`: all threads wait for each other before it. `inner`: how the
    steps of each of its plans run, for a loop or branch that all threads go through; empty where
    thread 0 does. `thread`: which runs it, where one does. `decision`: which of the call's decides
    on how many threads it runs, `threads` at most (open_schedule.py)."""

    threads: int
    barrier: bool
    reason: str
    inner: tuple[tuple[WorkSplit, ...], ...] = ()
    thread: int = 0
    decision: int | None = None

    def __str__(self) -> str:
        which = f" (number {self.thread})" if self.thread else ""
        return f"{'barrier, ' * self.barrier}threads {self.threads}{which}: {self.reason}"


@record
class Schedule:
    """How a plan runs: `threads` of the call with the reason, and one `WorkSplit` a step."""

    threads: int
    steps: tuple[WorkSplit, ...]
    reason: str

    def __str__(self) -> str:
        every = list(all_splits(self.steps))
        split = sum(step.threads > 1 and not step.inner for step in every)
        barriers = sum(step.barrier for step in every)
        told = f"threads {self.threads}: {self.reason}"
        if self.threads == 1:
            return told
        return f"{told}; {split} of {len(every)} steps split, {barriers} barriers"


def all_splits(splits: Sequence[WorkSplit]) -> Iterator[WorkSplit]:
    for split in splits:
        yield split
        for inner in split.inner:
            yield from all_splits(inner)


def table(plan: Plan, chosen: Schedule) -> str:
    """A line for each step: what it is and how it runs."""
    return "\n".join([str(chosen), *_table(plan, chosen.steps, kernels(plan), "  ")])


def _table(
    plan: Plan, splits: Sequence[WorkSplit], names: Mapping[KernelSpec, str], indent: str
) -> list[str]:
    lines = []
    for step, split in zip(plan.steps, splits, strict=True):
        what = names[step.kernel] if isinstance(step, Launch) else type(step).__name__.lower()
        lines.append(f"{indent}{what}: {split}")
        if isinstance(step, Loop | Branch) and split.inner:
            for inner, its in zip(step.plans, split.inner, strict=True):
                lines += _table(inner, its, names, indent + "  ")
    return lines


@record
class SerialWork:
    """A kernel's extent (parts its range can be cut into) and time on one thread."""

    extent: int
    nanoseconds: float


def work_of(extents: Mapping[KernelSpec, int]) -> dict[KernelSpec, SerialWork]:
    """The work of each kernel."""
    return {
        spec: SerialWork(extent, estimate(spec).nanoseconds) for spec, extent in extents.items()
    }


def work_terms(spec: KernelSpec) -> tuple[Terms, Terms, Extent]:
    """Additions of its products, those of all else, and bytes, in the sizes of the kernel."""
    body, types = spec.body, (*spec.body.input_types, *spec.body.output_types)
    by_kind: dict[bool, list[tuple[float, Extent]]] = {True: [], False: []}
    for node in body.nodes:
        by_kind[_multiplies(node)] += terms(body, node)
    nbytes: Extent = sum(type.nbytes for type in types)
    return tuple(by_kind[True]), tuple(by_kind[False]), nbytes


@record
class Estimate:
    """About how long a kernel runs on one thread, and what limits it: `products`, `additions` (all
    other arithmetic) or `bytes`."""

    nanoseconds: float
    limit: str


def estimate(spec: KernelSpec) -> Estimate:
    """The longer of arithmetic and memory."""
    types = (*spec.body.input_types, *spec.body.output_types)
    products = sum(additions(spec.body, n) for n in spec.body.nodes if _multiplies(n)) / PRODUCTS
    others = sum(additions(spec.body, n) for n in spec.body.nodes if not _multiplies(n)) / ADDITIONS
    memory = sum(type.nbytes for type in types) / BYTES
    if memory > products + others:
        return Estimate(memory, "bytes")
    return Estimate(products + others, "products" if products > others else "additions")


def _multiplies(node: Node) -> bool:
    """Whether most of a node's work are products."""
    return node.op not in (INPUT, CONSTANT) and lookup(node.op).kind in ("contract", "composite")


# -- which steps are split --------------------------------------------------------------------


@record
class Choice:
    """What is thought of a step: threads, nanoseconds on one, nanoseconds a split saves."""

    threads: int
    time: float
    gain: float
    reason: str
    inner: tuple[tuple[Choice, ...], ...] = ()
    thread: int = 0
    decision: int | None = None

    @property
    def alone(self) -> bool:
        """Whether only one thread runs the step."""
        return self.threads == 1 and not self.inner


CHECK = Choice(1, 0.0, 0.0, "all threads make a check alike", ((),))


def schedule(plan: Plan, work: Mapping[KernelSpec, SerialWork], threads: int) -> Schedule:
    """How to run the plan, its steps in order, on at most `threads` threads, 2 or more."""
    choices = [_choice(step, work, threads) for step in plan.steps]
    return _scheduled(plan, choices, [1] * len(choices))


def spread(
    plan: Plan, work: Mapping[KernelSpec, SerialWork], threads: int, *, grows: bool = True
) -> tuple[Plan, Schedule]:
    """As `schedule`. Where steps that are not split take long, others run concurrently: then the
    plan has another order, and an arena for it, with `grows` false no larger than before."""
    choices = [_choice(step, work, threads) for step in plan.steps]
    order = _step_groups(plan, choices, threads)
    if len(order) < len(choices):
        concurrent = reordered(plan, order)
        chosen = _scheduled(
            concurrent, _concurrent(choices, order), [len(group) for group in order]
        )
        if chosen.threads > 1 and concurrent.arena_bytes <= plan.arena_bytes + GROWTH_BYTES * grows:
            return verify_plan(concurrent), chosen
    return plan, _scheduled(plan, choices, [1] * len(choices))


def _scheduled(plan: Plan, choices: Sequence[Choice], group_sizes: Sequence[int]) -> Schedule:
    """`group_sizes`: of how many steps, one after the other, each step group is."""
    steps = with_barriers(plan, choices, root_buffer_ranges(plan), group_sizes)
    most = max((max(step.threads, step.thread + 1) for step in all_splits(steps)), default=1)
    barriers = sum(step.barrier for step in steps)  # those inside loops are in the loops' gain
    pays, reason = call_pays(choices, most, barriers)
    return Schedule(most, steps, reason) if pays else one_thread(plan, reason, choices)


def call_pays(choices: Sequence[Choice], most: int, barriers: int) -> tuple[bool, str]:
    """Whether a call is better made on `most` threads than on one, and why."""
    saved = sum(choice.gain for choice in choices) - BARRIER_NS * (barriers + 1)
    if most == 1:
        return False, "no step is worth a split"
    if saved < CALL_NS:
        told = f"saves about {saved / 1000:.1f} us of a call, below {CALL_NS / 1000:.0f} us"
        return False, told
    return True, f"saves about {saved / 1000:.1f} us of a call"


def one_thread(plan: Plan, reason: str, choices: Sequence[Choice] = ()) -> Schedule:
    """The schedule that runs every step on the calling thread."""
    reasons = [choice.reason for choice in choices] or [reason] * len(plan.steps)
    return Schedule(1, tuple(WorkSplit(1, False, text) for text in reasons), reason)


def _choice(step: Step, work: Mapping[KernelSpec, SerialWork], threads: int) -> Choice:
    if isinstance(step, Check):
        return CHECK
    if isinstance(step, Loop | Branch):
        return _region_choice(step, work, threads)
    return launch_choice(work[step.kernel], threads)


def launch_choice(work: SerialWork, threads: int) -> Choice:
    """A launch: split where that saves time, into parts that are worth it."""
    time, extent = work.nanoseconds, work.extent
    told = f"about {time / 1000:.1f} us"
    if time < STEP_NS:
        return Choice(1, time, 0.0, f"{told}, below {STEP_NS / 1000:.0f} us")
    if extent < 2:
        return Choice(1, time, 0.0, f"{told}, a range of {extent} cannot be cut")
    wanted = min(threads, extent, max(int(time / max(PART_NS, 1)), 2))
    longest = -(-extent // wanted)
    gain = time * (1 - longest / extent)
    return Choice(wanted, time, gain, f"{told}, range of {extent}")


def _region_choice(
    step: Loop | Branch, work: Mapping[KernelSpec, SerialWork], threads: int
) -> Choice:
    inner = tuple(tuple(_choice(each, work, threads) for each in plan.steps) for plan in step.plans)
    runs = 1 if isinstance(step, Branch) else RUNS if step.count is None else fixed(step.count)
    return region_choice(inner, runs, has_checks(step))


def has_checks(step: Loop | Branch) -> bool:
    """Whether steps inside check contents, which all threads do alike."""
    return any(all_checks(plan) for plan in step.plans)


def region_choice(inner: tuple[tuple[Choice, ...], ...], runs: int, checks: bool) -> Choice:
    """A loop or branch: through all threads where that saves time, or where it makes checks."""
    every = [choice for choices in inner for choice in choices]
    time = runs * sum(choice.time for choice in every)
    gain = runs * (sum(choice.gain for choice in every) - BARRIER_NS * (len(every) + 1))
    most = max((choice.threads for choice in every), default=1)
    told = f"about {time / 1000:.1f} us in {runs} runs"
    if gain > 0 and most > 1:
        return Choice(most, time, gain, told, inner)
    if checks:
        return Choice(1, time, gain, f"{told}, with checks, which all threads make alike", inner)
    return Choice(1, time, 0.0, f"{told}, nothing in it is worth a split")


# -- in which order, and where barriers stand -------------------------------------------------


def _step_groups(plan: Plan, choices: Sequence[Choice], threads: int) -> list[StepGroup]:
    """The steps in order; those that can run concurrently with a long one that is not split in
    its group."""
    # What Python computes stays on the calling thread, in its place.
    launches = [isinstance(step, Launch) and step.kernel.has_loops for step in plan.steps]
    idle = sum(c.time for c, launch in zip(choices, launches) if launch and c.alone)
    if idle < ALONE_SHARE * sum(choice.time - choice.gain for choice in choices):
        return [[(number, 0)] for number in range(len(choices))]
    costs, part = [], 0  # nothing is moved past a check, loop, branch or call of Python
    for choice, launch in zip(choices, launches):
        part += not launch
        wall = choice.time - choice.gain if launch else 0.0
        costs.append(Cost(choice.time, wall, launch and choice.alone, part))
        part += not launch
    return step_groups(plan, costs, threads)


def _concurrent(choices: Sequence[Choice], order: Sequence[StepGroup]) -> list[Choice]:
    """The choices in this order. A step that one thread runs while others run another takes no time
    of the call."""
    reordered_choices = []
    for (first, _), *others in order:
        reordered_choices.append(choices[first])
        for step, thread in others:
            choice = choices[step]
            told = f"{choice.reason}, concurrent with one that is not split"
            concurrent = Choice(1, choice.time, choice.time, told, thread=thread)
            reordered_choices.append(concurrent)
    return reordered_choices


def with_barriers(
    plan: Plan, choices: Sequence[Choice], at: Sequence[MemoryRange], group_sizes: Sequence[int]
) -> tuple[WorkSplit, ...]:
    """The splits of a plan's steps: the choices, and where barriers stand. When the first of them
    runs, a barrier was just passed, or no hazard with these steps has come up since."""
    hazards = HazardTracker()
    splits: list[WorkSplit] = []
    for count in group_sizes:
        group = range(len(splits), len(splits) + count)
        owners = {i: choices[i].thread if choices[i].alone else None for i in group}
        effects = {i: effects_of(plan.steps[i], at) for i in group}
        for number in group:
            # All of a group waits before its first step, so that the others start with it.
            waiting = group if number == group[0] else [number]
            barrier = any(hazards.with_step(owners[i], effects[i]) for i in waiting)
            if barrier:
                hazards.after_barrier()
            hazards.add(owners[number], effects[number])
            choice = choices[number]
            inner = _inner(plan.steps[number], choice, at)
            own = choice.thread, choice.decision
            splits.append(WorkSplit(choice.threads, barrier, choice.reason, inner, *own))
            if inner:
                hazards.after_unknown()
    return tuple(splits)


def _inner(
    step: Step, choice: Choice, at: Sequence[MemoryRange]
) -> tuple[tuple[WorkSplit, ...], ...]:
    if not choice.inner or not isinstance(step, Loop | Branch):
        return ()
    arguments = [at[i] for i in step.reads]
    outputs = [at[i] for i in step.writes]
    memory = None if step.memory is None else at[step.memory]
    splits = []
    for plan, choices in zip(step.plans, choice.inner, strict=True):
        results = outputs
        if isinstance(step, Loop) and plan is step.condition and step.flag is not None:
            results = [at[step.flag]]
        inside = buffer_ranges(plan, arguments, results, memory)
        splits.append(with_barriers(plan, choices, inside, [1] * len(choices)))
    return tuple(splits)
