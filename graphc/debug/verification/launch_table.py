"""A plan whose runner can tell which launch it is at."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.debug.places import SourcePlace, place_of_step
from graphc.ir.dims import evaluate
from graphc.records import record, replace
from graphc.schedule.plan import Branch, KernelSpec, Launch, Loop, Plan, Step, kernels


@record
class NumberedLaunch:
    """A launch, the plan it is a step of (with all plans in it as they were), its position there,
    its kernel's name; `inner` says that the plan is that of a loop or branch. `kernel` is what runs
    there, at its own `sizes` if it leaves some open."""

    plan: Plan
    launch: Launch
    position: int
    name: str
    inner: bool
    kernel: KernelSpec
    sizes: Mapping[str, int]

    @property
    def place(self) -> SourcePlace:
        return place_of_step(self.plan, self.launch)

    def __str__(self) -> str:
        inside = " of a loop or branch" if self.inner else ""
        return f"step {self.position}{inside}, {self.name}"


class LaunchTable:
    """`plan` is equal to the plan given, but each launch has a kernel spec of its own, so that what
    `run_plan` hands to the runner of kernels says which launch it is. Where the plan is an instance
    of one that leaves sizes open, `opened` is that, and `sizes` are those of the instance."""

    def __init__(
        self, plan: Plan, opened: Plan | None = None, sizes: Mapping[str, int] | None = None
    ):
        self._names = kernels(opened or plan)
        self._sizes = sizes or {}
        self._known: dict[int, NumberedLaunch] = {}
        self.plan = self._numbered(plan, opened or plan, inner=False)

    def of(self, spec: KernelSpec) -> NumberedLaunch:
        return self._known[id(spec)]

    def _numbered(self, plan: Plan, opened: Plan, inner: bool) -> Plan:
        pairs = zip(plan.steps, opened.steps, strict=True)
        steps = [self._step(plan, i, *pair, inner) for i, pair in enumerate(pairs)]
        return replace(plan, steps=tuple(steps))

    def _step(self, plan: Plan, position: int, step: Step, opened: Step, inner: bool) -> Step:
        if isinstance(step, Loop | Branch) and isinstance(opened, Loop | Branch):
            pairs = zip(step.plans, opened.plans, strict=True)
            plans = [self._numbered(known, open, True) for known, open in pairs]
            if isinstance(step, Branch):
                return replace(step, then=plans[0], otherwise=plans[1])
            return replace(step, body=plans[-1], condition=plans[0] if plans[1:] else None)
        if not isinstance(step, Launch) or not isinstance(opened, Launch):
            return step
        spec = replace(step.kernel)
        sizes = {f"s{i}": evaluate(size, self._sizes) for i, size in enumerate(opened.sizes)}
        self._known[id(spec)] = NumberedLaunch(
            plan, step, position, self._names[opened.kernel], inner, opened.kernel, sizes
        )
        return replace(step, kernel=spec)
