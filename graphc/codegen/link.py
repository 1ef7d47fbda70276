"""Plan → one native entry: every kernel compiled and loaded, and a driver that calls them in order.

The driver's signature is `i64 (ptr arguments, ptr arena)`: a table of pointers (the graph's
arguments, then its outputs, then the plan's constants) and one 64-byte aligned block for arena and
kernel scratch. It returns 0, or 1 + the number of the step whose content check failed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from graphc.codegen.emit_llvm import scratch_layout
from graphc.codegen.jit import compile_driver, kernel_address, kernel_symbol
from graphc.codegen.loops import Kernel
from graphc.codegen.lower import lower
from graphc.codegen.object_cache import user_cache
from graphc.codegen.target import Target
from graphc.ir.types import DType
from graphc.schedule.arena import aligned
from graphc.schedule.plan import Buffer, Check, KernelSpec, Launch, Plan

_LLVM_TYPE = {DType.i32: "i32", DType.i64: "i64", DType.bool: "i8"}


@dataclass(frozen=True, slots=True)
class NativeKernel:
    """A kernel that is loaded: its function, range and scratch need."""

    symbol: str
    address: int
    extent: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A linked plan: the driver's address and the bytes its block must have."""

    address: int
    block_bytes: int
    timings: dict[str, float]


# Equal kernels are lowered and compiled once per process: a memo of a pure function.
_native: dict[tuple[KernelSpec, Target], NativeKernel] = {}


def native_kernel(spec: KernelSpec, target: Target, timings: dict[str, float]) -> NativeKernel:
    """The kernel compiled and loaded; `timings` (seconds by phase) is added to."""
    key = (spec, target)
    if key not in _native:
        started = time.perf_counter()
        kernel = lower(spec, target)
        lowered = time.perf_counter()
        address = kernel_address(kernel, target, user_cache())
        timings["loops"] = timings.get("loops", 0.0) + lowered - started
        timings["llvm"] = timings.get("llvm", 0.0) + time.perf_counter() - lowered
        symbol = kernel_symbol(kernel, target)
        _native[key] = NativeKernel(symbol, address, kernel.extent, scratch_layout(kernel)[1])
    return _native[key]


def link(plan: Plan, target: Target) -> Entry:
    """Compile and load all of a plan."""
    timings: dict[str, float] = {}
    kernels = {
        step.kernel: native_kernel(step.kernel, target, timings)
        for step in plan.steps
        if isinstance(step, Launch)
    }
    started = time.perf_counter()
    text = driver_text(plan, kernels, target.triple)
    addresses = {kernel.symbol: kernel.address for kernel in kernels.values()}
    address = compile_driver(text, addresses, target=target, store=user_cache())
    timings["driver"] = time.perf_counter() - started
    scratch = max((kernel.scratch_bytes for kernel in kernels.values()), default=0)
    return Entry(address, aligned(plan.arena_bytes) + scratch, timings)


def driver_text(plan: Plan, kernels: dict[KernelSpec, NativeKernel], triple: str) -> str:
    """The LLVM IR of the driver."""
    lines = [f'target triple = "{triple}"', ""]
    symbols = sorted({kernel.symbol for kernel in kernels.values()})
    lines += [f"declare void @{symbol}(ptr, ptr, i64, i64, ptr)" for symbol in symbols]
    longest = max(
        (len(s.reads) + len(s.writes) for s in plan.steps if isinstance(s, Launch)), default=0
    )
    lines += [
        "",
        "define i64 @driver(ptr %arguments, ptr %arena) nounwind {",
        "entry:",
        f"  %table = alloca [{max(longest, 1)} x ptr], align 16",
        f"  %scratch = getelementptr i8, ptr %arena, i64 {aligned(plan.arena_bytes)}",
    ]
    lines += _buffer_pointers(plan)
    for position, step in enumerate(plan.steps):
        if isinstance(step, Check):
            lines += _check_text(plan, step, position)
            continue
        for slot, buffer in enumerate((*step.reads, *step.writes)):
            lines.append(f"  %t{position}_{slot} = getelementptr ptr, ptr %table, i64 {slot}")
            lines.append(f"  store ptr %b{buffer}, ptr %t{position}_{slot}")
        kernel = kernels[step.kernel]
        lines.append(
            f"  call void @{kernel.symbol}(ptr %table, ptr null, i64 0, i64 {kernel.extent}, "
            "ptr %scratch)"
        )
    return "\n".join([*lines, "  ret i64 0", "}", ""])


def _buffer_pointers(plan: Plan) -> list[str]:
    first = {
        "argument": 0,
        "output": len(plan.argument_types),
        "constant": len(plan.argument_types) + len(plan.output_types),
    }
    lines = []
    for number, buffer in enumerate(plan.buffers):
        if buffer.place == "arena":
            lines.append(f"  %b{number} = getelementptr i8, ptr %arena, i64 {buffer.slot}")
            continue
        slot = first[buffer.place] + buffer.slot
        lines.append(f"  %p{number} = getelementptr ptr, ptr %arguments, i64 {slot}")
        lines.append(f"  %b{number} = load ptr, ptr %p{number}")
    return lines


def _check_text(plan: Plan, check: Check, position: int) -> list[str]:
    def loaded(name: str, buffer: Buffer, number: int) -> str:
        return f"  %{name}{position} = load {_LLVM_TYPE[buffer.type.dtype]}, ptr %b{number}"

    least = plan.buffers[check.least]
    type_ = _LLVM_TYPE[least.type.dtype]
    lines = [loaded("least", least, check.least)]
    if check.bound is None:
        lines.append(f"  %bad{position} = icmp ne {type_} %least{position}, 0")
    else:
        lines += [
            loaded("greatest", plan.buffers[check.greatest], check.greatest),
            f"  %low{position} = icmp slt {type_} %least{position}, 0",
            f"  %high{position} = icmp sge {type_} %greatest{position}, {check.bound}",
            f"  %bad{position} = or i1 %low{position}, %high{position}",
        ]
    return [
        *lines,
        f"  br i1 %bad{position}, label %fail{position}, label %next{position}",
        f"fail{position}:",
        f"  ret i64 {position + 1}",
        f"next{position}:",
    ]


def plan_kernels(plan: Plan, target: Target) -> list[Kernel]:
    """The loops of each distinct kernel, in order of first use, named as in the plan's text."""
    from graphc.schedule.plan import kernels

    return [lower(spec, target, name) for spec, name in kernels(plan).items()]
