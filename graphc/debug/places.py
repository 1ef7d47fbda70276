"""Where in the user's program a step of a plan comes from."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.nodes import Location
from graphc.schedule.plan import Step


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A line (`model.py:12`), the path of the module that ran there, and the phase of the step:
    forward, backward or update. Empty where nothing is known."""

    line: str = ""
    module: str = ""
    phase: str = ""


def place_of(location: Location | None) -> SourcePlace:
    """The place of a location."""
    if location is None:
        return SourcePlace()
    return SourcePlace(f"{location.file}:{location.line}")


def place_of_step(step: Step) -> SourcePlace:
    """The place of the node a step is known by."""
    return place_of(step.location)
