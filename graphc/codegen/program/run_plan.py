"""The plan's runner one level down: each kernel lowered to loops and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import Target, running
from graphc.schedule.plan import KernelSpec, Plan
from graphc.schedule.run_plan import interpret_kernel, run_plan

Array = np.ndarray[Any, Any]


def run_plan_by_loops(
    plan: Plan, arrays: tuple[Array, ...], target: Target | None = None
) -> tuple[Array, ...]:
    """`plan` on NumPy arrays with every kernel's loops interpreted (slow; for tests)."""
    chosen = target or running()

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        if kernel.has_loops:
            interpreter.run(lower(kernel, chosen), [*reads, *writes], fills=kernel.fills)
        else:
            interpret_kernel(kernel, reads, writes)

    return run_plan(plan, arrays, run_kernel)
