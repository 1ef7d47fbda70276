"""Kernels and drivers → native code in memory.

In: kernels, or the text of LLVM modules. Out: object code, addresses of loaded functions, and the
texts on the way for inspection.

A kernel's symbol is a hash of its loops and its target, so equal kernels are compiled once and
loaded once per process, and object code can be kept on disk under that name: `compile_kernel` asks
an ObjectStore before it compiles. The tables kept here are memos of pure functions.

LLVM aborts the process on a malformed module, so every module is verified before any pass runs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from graphc.codegen.emit_llvm import emit_module, scratch_layout
from graphc.codegen.loops import Kernel
from graphc.codegen.print_loops import content_key
from graphc.codegen.target import Target, host
from graphc.errors import ArgumentError, LoweringError
from graphc.ir.types import DType

# Loops arrive vectorised and tiled, values and addresses in the outermost loop that knows them:
# LLVM's pipelines would only make compile time longer (about ten times).
PASSES = ("simplify_cfg", "instruction_combine")
CODEGEN_LEVEL = 3


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Object code of one function. `timings`: seconds by stage, empty when it came from a store."""

    symbol: str
    object: bytes = field(repr=False)
    timings: Mapping[str, float] = field(compare=False)


class ObjectStore(Protocol):
    """Object code kept between processes, by symbol."""

    def get(self, symbol: str) -> bytes | None: ...

    def put(self, symbol: str, object: bytes, facts: Mapping[str, Any]) -> None: ...


_lock = threading.RLock()
_compiled: dict[str, CompiledKernel] = {}
_addresses: dict[str, int] = {}
_machines: dict[str, Any] = {}
_trackers: list[Any] = []
_engine: list[Any] = []


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
    with _lock:
        known = _compiled.get(symbol)
        if known is not None:
            return known
        kept = store.get(symbol) if store is not None else None
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
        return made


def compile_text(text: str, target: Target, timings: dict[str, float] | None = None) -> bytes:
    """Object code of a module's text. Raises LoweringError, with the text, when it is malformed."""
    timings = {} if timings is None else timings
    with _lock:
        machine = _machine(target)
        module = _optimised(text, machine, timings)
        started = time.perf_counter()
        code: bytes = machine.emit_object(module)
        timings["codegen"] = time.perf_counter() - started
    return code


def load(objects: Mapping[str, bytes], symbols: Mapping[str, int] | None = None) -> dict[str, int]:
    """Loads object code, each under the symbol it defines, and gives the symbols' addresses.

    The objects may call each other, the functions `symbols` names, and those of the process (libm,
    memcpy). A symbol loaded before is not loaded again, so a symbol must say what it stands for:
    give a driver loaded this way a name with the hash of its text. Loaded code stays for the life
    of the process.
    """
    from llvmlite import binding

    with _lock:
        missing = [symbol for symbol in objects if symbol not in _addresses]
        if missing:
            builder = binding.JITLibraryBuilder().add_current_process()
            known = {name: _addresses[name] for name in objects if name in _addresses}
            for name, address in {**(symbols or {}), **known}.items():
                builder.import_symbol(name, address)
            for symbol in missing:
                builder.add_object_img(objects[symbol]).export_symbol(symbol)
            tracker = builder.link(_lljit(), f"library_{len(_trackers)}")
            _trackers.append(tracker)
            _addresses.update({symbol: tracker[symbol] for symbol in missing})
        return {symbol: _addresses[symbol] for symbol in objects}


def kernel_address(
    kernel: Kernel, target: Target | None = None, store: ObjectStore | None = None
) -> int:
    """The address of the kernel's loaded function, for a target this machine can run."""
    made = compile_kernel(kernel, target, store)
    return load({made.symbol: made.object})[made.symbol]


def compile_driver(
    text: str,
    symbols: Mapping[str, int],
    entry: str = "driver",
    target: Target | None = None,
    store: ObjectStore | None = None,
) -> int:
    """The address of function `entry` of a module that calls the functions `symbols` names.

    The text's function keeps its name; it is loaded under a hash of the text and the addresses,
    so two drivers may have the same entry name, and the same driver is loaded once. In a store its
    object code has a hash of the text for a name: addresses are bound when it is loaded.
    """
    from llvmlite import binding

    target = target or host()
    key = hashlib.sha256(repr((text, sorted(symbols.items()), target.key)).encode()).hexdigest()
    with _lock:
        if key in _addresses:
            return _addresses[key]
        code = _driver_code(text, entry, target, store)
        builder = binding.JITLibraryBuilder().add_current_process().add_object_img(code)
        for name, address in symbols.items():
            builder.import_symbol(name, address)
        tracker = builder.export_symbol(entry).link(_lljit(), f"library_{len(_trackers)}")
        _trackers.append(tracker)
        _addresses[key] = tracker[entry]
        return _addresses[key]


def _driver_code(text: str, entry: str, target: Target, store: ObjectStore | None) -> bytes:
    from llvmlite import binding

    facts = {
        "loops": hashlib.sha256(text.encode()).hexdigest()[:32],
        "target": target.key,
        "llvm": ".".join(map(str, binding.llvm_version_info)),
    }
    name = hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]
    kept = store.get(f"kernel_{name}") if store is not None else None
    if kept is not None:
        return kept
    code = compile_text(text, target)
    if store is not None:
        store.put(f"kernel_{name}", code, {**facts, "kernel": entry})
    return code


def llvm_text(kernel: Kernel, target: Target | None = None, optimised: bool = False) -> str:
    """The kernel's LLVM IR, as emitted or after LLVM's passes."""
    target = target or host()
    text = emit_module(kernel, kernel.name, target.triple, target.half_instructions)
    if not optimised:
        return text
    with _lock:
        return str(_optimised(text, _machine(target), {}))


def assembly(kernel: Kernel, target: Target | None = None) -> str:
    """The kernel's assembly, for the host or any named target."""
    target = target or host()
    text = emit_module(kernel, kernel.name, target.triple, target.half_instructions)
    with _lock:
        machine = _machine(target)
        listing: str = machine.emit_assembly(_optimised(text, machine, {}))
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


def _machine(target: Target) -> Any:
    """LLVM's target machine, kept: making one is as slow as compiling a small kernel."""
    from llvmlite import binding

    known = _machines.get(target.key)
    if known is not None:
        return known
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    made = binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=CODEGEN_LEVEL, reloc="pic", codemodel="small"
    )
    _machines[target.key] = made
    return made


def _lljit() -> Any:
    from llvmlite import binding

    if not _engine:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        _engine.append(binding.create_lljit_compiler(_machine(host())))
    return _engine[0]


def _optimised(text: str, machine: Any, timings: dict[str, float]) -> Any:
    from llvmlite import binding

    started = time.perf_counter()
    try:
        module = binding.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise LoweringError(f"malformed LLVM IR: {error}\n{text}") from error
    timings["parse"] = time.perf_counter() - started
    started = time.perf_counter()
    manager = binding.create_new_module_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    options = binding.create_pipeline_tuning_options()
    manager.run(module, binding.create_pass_builder(machine, options))
    timings["optimise"] = time.perf_counter() - started
    return module
