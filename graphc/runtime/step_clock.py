"""An executable behind a driver that reads the clock around each step.

In: an executable. Out: `StepClock`, whose calls give the same results and what each thread did.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphc.codegen.program.profiling_driver import ThreadRecord, profiling_program
from graphc.runtime.executable import Array, Executable


class StepClock:
    """Runs the kernels of an executable on as many threads, on memory of its own, with the clock
    read between steps."""

    def __init__(self, executable: Executable):
        native, self._layout = profiling_program(
            executable.plan, executable._program.native, executable.target
        )
        program = replace(executable._program, native=native)
        self._executable = Executable(
            executable.graph, program, lambda: executable._read(), executable.target, {}
        )

    def run(self, arrays: list[Any]) -> tuple[tuple[Array, ...], list[ThreadRecord]]:
        """One call: its results, and the record of each thread. Raises as the executable does.
        Where the workers are busy with another call, all records but the first are empty."""
        results = self._executable.run(arrays)
        frame = self._executable._frames[-1]
        return results, self._layout.read(frame.behind(self._layout.start))
