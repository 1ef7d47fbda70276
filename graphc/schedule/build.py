"""Graph → Plan: kernels from fusion groups, buffers with live ranges in one arena.

A graph output that updates an input in place is written straight into that input where no later
kernel reads the old content and no check comes later; otherwise into the arena, and copied at the
end. So a run that raises leaves state as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from graphc.ir.builder import GraphBuilder
from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import CONSTANT, Constant, Graph, Location, Value
from graphc.ir.verifier import verify
from graphc.passes.layouts import Preferred
from graphc.passes.pipelines import optimize
from graphc.schedule.access import behind_reshape, coordinates
from graphc.schedule.bodies import kernel_body, recipe_of, used_results
from graphc.schedule.fusion import fuse
from graphc.schedule.groups import FusionGroup
from graphc.schedule.memory import laid_out
from graphc.schedule.output_layouts import propagate_output_layouts
from graphc.schedule.plan import Check, KernelSpec, Launch, Plan, PlanBuffer, Step, all_checks
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.prepare import CheckValues, with_checks
from graphc.schedule.regions import (
    Stack,
    StackBuffers,
    carries,
    region_graphs,
    region_step,
    stack_buffers,
    stacked_carries,
)

Observer = Callable[[str, Any], None]


def plan_graph(
    graph: Graph,
    level: str = "exact",
    observer: Observer | None = None,
    *,
    preferred: Preferred | None = None,
    fusion: bool = True,
    plan_memory: bool = True,
) -> tuple[Graph, Plan]:
    """Verify, optimise and schedule a graph: the optimised graph and its verified plan.
    `observer(stage, object)` sees the graph after each pass, then the plan. `preferred` are the
    layouts of the target (`optimize`). There is no fusion at level `none`; `fusion` and
    `plan_memory` are those of `make_plan`."""
    optimised = optimize(verify(graph), level, observer, preferred)
    fused = fusion and level != "none"
    plan = verify_plan(make_plan(optimised, fusion=fused, plan_memory=plan_memory))
    if observer is not None:
        observer("plan", plan)
    return optimised, plan


def make_plan(graph: Graph, *, fusion: bool = True, plan_memory: bool = True) -> Plan:
    """The plan of a graph of primitive ops. With `fusion` false: one kernel and buffer per op. With
    `plan_memory` false each buffer has a place of its own in the arena."""
    prepared, checks = with_checks(propagate_output_layouts(graph) if fusion else graph)
    before = _checks_before(prepared, checks)
    groups = _checks_first(prepared, fuse(prepared, enabled=fusion, before=before), checks)
    options = {"fusion": fusion, "plan_memory": plan_memory}
    return _Builder(prepared, groups, checks, len(graph.outputs), options).plan()


def _checks_before(graph: Graph, checks: list[CheckValues]) -> dict[int, frozenset[int]]:
    """For each node behind content checks the nodes that compute what the checks test."""
    before: dict[int, frozenset[int]] = {}
    for check in checks:
        tested = frozenset(graph.outputs[p].node for p in (check.least, check.greatest))
        for node in check.protected:
            before[node] = before.get(node, frozenset()) | tested
    return before


def _checks_first(
    graph: Graph, groups: list[FusionGroup], checks: list[CheckValues]
) -> list[FusionGroup]:
    """The groups reordered so that those a check depends on run before all others."""
    owner = {identity: group for group in groups for identity in group.nodes}
    roots = [
        owner[graph.outputs[position].node]
        for check in checks
        for position in (check.least, check.greatest)
        if graph.outputs[position].node in owner
    ]
    needed = reachable(
        roots, lambda group: [owner[v.node] for v in group.sources if v.node in owner]
    )
    return sorted(groups, key=lambda group: group not in needed)


# A group, what it runs (a kernel's body, or the plans of a loop or branch), reads, writes.
_Launch = tuple[FusionGroup, Graph | tuple[Plan, ...], list[Value], list[Value]]


class _Builder:
    def __init__(
        self, graph: Graph, groups: list[FusionGroup], checks: list[CheckValues], outputs: int,
        options: dict[str, bool],
    ):  # fmt: skip
        self.graph = graph
        self.options = options
        self.groups = groups
        self.checks = checks
        self.output_count = outputs
        self.buffers: list[PlanBuffer] = []
        self.buffer_of: dict[Value, int] = {}
        self.steps: list[Step] = []
        self.constants: list[Constant] = []
        self.stacks: dict[int, dict[int, Stack]] = {}  # by loop, by carry
        self.kept = {identity for group in groups for identity in group.nodes}

    def plan(self) -> Plan:
        graph = self.graph
        for slot, type in enumerate(graph.input_types):
            self.buffer_of[Value(slot)] = self._buffer(PlanBuffer(type, "argument", slot))
        read_outside = self._values_read_outside()
        unchecked = {position: check for check in self.checks for position in (check.greatest,)}
        launches: list[_Launch] = []
        used = used_results(graph)
        for group in self.groups:
            writes = [
                value
                for identity in group.nodes
                for index in used[identity]
                if (value := Value(identity, index)) in read_outside[id(group)]
            ]
            if not writes:
                continue  # nothing needs it: at level none dead nodes are still there
            body: Graph | tuple[Plan, ...]
            if recipe_of(graph, group.anchor) == "region":
                body, reads, writes = self._region(group)
            else:
                body, reads = kernel_body(graph, group.nodes, writes, self.kept)
            launches.append((group, body, reads, writes))
        in_place = self._in_place(launches)
        direct = self._direct_outputs(in_place)
        done: set[Value] = set()
        for group, body, reads, writes in launches:
            stacks = self._stack_buffers(group)
            for value in writes:
                if value in self.buffer_of:
                    continue  # a part of a stack
                buffer = in_place.get(value, direct.get(value))
                self.buffer_of[value] = (
                    buffer if buffer is not None
                    else self._buffer(PlanBuffer(graph.type_of(value), "arena", -1))
                )  # fmt: skip
            if isinstance(body, Graph):
                location = graph.nodes[max(group.nodes)].location
                kernel = KernelSpec(recipe_of(graph, group.anchor), body)
                self._launch(kernel, reads, writes, location)
            else:
                self._run_region(group.nodes[0], body, reads, writes, stacks)
            done.update(writes)
            for position in [p for p in unchecked if graph.outputs[p] in done]:
                self._check(unchecked.pop(position))
        outputs = self._finish_outputs(in_place, direct)
        return self._placed(outputs)

    # -- pieces ------------------------------------------------------------------------------

    def _region(self, group: FusionGroup) -> tuple[tuple[Plan, ...], list[Value], list[Value]]:
        """A loop or branch: its plans, what it reads, and its results, also those nobody reads."""
        (identity,) = group.nodes
        node = self.graph.nodes[identity]
        returned = {value.index for value in self.graph.outputs if value.node == identity}
        stacks = self.stacks[identity] = stacked_carries(node, returned)
        plans = tuple(make_plan(g, **self.options) for g in region_graphs(node, stacks))
        writes = [Value(identity, index) for index in range(len(node.types))]
        carry = carries(node)
        rest = [behind_reshape(self.graph, value, self.kept) for value in node.operands[carry:]]
        return plans, [*node.operands[:carry], *rest], writes

    def _stack_buffers(self, group: FusionGroup) -> dict[int, StackBuffers]:
        """By carry the stack it lies in. The node's results that are parts of it have buffers."""
        buffers = {}
        identity = group.nodes[0]
        for carry, stack in self.stacks.get(identity, {}).items():
            stack_of_carry = stack_buffers(self.graph.nodes[identity], carry, self._buffer)
            buffers[carry] = stack_of_carry
            self.buffer_of[Value(identity, carry)] = stack_of_carry.last
            self.buffer_of.update({Value(identity, y): stack_of_carry.begun for y in stack.begun})
            self.buffer_of.update({Value(identity, y): stack_of_carry.left for y in stack.left})
        return buffers

    def _run_region(
        self, identity: int, plans: tuple[Plan, ...], reads: list[Value], writes: list[Value],
        stacks: dict[int, StackBuffers],
    ) -> None:  # fmt: skip
        node = self.graph.nodes[identity]
        carry = carries(node)
        arguments, results = [], [self.buffer_of[value] for value in writes]
        for number, value in enumerate(reads[:carry]):
            stack = stacks.get(number)
            # Carries are read from their results, or slice by slice from their stacks.
            self._copy(value, results[number] if stack is None else stack.first)
            arguments.append(results[number] if stack is None else stack.begun)
            results[number] = results[number] if stack is None else stack.left
        arguments += [self._source(value) for value in reads[carry:]]
        self.steps.append(
            region_step(node, plans, self.stacks[identity], arguments, results, self._buffer,
                        self._constant)
        )  # fmt: skip

    def _buffer(self, buffer: PlanBuffer) -> int:
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def _values_read_outside(self) -> dict[int, set[Value]]:
        """For each group its values that other groups, or the graph's outputs, need."""
        owner = {identity: id(group) for group in self.groups for identity in group.nodes}
        needed: dict[int, set[Value]] = {id(group): set() for group in self.groups}
        for group in self.groups:
            for value in group.sources:
                source = owner.get(value.node)
                if source is not None and source != id(group):
                    needed[source].add(value)
        for output in self.graph.outputs:
            if output.node in owner:
                needed[owner[output.node]].add(output)
        return needed

    def _in_place(self, launches: list[_Launch]) -> dict[Value, int]:
        """The values that may be written straight into the input they update."""
        graph = self.graph
        written_at = {v: i for i, (_, _, _, writes) in enumerate(launches) for v in writes}
        last_read = {v: i for i, (_, _, reads, _) in enumerate(launches) for v in reads}
        times = Counter(graph.outputs)
        check_values = {graph.outputs[c.greatest] for c in self.checks}
        holding = [
            at for at, (_, body, _, _) in enumerate(launches)
            if not isinstance(body, Graph) and any(all_checks(plan) for plan in body)
        ]  # fmt: skip
        tested = [written_at.get(value, -1) for value in check_values]
        last_check = max([*tested, *holding], default=-1)
        result: dict[Value, int] = {}
        for position, target in graph.aliases:
            value = graph.outputs[position]
            at = written_at.get(value)
            if at is None or Value(target) in times or times[value] > 1:
                continue
            group = launches[at][0]
            if recipe_of(graph, group.anchor) == "region":
                continue  # its carries are first copied into its results
            by_element = recipe_of(graph, group.anchor) in ("nest", "contract")
            full = by_element and graph.type_of(value).shape == group.domain
            own = [read for read in group.reads if read.value == Value(target)]
            same = all(r.index == coordinates(group.domain) and not r.reduced for r in own)
            later = last_read.get(Value(target), -1) > at
            read_here = bool(own) and not (full and same)
            if at > last_check and not later and not read_here:
                result[value] = target
        return result

    def _direct_outputs(self, in_place: dict[Value, int]) -> dict[Value, int]:
        """The values written straight into an output array."""
        result: dict[Value, int] = {}
        placed = {Value(node, i) for node, stacks in self.stacks.items() for i in stacks}
        placed.update(in_place)
        aliased = {position for position, _ in self.graph.aliases}
        for position in range(self.output_count):
            value = self.graph.outputs[position]
            computed = value.node in self.kept
            if computed and position not in aliased and value not in placed:
                placed.add(value)
                type = self.graph.type_of(value)
                result[value] = self._buffer(PlanBuffer(type, "output", position))
        return result

    def _launch(
        self, kernel: KernelSpec, reads: list[Value], writes: list[Value], location: Location | None
    ) -> None:
        self.steps.append(
            Launch(
                kernel,
                tuple(self._source(value) for value in reads),
                tuple(self.buffer_of[value] for value in writes),
                location,
            )
        )

    def _source(self, value: Value) -> int:
        """The buffer of a value that is read; constants get theirs here."""
        if value not in self.buffer_of:
            constant = self.graph.nodes[value.node].attribute("value")
            self.buffer_of[value] = self._constant(constant)
        return self.buffer_of[value]

    def _constant(self, constant: Constant) -> int:
        self.constants.append(constant)
        return self._buffer(PlanBuffer(constant.type, "constant", len(self.constants) - 1))

    def _check(self, check: CheckValues) -> None:
        least, greatest = (
            self.buffer_of[self.graph.outputs[position]]
            for position in (check.least, check.greatest)
        )
        self.steps.append(Check(least, greatest, check.bound, check.message, check.location))

    def _finish_outputs(self, in_place: dict[Value, int], direct: dict[Value, int]) -> list[int]:
        """Copies for outputs that are not written where they belong."""
        targets = dict(self.graph.aliases)
        self._keep_old_content(targets)
        outputs = []
        for position in range(self.output_count):
            value = self.graph.outputs[position]
            target = targets.get(position)
            if target is not None:
                if self.buffer_of.get(value) != target:
                    self._copy(value, target)
                outputs.append(target)
            elif value in direct and self.buffers[direct[value]].slot == position:
                outputs.append(direct[value])
            else:
                fresh = self._buffer(PlanBuffer(self.graph.type_of(value), "output", position))
                # An input updated in place is copied out before its update is committed.
                self._copy(value, fresh)
                outputs.append(fresh)
        return outputs

    def _keep_old_content(self, targets: dict[int, int]) -> None:
        """Inputs that become the new content of other inputs (a swap) are copied to the arena
        before any of them is overwritten."""
        for position, target in targets.items():
            value = self.graph.outputs[position]
            own = self.buffer_of.get(value)
            if own is None or own == target or value != Value(own):
                continue
            if own in targets.values():
                kept = self._buffer(PlanBuffer(self.graph.type_of(value), "arena", -1))
                self._copy(value, kept)
                self.buffer_of[value] = kept

    def _copy(self, value: Value, target: int) -> None:
        builder = GraphBuilder("copy")
        with builder.at(None):
            node = self.graph.nodes[value.node]
            constant = node.attribute("value") if node.op == CONSTANT else None
            if constant is not None and constant.scalar is not None:
                body = builder.finish(builder.constant(constant))
                reads: tuple[int, ...] = ()
            else:
                handle = builder.input("x0", self.graph.type_of(value))
                body, reads = builder.finish(handle), (self._source(value),)
        self.steps.append(Launch(KernelSpec("nest", body), reads, (target,), node.location))

    def _placed(self, outputs: list[int]) -> Plan:
        graph = self.graph
        steps = _copies_out_first(tuple(self.steps), self.buffers)
        buffers, total, least = laid_out(
            steps, self.buffers, range(len(steps)), self.options["plan_memory"]
        )
        return Plan(
            graph.name, graph.input_types, graph.output_types[: self.output_count], graph.aliases,
            buffers, steps, tuple(self.constants), tuple(outputs), total, least,
        )  # fmt: skip


def _copies_out_first(steps: tuple[Step, ...], buffers: list[PlanBuffer]) -> tuple[Step, ...]:
    """Copies into arguments (commits of state) moved behind all other steps, so that a copy of
    the old content to an output still finds it."""

    def commits(step: Step) -> bool:
        return (
            isinstance(step, Launch)
            and step.kernel.body.name == "copy"
            and buffers[step.writes[0]].place == "argument"
        )

    return tuple(sorted(steps, key=commits))
