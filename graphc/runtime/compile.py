"""Graph → what is called: the program from disk, or planned, lowered and linked.

In: a graph, the level and options. Out: an `Executable`, or, where sizes are known only at run
time, a `SizedExecutable`, which has one for each size it was called at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.options import CompileOptions
from graphc.codegen.target import Target, running
from graphc.errors import GraphError
from graphc.ir.nodes import Graph
from graphc.ir.symbols import symbols_of
from graphc.records import replace
from graphc.runtime.executable import Executable
from graphc.runtime.pool import chosen_threads
from graphc.runtime.program import keep, kept, program_key, program_of
from graphc.runtime.sized_executable import SizedExecutable, SizedProgram
from graphc.schedule.memory import check_limit
from graphc.system import IMPORTING, uncollected

if TYPE_CHECKING:
    from graphc.passes.recorder import Recorder


def compile(
    graph: Graph,
    level: str = "exact",
    *,
    target: Target | str | None = None,
    recorder: Recorder | None = None,
    threads: int | None = None,
    fusion: bool = True,
    plan_memory: bool = True,
    layouts: bool = True,
    max_bytes: int | None = None,
    example: Mapping[str, int] | None = None,
) -> Executable | SizedExecutable:
    """Compile a graph to native code.

    `level`: `none` (a kernel per op), `exact` (all passes and fusion, same bits for any layout and
    number of threads), `relaxed`. `recorder` notes what each pass does, and gets the plan; nothing
    is taken from disk then. `threads`: the most threads a call may run on, None for all
    processors this process may use; it runs on fewer where the work is small. `target`: what the
    code is made for, or its name, None for that of the setting GRAPHC_TARGET. `fusion`,
    `plan_memory` and `layouts` switch off what the level would do, to measure what it gains.
    `max_bytes`: the most memory a call may take for intermediate values and scratch. `example`:
    typical numbers for sizes of the graph that are known only at run time, which it is made best
    for; it runs at all sizes. Raises GraphError for a graph that breaks the rules, MemoryLimitError
    where `max_bytes` is too little, TargetError for a target this machine cannot run, TypeError or
    ValueError for `threads`.
    """
    most, why = chosen_threads(threads)
    if not isinstance(graph, Graph):
        raise GraphError(
            f"graphc.compile takes a Graph, not {type(graph).__name__}",
            hint="frontend.compile for a Python function or Module",
        )
    options = CompileOptions(
        level, running(target), most, why, fusion, plan_memory, layouts, max_bytes
    )
    if symbols_of(graph):
        return SizedExecutable(
            graph, options.target, lambda sizes: _program(graph, options, recorder, sizes),
            example or {}, max_bytes,
        )  # fmt: skip
    sized = _program(graph, options, recorder, {})
    executable = Executable(graph, sized.program, sized.details, options.target, sized.timings)
    if max_bytes is not None and executable.memory_bytes > max_bytes:
        check_limit(executable.plan, graph.name, executable.memory_bytes, max_bytes)
    return executable


def program_for(
    graph: Graph, example: Mapping[str, int], *, level: str = "exact", threads: int | None = 1
) -> SizedProgram:
    """What `compile` makes an executable of, for a caller that keeps one for each of its sizes.
    `example`: numbers for the sizes known only at run time; none where all are numbers. Raises as
    `compile` does."""
    most, why = chosen_threads(threads)
    options = CompileOptions(level, running(None), most, why)
    return _program(graph, options, None, example)


@uncollected()
def _program(
    graph: Graph, options: CompileOptions, recorder: Recorder | None, example: Mapping[str, int]
) -> SizedProgram:
    """The program of a graph, from disk where it is kept, made best for an example of its sizes."""
    started = time.perf_counter()
    store = user_cache() if recorder is None else None
    key = ""
    if store is not None:
        facts = replace(options, max_bytes=None)
        key = program_key(
            graph, options.target, facts, options.max_bytes is None, tuple(example.items())
        )
        stored = kept(store, key)
        if stored is not None:
            return SizedProgram(*stored, {"load": time.perf_counter() - started})
    # Imported here, as what follows: a graph that was compiled before needs none of it.
    with IMPORTING:
        from graphc.codegen.program.compile_worker import worker_started_early

    with worker_started_early(len(graph.nodes)):
        with IMPORTING:
            from graphc.codegen.program.link import link
            from graphc.codegen.stages import Stages

        stages = Stages(graph, options, recorder, example)
        plan, optimised = stages.plan, stages.optimised
        planned = time.perf_counter()
        native, plan = link(
            plan, options.target, options.threads, options.threads_reason,
            grows=options.max_bytes is None,
        )  # fmt: skip
    program = program_of(plan, native)
    timings = {"plan": planned - started, **native.timings}
    if store is not None:
        keep(store, key, program, optimised, plan)
    return SizedProgram(program, lambda: (optimised, plan), timings)
