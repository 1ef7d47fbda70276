"""Plan → one native program: every kernel compiled and loaded, and a driver that calls them in
order (see `driver`), on as many threads as the schedule says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, MutableMapping

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.size_class import within
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver, load
from graphc.codegen.llvm.native import DRIVER_LEVEL
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.program.barrier import barrier_text
from graphc.codegen.program.compile_worker import compile_all
from graphc.codegen.program.compiled_spec import CompiledSpec, compiled_spec
from graphc.codegen.program.driver import Driver
from graphc.codegen.program.host_kernels import host_kernel
from graphc.codegen.program.native_kernel import (
    NativeKernel,
    SizeVariant,
    scratch_stride,
    with_variants,
)
from graphc.codegen.program.native_program import NativeProgram
from graphc.codegen.program.on_threads import on_threads
from graphc.codegen.program.single_launch import single_driver, single_launch, table_of
from graphc.codegen.target import Target
from graphc.latest import Latest
from graphc.schedule.plan import KernelSpec, Launch, Plan, all_steps
from graphc.system import IMPORTING

_native: MutableMapping[tuple[KernelSpec, Target], NativeKernel] = Latest(1024)
"""Equal kernels are lowered and compiled once: a memo of a pure function. What it forgets stays
loaded as long as a program has it."""
Kernels = dict[KernelSpec, NativeKernel]


def native_kernel(spec: KernelSpec, target: Target, timings: dict[str, float]) -> NativeKernel:
    """The kernel compiled and loaded; `timings` (seconds by phase) is added to."""
    if not spec.has_loops:
        return host_kernel(spec)
    known = _native.get((spec, target))
    if known is None:
        loaded = _loaded({spec: compiled_spec(spec, target, timings)}, target, timings)
        known = loaded[spec]
    return known


def _kernels(specs: Iterable[KernelSpec], target: Target, timings: dict[str, float]) -> Kernels:
    """Kernels compiled and loaded, those that are missing with a compile worker where they are
    many."""
    kernels: Kernels = {}
    missing = []
    for spec in dict.fromkeys(specs):
        known = _native.get((spec, target)) if spec.has_loops else host_kernel(spec)
        if known is None:
            missing.append(spec)
        else:
            kernels[spec] = known

    def compile_here(spec: KernelSpec) -> None:
        kernels[spec] = native_kernel(spec, target, timings)

    if missing:
        from_worker = compile_all(missing, target, compile_here)
        kernels |= _loaded(from_worker, target, timings)
    return kernels


def _loaded(
    compiled: Mapping[KernelSpec, CompiledSpec], target: Target, timings: dict[str, float]
) -> Kernels:
    """Loads object code and remembers where it is, that of kernels for certain sizes first."""
    apart = {
        spec: within(spec, each.facts.size_class)
        for spec, each in compiled.items()
        if each.facts.size_class is not None
    }
    of_class = _kernels(apart.values(), target, timings)
    started = time.perf_counter()
    functions = load({each.facts.symbol: each.object for each in compiled.values()})
    kernels: Kernels = {}
    for spec, each in compiled.items():
        facts, variant = each.facts, None
        if facts.size_class is not None:
            variant = SizeVariant(facts.size_class, of_class[apart[spec]])
        kernels[spec] = _native[(spec, target)] = NativeKernel(
            facts.symbol, functions[facts.symbol], facts.extent, facts.scratch_bytes, facts.sizes,
            variant,
        )  # fmt: skip
    timings["llvm"] = timings.get("llvm", 0.0) + time.perf_counter() - started
    return kernels


def link(
    plan: Plan, target: Target, threads: int = 1, reason: str = "", *, grows: bool = True
) -> tuple[NativeProgram, Plan]:
    """Compile and load all of a plan, to run on at most `threads` threads; also the plan as it then
    runs. `reason`: why not on more, where the number 1 was not asked for. `grows`: the arena may be
    larger for the sake of threads."""
    timings: dict[str, float] = {}
    launches = [step for step in all_steps(plan) if isinstance(step, Launch)]
    loaded = _kernels((step.kernel for step in launches), target, timings)
    kernels = {step.kernel: loaded[step.kernel] for step in launches}
    started = time.perf_counter()
    extents = {spec: kernel.extent for spec, kernel in kernels.items()}
    threaded = on_threads(plan, extents, threads, reason, grows=grows)
    plan, chosen = threaded.plan, threaded.schedule
    callees = {kernel.symbol: kernel.function for kernel in with_variants(kernels.values())}
    hosts = tuple(spec for spec in kernels if not spec.has_loops)
    loops = (kernel for spec, kernel in kernels.items() if spec.has_loops)
    symbols = tuple(kernel.symbol for kernel in with_variants(loops))
    single = single_launch(plan, chosen)
    kernel = None if single is None else kernels[single.kernel]
    if single is not None and kernel is not None and kernel.variant is None:
        driver = single_driver(len(single.buffers), target)
        timings["driver"] = time.perf_counter() - started
        return NativeProgram(
            driver, 0, scratch_stride(plan, kernels), timings, chosen, target.key, symbols, (),
            table_of(plan, single, kernel), is_single=True, kernel=kernel.function,
        ), plan  # fmt: skip
    drivers: list[tuple[str, LoadedFunction]] = []
    if chosen.threads > 1:
        callees["barrier"] = compile_driver(
            barrier_text(target.triple), {}, "barrier", target, user_cache()
        )
        drivers.append(("barrier", callees["barrier"]))
    written = Driver(plan, kernels, chosen)
    text = written.text(target.triple)
    driver = compile_driver(text, callees, target=target, store=user_cache(), level=DRIVER_LEVEL)
    drivers.append(("driver", driver))
    timings["driver"] = time.perf_counter() - started
    program = NativeProgram(
        driver, plan.arena_bytes, scratch_stride(plan, kernels), timings, chosen,
        target.key, tuple(dict.fromkeys(symbols)), tuple(drivers), written.sizes.program(),
        hosts=hosts, by_size=threaded.by_size, work=threaded.work,
    )  # fmt: skip
    return program, plan


def plan_kernels(plan: Plan, target: Target) -> list[Kernel]:
    """The loops of each distinct kernel that has some, in order of first use, named as in the
    plan's text."""
    with IMPORTING:
        from graphc.schedule.plan import kernels

    return [lower(spec, target, name) for spec, name in kernels(plan).items() if spec.has_loops]
