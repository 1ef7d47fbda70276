"""Graph → Plan: kernels from fusion groups, buffers with live ranges in one arena.

A graph output that updates an input in place is written straight into that input where no later
kernel reads the old content and no check comes later; otherwise into the arena, and copied at the
end. So a run that raises leaves state as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import Extent
from graphc.ir.instances import with_own_names
from graphc.ir.nodes import CONSTANT, Constant, Graph, Location, Value
from graphc.ir.size_guards import answered_by, current_example, nearest
from graphc.ir.symbols import symbols_of
from graphc.ir.verifier import verify
from graphc.passes.layouts import Preferred
from graphc.passes.pipelines import optimize
from graphc.passes.recorder import Recorder
from graphc.records import replace
from graphc.schedule.access import behind_reshape
from graphc.schedule.bodies import kernel_body, main_node, recipe_of, used_results
from graphc.schedule.box_updates import box_update
from graphc.schedule.fusion import Fusion
from graphc.schedule.groups import FusionGroup, GroupLaunch
from graphc.schedule.in_place import in_place_refusals
from graphc.schedule.memory import laid_out
from graphc.schedule.plan import Check, KernelSpec, Launch, Plan, PlanBuffer, Step
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.prepare import CheckValues, checks_before, checks_first, prepare
from graphc.schedule.regions import (
    Stack,
    StackBuffers,
    carries,
    region_graphs,
    region_step,
    stack_buffers,
    stacked_carries,
)


def plan_graph(
    graph: Graph,
    level: str = "exact",
    recorder: Recorder | None = None,
    *,
    preferred: Preferred | None = None,
    fusion: bool = True,
    plan_memory: bool = True,
    example: Mapping[str, int] | None = None,
) -> tuple[Graph, Plan]:
    """Verify, optimise and schedule a graph: the optimised graph and its verified plan.
    `recorder` notes the passes, and gets the plan. `preferred` are the layouts of the target
    (`optimize`). There is no fusion at level `none`; `fusion` and
    `plan_memory` are those of `make_plan`. Sizes known only at run time are decided on as for the
    `example`; the plan's guards say where that is right."""
    graph, _, plan = scheduled(
        graph, level, recorder, preferred=preferred, fusion=fusion, plan_memory=plan_memory,
        example=example,
    )  # fmt: skip
    return graph, plan


def optimised(
    graph: Graph, level: str, recorder: Recorder | None = None, *,
    preferred: Preferred | None = None, example: Mapping[str, int] | None = None,
) -> Graph:  # fmt: skip
    """The graph that `plan_graph` schedules."""
    with answered_by(example_for(graph, example or {})):
        return optimize(verify(graph), level, recorder, preferred)


def scheduled(
    graph: Graph, level: str, recorder: Recorder | None, *, preferred: Preferred | None,
    fusion: bool, plan_memory: bool, example: Mapping[str, int] | None,
) -> tuple[Graph, Scheduler, Plan]:  # fmt: skip
    """What `plan_graph` gives, and between both what made the plan."""
    with answered_by(example_for(graph, example or {})) as answers:
        graph = optimize(verify(graph), level, recorder, preferred)
        enabled = fusion and level != "none"
        scheduler = Scheduler(graph, fusion=enabled, plan_memory=plan_memory, recorder=recorder)
        plan = scheduler.plan()
    plan = verify_plan(replace(plan, guards=answers.guards))
    if recorder is not None:
        recorder.plan = plan
    return graph, scheduler, plan


def example_for(graph: Graph, known: Mapping[str, int]) -> dict[str, int]:
    """A size for each symbol of a graph: what is known, or something in its bounds. Raises
    SizeBoundError for one out of its bounds."""
    example = {s.name: known.get(s.name, nearest(s)) for s in symbols_of(graph)}
    for symbol in symbols_of(graph):
        symbol.check(example[symbol.name])
    return example


def make_plan(
    graph: Graph, *, fusion: bool = True, plan_memory: bool = True,
    recorder: Recorder | None = None,
) -> Plan:  # fmt: skip
    """The plan of a graph of primitive ops. With `fusion` false: one kernel and buffer per op. With
    `plan_memory` false each buffer has a place of its own in the arena."""
    return Scheduler(graph, fusion=fusion, plan_memory=plan_memory, recorder=recorder).plan()


class Scheduler:
    """Makes the plan of a graph of primitive ops (`make_plan`), and keeps the reasons of what it
    decided: `fusion` those of kernels, `updates` by position of an output that updates an input why
    it is not written straight into that (None: it is), `inner` the schedulers of the plans inside
    of loops and branches by node."""

    fusion_of: type[Fusion] = Fusion  # what makes the kernels

    def __init__(
        self, graph: Graph, *, fusion: bool = True, plan_memory: bool = True,
        recorder: Recorder | None = None,
    ):  # fmt: skip
        self.graph, self.checks = prepare(graph, fusion, recorder)
        before = checks_before(self.graph, self.checks)
        self.fusion = self.fusion_of(self.graph, enabled=fusion, before=before)
        self.groups = checks_first(self.graph, self.fusion.groups, self.checks)
        self.options: Any = {"fusion": fusion, "plan_memory": plan_memory}
        self.output_count = len(graph.outputs)
        self.buffers: list[PlanBuffer] = []
        self.buffer_of: dict[Value, int] = {}
        self.steps: list[Step] = []
        self.constants: list[Constant] = []
        self.stacks: dict[int, dict[int, Stack]] = {}  # by loop, by carry
        self.kept = {identity for group in self.groups for identity in group.nodes}
        self.updates: dict[int, str | None] = {}
        self.inner: dict[int, list[Scheduler]] = {}

    def plan(self) -> Plan:
        graph = self.graph
        for slot, type in enumerate(graph.input_types):
            self.buffer_of[Value(slot)] = self._buffer(PlanBuffer(type, "argument", slot))
        read_outside = self._values_read_outside()
        unchecked = {position: check for check in self.checks for position in (check.greatest,)}
        launches: list[GroupLaunch] = []
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
            if recipe_of(graph, group.anchor) == "region":
                launches.append(self._region(group))
            else:
                body, nodes, reads = kernel_body(graph, group.nodes, writes, self.kept)
                launches.append(GroupLaunch(group, body, nodes, reads, writes))
        self.updates = in_place_refusals(graph, launches, self.checks)
        in_place = {
            graph.outputs[position]: target
            for position, target in graph.aliases
            if self.updates[position] is None
        }
        direct = self._direct_outputs(in_place)
        done: set[Value] = set()
        for group, runs, nodes, reads, writes in launches:
            stacks = self._stack_buffers(group)
            for value in writes:
                if value in self.buffer_of:
                    continue  # a part of a stack
                buffer = in_place.get(value, direct.get(value))
                self.buffer_of[value] = (
                    buffer if buffer is not None
                    else self._buffer(PlanBuffer(graph.type_of(value), "arena", -1))
                )  # fmt: skip
            if isinstance(runs, Graph):
                location = graph.nodes[main_node(graph, group)].location
                body, sizes = with_own_names(runs)
                recipe = recipe_of(graph, group.anchor)
                if recipe == "nest" and (update := box_update(body)) is not None:
                    same = self.buffer_of[writes[0]] == self.buffer_of.get(reads[update.kept])
                    recipe = "update" if same else recipe
                kernel = KernelSpec(recipe, body)
                self._launch(kernel, reads, writes, sizes, location, nodes)
            else:
                self._run_region(group.nodes[0], runs, reads, writes, stacks)
            done.update(writes)
            for position in [p for p in unchecked if graph.outputs[p] in done]:
                self._check(unchecked.pop(position))
        outputs = self._finish_outputs(in_place, direct)
        return self._placed(outputs)

    # -- pieces ------------------------------------------------------------------------------

    def _region(self, group: FusionGroup) -> GroupLaunch:
        """A loop or branch: its plans, what it reads, and its results, also those nobody reads."""
        (identity,) = group.nodes
        node = self.graph.nodes[identity]
        returned = {value.index for value in self.graph.outputs if value.node == identity}
        stacks = self.stacks[identity] = stacked_carries(node, returned)
        inner = [type(self)(g, **self.options) for g in region_graphs(node, stacks)]
        self.inner[identity] = inner
        plans = tuple(each.plan() for each in inner)
        writes = [Value(identity, index) for index in range(len(node.types))]
        carry = carries(node)
        rest = [behind_reshape(self.graph, value, self.kept) for value in node.operands[carry:]]
        return GroupLaunch(group, plans, [identity], [*node.operands[:carry], *rest], writes)

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
        step = region_step(
            node, plans, self.stacks[identity], arguments, results, self._buffer, self._constant
        )
        self.steps.append(replace(step, node=identity))

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
        self, kernel: KernelSpec, reads: list[Value], writes: list[Value],
        sizes: tuple[Extent, ...], location: Location | None, nodes: list[int],
    ) -> None:  # fmt: skip
        self.steps.append(
            Launch(
                kernel,
                tuple(self._source(value) for value in reads),
                tuple(self.buffer_of[value] for value in writes),
                sizes,
                location,
                tuple(nodes),
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
        self.steps.append(
            Check(least, greatest, check.bound, check.message, check.location, check.raises)
        )

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
        own, sizes = with_own_names(body)
        self.steps.append(Launch(KernelSpec("nest", own), reads, (target,), sizes, node.location))

    def _placed(self, outputs: list[int]) -> Plan:
        graph = self.graph
        steps = _copies_out_first(tuple(self.steps), self.buffers)
        buffers, total, least = laid_out(
            steps, self.buffers, range(len(steps)), self.options["plan_memory"]
        )
        return Plan(
            graph.name, graph.input_types, graph.output_types[: self.output_count], graph.aliases,
            buffers, steps, tuple(self.constants), tuple(outputs), total, least, graph,
            tuple(sorted(current_example().items())),
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
