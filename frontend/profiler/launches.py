"""Compiled calls while a profiler is on: each launch of a kernel becomes an event.

in : an executable and the arrays of a call
out: its results, and events: the call, and inside it the launches, checks and waits of each thread

The call runs behind a driver that reads the clock between its steps, made when an executable is met
first. Names are those of `graphc dump --stage plan`; each event says the line and module it is of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from frontend.profiler.averages import FunctionEvent
from graphc.system import IMPORTING

if TYPE_CHECKING:
    from graphc.debug.places import SourcePlace


class LaunchRecorder:
    """Runs executables, and gives `note` an event for the call and for each of its steps."""

    def __init__(self, note: Any):
        self._note = note
        self._clocked: dict[int, ClockedExecutable] = {}

    def run(self, executable: Any, arrays: list[Any]) -> tuple[Any, ...]:
        """What the executable gives for a list of arrays, which is used up."""
        clocked = self._clocked.get(id(executable))
        if clocked is None:
            clocked = self._clocked[id(executable)] = ClockedExecutable(executable)
        start = time.perf_counter_ns()
        call = clocked.clock.run(arrays)
        end = time.perf_counter_ns()
        thread = threading.get_ident()
        name = f"compiled {executable.graph.name}"
        self._note(FunctionEvent(name, start, end, thread, (), "compiled"))
        for event in clocked.events(call.records, thread):
            self._note(event)
        results: tuple[Any, ...] = call.results
        return results


class ClockedExecutable:
    """An executable behind a driver with clocks, and what its steps are called."""

    def __init__(self, executable: Any):
        with IMPORTING:
            from graphc.debug.places import place_of_step, steps_with_plans
            from graphc.runtime.step_clock import StepClock
            from graphc.schedule.plan import Launch, kernels

        self.executable = executable  # kept, so that its id stays its own
        self.clock = StepClock(executable)
        names = kernels(executable.plan)
        self.steps: list[tuple[str, SourcePlace]] = [
            (names[step.kernel] if isinstance(step, Launch) else type(step).__name__.lower(),
             place_of_step(plan, step))
            for plan, step in steps_with_plans(executable.plan)
        ]  # fmt: skip

    def events(self, records: Any, thread: int) -> Iterator[FunctionEvent]:
        """The steps of a call, by thread: the calling one, then the workers."""
        shift = time.perf_counter_ns() - time.monotonic_ns()  # native code reads the latter
        for number, record in enumerate(records):
            last = record.began
            for slot, over in record.events:
                name, place = self.steps[slot // 2]
                if slot % 2:
                    yield FunctionEvent(
                        name, last + shift, over + shift, thread + number, (), "launch", str(place)
                    )
                elif over - last > LEAST_WAIT:
                    yield FunctionEvent(
                        "wait", last + shift, over + shift, thread + number, (), "launch"
                    )
                last = over


LEAST_WAIT = 1000
"""Nanoseconds of a wait at a barrier that is shown."""
