"""A profile as a Chrome trace: JSON that chrome://tracing, Perfetto and speedscope show.

One process per call, one row per thread; launches, checks and waits as they followed each other in
the best pass, loops and branches as what encloses theirs. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphc.debug.profile.profiler import Profile, StepProfile

Span = tuple[int, float, float]
"""A slot (2n: the wait before step n, 2n + 1: step n), when it began and was over."""


def chrome_trace(profile: Profile, process: int = 1) -> dict[str, Any]:
    """The trace as an object for `json.dump`; `process` numbers the call."""
    begin = min(began for began, _ in profile.events)
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": process, "name": "process_name", "args": {"name": profile.name}}
    ]
    for thread, (began, ends) in enumerate(profile.events):
        named = {"name": f"thread {thread}"}
        head = {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": named}
        events.append(head)
        spans = list(_spans(began - begin, [(slot, over - begin) for slot, over in ends]))
        events += [_event(profile, process, thread, span) for span in _regions(profile, spans)]
        events += [_event(profile, process, thread, span) for span in spans]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _spans(began: int, ends: list[tuple[int, int]]) -> Iterator[Span]:
    """Each event begins when the one before it was over."""
    last = began
    for slot, over in ends:
        yield slot, last / 1e3, over / 1e3
        last = over


def _regions(profile: Profile, spans: list[Span]) -> Iterator[Span]:
    """For each loop and branch one span from its first event to its last, the outer ones first."""
    bounds: dict[int, tuple[float, float]] = {}
    for slot, begin, end in spans:
        for number in profile.steps[slot // 2].within:
            first, _ = bounds.get(number, (begin, end))
            bounds[number] = (first, end)
    for number, (begin, end) in sorted(bounds.items()):
        yield 2 * number + 1, begin, end


def _event(profile: Profile, process: int, thread: int, span: Span) -> dict[str, Any]:
    slot, begin, end = span
    step = profile.steps[slot // 2]
    event = {
        "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": end - begin,
        "name": step.name if slot % 2 else "wait", "cat": step.kind if slot % 2 else "wait",
    }  # fmt: skip
    return {**event, "args": _facts(step)} if slot % 2 else event


def _facts(step: StepProfile) -> dict[str, Any]:
    facts: dict[str, Any] = {"step": step.number}
    place = step.place
    facts |= {
        name: value
        for name, value in (("line", place.line), ("module", place.module), ("phase", place.phase))
        if value
    }
    if step.limit is not None:
        facts |= {"limit": step.limit.bound, "reached": round(step.fraction, 3)}
    return facts
