"""How a plan of sizes known only at run time runs on several threads: each call decides.

in : a plan, where its buffers lie in the example, and the sizes that ranges and work depend on
out: an `OpenSchedule`: the most that any size splits, with barriers for that; and for the numbers
     of a call which steps are split, into how many parts

One driver serves all sizes. Its barriers are those of a call in which every step is split that some
size splits: more than a call of fewer splits needs, and all that any needs. Into how many parts a
step is split is read from the table of the call: its *decision*. Of a loop or branch it says
whether all threads go through, or thread 0 alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.dims import Dim, Extent, always_lt, evaluate
from graphc.ir.instances import substitute
from graphc.ir.size_guards import answered_by
from graphc.ops.work import Terms
from graphc.records import record, replace
from graphc.schedule.dependences import root_buffer_ranges
from graphc.schedule.plan import Branch, Check, KernelSpec, Launch, Loop, Plan, Step
from graphc.schedule.threads import (
    ADDITIONS,
    BYTES,
    CHECK,
    PRODUCTS,
    RUNS,
    Choice,
    Schedule,
    SerialWork,
    WorkSplit,
    all_splits,
    call_pays,
    estimate,
    has_checks,
    launch_choice,
    region_choice,
    with_barriers,
    work_terms,
)


@record
class OpenStep:
    """What decides on a step: `number` is the position of its first number among those of a call:
    of a launch its range, then nanoseconds on one thread, of a loop its runs."""

    number: int = -1
    inner: tuple[tuple[OpenStep, ...], ...] = ()
    is_check: bool = False
    checks: bool = False


@record
class OpenSchedule:
    """`most` threads of any call; `splits` with barriers as if all that may be split were."""

    most: int
    steps: tuple[OpenStep, ...]
    splits: tuple[WorkSplit, ...]

    @property
    def schedule(self) -> Schedule:
        """What the driver is written for."""
        return Schedule(self.most, self.splits, "decided by the sizes of each call")

    def at(self, numbers: Sequence[float]) -> tuple[Schedule, list[int]]:
        """How a call of these numbers runs, and its decisions."""
        choices = [self._choice(step, numbers) for step in self.steps]
        splits = tuple(map(_split, self.splits, choices))
        most = max((split.threads for split in all_splits(splits)), default=1)
        barriers = sum(split.barrier for split in self.splits)
        pays, reason = call_pays(choices, most, barriers)
        if not pays:
            alone = tuple(WorkSplit(1, False, choice.reason) for choice in choices)
            return Schedule(1, alone, reason), [1] * self._decisions()
        decided = dict(_decided(self.splits, splits, most))
        return Schedule(most, splits, reason), [decided[i] for i in range(self._decisions())]

    def _decisions(self) -> int:
        return sum(split.decision is not None for split in all_splits(self.splits))

    def _choice(self, step: OpenStep, numbers: Sequence[float]) -> Choice:
        if step.is_check:
            return CHECK
        if step.inner:
            inner = tuple(tuple(self._choice(s, numbers) for s in steps) for steps in step.inner)
            return region_choice(inner, int(numbers[step.number]), step.checks)
        extent, nanoseconds = numbers[step.number : step.number + 2]
        return launch_choice(SerialWork(int(extent), nanoseconds), self.most)


def _split(most: WorkSplit, choice: Choice) -> WorkSplit:
    """A step of a call, with the barrier that the driver has."""
    inner = tuple(
        tuple(map(_split, splits, choices)) for splits, choices in zip(most.inner, choice.inner)
    )
    threads = min(choice.threads, most.threads)
    return WorkSplit(threads, most.barrier, choice.reason, inner)


def _decided(
    most: Sequence[WorkSplit], splits: Sequence[WorkSplit], threads: int
) -> list[tuple[int, int]]:
    """The decisions of a call. Where thread 0 goes through a loop alone, those inside are not
    read."""
    decided: list[tuple[int, int]] = []
    for general, split in zip(most, splits, strict=True):
        if general.decision is not None:
            through = threads if general.inner and split.inner else split.threads
            decided.append((general.decision, through))
        for number, inner in enumerate(general.inner):
            if split.inner:
                decided += _decided(inner, split.inner[number], threads)
            else:
                decided += [(s.decision, 1) for s in all_splits(inner) if s.decision is not None]
    return decided


def open_schedule(
    plan: Plan, instance: Plan, extents: Mapping[KernelSpec, Extent], threads: int
) -> tuple[OpenSchedule, list[str]]:
    """The schedule of a plan on at most `threads`, and the numbers it is decided by, each as an
    expression of Python in the plan's sizes. `instance` is the plan in the example, `extents` are
    those of kernels in their own sizes."""
    opening = _Opening(extents, dict(plan.example), threads)
    pairs = [opening.step(step) for step in plan.steps]
    steps, choices = tuple(step for step, _ in pairs), [choice for _, choice in pairs]
    splits = with_barriers(instance, choices, root_buffer_ranges(instance), [1] * len(choices))
    most = max((split.threads for split in all_splits(splits)), default=1)
    return OpenSchedule(most, steps, splits), opening.numbers


class _Opening:
    """Walks over a plan: the numbers that decide on its steps, and the most that each is split."""

    def __init__(
        self, extents: Mapping[KernelSpec, Extent], example: Mapping[str, int], threads: int
    ):
        self.extents = extents
        self.example = example
        self.threads = threads
        self.numbers: list[str] = []
        self._decisions = 0

    def step(self, step: Step) -> tuple[OpenStep, Choice]:
        if isinstance(step, Check):
            return OpenStep(is_check=True), CHECK
        if isinstance(step, Launch):
            return self._launch(step)
        return self._region(step)

    def _launch(self, step: Launch) -> tuple[OpenStep, Choice]:
        own: dict[str, Extent] = {f"s{i}": size for i, size in enumerate(step.sizes)}
        extent = substitute(self.extents[step.kernel], own)
        with answered_by({name: evaluate(size, self.example) for name, size in own.items()}):
            work, time_at = work_terms(step.kernel), estimate(step.kernel).nanoseconds
        time, is_open = _time(work, own)
        opened = OpenStep(self._numbers(str(extent), time))
        if always_lt(extent, 2) or not (is_open or isinstance(extent, Dim)):
            count = 1 if isinstance(extent, Dim) else extent
            return opened, launch_choice(
                SerialWork(count, 0.0 if is_open else time_at), self.threads
            )
        return opened, self._decided("decided by the sizes of each call")

    def _region(self, step: Loop | Branch) -> tuple[OpenStep, Choice]:
        runs = 1 if isinstance(step, Branch) else RUNS if step.count is None else step.count
        number, checks = self._numbers(str(runs)), has_checks(step)
        pairs = [[self.step(each) for each in plan.steps] for plan in step.plans]
        inner = tuple(tuple(choice for _, choice in each) for each in pairs)
        steps = tuple(tuple(opened for opened, _ in each) for each in pairs)
        opened = OpenStep(number, steps, checks=checks)
        if all(choice.threads == 1 for choices in inner for choice in choices):
            return opened, region_choice(inner, 1, checks)
        if checks:
            told = "with checks, which all threads make alike"
            return opened, Choice(self.threads, 0.0, 0.0, told, inner)
        return opened, replace(self._decided("decided by the sizes of each call"), inner=inner)

    def _decided(self, reason: str) -> Choice:
        self._decisions += 1
        return Choice(self.threads, 0.0, 0.0, reason, decision=self._decisions - 1)

    def _numbers(self, *texts: str) -> int:
        self.numbers += texts
        return len(self.numbers) - len(texts)


def _time(work: tuple[Terms, Terms, Extent], own: Mapping[str, Extent]) -> tuple[str, bool]:
    """Nanoseconds on one thread as an expression, as `estimate` says; whether sizes are in it."""
    products, others, nbytes = work
    counts = [substitute(count, own) for _, count in (*products, *others)]
    texts = [f"{factor!r} * ({count})" for (factor, _), count in zip((*products, *others), counts)]
    memory = substitute(nbytes, own)
    by_products = " + ".join(texts[: len(products)]) or "0"
    by_others = " + ".join(texts[len(products) :]) or "0"
    text = f"max(({memory}) / {BYTES}, ({by_products}) / {PRODUCTS} + ({by_others}) / {ADDITIONS})"
    return text, any(isinstance(count, Dim) for count in (*counts, memory))
