"""Where in the user's program a step of a plan comes from."""

from __future__ import annotations

from collections.abc import Iterator

from graphc.ir.nodes import UPDATE, Location
from graphc.records import record
from graphc.schedule.plan import Branch, Loop, Plan, Step, locations


@record
class SourcePlace:
    """A line (`model.py:12`) and its file's path, the path of the module that ran there, and the
    phase of the step: forward, backward or update. Empty where nothing is known."""

    line: str = ""
    module: str = ""
    phase: str = ""
    path: str = ""
    updates: bool = False
    """An update runs inside a launch that is not known by it."""
    lines: tuple[str, ...] = ()
    """Of a launch: all lines that it computes something of, with their paths."""

    def __str__(self) -> str:
        module = f"[{self.module}]" if self.module else ""
        phase = self.phase + " + update" * self.updates
        return " ".join(word for word in (self.line, module, phase) if word)


def place_of(location: Location | None) -> SourcePlace:
    """The place of a location."""
    if location is None:
        return SourcePlace()
    return SourcePlace(_line(location), location.module, location.phase, location.path)


def place_of_step(plan: Plan, step: Step) -> SourcePlace:
    """The place of what a step of `plan` is built around."""
    every = locations(plan, step)
    main = place_of(step.location)
    updates = main.phase != UPDATE and any(each.phase == UPDATE for each in every)
    lines = tuple(dict.fromkeys(f"{each.path}:{each.line}" for each in every if each.path))
    return SourcePlace(main.line, main.module, main.phase, main.path, updates, lines)


def steps_with_plans(plan: Plan) -> Iterator[tuple[Plan, Step]]:
    """All steps in the order of `all_steps`, each with the plan that it is a step of."""
    for step in plan.steps:
        yield plan, step
        for inner in step.plans if isinstance(step, Loop | Branch) else ():
            yield from steps_with_plans(inner)


def _line(location: Location) -> str:
    return f"{location.file}:{location.line}" if location.path else ""
