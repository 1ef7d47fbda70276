"""What `graphc cache` prints: what is kept on disk, and why a kernel is not found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from graphc.codegen.cache.object_cache import Kept, ObjectCache, user_cache
from graphc.codegen.llvm.jit import kernel_facts, kernel_symbol
from graphc.codegen.options import CompileOptions
from graphc.codegen.stages import Stages
from graphc.codegen.target import named
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph

PURPOSES = ("program", "recompute", "frozen")
"""What is kept of a whole graph; the name of the graph follows."""


def _cache() -> ObjectCache:
    cache = user_cache()
    if cache is None:
        raise ArgumentError("the cache is off (GRAPHC_CACHE=off)")
    return cache


def by_model() -> Iterator[str]:
    """A line for each model that has programs on disk, latest used first: how many signatures are
    compiled, how many kernels those are made of, and their bytes; then what belongs to no program,
    and the total. A kernel of several models counts for each."""
    cache = _cache()
    entries = cache.entries()
    kernels = {kept.symbol.removeprefix("kernel_")[:16]: kept for kept in entries}
    models: dict[tuple[str, str], list[Kept]] = {}
    for kept in entries:
        purpose, _, name = str(kept.facts.get("kernel", "")).partition(" ")
        if purpose in PURPOSES and name:
            models.setdefault((name, _processor(kept.facts)), []).append(kept)
    owned = {kept.symbol for programs in models.values() for kept in programs}
    yield f"{'last used':<16}  {'bytes':>11}  {'programs':>8}  {'kernels':>7}  model"
    for (name, processor), programs in models.items():
        symbols = {s for each in programs for s in each.facts.get("kernels", ())}
        own = [kernels[symbol] for symbol in symbols if symbol in kernels]
        owned |= {kept.symbol for kept in own}
        nbytes = sum(kept.nbytes for kept in (*programs, *own))
        yield (
            f"{_time(programs[0].used)}  {nbytes:>11,}  {len(programs):>8}  {len(symbols):>7}  "
            f"{name}  ({processor})"
        )
    rest = [kept for kept in entries if kept.symbol not in owned]
    if rest:
        nbytes = sum(kept.nbytes for kept in rest)
        yield (
            f"{_time(rest[0].used)}  {nbytes:>11,}  {'':>8}  {len(rest):>7}  "
            "(of single ops, shared parts, and programs that are gone)"
        )
    yield _total(cache, entries)


def listing() -> Iterator[str]:
    """A line per kept kernel, specification, driver or whole program, latest used first, and the
    total."""
    cache = _cache()
    entries = cache.entries()
    for kept in entries:
        name = kept.facts.get("kernel", "?")
        processor = _processor(kept.facts)
        yield f"{_time(kept.used)}  {kept.nbytes:>9,} B  {kept.symbol}  {name}  {processor}"
    yield _total(cache, entries)


def _total(cache: ObjectCache, entries: Sequence[Kept]) -> str:
    total = sum(kept.nbytes for kept in entries)
    return f"{len(entries)} files, {total:,} of {cache.limit:,} bytes in {cache.folder}"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def cleared() -> Iterator[str]:
    """Remove everything and say so."""
    cache = _cache()
    yield f"removed {cache.clear()} files from {cache.folder}"


def why(graph: Graph, level: str, target_name: str) -> Iterator[str]:
    """For each kernel of a compiled graph: whether it is kept, and if not, what is closest."""
    cache, target = _cache(), named(target_name)
    entries = cache.entries()
    for kernel in Stages(graph, CompileOptions(level, target)).loops.values():
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
