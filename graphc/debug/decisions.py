"""The compiler's decisions about one graph, made again to be asked for their reasons.

in : a graph, and what `graphc.compile` would be told with it
out: decisions (`graphc.debug.ledger`), in the order of the stages that made them

Every stage that decides keeps its reasons where it decides, as values that the plan does not look
at: a recorder has the rules that fired, the scheduler why nodes are kept, groups apart and updates
copied, a strategy its cost, a step why it is split. Here they are collected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any

from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.strategies.table import asked, declined
from graphc.codegen.options import CompileOptions
from graphc.codegen.stages import Stages
from graphc.codegen.target import Target, named
from graphc.config import target_name
from graphc.debug.cut_decisions import cut_decisions
from graphc.debug.flat_graph import flat_graph
from graphc.debug.ledger import Decision
from graphc.ir.graph_queries import descendants
from graphc.ir.nodes import CONSTANT, FORWARD, INPUT, Graph, Node, Value
from graphc.ir.printer import attribute_text
from graphc.ir.registry import lookup
from graphc.ops.kinds.op import check_text
from graphc.passes.recorder import PassRecord, Recorder
from graphc.passes.split_exchanges import split_exchanges
from graphc.records import replace
from graphc.runtime.pool import chosen_threads
from graphc.schedule.build import Scheduler
from graphc.schedule.fusion import BUILT_AROUND
from graphc.schedule.output_layouts import stores_anywhere
from graphc.schedule.plan import (
    ON_HOST,
    Branch,
    KernelSpec,
    Launch,
    Loop,
    Plan,
    Step,
    kernels,
    locations,
)
from graphc.schedule.prepare import certain_checks
from graphc.schedule.threads import WorkSplit


def decisions(
    graph: Graph, level: str = "exact", *, target: str | Target | None = None,
    threads: int | None = None, fusion: bool = True, plan_memory: bool = True,
    layouts: bool = True, recorder: Recorder | None = None, lowered: bool = True,
    example: Mapping[str, int] | None = None,
) -> list[Decision]:  # fmt: skip
    """What the compiler decides about `graph` and why; the arguments are those of `graphc.compile`.
    `recorder` gets the passes and the plan of the same run. With `lowered` false kernels do not
    become loops: strategies and threads are left out. Raises what compiling raises."""
    recorder = recorder or Recorder()
    chosen = target if isinstance(target, Target) else named(target or target_name())
    most, reason = chosen_threads(threads)
    options = CompileOptions(level, chosen, most, reason, fusion, plan_memory, layouts)
    stages = Stages(graph, options, recorder, example or {})
    # The plan that runs: over threads its order, and so kernels' names, may be another.
    plan = stages.threaded.plan if lowered else stages.plan
    recorder.plan, names = plan, kernels(plan)
    split = split_exchanges(graph)
    decided = [] if split is None else cut_decisions(split)
    decided += [replace(each, stage=recorder.passes[0].name) for each in _rematerialised(graph)]
    decided += [decision for each in recorder.passes for decision in _relaxed(each)]
    decided += [decision for each in recorder.passes for decision in _rewritten(each)]
    decided += _scheduled(stages.scheduler, plan, names, "")
    if not lowered:
        return decided
    for spec, uses in _uses(plan).items():
        note = stages.loops[spec].note if spec.has_loops else ON_HOST
        decided.append(_strategy(names[spec], note, uses, chosen))
    decided += _threads(plan, stages.threaded.schedule.steps, names, "")
    return decided


def saved_between(forward: Graph, backward: Graph, results: int) -> list[Decision]:
    """What the forward graph keeps for the backward graph, and what that computes again: of the two
    graphs a joint one was split into. `results`: how many of forward's outputs are its own."""
    saved = []
    for value in forward.outputs[results:]:
        why = "computing it again costs more than its bytes"
        saved.append(_kept_for_backward(forward, value.node, forward.name, why))
    return saved + _recomputed(backward, set(range(len(backward.nodes))), backward.name)


def _kept_for_backward(graph: Graph, node: int, stage: str, why: str) -> Decision:
    what = f"{_label(graph, node)} : {', '.join(map(str, graph.nodes[node].types))}"
    place, numbers = graph.nodes[node].location, {"bytes": _bytes(graph, node)}
    return Decision("saved", what, why, place, (node,), numbers, stage)


def _recomputed(graph: Graph, among: Set[int], stage: str) -> list[Decision]:
    """Forward's nodes in a graph of backward: their locations tell. Index maps are not computed."""
    recomputed = []
    for identity, node in enumerate(graph.nodes):
        cost = getattr(lookup(node.op), "cost", 0) if _computes(graph, identity) else 0
        again = node.location is not None and node.location.phase == FORWARD
        if cost and again and identity in among:
            numbers = {"additions": cost, "bytes": _bytes(graph, identity)}
            why = "costs less than keeping it from forward to backward"
            place, nodes = node.location, (identity,)
            label = _label(graph, identity)
            recomputed.append(Decision("recomputed", label, why, place, nodes, numbers, stage))
    return recomputed


def _rematerialised(graph: Graph) -> list[Decision]:
    """The same in a whole step, which passes.recompute has marked: what is saved, and what backward
    computes again from it."""
    marks = [i for i, node in enumerate(graph.nodes) if node.op == "saved"]
    if not marks:
        return []
    values = dict.fromkeys(graph.nodes[i].operands[0].node for i in marks)
    why = "backward starts from it, within the budget of saved_bytes"
    saved = [_kept_for_backward(graph, i, "", why) for i in values if graph.nodes[i].op != INPUT]
    behind = {v.node for v in descendants(graph, map(Value, marks))}
    return saved + _recomputed(graph, behind, "")


# -- passes ----------------------------------------------------------------------------------------


def _rewritten(record: PassRecord) -> Iterator[Decision]:
    """The rules that fired in a pass."""
    inside = any(firing.graph is not record.before for firing in record.firings)
    parts = flat_graph(record.before).parts if inside else ()
    within = {id(part.graph): part.within for part in parts}
    for firing in record.firings:
        after = firing.after
        if isinstance(after, Value):
            after = firing.draft.node(after)
        what = f"{node_text(firing.before)} => {node_text(after)}"
        numbers = {"bytes": sum(type.nbytes for type in firing.before.types)}
        place = firing.location or firing.graph.nodes[firing.node].location
        path = within.get(id(firing.graph), "")
        nodes = (firing.node,) if path or firing.graph is record.before else ()
        yield Decision("rewritten", what, firing.rule, place, nodes, numbers, record.name, path)


RELAXED = {
    "recognize_attention": (
        ("attention", "attention_grad"), "attention that was written out is one op: it rounds "
        "otherwise (level relaxed)",
    ),
    "winograd": (
        ("winograd",), "Winograd's sums need fewer products: they round otherwise (level relaxed)"
    ),
}  # fmt: skip
"""By pass of level relaxed the ops that it makes, and why."""


def _relaxed(record: PassRecord) -> Iterator[Decision]:
    """The places where a pass lets rounding differ, also inside of loops and branches."""
    ops, why = RELAXED.get(record.name, ((), ""))
    there = Counter((node.op, node.location) for node in _nodes(record.before))
    for node in _nodes(record.after) if ops else ():
        if node.op in ops:
            there[node.op, node.location] -= 1
            if there[node.op, node.location] < 0:
                numbers = {"bytes": sum(type.nbytes for type in node.types)}
                what, place = node_text(node), node.location
                yield Decision("rewritten", what, why, place, (), numbers, record.name)


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for region in node.regions:
            yield from _nodes(region)


def node_text(node: Node) -> str:
    """A node without its operands."""
    if node.op == INPUT:
        return f"%{node.attribute('name')}"
    listed = (f" {name}={attribute_text(value)}" for name, value in node.attributes)
    text = "".join(item if len(item) <= 60 else item[:57] + "..." for item in listed)
    return f"{node.op}{text} : {', '.join(map(str, node.types))}"


# -- the plan --------------------------------------------------------------------------------------


def _scheduled(
    scheduler: Scheduler, plan: Plan, names: Mapping[KernelSpec, str], within: str
) -> Iterator[Decision]:
    graph = scheduler.graph
    for decide in (_fused, _kept, _computed_again, _stored, _updates, _checks):
        for decision in decide(scheduler, plan, names):
            yield replace(decision, within=within.strip())
    for identity, inner in scheduler.inner.items():
        step = _step_of(plan, identity)
        for own, each, region in zip(step.plans, inner, _regions(graph.nodes[identity])):
            yield from _scheduled(each, own, names, f"{within}%{identity} {region} ")


def _step_of(plan: Plan, identity: int) -> Loop | Branch:
    """The step of a loop or branch."""
    for step in plan.steps:
        if isinstance(step, Loop | Branch) and step.node == identity:
            return step
    raise LookupError(identity)


def _regions(node: Node) -> tuple[str, ...]:
    names: tuple[str, ...] = lookup(node.op).region_names
    return names


def _bytes(graph: Graph, node: int) -> int:
    return sum(type.nbytes for type in graph.nodes[node].types)


def _label(graph: Graph, node: int) -> str:
    return f"{graph.nodes[node].op} %{node}"


def _fused(scheduler: Scheduler, plan: Plan, names: Mapping[KernelSpec, str]) -> Iterator[Decision]:
    graph = scheduler.graph
    for step in plan.steps:
        if isinstance(step, Launch) and len(step.nodes) > 1:
            yield _fused_launch(graph, step, scheduler.fusion.kept, names[step.kernel])
    for source, reader, why in scheduler.fusion.refused():
        read = f"{_label(graph, source)} with {_label(graph, reader)}, which reads it"
        numbers = {"bytes": _bytes(graph, source)}
        place = graph.nodes[source].location
        yield Decision("not fused", read, why, place, (source, reader), numbers)


def _fused_launch(graph: Graph, step: Launch, kept: Mapping[int, str], name: str) -> Decision:
    first = len(step.reads)
    written = {step.nodes[v.node - first] for v in step.kernel.body.outputs if v.node >= first}
    inside = [node for node in step.nodes if node in kept and node not in written]
    ops = dict.fromkeys(graph.nodes[node].op for node in step.nodes)
    ops.pop(CONSTANT, None)
    why = "each element is computed where it is read"
    numbers = {"nodes": len(step.nodes), "bytes": sum(_bytes(graph, node) for node in inside)}
    return Decision("fused", f"{name}: {', '.join(ops)}", why, step.location, step.nodes, numbers)


def _kept(scheduler: Scheduler, plan: Plan, names: Any) -> Iterator[Decision]:
    graph = scheduler.graph
    for node, why in sorted(scheduler.fusion.kept.items()):
        if why != BUILT_AROUND:
            what = f"{_label(graph, node)} : {', '.join(map(str, graph.nodes[node].types))}"
            place, numbers = graph.nodes[node].location, {"bytes": _bytes(graph, node)}
            yield Decision("kept", what, why, place, (node,), numbers)


def _computed_again(scheduler: Scheduler, plan: Plan, names: Any) -> Iterator[Decision]:
    """Nodes in several kernels, but for index maps and constants, which cost nothing."""
    graph = scheduler.graph
    times: dict[int, int] = {}
    for step in plan.steps:
        for node in step.nodes if isinstance(step, Launch) else ():
            times[node] = times.get(node, 0) + 1
    for node, count in sorted(times.items()):
        cost = getattr(lookup(graph.nodes[node].op), "cost", 0) if _computes(graph, node) else 0
        if count > 1 and cost:
            why = "costs less than storing it and reading it back"
            numbers = {"kernels": count, "additions": cost, "bytes": _bytes(graph, node)}
            place = graph.nodes[node].location
            yield Decision("computed again", _label(graph, node), why, place, (node,), numbers)


def _computes(graph: Graph, node: int) -> bool:
    return graph.nodes[node].op not in (INPUT, CONSTANT)


def _stored(scheduler: Scheduler, plan: Plan, names: Any) -> Iterator[Decision]:
    """Values that lie in another order than their own."""
    graph = scheduler.graph
    for node, each in enumerate(graph.nodes):
        if each.op == "unpack":
            tiled = graph.type_of(each.operands[0])
            what = f"a matrix {each.types[0]} is packed as {tiled}"
            why = "products read it in tiles, in every step or call"
            numbers = {"bytes": tiled.nbytes}
            yield Decision("layout", what, why, each.location, (node,), numbers)
    for group in scheduler.groups:
        if group.anchor is not None and stores_anywhere(graph, group.anchor):
            for node in (node for node in group.nodes if node != group.anchor):
                what = f"{_label(graph, group.anchor)} is stored as {_label(graph, node)}"
                why = "all that reads it reads it in that order"
                place, numbers = graph.nodes[node].location, {"bytes": _bytes(graph, node)}
                yield Decision("layout", what, why, place, (group.anchor, node), numbers)


def _updates(scheduler: Scheduler, plan: Plan, names: Any) -> Iterator[Decision]:
    graph = scheduler.graph
    for position, target in graph.aliases:
        value, why = graph.outputs[position], scheduler.updates[position]
        what = f"%{graph.input_names[target]}"
        kind = "in place" if why is None else "not in place"
        reason = why or "nothing reads the old content later, and nothing can fail any more"
        numbers = {"bytes": graph.type_of(value).nbytes}
        place = graph.nodes[value.node].location
        yield Decision(kind, what, reason, place, (value.node,), numbers)


def _checks(scheduler: Scheduler, plan: Plan, names: Any) -> Iterator[Decision]:
    graph = scheduler.graph
    for check in scheduler.checks:
        nodes = tuple(sorted({graph.outputs[p].node for p in (check.least, check.greatest)}))
        numbers = {} if check.bound is None else {"bound": check.bound}
        why = "the values are known only when it runs"
        yield Decision("check", check.message, why, check.location, nodes, numbers)
    for identity, op, message, (least, greatest) in certain_checks(graph):
        why = f"left out: the values lie in [{least}, {greatest}]"
        place = graph.nodes[identity].location
        yield Decision("check", check_text(op, message), why, place, (identity,))


# -- kernels and threads ---------------------------------------------------------------------------


def _uses(plan: Plan, within: str = "") -> dict[KernelSpec, list[tuple[str, Launch]]]:
    """By kernel its launches, and inside of which loops and branches each is."""
    uses: dict[KernelSpec, list[tuple[str, Launch]]] = {}
    for step in plan.steps:
        if isinstance(step, Launch):
            uses.setdefault(step.kernel, []).append((within.strip(), step))
        elif isinstance(step, Loop | Branch):
            for inner, region in zip(step.plans, _names_of(plan, step)):
                for spec, more in _uses(inner, f"{within}%{step.node} {region} ").items():
                    uses.setdefault(spec, []).extend(more)
    return uses


def _strategy(name: str, note: str, uses: list[tuple[str, Launch]], target: Target) -> Decision:
    within, first = uses[0]
    spec = first.kernel
    numbers: dict[str, Any] = {"launches": len(uses)}
    if spec.recipe == "contract":
        numbers |= {f"cost of {by}": float(f"{c:.3g}") for by, c in _costs(spec, target).items()}
    why = note or f"the loops of the recipe {spec.recipe}"
    if spec.recipe == "contract" and (unused := declined(spec.body, target)):
        why += f"; {unused}"
    return Decision("strategy", name, why, first.location, first.nodes, numbers, within=within)


def _costs(spec: KernelSpec, target: Target) -> dict[str, float]:
    """What the strategies that could make the kernel would cost, each at its best."""
    costs: dict[str, float] = {}
    for problem in problems(spec.body, lanes_for(spec.body, target)):
        for strategy in asked(problem) if problem.has_results else ():
            for plan in strategy.candidates(problem, target):
                name = plan.reason.partition(":")[0]
                costs[name] = min(costs.get(name, plan.cost), plan.cost)
    return dict(sorted(costs.items(), key=lambda item: item[1]))


def _threads(
    plan: Plan, splits: tuple[WorkSplit, ...], names: Mapping[KernelSpec, str], within: str
) -> Iterator[Decision]:
    for step, split in zip(plan.steps, splits, strict=True):
        what = names[step.kernel] if isinstance(step, Launch) else type(step).__name__.lower()
        numbers = {"threads": split.threads, "barrier": int(split.barrier)}
        place, nodes = _place(plan, step), step.nodes if isinstance(step, Launch) else ()
        yield Decision("threads", what, split.reason, place, nodes, numbers, within=within.strip())
        if isinstance(step, Loop | Branch) and split.inner:
            for inner, its, region in zip(step.plans, split.inner, _names_of(plan, step)):
                yield from _threads(inner, its, names, f"{within}%{step.node} {region} ")


def _place(plan: Plan, step: Step) -> Any:
    return next(iter(locations(plan, step)), None)


def _names_of(plan: Plan, step: Loop | Branch) -> tuple[str, ...]:
    assert plan.graph is not None
    return _regions(plan.graph.nodes[step.node])
