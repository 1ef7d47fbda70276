"""The plan: its launches in order over its buffers, each body op by op, give the graph's outputs.

Where they do not, the plan is run once more, and each launch compared with the nodes it stands for:
what it reads is not what was written there, so the plan of memory is wrong; or its body computes
something else, so the fusion is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.debug.places import place_of
from graphc.debug.verification.comparing import Array, difference
from graphc.debug.verification.eager_stage import SAME_BITS, output_name
from graphc.debug.verification.findings import Finding, StageResult
from graphc.debug.verification.launch_table import LaunchTable, NumberedLaunch
from graphc.debug.verification.op_kernels import OpKernels
from graphc.debug.verification.rules import with_sentences
from graphc.errors import VerifyError
from graphc.ir.nodes import Value
from graphc.schedule.dependences import MemoryRange, root_buffer_ranges
from graphc.schedule.plan import Branch, KernelSpec, Launch, Loop, Plan, all_steps
from graphc.schedule.plan_verifier import verify_plan
from graphc.schedule.run_plan import POISON, run_plan


def plan_stage(
    plan: Plan, arrays: Sequence[Array], expected: Sequence[Array], kernels: OpKernels
) -> StageResult:
    """The plan against `expected`, the outputs of the graph it was made of."""
    steps = list(all_steps(plan))
    compared = f"{sum(isinstance(step, Launch) for step in steps)} launches, bodies op by op"
    finding = _broken_rule(plan) or _finding(plan, arrays, expected, kernels)
    return StageResult("plan", compared, SAME_BITS, () if finding is None else (finding,))


def _broken_rule(plan: Plan) -> Finding | None:
    try:
        verify_plan(plan)
    except VerifyError as error:
        said = with_sentences(str(error))
        return Finding("the plan breaks a rule of its level", said)
    return None


def _finding(
    plan: Plan, arrays: Sequence[Array], expected: Sequence[Array], kernels: OpKernels
) -> Finding | None:
    def run(spec: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        results = kernels.outputs(spec.body, [read.copy() for read in reads])
        for target, result in zip(writes, results, strict=True):
            target[...] = result.reshape(target.shape)

    outputs = run_plan(plan, tuple(arrays), run)
    for position, (x, y) in enumerate(zip(outputs, expected, strict=True)):
        apart = difference(x, y)
        if apart is None:
            continue
        assert plan.graph is not None
        guilty = _Watch(plan, arrays, kernels).guilty()
        said = f"{output_name(plan.graph, position)}: {apart}"
        if guilty is not None:
            return Finding(guilty.blame, guilty.what, guilty.place, said)
        untouched = " (nothing was written there)" if unwritten(x, y) else ""
        location = plan.graph.nodes[plan.graph.outputs[position].node].location
        return Finding("the plan", said + untouched, place_of(location))
    return None


def unwritten(actual: Array, expected: Array) -> int:
    """Elements that are still poison, and should not be."""
    raw = np.ascontiguousarray(actual).reshape(-1).view(np.uint8).reshape(actual.size, -1)
    still = (raw == POISON).all(1) if actual.size else np.zeros(0, bool)
    wanted = np.ascontiguousarray(expected).reshape(-1).view(np.uint8).reshape(actual.size, -1)
    return int((still & ~(wanted == POISON).all(1)).sum()) if actual.size else 0


class _Watch:
    """Runs a plan and compares what each launch reads and writes with the values of the graph."""

    def __init__(self, plan: Plan, arrays: Sequence[Array], kernels: OpKernels):
        self.table = LaunchTable(plan)
        self.plan = plan
        self.arrays = arrays
        self.kernels = kernels
        assert plan.graph is not None
        self.values = kernels.values(plan.graph, arrays)
        self.at = root_buffer_ranges(plan)
        regions = (s for s in plan.steps if isinstance(s, Loop | Branch))
        self.unknown = {number for step in regions for number in step.buffers}
        self.content: dict[int, Value] = {}
        self.written_by: list[tuple[MemoryRange, NumberedLaunch]] = []
        for number, buffer in enumerate(plan.buffers):
            if buffer.place == "argument":
                self.content[number] = Value(buffer.slot)
        self.finding: Finding | None = None

    def guilty(self) -> Finding | None:
        """Who made the first difference; None where no launch of the plan itself did."""
        run_plan(self.table.plan, tuple(self.arrays), self._run)
        return self.finding

    def _run(self, spec: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        at = self.table.of(spec)
        results = self.kernels.outputs(spec.body, [read.copy() for read in reads])
        if self.finding is None and not at.inner:
            self._check_reads(at, reads)
        for target, result in zip(writes, results, strict=True):
            target[...] = result.reshape(target.shape)
        if self.finding is None and not at.inner:
            self._check_writes(at, writes)

    def _check_reads(self, at: NumberedLaunch, reads: list[Array]) -> None:
        for number, array in zip(at.launch.reads, reads, strict=True):
            value = self.content.get(number)
            if value is None or number in self.unknown:
                continue
            apart = difference(array, self.values[value].reshape(array.shape))
            if apart is not None:
                self.finding = Finding(
                    f"the plan of memory: {self._overwriter(number)}",
                    f"{at} reads b{number}, where %{value.node} was written: {apart}", at.place,
                )  # fmt: skip
                return

    def _overwriter(self, number: int) -> str:
        place, begin, end = self.at[number]
        for (other, first, last), by in reversed(self.written_by):
            if other == place and first < end and begin < last:
                return f"{by} has written over b{number}, which is still read"
        return f"b{number} holds something else than what was written to it"

    def _check_writes(self, at: NumberedLaunch, writes: list[Array]) -> None:
        launch, graph = at.launch, self.plan.graph
        assert graph is not None
        for number, array, output in zip(
            launch.writes, writes, launch.kernel.body.outputs, strict=True
        ):
            value = self._value(launch, output)
            if value is None:
                self.content.pop(number, None)
                continue
            apart = difference(array, self.values[value].reshape(array.shape))
            if apart is not None:
                node = graph.nodes[value.node]
                self.finding = Finding(
                    f"the fusion: the body of {at} does not compute what its nodes do",
                    f"%{value.node} = {node.op} : {node.types[value.index]}: {apart}",
                    place_of(node.location),
                )
                return
            self.content[number] = value
            self.written_by.append((self.at[number], at))

    def _value(self, launch: Launch, output: Value) -> Value | None:
        """The value of the graph that an output of a launch's body stands for."""
        first = len(launch.reads)
        if output.node < first:
            return self.content.get(launch.reads[output.node])
        if not launch.nodes:
            return None
        return Value(launch.nodes[output.node - first], output.index)
