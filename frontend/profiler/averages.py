"""What a profiler recorded: single events, and their sums by name, as a table."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class FunctionEvent:
    """One operation, or named block, that ran: nanoseconds of `time.perf_counter_ns`."""

    name: str
    start: int
    end: int
    thread: int
    input_shapes: Shapes
    category: str
    """"cpu_op", "user_annotation", "compiled" (a call), "launch" (of a kernel in it)."""
    place: str = ""
    """The line that it is of, where it is known."""

    @property
    def is_user_annotation(self) -> bool:
        return self.category == "user_annotation"

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds."""
        return (self.end - self.start) / 1000


@dataclass(slots=True)
class FunctionEventAvg:
    """All events of one name: microseconds, those of what ran inside left out of `self_…`."""

    key: str
    input_shapes: Shapes
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count


class EventList(list[Any]):
    """Events, or their averages."""

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """One entry for each name (and shapes of operands)."""
        groups: dict[Any, FunctionEventAvg] = {}
        for event, own in self._with_own_times():
            shapes = event.input_shapes if group_by_input_shape else ()
            entry = groups.setdefault((event.name, shapes), FunctionEventAvg(event.name, shapes))
            entry.count += 1
            entry.cpu_time_total += event.cpu_time_total
            entry.self_cpu_time_total += own
        return EventList(groups.values())

    def _with_own_times(self) -> list[tuple[FunctionEvent, float]]:
        """Each event with its time less that of the events inside it."""
        inside: dict[int, float] = defaultdict(float)
        open_by_thread: dict[int, list[tuple[int, FunctionEvent]]] = defaultdict(list)
        for index, event in enumerate(self):
            open_events = open_by_thread[event.thread]
            while open_events and open_events[-1][1].end <= event.start:
                open_events.pop()
            if open_events and event.end <= open_events[-1][1].end:
                inside[open_events[-1][0]] += event.cpu_time_total
            open_events.append((index, event))
        return [(event, event.cpu_time_total - inside[i]) for i, event in enumerate(self)]

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all."""
        entries = (
            self if all(isinstance(x, FunctionEventAvg) for x in self) else self.key_averages()
        )
        return sum(entry.self_cpu_time_total for entry in entries)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **others: Any) -> str:
        """A table of at most `row_limit` rows. Raises ValueError for what it has no column of."""
        entries = list(self)
        if sort_by is not None:
            name = sort_by.replace("device_", "cpu_").replace("cuda_", "cpu_")
            if name not in ("cpu_time_total", "self_cpu_time_total", "cpu_time", "count"):
                raise ValueError(f"a profile cannot be sorted by {sort_by!r}")
            entries.sort(key=lambda entry: getattr(entry, name), reverse=True)
        total = sum(entry.self_cpu_time_total for entry in entries) or 1.0
        head = ("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        rows = [head] + [
            (
                entry.key, f"{100 * entry.self_cpu_time_total / total:.2f}%",
                _shown(entry.self_cpu_time_total), _shown(entry.cpu_time_total),
                _shown(entry.cpu_time), str(entry.count),
            )
            for entry in entries[: row_limit if row_limit >= 0 else None]
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
        rule = "-" * len(lines[0])
        shown = [rule, lines[0], rule, *lines[1:], rule]
        return "\n".join(shown) + f"\nSelf CPU time total: {_shown(total)}\n"


def _shown(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    return f"{microseconds / 1e3:.3f}ms" if microseconds >= 1e3 else f"{microseconds:.3f}us"
