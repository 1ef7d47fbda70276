"""The native calls of a traced object, profiled: what `fn.profile()` and `graphc profile` give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphc.debug.files import write_file
from graphc.debug.profile.chrome_trace import chrome_trace
from graphc.debug.profile.profiler import SECONDS, Profile, profile
from graphc.debug.profile.table import text
from graphc.debug.traced import TracedCall


class Profiles(tuple[Profile, ...]):
    """One `Profile` for each native call: of a step, or of a forward and a backward."""

    def __str__(self) -> str:
        return "\n\n".join("\n".join(text(each)) for each in self)

    def chrome_trace(self) -> dict[str, Any]:
        """All calls as one Chrome trace, each a process of its own."""
        traces = [chrome_trace(each, number) for number, each in enumerate(self, 1)]
        events = [event for trace in traces for event in trace["traceEvents"]]
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save_trace(self, path: str | Path) -> None:
        """Write the Chrome trace as JSON. Raises ArgumentError where the file cannot be written."""
        write_file(path, json.dumps(self.chrome_trace()), "the trace")


def profile_calls(calls: Sequence[TracedCall], seconds: float = SECONDS) -> Profiles:
    """Each call run on its arrays for about so many seconds."""
    return Profiles(profile(call.executable(), call.arrays, seconds) for call in calls)
