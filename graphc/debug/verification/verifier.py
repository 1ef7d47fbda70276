"""One call through all levels: `verify_call`.

in : a traced call, with its arrays
out: a `Verification`: stage by stage what was compared, and who is to blame for what differs

Level *exact* promises the same bits everywhere: of eager mode by native kernels, of the graph after
every pass, of the plan, of each kernel's loops and native code, of the whole call on any number of
threads. At level *relaxed* two passes may change rounding, and are held to a bound; all stages
behind them are compared with the graph they left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphc.codegen.options import CompileOptions
from graphc.codegen.stages import Stages
from graphc.codegen.target import running
from graphc.debug.traced import TracedCall
from graphc.debug.verification.call_stage import call_stages
from graphc.debug.verification.comparing import Array
from graphc.debug.verification.eager_stage import eager_stage, ops_stage
from graphc.debug.verification.findings import Finding, StageResult, Verification
from graphc.debug.verification.gradient_stage import gradient_stages
from graphc.debug.verification.launch_stage import launch_stage
from graphc.debug.verification.launch_table import LaunchTable
from graphc.debug.verification.op_kernels import OpKernels
from graphc.debug.verification.pass_stage import PassCheck
from graphc.debug.verification.plan_stage import plan_stage
from graphc.debug.verification.rules import with_sentences
from graphc.errors import VerifyError
from graphc.ir.instances import at_sizes
from graphc.ir.verifier import verify
from graphc.passes.pipelines import Facts, optimize
from graphc.passes.recorder import PassRecord, Recorder
from graphc.records import replace
from graphc.schedule.instances import plan_at


class Verifications(tuple[Verification, ...]):
    """One for each native call. It is true where all hold."""

    def __bool__(self) -> bool:
        return all(self)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self))


def verify_calls(calls: Sequence[TracedCall], gradients: bool = False) -> Verifications:
    """Each call through all levels."""
    return Verifications(verify_call(call, gradients) for call in calls)


def verify_call(call: TracedCall, gradients: bool = False) -> Verification:
    """One call through all levels; with `gradients` also the rules that derivatives are made by,
    against numbers. Raises what the call itself raises on its arrays."""
    stages: list[StageResult] = []
    try:
        for stage in _stages(call, gradients):
            stages.append(stage)
    except VerifyError as error:  # of an op's own kernel, which all is compared with
        stages.append(_broken_rule(error, "kernels of ops"))
    return Verification(call.graph.name, call.options.level, tuple(stages))


def _broken_rule(error: VerifyError, stage: str) -> StageResult:
    finding = Finding("a rule of a level is broken", with_sentences(str(error)))
    return StageResult(stage, "numbered rules", "all hold", (finding,))


def _stages(call: TracedCall, gradients: bool) -> Iterator[StageResult]:
    kernels = OpKernels(call.options.target)
    primitive = optimize(verify(call.graph), "none")
    ops, expected = ops_stage(primitive, call.arrays, kernels)
    eager = eager_stage(call, expected)
    if eager is not None:
        yield eager
    yield ops
    if gradients:
        yield from gradient_stages(call, kernels)
    yield from _compiled_stages(call, kernels, expected)


def _compiled_stages(
    call: TracedCall, kernels: OpKernels, expected: Sequence[Array]
) -> Iterator[StageResult]:
    target = running(call.options.target)
    recorder = Recorder()
    broken = None
    opened = call.opened
    graph, example = (call.graph, {}) if opened is None else (opened.graph, opened.example)
    stages = Stages(graph, CompileOptions(call.options.level, target), recorder, example)
    check = PassCheck(call.options.level, Facts(stages.preferred), call.arrays, kernels)
    try:
        planned = stages.plan
    except VerifyError as error:
        broken = error
    count = len(expected)
    for record in _at_sizes(recorder.passes, {} if opened is None else opened.sizes):
        if record.before == record.after:
            continue
        yield check.stage(record, expected)
        expected = kernels.outputs(record.after, call.arrays)[:count]
    if broken is not None:
        yield _broken_rule(broken, "plan")
        return
    if opened is None:
        plan, table = planned, LaunchTable(planned)
    else:
        plan = plan_at(planned, opened.sizes)
        table = LaunchTable(plan, planned, opened.sizes)
    yield plan_stage(plan, call.arrays, expected, kernels)
    yield from launch_stage(table, call.arrays, kernels, target)
    yield from call_stages(call, expected)


def _at_sizes(passes: Sequence[PassRecord], sizes: Mapping[str, int]) -> Iterator[PassRecord]:
    """What passes did, with graphs of numbers, which arrays can be given to."""
    for record in passes:
        if sizes and record.before != record.after:
            before, after = at_sizes(record.before, sizes), at_sizes(record.after, sizes)
            record = replace(record, before=before, after=after)
        yield record
