"""A source → one object file for a target: its programs planned and lowered, one LLVM module.

Sizes that no guard of a program allows get a program of their own; all share their kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphc.build.built_programs import BuiltProgram, BuiltPrograms
from graphc.build.built_source import (
    ObjectSource,
    OfResult,
    Opening,
    SourceGraph,
)
from graphc.build.entry_points import EntryPoints, exported_names
from graphc.build.error_texts import ErrorTexts
from graphc.build.state_layout import StateLayout
from graphc.codegen.llvm.fma import COMPUTED, COMPUTED_NAME
from graphc.codegen.llvm.native import emit_linked
from graphc.codegen.options import CompileOptions
from graphc.codegen.program.barrier import barrier_text
from graphc.codegen.program.standalone import standalone
from graphc.codegen.stages import Stages
from graphc.codegen.target import Target
from graphc.errors import GraphError, LoweringError
from graphc.ir.dims import dim
from graphc.ir.size_guards import SizeGuard
from graphc.ir.symbols import symbols_of

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
    programs: list[BuiltProgram] = []
    refused: list[str] = []
    for sizes in _probes(source):
        if any(each.serves(sizes) for each in programs) or len(programs) == PROGRAMS:
            continue
        try:
            program = _served(source, sizes, target, threads)
            _check_alike(programs, program)
        except Exception as error:  # of the user's code too
            if not programs:
                raise
            named = ", ".join(f"{symbol.name} {sizes[symbol.name]}" for symbol in source.sizes)
            refused.append(f"{named}: {str(error).splitlines()[0]}")
            continue
        programs.append(program)
    return BuiltPrograms(tuple(programs), tuple(refused), threads)


def _probes(source: ObjectSource) -> Iterator[dict[str, Any]]:
    """The example first; then each size by itself is another."""
    yield dict(source.example)
    for symbol in source.sizes:
        for size in PROBED:
            if size >= symbol.least and (symbol.most is None or size <= symbol.most):
                yield {**source.example, symbol.name: size}


def _served(
    source: ObjectSource, sizes: Mapping[str, Any], target: Target, threads: int
) -> BuiltProgram:
    """A program that serves these sizes, and as many others as it can. What cannot be traced or
    planned for all sizes may be from 1 or 2 on, or for a number alone."""
    numbers = [sizes[symbol.name] for symbol in source.sizes]
    leasts = [least for least in LEASTS if least <= min(numbers, default=0)] or [0]
    own = frozenset(s.name for s in source.sizes if sizes[s.name] != source.example[s.name])
    openings = [Opening(sizes, least) for least in leasts]
    openings += [Opening(sizes, least, own) for least in LEASTS if own]
    for opening in openings[:-1]:
        try:
            return _program(source, opening, target, threads)
        except Exception:  # the last one tells
            continue
    return _program(source, openings[-1], target, threads)


def _program(source: ObjectSource, opening: Opening, target: Target, threads: int) -> BuiltProgram:
    traced = source.at(opening)
    graph = traced.graph
    example = {symbol.name: opening.example[symbol.name] for symbol in symbols_of(graph)}
    plan = Stages(graph, CompileOptions(source.level, target), None, example).plan
    own = [
        SizeGuard(dim(s.name), "==", opening.example[s.name])
        if s.name in opening.fixed
        else SizeGuard(dim(s.name), ">=", opening.least)
        for s in source.sizes
        if s.name in opening.fixed or opening.least > s.least
    ]
    guards = tuple(dict.fromkeys((*own, *traced.guards, *plan.guards)))
    return BuiltProgram(traced, standalone(plan, target, threads), guards)


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
    for program in built.programs:
        kernels |= program.native.kernels
    texts = [main]
    for number, program in enumerate(built.programs):
        texts.append(program.native.driver.replace("@driver(", f"@graphc.driver{number}(", 1))
    if any(program.native.threads > 1 for program in built.programs):
        texts.append(barrier_text(target.triple))
    texts += [text for modules in kernels.values() for text in modules]
    if target.fma == COMPUTED_NAME:
        texts.append(COMPUTED)
    return emit_linked(texts, target, exported_names(name, built.threads))
