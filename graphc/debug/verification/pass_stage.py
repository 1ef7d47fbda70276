"""After every pass: the same outputs as before it, op by op.

The firing of a rule that is to blame is found by bisection: the pass is run again with only its
first n rules allowed, until the one is found with which the outputs begin to differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.debug.places import place_of
from graphc.debug.verification.comparing import Array, ArrayDifference, difference
from graphc.debug.verification.eager_stage import SAME_BITS, output_name
from graphc.debug.verification.findings import Finding, StageResult
from graphc.debug.verification.op_kernels import OpKernels
from graphc.ir.nodes import Location, Value
from graphc.passes.pipelines import LEVELS, RECOGNIZE_ATTENTION, WINOGRAD, Facts, Pass
from graphc.passes.recorder import Firing, PassRecord, Recorder
from graphc.records import record

ROUNDS = frozenset({RECOGNIZE_ATTENTION.name, WINOGRAD.name})
"""The passes of level *relaxed* that may change rounding."""
RELAXED = 2.0**-10
"""How far they may move an output, of its greatest magnitude."""
EXCERPT = 6


@record
class PassCheck:
    """What passes are checked with: their level and facts, the arrays, who computes graphs."""

    level: str
    facts: Facts
    arrays: Sequence[Array]
    kernels: OpKernels

    def stage(self, record: PassRecord, expected: Sequence[Array]) -> StageResult:
        """One pass; `expected` are the outputs before it."""
        bound = RELAXED if record.name in ROUNDS else 0.0
        compared = f"{len(record.before.nodes)} nodes became {len(record.after.nodes)}"
        promise = SAME_BITS if not bound else f"within {bound:.1g} of each output's greatest"
        outputs = self.kernels.outputs(record.after, self.arrays)
        apart = _first_apart(outputs, expected, bound)
        findings = () if apart is None else (self._finding(record, *apart, expected, bound),)
        return StageResult(f"pass {record.name}", compared, promise, findings)

    def _finding(
        self, record: PassRecord, position: int, apart: ArrayDifference,
        expected: Sequence[Array], bound: float,
    ) -> Finding:  # fmt: skip
        step = next((p for p in LEVELS[self.level] if p.name == record.name), None)
        said = f"{output_name(record.after, position)}: {apart}"
        firing = None if step is None else self._guilty(step, record, expected, bound)
        if firing is None:
            first, place = self._first_node(record, bound)
            return Finding(f"the pass {record.name}", first or said, place_of(place), said)
        node = firing.before
        return Finding(
            f"firing {firing.number + 1} of {len(record.firings)} in the pass {record.name}: "
            f"rule {firing.rule}",
            f"{node.op} : {node.types[0]}", place_of(firing.location),
            f"{said}\n{_shown(firing)}",
        )  # fmt: skip

    def _guilty(
        self, step: Pass, record: PassRecord, expected: Sequence[Array], bound: float
    ) -> Firing | None:
        """The firing with which the outputs begin to differ; None where it is no rule's doing."""

        def run(limit: int) -> tuple[bool, Recorder]:
            recorder = Recorder(limit=limit)
            after = recorder.run(
                step.name, record.before, lambda: step.run(record.before, self.facts)
            )
            outputs = self.kernels.outputs(after, self.arrays)
            return _first_apart(outputs, expected, bound) is None, recorder

        good, bad = 0, len(record.firings)
        if not bad or not run(0)[0]:
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if run(middle)[0] else (good, middle)
        firings = run(bad)[1].passes[-1].firings
        return firings[bad - 1] if len(firings) >= bad else None

    def _first_node(self, record: PassRecord, bound: float) -> tuple[str, Location | None]:
        """The first node after the pass that differs from the one it came from, and its place."""
        before = self.kernels.values(record.before, self.arrays)
        after = self.kernels.values(record.after, self.arrays)
        origin = {new[0]: old for old, new in record.became.items() if len(new) == 1}
        for number, node in enumerate(record.after.nodes):
            old = origin.get(number)
            if old is None or record.before.nodes[old].types != node.types:
                continue
            for index in range(len(node.types)):
                x, y = after[Value(number, index)], before[Value(old, index)]
                apart = difference(x, y, _scaled(bound, y))
                if apart is not None:
                    return f"%{number} = {node.op} : {node.types[index]}: {apart}", node.location
        return "", None


def _first_apart(
    outputs: Sequence[Array], expected: Sequence[Array], bound: float
) -> tuple[int, ArrayDifference] | None:
    """The first output that differs (what a pass adds behind them is its own)."""
    for position, (x, y) in enumerate(zip(outputs, expected)):
        apart = difference(x, y, _scaled(bound, y))
        if apart is not None:
            return position, apart
    return None


def _scaled(bound: float, expected: Array) -> float:
    return bound and bound * float(abs(expected.astype(float)).max(initial=0.0))


def _shown(firing: Firing) -> str:
    """What the rule put in place of what: the ends of the graphs that lead there."""
    before, after = (_end(text) for text in firing.texts())
    return f"it turned\n{before}\ninto\n{after}"


def _end(text: str) -> str:
    lines = text.splitlines()[1:-2]
    cut = ["  …"] if len(lines) > EXCERPT else []
    return "\n".join([*cut, *lines[-EXCERPT:]])
