"""Histories of benchmarks: a file a machine, and changes beyond noise alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peer_history.py"


@pytest.fixture(scope="module")
def histories() -> Any:
    spec = importlib.util.spec_from_file_location("peer_history", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(*rounds: float, first: float = 0.1, threads: int = 1) -> dict[str, Any]:
    way = {
        "us": min(rounds), "rounds_us": list(rounds), "grown_bytes": 5_000_000,
        "warm": {"first_s": first},
    }  # fmt: skip
    return {
        "processor": "A (R) CPU/2", "processors": 2, "system": "Linux", "threads": threads,
        "keep_grads": False, "arrays": "seen", "rows": [{"name": "mlp", "ways": {"graphc": way}}],
    }  # fmt: skip


def test_runs_are_appended_to_the_file_of_their_machine(histories: Any, tmp_path: Path) -> None:
    path = histories.history_file(result(1.0), tmp_path)
    assert path.name.startswith("a-r-cpu-2-") and path.suffix == ".jsonl"
    other = histories.history_file({**result(1.0), "processors": 4}, tmp_path)
    assert other != path
    histories.saved(result(100.0), path)
    with path.open("a") as file:
        file.write('{"rows": [')  # of a run that was killed
    histories.saved(result(90.0), path)
    actual = histories.history(path)
    assert [run["rows"][0]["ways"]["graphc"]["us"] for run in actual] == [100.0, 90.0]
    assert histories.comparable(actual, result(1.0))["rows"] == actual[1]["rows"]
    assert histories.comparable(actual, result(1.0, threads=2)) is None


def test_what_is_within_noise_is_no_change(histories: Any) -> None:
    steady, noisy = result(100.0, 101.0, 100.5, 100.2), result(100.0, 140.0, 120.0, 160.0)
    assert list(histories.changes(steady, result(101.0, 101.5, 101.2))) == []
    assert list(histories.changes(noisy, result(120.0, 130.0, 150.0, 170.0))) == []
    (line,) = histories.changes(steady, result(120.0, 121.0, 120.5, 120.2))
    assert line.startswith("mlp by graphc: slower by 1.20 (100.0 to 120.0 µs; noise 2%)")
    (line,) = histories.changes(steady, result(50.0, 50.1))
    assert "faster by 2.00" in line


def test_first_calls_and_missing_ways_are_told(histories: Any) -> None:
    before = result(100.0, 100.0)
    (line,) = histories.changes(before, result(100.0, 100.0, first=0.3))
    assert line == "mlp by graphc: first step: 0.10 to 0.30 s"
    now = result(100.0)
    now["rows"][0]["ways"]["graphc"] = {"failed": "TypeError"}
    assert list(histories.changes(before, now)) == ["mlp by graphc: had 100.0 µs, now no time"]
    now["rows"][0]["name"] = "gpt"
    assert list(histories.changes(before, now)) == ["gpt: new"]
