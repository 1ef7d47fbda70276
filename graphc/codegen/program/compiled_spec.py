"""Kernel specification → object code, without lowering where it was compiled before.

A kernel is kept under a hash of its code (llvm/jit.py), so equal ones are kept once. To know that
hash it would have to be lowered. So a second, small entry is kept under a hash of its specification
and of all that lowering depends on, the compiler's own files among it, and names the first.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence

from graphc.codegen.cache.object_cache import ObjectCache, user_cache
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.size_class import SizeClass, size_class
from graphc.codegen.llvm.jit import LEVELS, compile_kernel, object_of
from graphc.codegen.llvm.kernel import scratch_layout
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, Symbol, dim
from graphc.ir.extent_text import parse_extent
from graphc.ir.printer import print_graph
from graphc.ir.symbols import symbols_of
from graphc.records import as_dict, field, fields, record
from graphc.schedule.plan import KernelSpec
from graphc.system import IMPORTING, source_digest


@record
class KernelFacts:
    """What a driver has to know of a kernel: its symbol, into how many parts it can be divided, and
    the memory it works in."""

    symbol: str
    extent: Extent
    scratch_bytes: Extent
    sizes: tuple[str, ...] = ()
    """Names of the sizes it takes, in order."""
    size_class: SizeClass | None = None
    """The sizes for which another kernel is better."""


@record
class CompiledSpec:
    """A kernel's object code, and its facts."""

    facts: KernelFacts
    object: bytes = field(repr=False)


def compiled_spec(spec: KernelSpec, target: Target, timings: dict[str, float]) -> CompiledSpec:
    """The object code of a kernel, from disk where it is kept; `timings` (seconds by phase) is
    added to."""
    store, started = user_cache(), time.perf_counter()
    key = spec_key(spec, target)
    known = None if store is None else _kept(store, key, spec)
    if known is not None:
        timings["loops"] = timings.get("loops", 0.0) + time.perf_counter() - started
        return known
    kernel = lower(spec, target)
    lowered = time.perf_counter()
    code = compile_kernel(kernel, target, store)
    sizes = tuple(size.name for size in kernel.dims)
    facts = KernelFacts(
        code.symbol, kernel.extent, scratch_layout(kernel)[1], sizes, size_class(spec, target)
    )  # fmt: skip
    if store is not None:
        named = {"kernel": f"{spec.recipe} of {code.symbol}", "target": target.key}
        store.put(key, _text(facts).encode(), named)
    timings["loops"] = timings.get("loops", 0.0) + lowered - started
    timings["llvm"] = timings.get("llvm", 0.0) + time.perf_counter() - lowered
    return CompiledSpec(facts, code.object)


def spec_key(spec: KernelSpec, target: Target) -> str:
    """The name of a kernel's entry: equal ones are lowered to the same code."""
    with IMPORTING:
        from llvmlite import binding

    text = print_graph(spec.body, locations=False)
    facts = (source_digest(), binding.llvm_version_info, LEVELS, target, spec.recipe, text)
    return "spec_" + hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _kept(store: ObjectCache, key: str, spec: KernelSpec) -> CompiledSpec | None:
    """What is kept under a key, if its code is kept too."""
    payload = store.get(key)
    facts = None if payload is None else _facts(json.loads(payload), symbols_of(spec.body))
    if facts is None:
        return None
    code = object_of(facts.symbol, store)
    return None if code is None else CompiledSpec(facts, code)


def _text(facts: KernelFacts) -> str:
    """The facts as `_facts` reads them, extents as their text."""
    entry: dict[str, object] = {each.name: getattr(facts, each.name) for each in fields(facts)}
    entry |= {"extent": str(facts.extent), "scratch_bytes": str(facts.scratch_bytes)}
    if facts.size_class is not None:
        entry["size_class"] = as_dict(facts.size_class)
    return json.dumps(entry, default=str)


def _facts(entry: Mapping[str, object], symbols: Sequence[Symbol]) -> KernelFacts | None:
    """Facts as they were written; None for an entry of another form. `symbols` are the kernel's
    sizes."""
    symbol, extent, scratch, sizes = (
        entry.get(name) for name in ("symbol", "extent", "scratch_bytes", "sizes")
    )
    if not (isinstance(symbol, str) and isinstance(sizes, list)):
        return None
    if not (isinstance(extent, str) and isinstance(scratch, str)):
        return None
    named = {s.name: dim(s.name, s.least, s.most) for s in symbols}
    numbers = parse_extent(extent, named), parse_extent(scratch, named)
    apart = entry.get("size_class")
    own_class = SizeClass(**apart) if isinstance(apart, dict) else None
    return KernelFacts(symbol, *numbers, tuple(map(str, sizes)), own_class)
