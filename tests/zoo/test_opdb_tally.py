"""What a run of PyTorch's samples counts, and keeps in a file."""

from __future__ import annotations

from pathlib import Path

from tests.zoo.opdb_tally import Kept, OfOperator, Tally, table


def counted() -> Tally:
    tally = Tally()
    add, nonzero = tally.of("add"), tally.of("nonzero")
    add.add("passed", "", 6)
    add.add("failed", "off by 1")
    add.add("not reached", "in 1 s", 1)
    nonzero.add("depends on values", "TraceError", 4)
    nonzero.add("out of scope", "sparse", 2)
    return tally


def test_shares_count_what_could_pass() -> None:
    tally = counted()
    assert tally.share == 75
    assert Tally().share is None
    assert list(tally.wrong()) == [
        "  add (2)", "    1 x failed: off by 1", "    1 x not reached: in 1 s",
    ]  # fmt: skip
    assert list(tally.wrong("nonzero")) == []
    assert list(tally.by_value()) == ["  nonzero (4)", "    4 x depends on values: TraceError"]
    row = table({"float32": tally}).splitlines()[1].split()
    assert row == ["float32", "6", "1", "0", "1", "4", "2", "75.00", "%"]


def test_results_are_kept_by_operator_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    tally = counted()
    tally.of("add").seconds = 1.5
    kept = Kept(path)
    for name, of in tally.operators.items():
        kept.add(name, "float32, compiled", of)
    again = Kept(path)
    assert again.get("add", "float32, compiled") == tally.of("add")
    assert again.get("nonzero", "float32, compiled") == tally.of("nonzero")
    assert again.get("add", "float32, eager") is None
    nowhere = Kept(None)
    nowhere.add("add", "float32, eager", OfOperator())
    assert nowhere.get("add", "float32, eager") is None
