"""Plan → one native program: every kernel compiled and loaded, and a driver that calls them in
order (see `driver`), on as many threads as the schedule says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from graphc.codegen.llvm.native import DRIVER_LEVEL, OBJECTS, compile_driver, load
from graphc.codegen.llvm.object_cache import user_cache
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
from graphc.codegen.program.single_launch import single_driver, single_launch, table_of
from graphc.codegen.recipes.lower import lower
from graphc.codegen.recipes.size_class import within
from graphc.codegen.target import Target
from graphc.ir.dims import fixed
from graphc.ir.instances import substitute
from graphc.schedule.instances import plan_at
from graphc.schedule.plan import KernelSpec, Launch, Plan, all_steps
from graphc.schedule.threads import Schedule, one_thread, schedule, spread, work_of
from graphc.system import IMPORTING

# Equal kernels are lowered and compiled once per process: a memo of a pure function.
_native: dict[tuple[KernelSpec, Target], NativeKernel] = {}


def native_kernel(spec: KernelSpec, target: Target, timings: dict[str, float]) -> NativeKernel:
    """The kernel compiled and loaded; `timings` (seconds by phase) is added to."""
    if not spec.has_loops:
        return host_kernel(spec)
    key = (spec, target)
    if key not in _native:
        _load({spec: compiled_spec(spec, target, timings)}, target, timings)
    return _native[key]


def _compile_missing(plan: Plan, target: Target, timings: dict[str, float]) -> None:
    """Compile the kernels not known yet."""
    launches = (step for step in all_steps(plan) if isinstance(step, Launch))
    _compile((step.kernel for step in launches if step.kernel.has_loops), target, timings)


def _compile(specs: Iterable[KernelSpec], target: Target, timings: dict[str, float]) -> None:
    """Compile those not known yet, many of them with a compile worker."""
    specs = dict.fromkeys(spec for spec in specs if (spec, target) not in _native)
    if not specs:
        return
    from_worker = compile_all(
        list(specs), target, lambda spec: native_kernel(spec, target, timings)
    )
    _load(from_worker, target, timings)


def _load(
    compiled: Mapping[KernelSpec, CompiledSpec], target: Target, timings: dict[str, float]
) -> None:
    """Loads object code and remembers where it is, that of kernels for certain sizes first."""
    apart = {
        spec: within(spec, each.facts.size_class)
        for spec, each in compiled.items()
        if each.facts.size_class is not None
    }
    _compile(apart.values(), target, timings)
    started = time.perf_counter()
    objects = {each.facts.symbol: each.object for each in compiled.values()}
    OBJECTS.update(objects)
    addresses = load(objects)
    for spec, each in compiled.items():
        facts, variant = each.facts, None
        if facts.size_class is not None:
            variant = SizeVariant(facts.size_class, _native[(apart[spec], target)])
        _native[(spec, target)] = NativeKernel(
            facts.symbol, addresses[facts.symbol], facts.extent, facts.scratch_bytes, facts.sizes,
            variant,
        )  # fmt: skip
    timings["llvm"] = timings.get("llvm", 0.0) + time.perf_counter() - started


def link(
    plan: Plan, target: Target, threads: int = 1, reason: str = "", *, grows: bool = True
) -> tuple[NativeProgram, Plan]:
    """Compile and load all of a plan, to run on at most `threads` threads; also the plan as it then
    runs. `reason`: why not on more, where the number 1 was not asked for. `grows`: the arena may be
    larger for the sake of threads."""
    timings: dict[str, float] = {}
    _compile_missing(plan, target, timings)
    kernels = {
        step.kernel: native_kernel(step.kernel, target, timings)
        for step in all_steps(plan)
        if isinstance(step, Launch)
    }
    started = time.perf_counter()
    if threads > 1:
        plan, chosen = scheduled(plan, kernels, threads, grows=grows)
    else:
        chosen = one_thread(plan, reason or "one thread is asked for")
    addresses = {kernel.symbol: kernel.address for kernel in with_variants(kernels.values())}
    hosts = tuple(spec for spec in kernels if not spec.has_loops)
    loops = (kernel for spec, kernel in kernels.items() if spec.has_loops)
    symbols = tuple(kernel.symbol for kernel in with_variants(loops))
    single = single_launch(plan, chosen)
    kernel = None if single is None else kernels[single.kernel]
    if single is not None and kernel is not None and kernel.variant is None:
        address = single_driver(len(single.buffers), target)
        timings["driver"] = time.perf_counter() - started
        return NativeProgram(
            address, 0, scratch_stride(plan, kernels), timings, chosen, target.key, symbols, (),
            table_of(plan, single, kernel), kernel=kernel.address,
        ), plan  # fmt: skip
    drivers: list[tuple[str, int]] = []
    if chosen.threads > 1:
        addresses["barrier"] = compile_driver(
            barrier_text(target.triple), {}, "barrier", target, user_cache()
        )
        drivers.append(("barrier", addresses["barrier"]))
    driver = Driver(plan, kernels, chosen)
    text = driver.text(target.triple)
    address = compile_driver(text, addresses, target=target, store=user_cache(), level=DRIVER_LEVEL)
    drivers.append(("driver", address))
    timings["driver"] = time.perf_counter() - started
    program = NativeProgram(
        address, plan.arena_bytes, scratch_stride(plan, kernels), timings, chosen,
        target.key, tuple(dict.fromkeys(symbols)), tuple(drivers), driver.sizes.program(),
        hosts=hosts,
    )  # fmt: skip
    return program, plan


def scheduled(
    plan: Plan, kernels: Mapping[KernelSpec, NativeKernel], threads: int, *, grows: bool = True
) -> tuple[Plan, Schedule]:
    """How the plan runs on several threads. One of sizes known only at run time keeps its order,
    and is split as its example: what overlaps in memory is the same at all sizes."""
    if not plan.example:
        numbers = {spec: fixed(kernel.extent) for spec, kernel in kernels.items()}
        return spread(plan, work_of(numbers), threads, grows=grows)
    # Of one run or one row, parts of a stack would not show that they overlap.
    example = {name: max(size, 2) for name, size in plan.example}
    extents: dict[KernelSpec, int] = {}
    instance = plan_at(plan, example)
    pairs = zip(all_steps(plan), all_steps(instance), strict=True)
    for step, known in pairs:
        if isinstance(step, Launch) and isinstance(known, Launch):
            sizes = {f"s{i}": substitute(size, example) for i, size in enumerate(step.sizes)}
            extents[known.kernel] = fixed(substitute(kernels[step.kernel].extent, sizes))
    return plan, schedule(instance, work_of(extents), threads)


def plan_kernels(plan: Plan, target: Target) -> list[Kernel]:
    """The loops of each distinct kernel that has some, in order of first use, named as in the
    plan's text."""
    with IMPORTING:
        from graphc.schedule.plan import kernels

    return [lower(spec, target, name) for spec, name in kernels(plan).items() if spec.has_loops]
