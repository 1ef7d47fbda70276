"""`torch.utils.benchmark`: statements timed as `timeit` times them, on a number of threads that is
set for it, and tables of what was measured. Other names raise NotImplementedError when used."""

from __future__ import annotations

import math
import sys
import textwrap
import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from frontend.engine.tensors.threads import get_num_threads, set_num_threads
from frontend.namespace.stubs import stubs

_ABSENT = stubs("utils.benchmark")
globals().update(_ABSENT)
__all__ = [*_ABSENT, "Compare", "Measurement", "TaskSpec", "Timer"]

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
NAMES = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


def select_unit(seconds: float) -> tuple[str, float]:
    """The unit in which a time is one to a thousand, and how many seconds it has."""
    fitting = [(unit, scale) for unit, scale in UNITS.items() if seconds >= scale]
    return fitting[-1] if fitting else ("ns", 1e-9)


@dataclass(frozen=True)
class TaskSpec:
    """What was timed. Equal ones are measurements of the same thing."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        beside = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{beside}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" not in self.setup:
            return f"setup: {self.setup}"
        return f"setup:\n{textwrap.indent(self.setup, '  ')}"


@dataclass(repr=False)
class Measurement:
    """Some runs of a statement: `raw_times` are seconds of `number_per_run` runs each. What is told
    of them (`times`, `median`, `mean`, `iqr`) is in seconds of one run."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__ or name == "title":
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}")

    @property
    def times(self) -> list[float]:
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        return float(np.median(self._some()))

    @property
    def mean(self) -> float:
        return float(np.mean(self._some()))

    @property
    def iqr(self) -> float:
        """The distance between the first and the third quartile."""
        quartiles = np.quantile(self._some(), [0.25, 0.75])
        return float(quartiles[1] - quartiles[0])

    def _some(self) -> list[float]:
        if not self.raw_times:
            raise ValueError("a Measurement of no runs has no time")
        return self.times

    @property
    def significant_figures(self) -> int:
        """How many digits of the median four of five measurements would agree in."""
        count = len(self._some())
        interval = max(1.645 * self.iqr / math.sqrt(count) / 1.349, sys.float_info.epsilon)
        return max(min(math.floor(math.log10(self.median / interval)) + 1, 5), 1)

    @property
    def has_warnings(self) -> bool:
        """Whether the measurements are further apart than a quarter of their median."""
        return not self.meets_confidence(0.25)

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether there are some, the quartiles of which are no further apart than that part of the
        median."""
        return bool(self.raw_times) and self.iqr / self.median < threshold

    @property
    def as_row_name(self) -> str:
        spec = self.task_spec
        return spec.sub_label or spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One for each thing that was timed, as if its measurements had been made together: in runs
        of one statement each."""
        times: dict[TaskSpec, list[float]] = {}
        for each in measurements:
            times.setdefault(each.task_spec, []).extend(each.times)
        return [Measurement(1, each, spec) for spec, each in times.items()]

    def __repr__(self) -> str:
        spec, count = self.task_spec, len(self._some())
        unit, scale = select_unit(self.median)
        lines = [f"{object.__repr__(self)}", spec.title]
        lines += [part for part in (spec.description, spec.setup_str()) if part]
        if count > 1:
            low, high = np.quantile(self.times, [0.25, 0.75]) / scale
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        else:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        lines.append(
            f"  {count} measurement{'s' * (count > 1)}, {self.number_per_run} runs "
            f"{'per measurement' if count > 1 else ''}, {spec.num_threads} "
            f"thread{'s' * (spec.num_threads > 1)}"
        )
        return "\n".join(lines)


@dataclass
class Timer:
    """Times a statement of Python, given as text, as `timeit.Timer` does, on `num_threads` threads.

    `globals`: the names it may use, and `torch` besides; `setup` and `global_setup` run before it.
    `label`, `sub_label` and `description` say in which table, row and column of `Compare` it comes.
    """

    stmt: str = "pass"
    setup: str = "pass"
    global_setup: str = ""
    timer: Callable[[], float] = time.perf_counter
    globals: dict[str, Any] | None = None
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1
    language: Any = "py"
    _task_spec: TaskSpec = field(init=False, repr=False)
    _timer: timeit.Timer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if str(getattr(self.language, "value", self.language)).lower() not in ("py", "python", "0"):
            raise NotImplementedError("torch.utils.benchmark.Timer times Python only")
        if self.global_setup:
            raise ValueError(
                "global_setup is C++ only, got `" + self.global_setup + "`. Most likely this code "
                "can simply be moved to `setup`."
            )
        self.stmt, self.setup = (textwrap.dedent(t).strip("\n") for t in (self.stmt, self.setup))
        self._task_spec = TaskSpec(
            self.stmt, self.setup, self.global_setup, self.label, self.sub_label, self.description,
            self.env, self.num_threads,
        )  # fmt: skip
        names = {"torch": sys.modules["frontend"], **(self.globals or {})}
        self._timer = timeit.Timer(self.stmt, self.setup, self.timer, names)

    def _seconds(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """`number` runs at once, after a hundredth of them, two at least, that do not count."""
        with _threads(self.num_threads):
            self._seconds(max(number // 100, 2))
            return self._measured(number, [self._seconds(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    autorange = repeat

    def _number(self, least: float) -> int:
        """So many runs that they take `least` seconds, and what reading the clock costs is a
        ten-thousandth of them."""
        clock = min(timeit.Timer(timer=self.timer).timeit(1) for _ in range(5))
        self._seconds(2)  # what only the first run does is not counted
        number = 1
        while self._seconds(number) < max(least, 1e4 * clock):
            number *= 10
        return number

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of runs, each long enough for the clock, until `min_run_time` seconds of them
        passed. `callback(number, seconds)` is called behind each block."""
        return self._blocks(lambda _, spent: spent >= min_run_time, callback, min_run_time)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """The same until the quartiles are no further apart than `threshold` of the median, after
        three blocks and `min_run_time` at least and `max_run_time` at most."""

        def enough(measured: Measurement, spent: float) -> bool:
            sure = len(measured.raw_times) >= 3 and measured.meets_confidence(threshold)
            return spent >= max_run_time or (spent >= min_run_time and sure)

        return self._blocks(enough, callback, min_run_time)

    def _blocks(
        self, enough: Callable[[Measurement, float], bool],
        callback: Callable[[int, float], Any] | None, least: float,
    ) -> Measurement:  # fmt: skip
        with _threads(self.num_threads):
            number = self._number(least / 1000)
            times: list[float] = []
            spent = 0.0
            while not times or not enough(self._measured(number, times), spent):
                times.append(self._seconds(number))
                spent += times[-1]
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "Timer.collect_callgrind is not here: run the script under valgrind"
        )


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = get_num_threads()
    set_num_threads(number)
    try:
        yield
    finally:
        set_num_threads(before)


class Compare:
    """Tables of measurements: one for each label, a row for each `sub_label` (below the number of
    threads), a column for each `description`. `str()` gives the text."""

    def __init__(self, results: Iterable[Measurement]):
        self._results: list[Measurement] = []
        self._trimmed = self._warned = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        for each in results:
            if not isinstance(each, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(each)} instead."
                )
            self._results.append(each)

    def trim_significant_figures(self) -> None:
        """Show no more digits than measurements agree in."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Nothing: tables are plain text here."""

    def highlight_warnings(self) -> None:
        """Say behind times how far apart their measurements are, where that is more than 25 %."""
        self._warned = True

    def print(self) -> None:
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(each.task_spec.label for each in merged)
        tables = [[m for m in merged if m.task_spec.label == label] for label in labels]
        return "\n".join(self._table(label, rows) for label, rows in zip(labels, tables))

    def _table(self, label: str | None, results: Sequence[Measurement]) -> str:
        columns = list(dict.fromkeys(m.task_spec.description for m in results))
        unit, scale = select_unit(min(m.median for m in results))
        cells: dict[tuple[int, str], dict[str | None, str]] = {}
        for each in results:
            row = cells.setdefault((each.task_spec.num_threads, each.as_row_name), {})
            row[each.task_spec.description] = self._cell(each, scale)
        name = max(len(row) for _, row in cells) + 6
        heads = [column or "" for column in columns]
        widths = [
            max(len(head), *(len(row.get(column, "")) for row in cells.values()))
            for head, column in zip(heads, columns)
        ]
        total = name + sum(width + 5 for width in widths)
        lines = [f"[{f' {label or results[0].task_spec.stmt} '.center(total - 2, '-')}]"]
        lines.append(_line("", heads, name, widths))
        for threads in dict.fromkeys(threads for threads, _ in cells):
            lines.append(f"{threads} threads: ".ljust(total, "-"))
            for (at, name_of_row), values in cells.items():
                if at == threads:
                    shown = [values.get(column, "") for column in columns]
                    lines.append(_line(f"      {name_of_row}", shown, name, widths))
        return "\n".join([*lines, "", f"Times are in {NAMES[unit]} ({unit}).", ""])

    def _cell(self, measured: Measurement, scale: float) -> str:
        value = measured.median / scale
        digits = measured.significant_figures if self._trimmed else 5
        behind = max(digits - 1 - math.floor(math.log10(value)), 0)
        text = f"{round(value, digits - 1 - math.floor(math.log10(value))):.{min(behind, 1)}f}"
        if self._warned and measured.has_warnings:
            text += f" (! {100 * measured.iqr / measured.median:.0f}%)"
        return text


def _line(name: str, cells: Sequence[str], width: int, widths: Sequence[int]) -> str:
    shown = [f"  |  {cell.rjust(own)}" for cell, own in zip(cells, widths)]
    return name.ljust(width) + "".join(shown)
