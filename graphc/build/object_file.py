"""A source → one object file for a target: its programs planned and lowered, one LLVM module.

Sizes that no guard of a program allows get a program of their own; all share their kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphc.build.built_programs import BuiltProgram, BuiltPrograms
from graphc.build.built_source import (
    ObjectSource,
    OfResult,
    Opening,
    SourceGraph,
)
from graphc.build.entry_points import AHEAD, DRIVER, EntryPoints, exported_names
from graphc.build.error_texts import ErrorTexts
from graphc.build.packed_weights import WeightPacking, packed_apart, weights_of
from graphc.build.state_layout import StateLayout
from graphc.codegen.llvm.native import emit_linked
from graphc.codegen.options import CompileOptions
from graphc.codegen.program.barrier import barrier_text
from graphc.codegen.program.standalone import standalone
from graphc.codegen.stages import Stages
from graphc.codegen.target import Target
from graphc.errors import GraphError, LoweringError
from graphc.ir.dims import dim
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard
from graphc.ir.symbols import symbols_of
from graphc.schedule.plan import Plan

PROGRAMS = 8
"""Programs that one object has at most."""
LEASTS = (0, 1, 2)
"""From which size on a program is tried: code that broadcasts tells 1 from others, and 0 may not
divide."""
PROBED = (0, 1, 2, 3, 5, 8, 17, 64, 1000, 100_000)
"""Sizes for which a program is sought: one that none of those there are serves gets its own."""


def programs_of(source: ObjectSource, target: Target, threads: int = 1) -> BuiltPrograms:
    """Programs for all sizes that are probed. Raises what tracing, planning and lowering raise, for
    the example; for other sizes it is told."""
    written: frozenset[str] = frozenset()
    while True:
        built = _Builder(source, target, threads, written).programs()
        late = built.packed_weights & built.written - written
        if not late:
            return built
        written |= late  # which one program packs, and another writes


def _probes(source: ObjectSource) -> Iterator[dict[str, Any]]:
    """The example first; then each size by itself is another."""
    yield dict(source.example)
    for symbol in source.sizes:
        for size in PROBED:
            if size >= symbol.least and (symbol.most is None or size <= symbol.most):
                yield {**source.example, symbol.name: size}


class _Builder:
    """Programs of a source, for a target. Fields of the state that are `written` are not packed."""

    def __init__(
        self, source: ObjectSource, target: Target, threads: int, written: frozenset[str]
    ):  # fmt: skip
        self.source = source
        self.target = target
        self.threads = threads
        self.written = written

    def programs(self) -> BuiltPrograms:
        """Those for all sizes that are probed."""
        source = self.source
        programs: list[BuiltProgram] = []
        refused: list[str] = []
        for sizes in _probes(source):
            if any(each.serves(sizes) for each in programs) or len(programs) == PROGRAMS:
                continue
            try:
                program = self._served(sizes)
                _check_alike(programs, program)
            except Exception as error:  # of the user's code too
                if not programs:
                    raise
                named = ", ".join(f"{symbol.name} {sizes[symbol.name]}" for symbol in source.sizes)
                refused.append(f"{named}: {str(error).splitlines()[0]}")
                continue
            programs.append(program)
        ahead = self._ahead(each.packing for each in programs if each.packing is not None)
        return BuiltPrograms(tuple(programs), tuple(refused), tuple(ahead), self.threads)

    def _served(self, sizes: Mapping[str, Any]) -> BuiltProgram:
        """A program that serves these sizes, and as many others as it can. What cannot be traced or
        planned for all sizes may be from 1 or 2 on, or for a number alone."""
        source = self.source
        numbers = [sizes[symbol.name] for symbol in source.sizes]
        leasts = [least for least in LEASTS if least <= min(numbers, default=0)] or [0]
        own = frozenset(s.name for s in source.sizes if sizes[s.name] != source.example[s.name])
        openings = [Opening(sizes, least) for least in leasts]
        openings += [Opening(sizes, least, own) for least in LEASTS if own]
        for opening in openings[:-1]:
            try:
                return self._program(opening)
            except Exception:  # the last one tells
                continue
        return self._program(openings[-1])

    def _program(self, opening: Opening) -> BuiltProgram:
        source = self.source
        traced = source.at(opening)
        weights = weights_of(source.state(), self.written)
        packing = packed_apart(traced, source.level, self.target, weights)
        if packing is not None:
            traced = packing.main
        graph = traced.graph
        example = {symbol.name: opening.example[symbol.name] for symbol in symbols_of(graph)}
        plan = self._plan(graph, example)
        own = [
            SizeGuard(dim(s.name), "==", opening.example[s.name])
            if s.name in opening.fixed
            else SizeGuard(dim(s.name), ">=", opening.least)
            for s in source.sizes
            if s.name in opening.fixed or opening.least > s.least
        ]
        guards = tuple(dict.fromkeys((*own, *traced.guards, *plan.guards)))
        native = standalone(plan, self.target, self.threads)
        return BuiltProgram(traced, native, guards, packing)

    def _ahead(self, packings: Iterable[WeightPacking]) -> Iterator[BuiltProgram]:
        """What computes all packed values: not those again that are there."""
        packed = set[str]()
        for packing in packings:
            if not packed.issuperset(packing.values):
                packed |= packing.values.keys()
                plan = self._plan(packing.ahead.graph, {})
                yield BuiltProgram(packing.ahead, standalone(plan, self.target), ())

    def _plan(self, graph: Graph, example: Mapping[str, int]) -> Plan:
        return Stages(graph, CompileOptions(self.source.level, self.target), None, example).plan


def _check_alike(programs: list[BuiltProgram], program: BuiltProgram) -> None:
    """Raise GraphError where programs of one function would need other results."""
    for other in programs[:1]:
        one, two = (_results(each.source) for each in (other, program))
        if one != two:
            raise GraphError(f"at these sizes the results are {two}, not {one}")


def _results(source: SourceGraph) -> list[tuple[str, int]]:
    places = zip(source.outputs, source.graph.output_types)
    return [(type.dtype.value, type.rank) for at, type in places if isinstance(at, OfResult)]


def object_code(
    name: str, source: ObjectSource, built: BuiltPrograms, layout: StateLayout, target: Target,
    embeds: bool,
) -> bytes:  # fmt: skip
    """The object file; with `embeds` it has the initial values."""
    entries = EntryPoints(name, source, built, layout, ErrorTexts(), embeds)
    main = entries.module(target.triple)
    if target.is_windows and entries.calls_power:
        raise LoweringError(
            "pow of the C library has other bits in Windows",
            hint="compute powers of tensors, or hand the number in",
        )
    kernels: dict[str, tuple[str, ...]] = {}
    for program in (*built.programs, *built.ahead):
        kernels |= program.native.kernels
    texts = [main]
    for kind, programs in ((DRIVER, built.programs), (AHEAD, built.ahead)):
        for number, program in enumerate(programs):
            texts.append(program.native.driver.replace("@driver(", f"@{kind}{number}(", 1))
    if any(program.native.threads > 1 for program in built.programs):
        texts.append(barrier_text(target.triple))
    texts += [text for modules in kernels.values() for text in modules]
    return emit_linked(texts, target, exported_names(name, built.threads, bool(built.ahead)))
