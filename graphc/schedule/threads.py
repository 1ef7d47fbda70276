"""Which steps of a plan are split over threads, and where threads meet.

in : a plan, the extent of each kernel's range, and how many threads there may be
out: a `Schedule`: for each step its threads with the reason, and whether all meet before it

All threads of a call run the same steps. A step that is split does a fixed part of its kernel's
range on each thread; one that is not runs on thread 0. A loop or branch runs on thread 0 as a
whole, or, where steps in it are worth a split, on all: each thread goes round the loop. Threads
meet before a step that touches memory another thread may have touched since they met last: that
of a buffer, or of another buffer in the same place of the arena.

The cost model is a rough one on purpose. It has to tell 1 from 10 microseconds, no more: a wrong
decision near the threshold costs as little as it gains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphc.ops.work import total
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

# What one thread does in a nanosecond: additions, which all work is counted in (graphc.ops.work),
# and bytes from and to the second-level cache.
ADDITIONS, BYTES = 100.0, 40.0

STEP_NS = 2000.0
"""Work from which a step is split."""
PART_NS = 1000.0
"""The least work for one thread."""
MEETING_NS = 100.0
"""Threads that run wait that long for each other (two cores of one socket)."""
CALL_NS = 4000.0
"""What a call must save to wake other threads: little where they still spin, about 12 microseconds
where they sleep."""
RUNS = 8
"""Assumed of a loop whose runs are not counted beforehand."""


@dataclass(frozen=True, slots=True)
class Split:
    """How one step runs. `meet`: all threads meet before it. `inner`: how the steps of each of its
    plans run, for a loop or branch that all threads go through; empty where thread 0 does."""

    threads: int
    meet: bool
    reason: str
    inner: tuple[tuple[Split, ...], ...] = ()

    def __str__(self) -> str:
        return f"{'meet, ' * self.meet}threads {self.threads}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a plan runs: `threads` of the call, one `Split` a step, and the reason for `threads`."""

    threads: int
    steps: tuple[Split, ...]
    reason: str

    def __str__(self) -> str:
        every = list(_all_splits(self.steps))
        split = sum(step.threads > 1 and not step.inner for step in every)
        meetings = sum(step.meet for step in every)
        told = f"threads {self.threads}: {self.reason}"
        if self.threads == 1:
            return told
        return f"{told}; {split} of {len(every)} steps split, {meetings} meetings"


def _all_splits(splits: Sequence[Split]) -> Iterator[Split]:
    for split in splits:
        yield split
        for inner in split.inner:
            yield from _all_splits(inner)


def table(plan: Plan, chosen: Schedule) -> str:
    """A line for each step: what it is and how it runs."""
    return "\n".join([str(chosen), *_table(plan, chosen.steps, kernels(plan), "  ")])


def _table(
    plan: Plan, splits: Sequence[Split], names: Mapping[KernelSpec, str], indent: str
) -> list[str]:
    lines = []
    for step, split in zip(plan.steps, splits, strict=True):
        what = names[step.kernel] if isinstance(step, Launch) else type(step).__name__.lower()
        lines.append(f"{indent}{what}: {split}")
        if isinstance(step, Loop | Branch) and split.inner:
            for inner, its in zip(step.plans, split.inner, strict=True):
                lines += _table(inner, its, names, indent + "  ")
    return lines


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel's extent (parts its range can be cut into) and time on one thread."""

    extent: int
    nanoseconds: float


def work_of(extents: Mapping[KernelSpec, int]) -> dict[KernelSpec, Work]:
    """The work of each kernel."""
    return {spec: Work(extent, nanoseconds(spec)) for spec, extent in extents.items()}


def nanoseconds(spec: KernelSpec) -> float:
    """About how long a kernel runs on one thread: the longer of arithmetic and memory."""
    types = (*spec.body.input_types, *spec.body.output_types)
    return max(total(spec.body) / ADDITIONS, sum(type.nbytes for type in types) / BYTES)


# -- which steps are split --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is thought of a step: threads, nanoseconds on one, nanoseconds a split saves."""

    threads: int
    time: float
    gain: float
    reason: str
    inner: tuple[tuple[_Choice, ...], ...] = ()

    @property
    def alone(self) -> bool:
        """Whether only thread 0 runs the step."""
        return self.threads == 1 and not self.inner


def schedule(plan: Plan, work: Mapping[KernelSpec, Work], threads: int) -> Schedule:
    """How to run the plan on at most `threads` threads, 2 or more."""
    choices = [_choice(step, work, threads) for step in plan.steps]
    steps = _placed(plan, choices, _root_places(plan))
    most = max((step.threads for step in _all_splits(steps)), default=1)
    meetings = sum(step.meet for step in steps)  # those inside loops are in the loops' gain
    saved = sum(choice.gain for choice in choices) - MEETING_NS * (meetings + 1)
    if most == 1:
        return one_thread(plan, "no step is worth a split", choices)
    if saved < CALL_NS:
        reason = f"saves about {saved / 1000:.1f} us of a call, below {CALL_NS / 1000:.0f} us"
        return one_thread(plan, reason, choices)
    return Schedule(most, steps, f"saves about {saved / 1000:.1f} us of a call")


def one_thread(plan: Plan, reason: str, choices: Sequence[_Choice] = ()) -> Schedule:
    """The schedule that runs every step on the calling thread."""
    reasons = [choice.reason for choice in choices] or [reason] * len(plan.steps)
    return Schedule(1, tuple(Split(1, False, text) for text in reasons), reason)


def _choice(step: Step, work: Mapping[KernelSpec, Work], threads: int) -> _Choice:
    if isinstance(step, Check):
        return _Choice(1, 0.0, 0.0, "all threads make a check alike", ((),))
    if isinstance(step, Loop | Branch):
        return _region_choice(step, work, threads)
    estimate = work[step.kernel]
    time = estimate.nanoseconds
    told = f"about {time / 1000:.1f} us"
    if time < STEP_NS:
        return _Choice(1, time, 0.0, f"{told}, below {STEP_NS / 1000:.0f} us")
    if estimate.extent < 2:
        return _Choice(1, time, 0.0, f"{told}, a range of {estimate.extent} cannot be cut")
    wanted = min(threads, estimate.extent, max(int(time / max(PART_NS, 1)), 2))
    longest = -(-estimate.extent // wanted)
    gain = time * (1 - longest / estimate.extent)
    return _Choice(wanted, time, gain, f"{told}, range of {estimate.extent}")


def _region_choice(
    step: Loop | Branch, work: Mapping[KernelSpec, Work], threads: int
) -> _Choice:
    """A loop or branch: through all threads where that saves time, or where it makes checks."""
    inner = tuple(
        tuple(_choice(each, work, threads) for each in plan.steps) for plan in step.plans
    )
    runs = 1 if isinstance(step, Branch) else RUNS if step.count is None else step.count
    every = [choice for choices in inner for choice in choices]
    time = runs * sum(choice.time for choice in every)
    gain = runs * (sum(choice.gain for choice in every) - MEETING_NS * (len(every) + 1))
    most = max((choice.threads for choice in every), default=1)
    told = f"about {time / 1000:.1f} us in {runs} runs"
    if gain > 0 and most > 1:
        return _Choice(most, time, gain, told, inner)
    if any(all_checks(plan) for plan in step.plans):
        return _Choice(1, time, gain, f"{told}, with checks, which all threads make alike", inner)
    return _Choice(1, time, 0.0, f"{told}, nothing in it is worth a split")


# -- where threads meet -----------------------------------------------------------------------

Region = tuple[str, int, int]  # place, first byte or slot, one past the last


def _root_places(plan: Plan) -> list[Region]:
    arguments = [("argument", i, i + 1) for i in range(len(plan.argument_types))]
    outputs = [("output", i, i + 1) for i in range(len(plan.output_types))]
    return _places(plan, arguments, outputs, ("arena", 0, plan.arena_bytes))


def _places(
    plan: Plan, arguments: Sequence[Region], outputs: Sequence[Region], memory: Region | None
) -> list[Region]:
    """Where each buffer of a plan lies, given where its arguments, outputs and arena do."""
    found: list[Region] = []
    for buffer in plan.buffers:
        if buffer.place == "argument":
            found.append(arguments[buffer.slot])
        elif buffer.place == "output":
            found.append(outputs[buffer.slot])
        elif buffer.place == "constant":
            found.append(("constant", buffer.slot, buffer.slot + 1))
        else:
            assert memory is not None
            first = memory[1] + buffer.slot
            found.append((memory[0], first, first + buffer.type.nbytes))
    return found


class _Pending:
    """What was touched since all threads met last."""

    def __init__(self) -> None:
        self._touched: list[tuple[bool, list[Region], list[Region]]] = []
        self._unknown = False

    def meets(self, alone: bool, read: list[Region], written: list[Region]) -> bool:
        """Whether all threads must meet before a step, which is then taken note of. `alone`: it
        runs on thread 0 only; two such steps are in order anyhow."""
        conflict = self._unknown or any(
            not (alone and other_alone)
            and (
                _overlap(written, other_read)
                or _overlap(written, other_written)
                or _overlap(read, other_written)
            )
            for other_alone, other_read, other_written in self._touched
        )
        if conflict:
            self._touched.clear()
            self._unknown = False
        self._touched.append((alone, read, written))
        return conflict

    def forget(self) -> None:
        """After steps that are not known here: whatever comes next has to wait."""
        self._touched.clear()
        self._unknown = True


def _overlap(one: list[Region], other: list[Region]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in one for b in other)


def _placed(plan: Plan, choices: Sequence[_Choice], places: list[Region]) -> tuple[Split, ...]:
    """The splits of a plan's steps: the choices, and where threads meet. When the first of them
    runs, threads have just met, or nothing of what these steps touch was touched since."""
    pending = _Pending()
    made = []
    for step, choice in zip(plan.steps, choices, strict=True):
        at = [places[i] for i in step.buffers]
        if isinstance(step, Launch):
            split_at = len(step.reads)
            meet = pending.meets(choice.alone, at[:split_at], at[split_at:])
            made.append(Split(choice.threads, meet, choice.reason))
        elif isinstance(step, Check):
            made.append(Split(1, pending.meets(False, at, []), choice.reason))
        else:
            meet = pending.meets(choice.alone, at, at)
            made.append(Split(choice.threads, meet, choice.reason, _inner(step, choice, places)))
            if choice.inner:
                pending.forget()
    return tuple(made)


def _inner(
    step: Loop | Branch, choice: _Choice, places: list[Region]
) -> tuple[tuple[Split, ...], ...]:
    if not choice.inner:
        return ()
    arguments = [places[i] for i in step.reads]
    outputs = [places[i] for i in step.writes]
    memory = None if step.memory is None else places[step.memory]
    made = []
    for plan, choices in zip(step.plans, choice.inner, strict=True):
        results = outputs
        if isinstance(step, Loop) and plan is step.condition and step.flag is not None:
            results = [places[step.flag]]
        made.append(_placed(plan, choices, _places(plan, arguments, results, memory)))
    return tuple(made)
