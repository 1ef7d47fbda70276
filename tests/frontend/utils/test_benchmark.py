"""`torch.utils.benchmark` on a clock that the statements themselves take on: every figure is known
beforehand."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from frontend.utils import benchmark


class Clock:
    """Seconds that `work` takes on: `steps` in turn."""

    def __init__(self, *steps: float):
        self.now = 0.0
        self.steps = steps
        self.count = 0

    def work(self) -> None:
        self.now += self.steps[self.count % len(self.steps)]
        self.count += 1

    def read(self) -> float:
        return self.now


def timed(clock: Clock, **options: Any) -> Any:
    names = {"work": clock.work}
    return benchmark.Timer("work()", timer=clock.read, globals=names, **options)


def test_runs_at_once_are_one_measurement() -> None:
    clock = Clock(1e-3)
    measured = timed(clock).timeit(200)
    assert (measured.number_per_run, len(measured.raw_times), clock.count) == (200, 1, 202)
    assert measured.raw_times == pytest.approx([0.2])
    assert measured.median == pytest.approx(1e-3) and measured.mean == pytest.approx(1e-3)
    assert "  1.00 ms\n  1 measurement, 200 runs , 1 thread" in repr(measured)


def test_blocks_are_run_until_the_time_is_over() -> None:
    blocks: list[tuple[int, float]] = []
    measured = timed(Clock(1e-5)).blocked_autorange(
        lambda number, seconds: blocks.append((number, seconds)), min_run_time=0.0995
    )
    # A block takes a thousandth of that at least: ten runs.
    assert measured.number_per_run == 10 and len(measured.raw_times) == len(blocks)
    assert len(blocks) == pytest.approx(995, abs=1)
    assert blocks[0] == (10, pytest.approx(1e-4)) and measured.iqr == pytest.approx(0, abs=1e-12)
    assert not measured.has_warnings and measured.significant_figures == 5


def test_blocks_go_on_until_they_agree_or_the_longest_time_is_over() -> None:
    steady = timed(Clock(1e-3)).adaptive_autorange(min_run_time=0.001)
    assert len(steady.raw_times) == 3
    apart = timed(Clock(1e-3, 3e-3)).adaptive_autorange(min_run_time=0.001, max_run_time=0.1)
    assert sum(apart.raw_times) == pytest.approx(0.1, rel=0.05)
    assert apart.has_warnings and not apart.meets_confidence()


def test_the_threads_are_set_for_the_statement_alone() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    other = 1 if before > 1 else 2
    timer = benchmark.Timer(
        "seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=other
    )
    timer.timeit(1)
    assert set(seen) == {other} and torch.get_num_threads() == before
    with pytest.raises(NameError, match="absent"):
        benchmark.Timer("absent", num_threads=other).timeit(1)
    assert torch.get_num_threads() == before


def test_what_a_timer_refuses() -> None:
    with pytest.raises(ValueError, match="Currently only a `str` stmt"):
        benchmark.Timer(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="global_setup is C"):
        benchmark.Timer("pass", global_setup="#include <x>")
    with pytest.raises(NotImplementedError, match="times Python only"):
        benchmark.Timer("pass", language="c++")
    with pytest.raises(NotImplementedError, match="valgrind"):
        benchmark.Timer("pass").collect_callgrind()
    with pytest.raises(NotImplementedError, match="Timer and Compare"):
        benchmark.Fuzzer()
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        benchmark.Compare([1.0])  # type: ignore[list-item]
    nothing = benchmark.Measurement(1, [], benchmark.TaskSpec("pass", "pass"))
    with pytest.raises(ValueError, match="no runs"):
        nothing.median  # noqa: B018


def row(label: str, sub_label: str, description: str, seconds: float, threads: int = 1) -> Any:
    options = {"label": label, "sub_label": sub_label, "description": description}
    return timed(Clock(seconds), num_threads=threads, **options).timeit(100)


def test_measurements_of_the_same_thing_are_one() -> None:
    pair = [row("sum", "[4]", "ours", 1e-6), row("sum", "[4]", "ours", 3e-6)]
    (merged,) = benchmark.Measurement.merge(pair)
    assert merged.times == pytest.approx([1e-6, 3e-6]) and merged.median == pytest.approx(2e-6)
    assert merged.title == "sum: [4]" and merged.as_row_name == "[4]"


def test_tables() -> None:
    results = [
        row("sum", "[4]", "ours", 1.5e-6), row("sum", "[4]", "numpy", 2e-6),
        row("sum", "[400]", "ours", 12e-6), row("sum", "[400]", "numpy", 123e-6, threads=2),
        row("product", "[4]", "ours", 2e-3),
    ]  # fmt: skip
    compared = benchmark.Compare(results[:1])
    compared.extend_results(results[1:])
    compared.trim_significant_figures()
    compared.highlight_warnings()
    compared.colorize()
    assert str(compared).splitlines() == [
        "[----------- sum ------------]",
        "             |  ours  |  numpy",
        "1 threads: -------------------",
        "      [4]    |   1.5  |    2.0",
        "      [400]  |  12.0  |       ",
        "2 threads: -------------------",
        "      [400]  |        |  123.0",
        "",
        "Times are in microseconds (us).",
        "",
        "[--- product ----]",
        "           |  ours",
        "1 threads: -------",
        "      [4]  |   2.0",
        "",
        "Times are in milliseconds (ms).",
    ]
