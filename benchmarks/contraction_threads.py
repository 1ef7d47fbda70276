"""A plan on several threads: each kernel's range cut into equal parts, a barrier between kernels.

In: an executable and its arrays. Out: `SplitPlan`, which runs the plan so many times and says how
long that took. Threads meet at the barrier inside native code, so Python's part costs nothing.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from graphc.codegen.jit import compile_driver
from graphc.codegen.link import native_kernel
from graphc.schedule.plan import Launch

# One thread's part of `count` runs: jobs of (function, table, begin, end), a barrier behind each.
WORK = """
declare i32 @clock_gettime(i32, ptr)

define i64 @now() nounwind {
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %scaled = mul i64 %seconds, 1000000000
  %total = add i64 %scaled, %rest
  ret i64 %total
}

define void @meet(ptr %counter, i64 %threads) nounwind {
entry:
  %before = atomicrmw add ptr %counter, i64 1 acq_rel
  %round = udiv i64 %before, %threads
  %next = add i64 %round, 1
  %all = mul i64 %next, %threads
  br label %spin
spin:
  %come = load atomic i64, ptr %counter acquire, align 8
  %here = icmp uge i64 %come, %all
  br i1 %here, label %done, label %spin
done:
  ret void
}

define i64 @work(ptr %jobs, i64 %length, ptr %counter, i64 %threads, ptr %scratch, i64 %count)
    nounwind {
entry:
  call void @meet(ptr %counter, i64 %threads)
  %started = call i64 @now()
  br label %run
run:
  %i = phi i64 [ 0, %entry ], [ %i.next, %ran ]
  br label %job
job:
  %j = phi i64 [ 0, %run ], [ %j.next, %job ]
  %p0 = getelementptr [4 x i64], ptr %jobs, i64 %j
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %function = load ptr, ptr %p0
  %table = load ptr, ptr %p1
  %begin = load i64, ptr %p2
  %end = load i64, ptr %p3
  call void %function(ptr %table, ptr null, i64 %begin, i64 %end, ptr %scratch)
  call void @meet(ptr %counter, i64 %threads)
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, %length
  br i1 %j.more, label %job, label %ran
ran:
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %count
  br i1 %i.more, label %run, label %done
done:
  %ended = call i64 @now()
  %elapsed = sub i64 %ended, %started
  ret i64 %elapsed
}
"""
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64,
    ctypes.c_void_p, ctypes.c_int64,
)  # fmt: skip


class SplitPlan:
    """`run(count)`: seconds that `count` runs took; results are in `outputs`."""

    def __init__(self, executable: Any, arrays: list[Any], threads: int) -> None:
        plan, target = executable.plan, executable.target
        self.threads = threads
        self.outputs = [np.full(t.shape, np.nan, t.dtype.numpy) for t in plan.output_types]
        constants = [constant.array for constant in plan.constants]
        arena = _block(plan.arena_bytes)
        places = {"argument": arrays, "output": self.outputs, "constant": constants}
        addresses = [
            _address(arena) + buffer.slot
            if buffer.place == "arena"
            else places[buffer.place][buffer.slot].ctypes.data
            for buffer in plan.buffers
        ]
        steps = [step for step in plan.steps if isinstance(step, Launch)]
        if len(steps) < len(plan.steps):
            raise ValueError("the plan has content checks, which only its driver makes")
        kernels = [native_kernel(step.kernel, target, {}) for step in steps]
        tables = [
            (ctypes.c_void_p * (len(step.reads) + len(step.writes)))(
                *(addresses[number] for number in (*step.reads, *step.writes))
            )
            for step in steps
        ]
        self._length = len(steps)
        self._jobs = [
            np.array(
                [
                    (kernel.address, ctypes.addressof(table),
                     kernel.extent * part // threads, kernel.extent * (part + 1) // threads)
                    for kernel, table in zip(kernels, tables)
                ],
                np.int64,
            )
            for part in range(threads)
        ]  # fmt: skip
        scratch = max((kernel.scratch_bytes for kernel in kernels), default=0)
        self._scratch = [_block(scratch) for _ in range(threads)]
        self._counter = np.zeros(1, np.int64)
        self._work = SIGNATURE(compile_driver(WORK, {}, "work"))
        self._alive = (executable, arrays, constants, arena, tables)

    def run(self, count: int) -> float:
        self._counter[0] = 0
        helpers = [
            threading.Thread(target=self._part, args=(part, count))
            for part in range(1, self.threads)
        ]
        for helper in helpers:
            helper.start()
        nanoseconds = self._part(0, count)
        for helper in helpers:
            helper.join()
        return nanoseconds * 1e-9

    def _part(self, part: int, count: int) -> int:
        elapsed: int = self._work(
            self._jobs[part].ctypes.data, self._length, self._counter.ctypes.data, self.threads,
            _address(self._scratch[part]), count,
        )  # fmt: skip
        return elapsed


def _block(nbytes: int) -> Any:
    return np.empty(nbytes + 128, np.uint8)


def _address(block: Any) -> int:
    """Where the block's 64-byte aligned part begins."""
    address: int = -(-block.ctypes.data // 64) * 64
    return address
