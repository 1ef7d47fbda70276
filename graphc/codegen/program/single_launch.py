"""The driver of a plan that is one launch: the same function for all kernels.

Most programs of eager mode are one kernel that takes what the program takes, in the same order. A
driver of its own would be compiled, kept and loaded for each; this one is compiled once for each
number of arrays. It finds the kernel's address and range in the table that it reads sizes from:

| entry | content |
|---|---|
| 0, 1 | bytes of the arena (none), and of the scratch of a thread |
| 2 | address of the kernel, filled in where it is loaded |
| 3 | its range |
| 4 … | its sizes |
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver
from graphc.codegen.llvm.native import DRIVER_LEVEL
from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.native_kernel import NativeKernel, own_sizes
from graphc.codegen.program.size_expressions import WholeUnits, python_text
from graphc.codegen.program.size_table import SizeProgram, function_of_sizes
from graphc.codegen.target import Target
from graphc.ir.instances import substitute
from graphc.schedule.plan import Launch, Plan
from graphc.schedule.threads import Schedule

KERNEL, EXTENT, DIMS = 2, 3, 4
"""Where in the table these stand."""


def single_launch(plan: Plan, chosen: Schedule) -> Launch | None:
    """The launch that is all of a plan, if its kernel takes the arrays of a call as they come."""
    if len(plan.steps) != 1 or plan.arena_bytes or chosen.threads > 1:
        return None
    (step,) = plan.steps
    if not isinstance(step, Launch) or not step.kernel.has_loops:
        return None
    arrays = [("argument", i) for i in range(len(plan.argument_types))]
    arrays += [("output", i) for i in range(len(plan.output_types))]
    taken = [(plan.buffers[i].place, plan.buffers[i].slot) for i in step.buffers]
    return step if taken == arrays else None


def table_of(plan: Plan, launch: Launch, kernel: NativeKernel) -> SizeProgram:
    """What makes the table, of no sizes too."""
    own = own_sizes(launch)
    scratch = substitute(kernel.scratch_bytes, own)
    numbers = [substitute(kernel.extent, own), *(own[name] for name in kernel.sizes)]
    entries = map(python_text, (0, WholeUnits(scratch, PADDING), 0, *numbers))
    return function_of_sizes(tuple(name for name, _ in plan.example), [*entries])


def with_kernel(table: Sequence[int], address: int) -> tuple[int, ...]:
    """The table of a kernel that is loaded there."""
    return (*table[:KERNEL], address, *table[KERNEL + 1 :])


def single_driver(arrays: int, target: Target) -> LoadedFunction:
    """The driver for kernels that take so many arrays."""
    text = driver_text(arrays, target.triple)
    return compile_driver(text, {}, target=target, store=user_cache(), level=DRIVER_LEVEL)


@functools.cache
def driver_text(arrays: int, triple: str) -> str:
    """Its LLVM IR."""
    return f'''target triple = "{triple}"

define i64 @driver(ptr %arguments, ptr %arena, i64 %thread, i64 %threads, ptr %counter) nounwind {{
entry:
  %table.at = getelementptr ptr, ptr %arguments, i64 {arrays}
  %table = load ptr, ptr %table.at
  %kernel.at = getelementptr i64, ptr %table, i64 {KERNEL}
  %kernel = load ptr, ptr %kernel.at
  %extent.at = getelementptr i64, ptr %table, i64 {EXTENT}
  %extent = load i64, ptr %extent.at
  %dims = getelementptr i64, ptr %table, i64 {DIMS}
  %scratch = getelementptr i8, ptr %arena, i64 {PADDING}
  call void %kernel(ptr %arguments, ptr %dims, i64 0, i64 %extent, ptr %scratch)
  ret i64 0
}}
'''
