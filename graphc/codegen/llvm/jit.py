"""Kernels → native code in memory.

In: kernels. Out: object code, addresses of loaded functions, and the texts on the way for
inspection.

A kernel's symbol is a hash of its LLVM IR and its target, so equal kernels are compiled once and
loaded once per process, and object code can be kept on disk under that name: `compile_kernel` asks
an ObjectStore before it compiles.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.codegen.llvm.kernel import emit_modules, scratch_layout
from graphc.codegen.llvm.loading import LoadedFunction, ObjectStore, load, loaded_kernel
from graphc.codegen.llvm.native import (
    CODEGEN_LEVEL,
    LOCK,
    RARE_LEVEL,
    assembly_of,
    compile_text,
    joined,
)
from graphc.codegen.loop_ir.arguments import buffer_lengths
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import Target, running
from graphc.ir.dims import evaluate
from graphc.latest import Latest
from graphc.records import field, record
from graphc.system import IMPORTING


@record
class CompiledKernel:
    """Object code of one function. `timings`: seconds by stage, empty when it came from a store."""

    symbol: str
    object: bytes = field(repr=False)
    timings: Mapping[str, float] = field(compare=False)


ANY_NAME = "kernel"
"""What the function is called in the IR that its symbol is a hash of."""
_NAMES = re.compile(rf"@{ANY_NAME}\b")
LEVELS = CODEGEN_LEVEL, RARE_LEVEL
"""LLVM's levels for a kernel's modules."""

_EMPTY_ASSEMBLY = re.compile(r"\t(?:#|//)APP\n\t(?:#|//)NO_APP\n")
"""The marks of FunctionText.opaque."""

_compiled: Latest[str, CompiledKernel] = Latest(256)
"""A memo of a pure function."""


def kernel_facts(kernel: Kernel, target: Target) -> dict[str, Any]:
    """What a kernel's object code depends on: a digest of its LLVM IR, target, LLVM, settings."""
    return _facts(emit_modules(kernel, ANY_NAME, target), target)


def kernel_symbol(kernel: Kernel, target: Target) -> str:
    """The symbol of the kernel's function: a hash of its facts."""
    return _symbol(kernel_facts(kernel, target))


def kernel_texts(kernel: Kernel, target: Target) -> tuple[str, list[str]]:
    """The symbol of the kernel's function, and the LLVM IR of its modules, which define it."""
    modules = emit_modules(kernel, ANY_NAME, target)
    symbol = _symbol(_facts(modules, target))
    return symbol, [_NAMES.sub(f"@{symbol}", text) for text in modules]


def _facts(modules: Sequence[str], target: Target) -> dict[str, Any]:
    with IMPORTING:
        from llvmlite import binding

    return {
        "code": hashlib.sha256("\n".join(modules).encode()).hexdigest()[:32],
        "target": target.key,
        "llvm": ".".join(map(str, binding.llvm_version_info)),
        "settings": repr(LEVELS),
    }


def _symbol(facts: Mapping[str, Any]) -> str:
    return "kernel_" + hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]


def compile_kernel(
    kernel: Kernel, target: Target | None = None, store: ObjectStore | None = None
) -> CompiledKernel:
    """Object code of `kernel`, made once per process and target."""
    target = target or running()
    started = time.perf_counter()
    modules = emit_modules(kernel, ANY_NAME, target)
    timings = {"emit": time.perf_counter() - started}
    facts = _facts(modules, target)
    symbol = _symbol(facts)
    with LOCK:
        known = _compiled.get(symbol)
        if known is not None:
            return known
        kept = object_of(symbol, store)
        if kept is not None:
            compiled = CompiledKernel(symbol, kept, {})
        else:
            code = [
                compile_text(_NAMES.sub(f"@{symbol}", text), target, timings, level)
                for text, level in zip(modules, LEVELS)
            ]
            compiled = CompiledKernel(symbol, joined(code), timings)
            if store is not None:
                store.put(symbol, compiled.object, {**facts, "kernel": kernel.name})
        _compiled[symbol] = compiled
        return compiled


def object_of(symbol: str, store: ObjectStore | None) -> bytes | None:
    """The object code of a kernel, where it is loaded or kept."""
    loaded = loaded_kernel(symbol)
    if loaded is not None and isinstance(loaded.source, bytes):
        return loaded.source
    return None if store is None else store.get(symbol)


def kernel_function(
    kernel: Kernel, target: Target | None = None, store: ObjectStore | None = None
) -> LoadedFunction:
    """The kernel's loaded function, for a target this machine can run."""
    compiled = compile_kernel(kernel, target, store)
    return load({compiled.symbol: compiled.object})[compiled.symbol]


def llvm_text(kernel: Kernel, target: Target | None = None) -> str:
    """The kernel's LLVM IR."""
    return "\n".join(emit_modules(kernel, kernel.name, target or running()))


def assembly(kernel: Kernel, target: Target | None = None) -> str:
    """The kernel's assembly, for any target."""
    target = target or running()
    listings = [
        assembly_of(text, target, level)
        for text, level in zip(emit_modules(kernel, kernel.name, target), LEVELS)
    ]
    return _EMPTY_ASSEMBLY.sub("", "\n".join(listings))


def call_kernel(
    kernel: Kernel,
    arrays: Sequence[np.ndarray[Any, Any]],
    begin: int = 0,
    end: int | None = None,
    target: Target | None = None,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Runs the native kernel once on contiguous arrays, one per buffer, and `sizes`, its dims by
    name; writes in place."""
    kernel_caller(kernel, target)(arrays, begin, end, sizes)


def kernel_caller(kernel: Kernel, target: Target | None = None) -> Callable[..., None]:
    """What `call_kernel` does, for many calls of one kernel: it is found only once."""
    loaded = kernel_function(kernel, target)
    function = KERNEL_FUNCTION(loaded.address)

    def call(
        arrays: Sequence[np.ndarray[Any, Any]],
        begin: int = 0,
        end: int | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        sizes = sizes or {}
        buffer_lengths(kernel, arrays, sizes)
        table = (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
        scratch = np.empty(evaluate(scratch_layout(kernel)[1], sizes) + 64, np.uint8)
        aligned = -(-scratch.ctypes.data // 64) * 64
        dims = (ctypes.c_int64 * max(1, len(kernel.dims)))(*(sizes[d.name] for d in kernel.dims))
        last = evaluate(kernel.extent, sizes) if end is None else end
        function(table, dims, begin, last, aligned)
        assert loaded is not None  # held as long as the call may run

    return call


KERNEL_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)
"""The ctypes type of a kernel's function; a call releases the GIL."""
