"""An executable behind a driver that reads the clock around each step.

In: an executable. Out: `StepClock`, whose calls give the same results and what each thread did.
"""

from __future__ import annotations

import time
from typing import Any

from graphc.codegen.program.profiling_driver import ThreadRecord, profiling_program
from graphc.records import record, replace
from graphc.runtime.executable import Array, Executable


@record
class ClockedCall:
    """The results of a call, its seconds, those of them in which the calling thread had a
    processor, and the record of each thread."""

    results: tuple[Array, ...]
    seconds: float
    on_processor: float
    records: list[ThreadRecord]


class StepClock:
    """Runs the kernels of an executable on as many threads, on memory of its own, with the clock
    read between steps."""

    def __init__(self, executable: Executable):
        native, self._layout = profiling_program(
            executable.loaded_plan, executable._program.native, executable.target
        )
        table = () if native.sizes is None else tuple(native.sizes.table(executable.sizes))
        program = replace(executable._program, native=native, table=table)
        self._executable = Executable(
            executable.graph, program, lambda: executable._read(), executable.target, {}
        )

    def run(self, arrays: list[Any]) -> ClockedCall:
        """One call on a list of arrays, which is used up. Raises as the executable does. Where the
        workers are busy with another call, what they did is not in the records."""
        had, started = time.thread_time(), time.perf_counter()
        results = self._executable.run(arrays)
        seconds, had = time.perf_counter() - started, time.thread_time() - had
        frame = self._executable._frames[-1]
        records = self._layout.read(frame.behind(self._layout.start))
        return ClockedCall(results, seconds, had, records)
