"""The text of every level of the compiler, for one graph.

in : a graph, and which stage to show
out: texts, one for a graph or plan, one per kernel below that

| stage | text |
|---|---|
| graph | as written or traced; `graphc.parse` reads it back |
| optimized | after the passes of the level |
| passes | what each pass of the level takes away and adds, and how often its rules fire |
| joint | forward and derived backward, after the passes of the level |
| plan | kernels, buffers, steps; with `threads` how each step is split over them, and why |
| nests | each kernel that is a nest: axes, splits, stages, statements |
| loops | each kernel in the loop IR |
| llvm | each kernel in LLVM IR |
| asm | each kernel in the target's assembly |

Nothing is loaded or run, so code can be shown for targets other than this machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from graphc.autodiff.joint import joint
from graphc.codegen.kernels.lower import lower, nest_of
from graphc.codegen.llvm.jit import assembly, llvm_text
from graphc.codegen.loop_ir.verifier import verify as verify_loops
from graphc.codegen.nests.printer import print_nest
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.options import CompileOptions
from graphc.codegen.stages import Stages
from graphc.codegen.target import Target, named
from graphc.debug.dot import graph_dot, plan_dot
from graphc.debug.graph_diff import graph_diff
from graphc.errors import GraphError
from graphc.ir.nodes import Graph
from graphc.ir.printer import print_graph
from graphc.ir.verifier import verify
from graphc.passes.pipelines import verify_after
from graphc.passes.recorder import PassRecord, Recorder
from graphc.records import record
from graphc.schedule.plan import KernelSpec, Plan, kernels, print_plan
from graphc.schedule.threads import table

STAGES = ("graph", "optimized", "passes", "joint", "plan", "nests", "loops", "llvm", "asm")
KERNEL_STAGES = ("nests", "loops", "llvm", "asm")
DOT_STAGES = ("graph", "optimized", "joint", "plan")


@record
class DumpOptions:
    """`kernel`: only the kernel of that name (`k0_matmul`, or its number, `k0`). `threads`: how
    many a call may have. `dot`: graphs and plans in the DOT language."""

    level: str = "exact"
    target: str = "host"
    kernel: str | None = None
    locations: bool = True
    threads: int = 1
    dot: bool = False


def dump(graph: Graph, stage: str, options: DumpOptions | None = None) -> Iterator[str]:
    """The texts of `graph` at `stage`, one of STAGES. Raises GraphError for what does not fit."""
    options = options or DumpOptions()
    if stage not in STAGES:
        raise GraphError(f"unknown stage {stage!r}", hint=f"one of {', '.join(STAGES)}")
    if options.kernel is not None and stage not in KERNEL_STAGES:
        raise GraphError(
            f"stage {stage} is not shown by kernel", hint=f"one of {', '.join(KERNEL_STAGES)}"
        )
    if options.threads < 1:
        raise GraphError(f"{options.threads} threads", hint="1 or more")
    if options.dot and stage not in DOT_STAGES:
        raise GraphError(
            f"stage {stage} has no form in DOT", hint=f"one of {', '.join(DOT_STAGES)}"
        )
    if stage == "graph":
        yield _graph_text(verify(graph), options)
        return
    target, recorder = named(options.target), _Verifying()
    graph = joint(graph) if stage == "joint" else graph
    stages = Stages(graph, CompileOptions(options.level, target, options.threads), recorder)
    if stage in ("optimized", "joint", "passes"):
        text = _graph_text(stages.optimised, options)
        yield from map(_pass_text, recorder.passes) if stage == "passes" else (text,)
    elif stage == "plan" and options.dot:
        yield plan_dot(stages.plan)
    elif stage == "plan" and options.threads > 1:
        threaded = stages.threaded
        yield print_plan(threaded.plan, locations=options.locations)
        yield table(threaded.plan, threaded.schedule)
    elif stage == "plan":
        yield print_plan(stages.plan, locations=options.locations)
    else:
        for spec, name in _chosen(stages.plan, options.kernel):
            yield _kernel_text(spec, name, stage, target)


def _graph_text(graph: Graph, options: DumpOptions) -> str:
    return graph_dot(graph) if options.dot else print_graph(graph, locations=options.locations)


def nest_text(spec: KernelSpec, name: str, target: Target) -> str:
    """The nest of a kernel, or a line that says that it has none."""
    nest = nest_of(spec, target)
    if nest is None:
        return f"// {name}: recipe {spec.recipe} writes its loops without a nest"
    return print_nest(verify_nest(nest), name)


def _kernel_text(spec: KernelSpec, name: str, stage: str, target: Target) -> str:
    if stage == "nests":
        return nest_text(spec, name, target)
    kernel = lower(spec, target, name)
    verify_loops(kernel)
    if stage == "loops":
        return str(kernel)
    if stage == "llvm":
        return llvm_text(kernel, target)
    return assembly(kernel, target)


class _Verifying(Recorder):
    """Names the pass that broke a rule."""

    def passed(self, record: PassRecord) -> None:
        verify_after(record.name, record.after)


def _pass_text(record: PassRecord) -> str:
    """A pass: its size, its diff, the rules that fired, the most frequent first."""
    sizes = f"{len(record.before.nodes)} to {len(record.after.nodes)} nodes"
    fired = Counter(firing.rule for firing in record.firings)
    rules = [f"  {count} times: {rule}" for rule, count in fired.most_common()]
    lines = [f"  {line}" for line in graph_diff(record.before, record.after)]
    return "\n".join([f"{record.name}: {sizes}", *lines, *rules])


def _chosen(plan: Plan, wanted: str | None) -> Iterator[tuple[KernelSpec, str]]:
    """All kernels of the plan that have loops, or the one that is wanted, with their names."""
    named = kernels(plan)
    short = {name.partition("_")[0] for name in named.values()}
    if wanted is not None and wanted not in named.values() and wanted not in short:
        raise GraphError(
            f"the plan has no kernel {wanted!r}",
            hint=f"one of {', '.join(named.values()) or 'none'}",
        )
    for spec, name in named.items():
        if spec.has_loops and wanted in (None, name, name.partition("_")[0]):
            yield spec, name
