"""Kernels → native code in memory.

In: kernels. Out: object code, addresses of loaded functions, and the texts on the way for
inspection.

A kernel's symbol is a hash of its loops and its target, so equal kernels are compiled once and
loaded once per process, and object code can be kept on disk under that name: `compile_kernel` asks
an ObjectStore before it compiles.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphc.codegen.emit_llvm import emit_module, scratch_layout
from graphc.codegen.loops import Kernel
from graphc.codegen.native import (
    CODEGEN_LEVEL,
    LOCK,
    OBJECTS,
    PASSES,
    ObjectStore,
    compile_text,
    load,
    machine_of,
    optimised_module,
)
from graphc.codegen.print_loops import content_key
from graphc.codegen.target import Target, host
from graphc.errors import ArgumentError
from graphc.ir.types import DType


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Object code of one function. `timings`: seconds by stage, empty when it came from a store."""

    symbol: str
    object: bytes = field(repr=False)
    timings: Mapping[str, float] = field(compare=False)


# A memo of a pure function.
_compiled: dict[str, CompiledKernel] = {}


def kernel_facts(kernel: Kernel, target: Target) -> dict[str, Any]:
    """What a kernel's object code depends on: a digest of its loops, target, LLVM, settings."""
    from llvmlite import binding

    return {
        "loops": content_key(kernel)[:32],
        "target": target.key,
        "llvm": ".".join(map(str, binding.llvm_version_info)),
        "settings": repr((PASSES, CODEGEN_LEVEL)),
        "emitter": _emitter(),
    }


@functools.cache
def _emitter() -> str:
    """A digest of the code that turns loops into LLVM IR: equal loops may become other code when it
    changes."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("emit_*.py")):
        digest.update(path.read_bytes())
    digest.update((Path(__file__).parent / "function_text.py").read_bytes())
    return digest.hexdigest()[:16]


def kernel_symbol(kernel: Kernel, target: Target) -> str:
    """The symbol of the kernel's function: a hash of its facts."""
    facts = repr(sorted(kernel_facts(kernel, target).items()))
    return "kernel_" + hashlib.sha256(facts.encode()).hexdigest()[:32]


def compile_kernel(
    kernel: Kernel, target: Target | None = None, store: ObjectStore | None = None
) -> CompiledKernel:
    """Object code of `kernel`, made once per process and target."""
    target = target or host()
    symbol = kernel_symbol(kernel, target)
    with LOCK:
        known = _compiled.get(symbol)
        if known is not None:
            return known
        kept = OBJECTS.get(symbol) or (store.get(symbol) if store is not None else None)
        if kept is not None:
            made = CompiledKernel(symbol, kept, {})
        else:
            started = time.perf_counter()
            text = emit_module(kernel, symbol, target.triple, target.half_instructions)
            timings = {"emit": time.perf_counter() - started}
            made = CompiledKernel(symbol, compile_text(text, target, timings), timings)
            if store is not None:
                facts = {**kernel_facts(kernel, target), "kernel": kernel.name}
                store.put(symbol, made.object, facts)
        _compiled[symbol] = made
        OBJECTS[symbol] = made.object
        return made


def kernel_address(
    kernel: Kernel, target: Target | None = None, store: ObjectStore | None = None
) -> int:
    """The address of the kernel's loaded function, for a target this machine can run."""
    made = compile_kernel(kernel, target, store)
    return load({made.symbol: made.object})[made.symbol]


def llvm_text(kernel: Kernel, target: Target | None = None, optimised: bool = False) -> str:
    """The kernel's LLVM IR, as emitted or after LLVM's passes."""
    target = target or host()
    text = emit_module(kernel, kernel.name, target.triple, target.half_instructions)
    if not optimised:
        return text
    with LOCK:
        return str(optimised_module(text, machine_of(target), {}))


def assembly(kernel: Kernel, target: Target | None = None) -> str:
    """The kernel's assembly, for the host or any named target."""
    target = target or host()
    text = emit_module(kernel, kernel.name, target.triple, target.half_instructions)
    with LOCK:
        machine = machine_of(target)
        listing: str = machine.emit_assembly(optimised_module(text, machine, {}))
    return listing


def call_kernel(
    kernel: Kernel,
    arrays: Sequence[np.ndarray[Any, Any]],
    begin: int = 0,
    end: int | None = None,
    target: Target | None = None,
) -> None:
    """Runs the native kernel once on contiguous arrays, one per buffer; writes in place."""
    if len(arrays) != len(kernel.buffers):
        raise ArgumentError(f"{len(kernel.buffers)} buffers, {len(arrays)} arrays")
    for buffer, array in zip(kernel.buffers, arrays):
        if DType.of(array.dtype) is not buffer.dtype or array.size < buffer.size:
            raise ArgumentError(
                f"buffer {buffer} wants {buffer.size} elements of {buffer.dtype.value}, "
                f"the array has {array.size} of {array.dtype}"
            )
        if not array.flags.c_contiguous:
            raise ArgumentError(f"the array for buffer {buffer} is not contiguous")
    table = (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
    scratch = np.empty(scratch_layout(kernel)[1] + 64, np.uint8)
    aligned = -(-scratch.ctypes.data // 64) * 64
    function = KERNEL_FUNCTION(kernel_address(kernel, target))
    function(table, None, begin, kernel.extent if end is None else end, aligned)


KERNEL_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)
"""The ctypes type of a kernel's function; a call releases the GIL."""
