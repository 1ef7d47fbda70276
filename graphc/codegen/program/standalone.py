"""Plan → LLVM IR that needs no process: its kernels and its driver, for a target that this machine
need not run. Nothing is compiled or loaded."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.size_class import size_class, within
from graphc.codegen.llvm.jit import kernel_texts
from graphc.codegen.llvm.kernel import scratch_layout
from graphc.codegen.llvm.loading import LoadedFunction
from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.driver import Driver
from graphc.codegen.program.native_kernel import NativeKernel, SizeVariant, scratch_stride
from graphc.codegen.program.native_program import verdict_start
from graphc.codegen.program.on_threads import on_threads
from graphc.codegen.program.size_table import SizeTable
from graphc.codegen.target import Target
from graphc.errors import LoweringError
from graphc.records import record
from graphc.schedule.plan import KernelSpec, Launch, Plan, all_steps
from graphc.schedule.threads import Schedule, one_thread

_NOWHERE = LoadedFunction(0)


@record
class StandaloneProgram:
    """`kernels` are the modules of each kernel by its symbol. `driver` is a module that calls them;
    its function takes what every driver takes (see `driver`), and where `sizes` is used a table of
    them and, behind its entries, the `decisions` (schedule/open_schedule.py): those of the example,
    which are right at any size. `scratch_bytes` of a thread: where no size is open."""

    plan: Plan
    kernels: Mapping[str, tuple[str, ...]]
    driver: str
    sizes: SizeTable
    scratch_bytes: int
    threads: int = 1
    decisions: tuple[int, ...] = ()

    @property
    def block_bytes(self) -> int:
        """Where no size is open: those of a block at any address that has room for arena, verdict
        and scratch."""
        arena = verdict_start(self.plan.arena_bytes)
        return arena + self.threads * self.scratch_bytes + 2 * PADDING


def standalone(plan: Plan, target: Target, threads: int = 1) -> StandaloneProgram:
    """The program of a plan, which runs on one thread, or on as many of `threads` as pay in the
    example. Raises LoweringError for what Python computes, with the user's line."""
    known: dict[KernelSpec, NativeKernel] = {}
    texts: dict[str, tuple[str, ...]] = {}
    for step in all_steps(plan):
        if isinstance(step, Launch):
            if not step.kernel.has_loops:
                raise _of_python(step)
            _kernel(step.kernel, target, known, texts)
    used = {step.kernel: known[step.kernel] for step in all_steps(plan) if isinstance(step, Launch)}
    plan, chosen, decisions = _scheduled(plan, used, threads)
    driver = Driver(plan, used, chosen)
    text = driver.text(target.triple)
    stride = scratch_stride(plan, used)
    most = max(decisions, default=chosen.threads)
    return StandaloneProgram(plan, texts, text, driver.sizes, stride, most, decisions)


def _scheduled(
    plan: Plan, kernels: Mapping[KernelSpec, NativeKernel], threads: int
) -> tuple[Plan, Schedule, tuple[int, ...]]:
    """The plan as it runs, what its driver is written for, and its decisions."""
    threaded = on_threads(plan, {spec: each.extent for spec, each in kernels.items()}, threads)
    if threaded.by_size is None or threaded.work is None:
        return threaded.plan, threaded.schedule, ()
    schedule, decisions = threaded.by_size.at(threaded.work.table(dict(plan.example)))
    if schedule.threads == 1:
        return plan, one_thread(plan, "more threads do not pay"), ()
    return plan, threaded.schedule, tuple(decisions)


def _of_python(step: Launch) -> LoweringError:
    op = step.kernel.body.nodes[-1].op
    return LoweringError(
        f"{op} is computed by Python, which an object runs without",
        hint="compute it outside and hand it in",
        location=step.location,
    )


def _kernel(
    spec: KernelSpec, target: Target, known: dict[KernelSpec, NativeKernel],
    texts: dict[str, tuple[str, ...]],
) -> NativeKernel:  # fmt: skip
    if spec in known:
        return known[spec]
    kernel = lower(spec, target)
    symbol, modules = kernel_texts(kernel, target)
    texts[symbol] = tuple(modules)
    apart, variant = size_class(spec, target), None
    if apart is not None:
        variant = SizeVariant(apart, _kernel(within(spec, apart), target, known, texts))
    sizes = tuple(size.name for size in kernel.dims)
    known[spec] = NativeKernel(
        symbol, _NOWHERE, kernel.extent, scratch_layout(kernel)[1], sizes, variant
    )
    return known[spec]
