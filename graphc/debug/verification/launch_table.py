"""A plan whose runner can tell which launch it is at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphc.debug.places import SourcePlace, place_of_step
from graphc.schedule.plan import Branch, KernelSpec, Launch, Loop, Plan, Step, kernels


@dataclass(frozen=True, slots=True)
class NumberedLaunch:
    """A launch, the plan it is a step of (with all plans in it as they were), its position there,
    its kernel's name; `inner` says that the plan is that of a loop or branch."""

    plan: Plan
    launch: Launch
    position: int
    name: str
    inner: bool

    @property
    def place(self) -> SourcePlace:
        return place_of_step(self.plan, self.launch)

    def __str__(self) -> str:
        inside = " of a loop or branch" if self.inner else ""
        return f"step {self.position}{inside}, {self.name}"


class LaunchTable:
    """`plan` is equal to the plan given, but each launch has a kernel spec of its own, so that what
    `run_plan` hands to the runner of kernels says which launch it is."""

    def __init__(self, plan: Plan):
        self._names = kernels(plan)
        self._known: dict[int, NumberedLaunch] = {}
        self.plan = self._numbered(plan, inner=False)

    def of(self, spec: KernelSpec) -> NumberedLaunch:
        return self._known[id(spec)]

    def _numbered(self, plan: Plan, inner: bool) -> Plan:
        steps = [self._step(plan, i, step, inner) for i, step in enumerate(plan.steps)]
        return replace(plan, steps=tuple(steps))

    def _step(self, plan: Plan, position: int, step: Step, inner: bool) -> Step:
        if isinstance(step, Loop):
            condition = None if step.condition is None else self._numbered(step.condition, True)
            return replace(step, body=self._numbered(step.body, True), condition=condition)
        if isinstance(step, Branch):
            then, otherwise = (self._numbered(each, True) for each in step.plans)
            return replace(step, then=then, otherwise=otherwise)
        if not isinstance(step, Launch):
            return step
        spec = replace(step.kernel)
        name = self._names[step.kernel]
        self._known[id(spec)] = NumberedLaunch(plan, step, position, name, inner)
        return replace(step, kernel=spec)
