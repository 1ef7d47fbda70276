"""Plan and schedule → the LLVM IR of a driver that reads the clock around each step.

It calls the same kernels as the plain driver, in the same order, on the same threads. Each thread
has a record behind the block that the plain driver works in, written as it goes:

| bytes | content |
|---|---|
| 0 | when the thread began, and the last time the clock was read (i64 nanoseconds each) |
| 16 | how many events there were |
| 24 … | for each slot: nanoseconds in sum, and how often (i64 each) |
| then | the first events in order: slot, and when it was over (i64 each) |

Step n of `all_steps(plan)` has two slots: 2n is the wait at a barrier before it, 2n + 1 the step
itself. The clock is read once between two steps, so nothing lies between them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver
from graphc.codegen.llvm.native import DRIVER_LEVEL
from graphc.codegen.program.barrier import PADDING, barrier_text
from graphc.codegen.program.driver import BoundPlan, Driver
from graphc.codegen.program.link import native_kernel
from graphc.codegen.program.native_kernel import NativeKernel, with_variants
from graphc.codegen.program.native_program import NativeProgram
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.records import record, replace
from graphc.schedule.plan import Check, KernelSpec, Launch, Plan, Step, all_steps
from graphc.schedule.threads import Schedule, WorkSplit

BEGAN, LAST, EVENTS, SLOTS = 0, 8, 16, 24
MOST_EVENTS = 1 << 13
"""Events kept of a call and thread; sums and counts go on."""


@record
class ThreadRecord:
    """What one thread did in a call: when it began (nanoseconds of the system's monotonic clock),
    by slot the nanoseconds and how often, and the first events as (slot, when it was over)."""

    began: int
    nanoseconds: np.ndarray[Any, Any]
    counts: np.ndarray[Any, Any]
    events: list[tuple[int, int]]


@record
class RecordLayout:
    """Where the records of a call lie in its block: from `start` on, one for each thread."""

    start: int
    steps: int
    threads: int

    @property
    def stride(self) -> int:
        """Bytes of one record."""
        return -(-(SLOTS + 16 * (2 * self.steps + MOST_EVENTS)) // PADDING) * PADDING

    @property
    def end(self) -> int:
        """Bytes of the block with all records."""
        return self.start + self.threads * self.stride

    def read(self, records: np.ndarray[Any, Any]) -> list[ThreadRecord]:
        """The records of a call, which are cleared: a thread that has no part in the next call
        leaves none. `records` are the bytes from `start` on."""
        return [
            self._record(records[i * self.stride : (i + 1) * self.stride].view(np.int64))
            for i in range(self.threads)
        ]

    def _record(self, words: np.ndarray[Any, Any]) -> ThreadRecord:
        first = SLOTS // 8
        behind = first + 4 * self.steps
        slots = words[first:behind].reshape(-1, 2).copy()
        count = min(int(words[EVENTS // 8]), MOST_EVENTS)
        events = words[behind : behind + 2 * count].reshape(-1, 2).tolist()
        pairs = [(slot, over) for slot, over in events]
        record = ThreadRecord(int(words[BEGAN // 8]), slots[:, 0], slots[:, 1], pairs)
        words[:behind] = 0
        return record


def profiling_program(
    plan: Plan, program: NativeProgram, target: Target
) -> tuple[NativeProgram, RecordLayout]:
    """The program of a linked plan behind a driver that keeps records, and where these lie.

    `plan` is that whose kernels are loaded, at the sizes of `program` if it leaves some open.
    Raises LoweringError where the system has no monotonic clock that native code can read.
    """
    steps = list(all_steps(plan))
    kernels = {
        step.kernel: native_kernel(step.kernel, target, {})
        for step in steps
        if isinstance(step, Launch)
    }
    chosen = program.schedule
    layout = RecordLayout(program.block_bytes, len(steps), chosen.threads)
    callees = {kernel.symbol: kernel.function for kernel in with_variants(kernels.values())}
    drivers: list[tuple[str, LoadedFunction]] = []
    if chosen.threads > 1:
        callees["barrier"] = compile_driver(
            barrier_text(target.triple), {}, "barrier", target, user_cache()
        )
        drivers.append(("barrier", callees["barrier"]))
    written = ProfilingDriver(plan, kernels, chosen, layout)
    text = written.text(target.triple)
    driver = compile_driver(text, callees, target=target, store=user_cache(), level=DRIVER_LEVEL)
    drivers.append(("driver", driver))
    profiled = replace(
        program, driver=driver, timings={}, drivers=tuple(drivers), sizes=written.sizes.program(),
        by_size=None, work=None, is_single=False, kernel=None,
        records=layout.end - program.block_bytes,
    )  # fmt: skip
    return profiled, layout


class ProfilingDriver(Driver):
    """The plain driver, with the clock read behind each barrier, launch and check."""

    def __init__(
        self, plan: Plan, kernels: Mapping[KernelSpec, NativeKernel], chosen: Schedule,
        layout: RecordLayout,
    ):  # fmt: skip
        super().__init__(plan, kernels, chosen)
        self.layout = layout
        self._begun = 0  # steps whose text has begun
        self._under_way: list[int] = []

    def text(self, triple: str) -> str:
        return super().text(triple) + _functions(self.layout)

    def _scratch(self) -> None:
        super()._scratch()
        self.lines.extend(
            (
                f"  %records = getelementptr i8, ptr %arena, i64 {self.layout.start}",
                f"  %record.at = mul i64 %thread, {self.layout.stride}",
                "  %record = getelementptr i8, ptr %records, i64 %record.at",
                "  call void @begin(ptr %record)",
            )
        )

    def _unbarred_step_text(self, frame: BoundPlan, step: Step, split: WorkSplit) -> None:
        # Texts come in the order of `all_steps`, each once.
        self._under_way.append(self._begun)
        self._begun += 1
        super()._unbarred_step_text(frame, step, split)
        self._under_way.pop()

    def _barrier(self) -> None:
        super()._barrier()
        self._tick(2 * min(self._begun, self.layout.steps - 1))

    def _launch(
        self, frame: BoundPlan, step: Launch, kernel: NativeKernel, begin: str, end: str
    ) -> None:
        super()._launch(frame, step, kernel, begin, end)
        self._tick(2 * self._under_way[-1] + 1)

    def _check(self, frame: BoundPlan, check: Check) -> None:
        super()._check(frame, check)
        self._tick(2 * self._under_way[-1] + 1)

    def _tick(self, slot: int) -> None:
        self.lines.append(f"  call void @tick(ptr %record, i64 {slot})")


def _clock() -> int:
    clock = getattr(time, "CLOCK_MONOTONIC", None)
    if clock is None:
        raise LoweringError("this system has no monotonic clock that native code could read")
    return int(clock)


def _functions(layout: RecordLayout) -> str:
    """`begin` clears a record, `tick` adds the time since the last reading to a slot."""
    slots = 2 * layout.steps
    return f"""
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @now() nounwind {{
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 {_clock()}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}

define internal void @begin(ptr %record) nounwind {{
  call void @llvm.memset.p0.i64(ptr %record, i8 0, i64 {SLOTS + 16 * slots}, i1 false)
  %now = call i64 @now()
  store i64 %now, ptr %record
  %last.p = getelementptr i8, ptr %record, i64 {LAST}
  store i64 %now, ptr %last.p
  ret void
}}

define internal void @tick(ptr %record, i64 %slot) nounwind {{
entry:
  %now = call i64 @now()
  %last.p = getelementptr i8, ptr %record, i64 {LAST}
  %last = load i64, ptr %last.p
  store i64 %now, ptr %last.p
  %took = sub i64 %now, %last
  %slots = getelementptr i8, ptr %record, i64 {SLOTS}
  %at = mul i64 %slot, 16
  %sum.p = getelementptr i8, ptr %slots, i64 %at
  %sum = load i64, ptr %sum.p
  %more = add i64 %sum, %took
  store i64 %more, ptr %sum.p
  %count.p = getelementptr i8, ptr %sum.p, i64 8
  %count = load i64, ptr %count.p
  %counted = add i64 %count, 1
  store i64 %counted, ptr %count.p
  %events.p = getelementptr i8, ptr %record, i64 {EVENTS}
  %events = load i64, ptr %events.p
  %next = add i64 %events, 1
  store i64 %next, ptr %events.p
  %room = icmp ult i64 %events, {MOST_EVENTS}
  br i1 %room, label %keep, label %done
keep:
  %behind = mul i64 %events, 16
  %event.at = add i64 %behind, {16 * slots}
  %event.p = getelementptr i8, ptr %slots, i64 %event.at
  store i64 %slot, ptr %event.p
  %over.p = getelementptr i8, ptr %event.p, i64 8
  store i64 %now, ptr %over.p
  br label %done
done:
  ret void
}}
"""
