"""What `graphc cache` prints: what is kept on disk, and why a kernel is not found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from graphc.codegen.llvm.jit import kernel_facts, kernel_symbol
from graphc.codegen.llvm.object_cache import ObjectCache, user_cache
from graphc.codegen.program.link import plan_kernels
from graphc.codegen.target import named
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.schedule.build import plan_graph


def _cache() -> ObjectCache:
    cache = user_cache()
    if cache is None:
        raise ArgumentError("the cache is off (GRAPHC_CACHE=off)")
    return cache


def listing() -> Iterator[str]:
    """A line per kept kernel, specification, driver or whole program, latest used first, and the
    total."""
    cache = _cache()
    entries = cache.entries()
    for kept in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.used))
        name = kept.facts.get("kernel", "?")
        yield f"{used}  {kept.nbytes:>9,} B  {kept.symbol}  {name}  {_processor(kept.facts)}"
    total = sum(kept.nbytes for kept in entries)
    yield f"{len(entries)} files, {total:,} of {cache.limit:,} bytes in {cache.folder}"


def cleared() -> Iterator[str]:
    """Remove everything and say so."""
    cache = _cache()
    yield f"removed {cache.clear()} files from {cache.folder}"


def why(graph: Graph, level: str, target_name: str) -> Iterator[str]:
    """For each kernel of a compiled graph: whether it is kept, and if not, what is closest."""
    cache, target = _cache(), named(target_name)
    entries = cache.entries()
    _, plan = plan_graph(graph, level)
    for kernel in plan_kernels(plan, target):
        symbol, facts = kernel_symbol(kernel, target), kernel_facts(kernel, target)
        if cache.get(symbol) is not None:
            yield f"hit   {kernel.name}  {symbol}"
            continue
        same = [kept.facts for kept in entries if kept.facts.get("code") == facts["code"]]
        reasons = [_difference(facts, other) for other in same] or [
            "these loops were not compiled on this machine yet, or were removed"
        ]
        yield f"miss  {kernel.name}  {symbol}: {reasons[0]}"


def _difference(wanted: dict[str, Any], kept: Any) -> str:
    """What sets apart two sets of facts about the same loops."""
    differences = [
        f"{name} {kept.get(name)!r}, not {wanted[name]!r}"
        for name in ("llvm", "settings")
        if kept.get(name) != wanted[name]
    ]
    if kept.get("target") != wanted["target"]:
        differences.insert(0, f"the processor {_processor(kept)}, not {_processor(wanted)}")
    return "the same loops are kept for " + "; ".join(differences)


def _processor(facts: Any) -> str:
    """The processor of a target key (triple, processor, features)."""
    return (str(facts.get("target", "?")).split(" ") + ["?"])[1]
