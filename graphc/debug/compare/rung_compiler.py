"""The compiler of a rung: what `graphc.compile` is to a user's call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.program.link import link
from graphc.codegen.target import running
from graphc.debug.compare.op_kernels_plan import plan_of_ops
from graphc.debug.compare.phase_parts import CallsInTurn, phase_parts
from graphc.debug.compare.rungs import Rung
from graphc.debug.profile.work import work_of_body
from graphc.ir.dims import fixed
from graphc.ir.nodes import Graph
from graphc.ir.verifier import verify
from graphc.runtime.compile import compile
from graphc.runtime.executable import Executable
from graphc.runtime.program import program_of
from graphc.schedule.plan import Branch, Launch, Loop, Plan


class RungCompiler:
    """Compiles graphs as a rung says, and keeps what it made: `executables`, and `seconds` that it
    took."""

    def __init__(self, rung: Rung):
        self.rung = rung
        self.executables: list[Executable] = []
        self.parts = 0
        self.seconds = 0.0

    def __call__(self, graph: Graph, *_: Any, **__: Any) -> Any:
        """Something with `run(arrays)`; of what `graphc.compile` takes, the rung says the rest."""
        started = time.perf_counter()
        parts = [] if self.rung.whole else phase_parts(graph)
        if len(parts) < 2:
            executable: Any = self._compiled(graph)
        else:
            compiled = [self._compiled(part.graph) for part in parts]
            executable = CallsInTurn(graph, parts, [each.run for each in compiled])
        self.parts = max(self.parts, len(parts))
        self.seconds += time.perf_counter() - started
        return executable

    def _compiled(self, graph: Graph) -> Executable:
        rung = self.rung
        if rung.of_ops:
            executable = self._of_ops(graph)
        else:
            compiled = compile(
                graph, "exact", threads=rung.threads, plan_memory=rung.plan_memory,
                layouts=rung.layouts,
            )  # fmt: skip
            assert isinstance(compiled, Executable), "a ladder has the sizes of its arrays"
            executable = compiled
        self.executables.append(executable)
        return executable

    def _of_ops(self, graph: Graph) -> Executable:
        """A kernel for each op of the program."""
        rung, target = self.rung, running()
        preferred = preferred_layouts(target, rung.layouts)
        optimised, plan = plan_of_ops(verify(graph), rung.passes, preferred)
        native, plan = link(plan, target, rung.threads, "a rung of a ladder", grows=True)
        details = optimised, plan
        return Executable(graph, program_of(plan, native), lambda: details, target, native.timings)

    def facts(self) -> dict[str, Any]:
        """Of a call of all that was compiled: native calls, launches, bytes that these read and
        write, distinct kernels, bytes of the arenas, seconds of the compiler."""
        plans = [executable.plan for executable in self.executables]
        launches = [pair for plan in plans for pair in launches_of(plan)]
        works = {launch.kernel: work_of_body(launch.kernel.body).nbytes for launch, _ in launches}
        return {
            "calls": len(plans),
            "launches": sum(runs for _, runs in launches),
            "moved_bytes": sum(runs * works[launch.kernel] for launch, runs in launches),
            "kernels": len(works),
            "arena_bytes": sum(plan.arena_bytes for plan in plans),
            "compile_s": self.seconds,
        }


def launches_of(plan: Plan, runs: int = 1) -> Iterator[tuple[Launch, int]]:
    """The launches of a plan, those inside of its loops and branches too, and how often a call
    makes each (1 where that is not known)."""
    for step in plan.steps:
        if isinstance(step, Launch):
            yield step, runs
        elif isinstance(step, Loop):
            for inner in step.plans:
                yield from launches_of(inner, runs * fixed(step.count or 1))
        elif isinstance(step, Branch):
            for inner in step.plans:
                yield from launches_of(inner, runs)
