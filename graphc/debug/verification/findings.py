"""What verification comes to: what was compared at each stage, and what differed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from graphc.debug.places import SourcePlace
from graphc.records import record

NOWHERE = SourcePlace()


@record
class Finding:
    """Something that is not as promised. `blame` names who made it so: a rule, a pass, the fusion,
    a kernel, the plan, the driver; `what` is the first node that differs and how, `place` the line
    and module it stems from; `detail` more lines."""

    blame: str
    what: str
    place: SourcePlace = NOWHERE
    detail: str = ""

    def lines(self) -> Iterator[str]:
        yield f"blame: {self.blame}"
        yield f"first: {self.what}" + (f" at {self.place}" if str(self.place) else "")
        yield from self.detail.splitlines()


@record
class StageResult:
    """One stage: what was compared, what is promised, and what broke it."""

    name: str
    compared: str
    promise: str
    findings: tuple[Finding, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.findings

    def lines(self) -> Iterator[str]:
        mark = "ok  " if self.holds else "DIFF"
        yield f"{mark}  {self.name}: {self.compared}, {self.promise}"
        for finding in self.findings:
            yield textwrap.indent("\n".join(finding.lines()), " " * 8)


@record
class Verification:
    """One call, stage by stage. It is true where all of them hold."""

    name: str
    level: str
    stages: tuple[StageResult, ...]

    def __bool__(self) -> bool:
        return not self.findings

    @property
    def findings(self) -> list[Finding]:
        return [finding for stage in self.stages for finding in stage.findings]

    def __str__(self) -> str:
        told = "holds" if self else f"{len(self.findings)} findings"
        head = f"{self.name}, level {self.level}: {told}"
        return "\n".join([head, *(line for stage in self.stages for line in stage.lines())])
