"""The whole call as it is made: one native entry, on one thread and on all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.debug.places import place_of
from graphc.debug.traced import TracedCall
from graphc.debug.verification.comparing import Array, difference
from graphc.debug.verification.eager_stage import SAME_BITS, output_name
from graphc.debug.verification.findings import Finding, StageResult
from graphc.runtime.executable import Executable
from graphc.runtime.filled_memory import fill_memory
from graphc.schedule.run_plan import POISON

CALLS = 3
"""On several threads, since what is wrong with their order need not show each time."""


def call_stages(call: TracedCall, expected: Sequence[Array]) -> Iterator[StageResult]:
    """The call against `expected`, on one thread, then on as many as its options allow."""
    yield _stage(call, call.executable(threads=1), expected, "the driver")
    several = call.executable()
    if several.schedule.threads > 1:
        yield _stage(call, several, expected, "the schedule over threads, or their barriers")


def _stage(
    call: TracedCall, executable: Executable, expected: Sequence[Array], blame: str
) -> StageResult:
    threads = executable.schedule.threads
    calls = CALLS if threads > 1 else 1
    finding = None
    fill_memory(executable, POISON)
    for _ in range(calls):
        finding = finding or _finding(call, executable(*call.fresh()), expected, blame)
    compared = f"{len(expected)} outputs of {calls} call{'s' * (calls > 1)}"
    name = f"call on {threads} thread{'s' * (threads > 1)}"
    return StageResult(name, compared, SAME_BITS, () if finding is None else (finding,))


def _finding(
    call: TracedCall, outputs: Sequence[Array], expected: Sequence[Array], blame: str
) -> Finding | None:
    graph = call.graph
    for position, (x, y) in enumerate(zip(outputs, expected, strict=True)):
        apart = difference(x, y)
        if apart is not None:
            location = graph.nodes[graph.outputs[position].node].location
            return Finding(blame, f"{output_name(graph, position)}: {apart}", place_of(location))
    return None
