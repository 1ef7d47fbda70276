"""Graph → optimised graph → plan → loops, in the one way that there is: what is compiled, dumped,
explained, verified and built goes through here.

in : a graph, options, and typical numbers for the sizes that are known only at run time
out: `Stages`, each made when it is asked for
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.options import CompileOptions
from graphc.codegen.program.on_threads import ThreadedPlan, on_threads
from graphc.ir.nodes import Graph
from graphc.lazy import lazy
from graphc.passes.layouts import Preferred
from graphc.passes.recorder import Recorder
from graphc.records import field, record
from graphc.schedule.build import Scheduler, optimised, scheduled
from graphc.schedule.plan import KernelSpec, Plan, kernels


@record(slots=False)
class Stages:
    """Of one graph. `recorder` notes the passes, and gets the plan. All raise what compiling
    raises."""

    graph: Graph
    options: CompileOptions
    recorder: Recorder | None = None
    example: Mapping[str, int] = field(default_factory=dict)

    @lazy
    def preferred(self) -> Preferred:
        """What the target's cost models answer passes."""
        return preferred_layouts(self.options.target, self.options.layouts)

    @lazy
    def optimised(self) -> Graph:
        """The graph behind all passes of the level. Nothing is scheduled for it."""
        if "_scheduled" in vars(self):
            return self._scheduled[0]
        return optimised(
            self.graph, self.options.level, self.recorder, preferred=self.preferred,
            example=self.example,
        )  # fmt: skip

    @lazy
    def _scheduled(self) -> tuple[Graph, Scheduler, Plan]:
        options = self.options
        return scheduled(
            self.graph, options.level, self.recorder, preferred=self.preferred,
            fusion=options.fusion, plan_memory=options.plan_memory, example=self.example,
        )  # fmt: skip

    @property
    def scheduler(self) -> Scheduler:
        """What made the plan: it has the reasons."""
        return self._scheduled[1]

    @property
    def plan(self) -> Plan:
        """The plan as it runs on one thread."""
        return self._scheduled[2]

    @lazy
    def loops(self) -> dict[KernelSpec, Kernel]:
        """The loops of each distinct kernel that has some, named as in the plan's text."""
        named, target = kernels(self.plan).items(), self.options.target
        return {spec: lower(spec, target, name) for spec, name in named if spec.has_loops}

    @lazy
    def threaded(self) -> ThreadedPlan:
        """The plan as it runs on the threads of the options, and how its steps are split."""
        loops, options = self.loops, self.options
        extents = {spec: loops[spec].extent if spec.has_loops else 1 for spec in kernels(self.plan)}
        grows = options.max_bytes is None
        return on_threads(self.plan, extents, options.threads, options.threads_reason, grows=grows)
