"""What a page about a call shows, as plain data for JSON.

in : a traced call
out: a dictionary; times in microseconds, sizes in bytes, steps and buffers by number
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import Target
from graphc.debug.decisions import decisions
from graphc.debug.dump import nest_text
from graphc.debug.flat_graph import flat_plan, launch_nodes
from graphc.debug.graph_diff import graph_diff
from graphc.debug.places import steps_with_plans
from graphc.debug.profile.machine import Machine
from graphc.debug.profile.profiler import Profile, StepProfile, profile
from graphc.debug.report.graph_data import Dictionary, stages
from graphc.debug.report.ledger_data import LaunchFinder, differences, ledger_parts
from graphc.debug.traced import TracedCall
from graphc.ir.nodes import Graph
from graphc.passes.recorder import PassRecord, Recorder
from graphc.records import record
from graphc.schedule.plan import ON_HOST, Launch, Plan, Step, kernels, live_ranges

QUIET = frozenset({"input", "constant", "broadcast", "reshape", "transpose", "slice"})
"""Ops that a kernel is not known by."""
DIFF_LINES = 400
"""Of one pass."""
WITH_LLVM, WITH_ASSEMBLY = 6, 12
"""Kernels, the dearest first, whose LLVM IR and assembly are shown: making them takes long."""


@record
class CallData:
    """What a page has about one call: `head` is there when it opens; each of the `parts`, by name,
    is opened when it is asked for; `kernels` are the texts of each, those with most to win first.
    """

    head: dict[str, Any]
    parts: dict[str, Any]
    kernels: dict[str, dict[str, Any]]


def call_data(call: TracedCall, seconds: float) -> CallData:
    """All about one call; it is profiled for about so many seconds."""
    executable = call.executable()
    recorder = Recorder()
    options = call.options
    decided = decisions(
        call.graph, options.level, target=options.target, threads=options.threads,
        recorder=recorder,
    )  # fmt: skip
    decided = [*call.around, *decided]
    measured = profile(executable, call.arrays, seconds)
    plan = executable.plan
    flat = flat_plan(plan)
    nodes = list(launch_nodes(plan, flat))
    passes = chained(recorder.passes)
    finder = LaunchFinder(passes, flat, [each.name for each in measured.steps], nodes)
    ledger = ledger_parts(decided, finder)
    texts_of_nodes = Dictionary()
    graphs = stages(passes, flat, texts_of_nodes)
    head = {
        "name": call.graph.name, "level": options.level, "schedule": measured.schedule,
        "threads": measured.threads, "whole": us(measured.whole), "plain": us(measured.plain),
        "inKernels": us(measured.in_kernels), "waiting": us(measured.waiting),
        "quiet": measured.quiet, "median": measured.median, "passesRun": measured.passes,
        "timings": {name: round(took, 4) for name, took in executable.timings.items()},
        "memory": {
            "arena": plan.arena_bytes, "bound": plan.arena_lower_bound,
            "call": executable.memory_bytes,
        },
        "machine": _machine(measured.machine),
        "nodes": [len(call.graph.nodes), len(executable.optimised.nodes)],
        "steps": list(_steps(plan, measured, nodes)),
        "buffers": list(_buffers(plan)),
        "events": _events(measured),
        "passes": [_pass(record) for record in recorder.passes if _changed(record)],
        "stages": [[each.name, len(each.columns["op"])] for each in graphs],
        "firstPass": passes[0].name if passes else "",
        "ledger": {kind: len(columns["what"]) for kind, columns in ledger.items()},
    }  # fmt: skip
    parts = {f"ledger {kind}": columns for kind, columns in ledger.items()}
    parts |= {f"graph {number}": each.columns for number, each in enumerate(graphs)}
    parts["graph texts"] = texts_of_nodes.columns()
    texts = dict(_kernels(plan, measured, executable.target))
    return CallData(head, parts, {name: texts[name] for name in by_what_is_lost(measured, texts)})


def chained(passes: Sequence[PassRecord]) -> list[PassRecord]:
    """The passes over the graph itself: regions of loops are prepared by passes of their own."""
    kept: list[PassRecord] = []
    for each in passes:
        if not kept or each.before is kept[-1].after or each.before == kept[-1].after:
            kept.append(each)
    return kept


def us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(seconds * 1e6, 3)


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "processor": machine.processor, "gflops": 2e-9 * machine.products,
        "additions": 1e-9 * machine.additions,
        "levels": [[level.name, level.nbytes, 1e-9 * level.rate] for level in machine.levels],
    }  # fmt: skip


# -- the plan --------------------------------------------------------------------------------------


def _steps(
    plan: Plan, measured: Profile, nodes: Sequence[tuple[int, ...]]
) -> Iterator[dict[str, Any]]:
    roots = _root_numbers(plan)
    for (_, step), timed, computed in zip(
        steps_with_plans(plan), measured.steps, nodes, strict=True
    ):
        root = roots.get(timed.number)
        facts = {"root": root, "nodes": differences(computed)}
        yield {**_timed(timed), **_planned(step, root is not None), **facts}


def _timed(step: StepProfile) -> dict[str, Any]:
    place, limit = step.place, step.limit
    return {
        "n": step.number, "kind": step.kind, "name": step.name, "within": list(step.within),
        "runs": step.runs, "us": us(step.seconds), "threads": [us(t) for t in step.by_thread],
        "limit": us(step.limit_seconds), "bound": limit.bound if limit else "",
        "parts": {k: us(v * step.runs) for k, v in limit.parts.items() if v} if limit else {},
        "flops": step.flops, "bytes": step.nbytes, "line": place.line, "path": place.path,
        "module": place.module, "phase": place.phase, "updates": place.updates,
        "lines": list(place.lines),
    }  # fmt: skip


def _planned(step: Step, is_root: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {"reads": [], "writes": [], "ops": []}
    if isinstance(step, Launch):
        ops = Counter(n.op for n in step.kernel.body.nodes if n.op not in QUIET)
        facts["ops"] = [op if count == 1 else f"{count} {op}" for op, count in ops.items()]
    if is_root:
        facts["reads"] = list(getattr(step, "reads", step.buffers))
        facts["writes"] = list(getattr(step, "writes", ()))
    return facts


def _root_numbers(plan: Plan) -> dict[int, int]:
    """By number in `all_steps`, which step of the plan itself it is."""
    numbers: dict[int, int] = {}
    number = 0
    for position, step in enumerate(plan.steps):
        numbers[number] = position
        number += 1 + sum(sum(1 for _ in steps_with_plans(p)) for p in getattr(step, "plans", ()))
    return numbers


def _buffers(plan: Plan) -> Iterator[dict[str, Any]]:
    for buffer, live in zip(plan.buffers, live_ranges(plan.steps, plan.buffers), strict=True):
        yield {
            "type": str(buffer.type), "place": buffer.place, "slot": buffer.slot,
            "bytes": buffer.type.nbytes, "live": live, "within": buffer.within,
        }  # fmt: skip


def _events(measured: Profile) -> list[list[list[float]]]:
    """By thread (slot, begin, end), microseconds from the first; waits too."""
    first = min(began for began, _ in measured.events)
    rows = []
    for began, ends in measured.events:
        row, last = [], began
        for slot, over in ends:
            row.append([slot, round((last - first) / 1e3, 2), round((over - first) / 1e3, 2)])
            last = over
        rows.append(row)
    return rows


# -- passes and decisions --------------------------------------------------------------------------


def _changed(record: PassRecord) -> bool:
    return record.before != record.after


def _pass(record: PassRecord) -> dict[str, Any]:
    lines = graph_diff(record.before, record.after)
    rules = Counter(firing.rule for firing in record.firings)
    return {
        "name": record.name, "before": len(record.before.nodes), "after": len(record.after.nodes),
        "ms": round(record.seconds * 1e3, 2), "lines": _balanced(lines), "all": len(lines),
        "rules": rules.most_common(),
    }  # fmt: skip


def _balanced(lines: Sequence[str]) -> list[str]:
    """The first lines of what is gone and of what is new, so that neither hides the other."""
    gone = [line for line in lines if line.startswith("-")]
    balanced = [line for line in lines if not line.startswith("-")]
    room = max(DIFF_LINES // 2, DIFF_LINES - min(len(gone), len(balanced)))
    return [*gone[:room], *balanced[: max(DIFF_LINES - len(gone[:room]), 0)]]


# -- texts -----------------------------------------------------------------------------------------


def _kernels(plan: Plan, measured: Profile, target: Target) -> Iterator[tuple[str, dict[str, Any]]]:
    """The texts of each kernel, those with most to win first; those of LLVM for these only."""
    names = kernels(plan)
    rank = {name: number for number, name in enumerate(by_what_is_lost(measured, names.values()))}
    for spec, name in names.items():
        if not spec.has_loops:
            yield name, {"recipe": spec.recipe, "note": ON_HOST, "body": _text(spec.body)}
            continue
        kernel = lower(spec, target, name)
        texts = {
            "recipe": spec.recipe, "note": kernel.note, "body": _text(spec.body),
            "nest": nest_text(spec, name, target), "loops": str(kernel),
        }  # fmt: skip
        yield name, {**texts, **_native_texts(kernel, target, rank[name])}


def by_what_is_lost(measured: Profile, names: Iterable[str]) -> list[str]:
    """The kernels by how far one launch of theirs is above its limit, the farthest first."""
    lost = dict.fromkeys(names, 0.0)
    for step in measured.launches:
        lost[step.name] = max(lost[step.name], step.seconds - step.limit_seconds)
    return sorted(lost, key=lambda name: -lost[name])


def _native_texts(kernel: Kernel, target: Target, rank: int) -> dict[str, str]:
    from graphc.codegen.llvm.jit import assembly, llvm_text

    texts = {}
    if rank < WITH_LLVM:
        texts["llvm"] = llvm_text(kernel, target)
    if rank < WITH_ASSEMBLY:
        texts["assembly"] = assembly(kernel, target)
    return texts


def _text(body: Graph) -> str:
    from graphc.ir.printer import print_graph

    return print_graph(body, locations=False)
