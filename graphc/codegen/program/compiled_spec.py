"""Kernel specification → object code, without lowering where it was compiled before.

A kernel is kept under a hash of its code (llvm/jit.py), so equal ones are kept once. To know that
hash it would have to be lowered. So a second, small entry is kept under a hash of its specification
and of all that lowering depends on, the compiler's own files among it, and names the first.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from graphc.codegen.llvm.jit import LEVELS, compile_kernel
from graphc.codegen.llvm.kernel import scratch_layout
from graphc.codegen.llvm.native import OBJECTS
from graphc.codegen.llvm.object_cache import ObjectCache, user_cache
from graphc.codegen.recipes.lower import lower
from graphc.codegen.target import Target
from graphc.ir.dims import fixed
from graphc.ir.printer import print_graph
from graphc.schedule.plan import KernelSpec
from graphc.system import source_digest


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What a driver has to know of a kernel: its symbol, into how many parts it can be divided, and
    the memory it works in."""

    symbol: str
    extent: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class CompiledSpec:
    """A kernel's object code, and its facts."""

    facts: KernelFacts
    object: bytes = field(repr=False)


def compiled_spec(spec: KernelSpec, target: Target, timings: dict[str, float]) -> CompiledSpec:
    """The object code of a kernel, from disk where it is kept; `timings` (seconds by phase) is
    added to."""
    store, started = user_cache(), time.perf_counter()
    key = spec_key(spec, target)
    known = None if store is None else _kept(store, key)
    if known is not None:
        timings["loops"] = timings.get("loops", 0.0) + time.perf_counter() - started
        return known
    kernel = lower(spec, target)
    lowered = time.perf_counter()
    code = compile_kernel(kernel, target, store)
    scratch = fixed(scratch_layout(kernel)[1])
    facts = KernelFacts(code.symbol, fixed(kernel.extent), scratch)
    if store is not None:
        named = {"kernel": f"{spec.recipe} of {code.symbol}", "target": target.key}
        store.put(key, json.dumps(asdict(facts)).encode(), named)
    timings["loops"] = timings.get("loops", 0.0) + lowered - started
    timings["llvm"] = timings.get("llvm", 0.0) + time.perf_counter() - lowered
    return CompiledSpec(facts, code.object)


def spec_key(spec: KernelSpec, target: Target) -> str:
    """The name of a kernel's entry: equal ones are lowered to the same code."""
    from llvmlite import binding

    text = print_graph(spec.body, locations=False)
    facts = (source_digest(), binding.llvm_version_info, LEVELS, target, spec.recipe, text)
    return "spec_" + hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _kept(store: ObjectCache, key: str) -> CompiledSpec | None:
    """What is kept under a key, if its code is kept too."""
    payload = store.get(key)
    facts = None if payload is None else _facts(json.loads(payload))
    if facts is None:
        return None
    code = OBJECTS.get(facts.symbol) or store.get(facts.symbol)
    if code is None:
        return None
    OBJECTS[facts.symbol] = code
    return CompiledSpec(facts, code)


def _facts(entry: Mapping[str, object]) -> KernelFacts | None:
    """Facts as they were written; None for an entry of another form."""
    symbol, extent, scratch = (entry.get(name) for name in ("symbol", "extent", "scratch_bytes"))
    if isinstance(symbol, str) and isinstance(extent, int) and isinstance(scratch, int):
        return KernelFacts(symbol, extent, scratch)
    return None
