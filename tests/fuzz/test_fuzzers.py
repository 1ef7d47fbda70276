"""A few seconds of every fuzzer, from fixed seeds; and that the frame finds and shrinks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import checkpoints, interrupts, kills
from tests.fuzz.frame import Broken, Fuzzer, report, run, without_parts
from tests.fuzz.registry import FUZZERS

CASES = {
    "checkpoints": 40, "cache_files": 40, "kills": 5, "graph_texts": 300, "joins": 5,
    "kernels": 15, "levels": 1, "targets": 2, "state": 15, "interrupts": 1, "autograd": 20,
    "packing": 6, "sizes": 2, "op_sizes": 8, "eager_ops": 3, "caught": 12, "scalars": 20,
    "told": 1, "forks": 1, "ranks": 3, "fallbacks": 10, "batches": 12,
}  # fmt: skip


def test_every_fuzzer_has_a_short_run() -> None:
    assert CASES.keys() == FUZZERS.keys()


SHARES = [pytest.param(3, id="first"), pytest.param(1, id="all", marks=pytest.mark.slow)]
"""The suite runs one in so many of the cases, the first ones, and at least one."""


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", FUZZERS)
def test_nothing_is_found(name: str, share: int) -> None:
    cases = -(-CASES[name] // share)
    tally = run(FUZZERS[name], 1, cases)
    checkpoints.SERVER.close()
    for finding in tally.findings:
        pytest.fail(report(FUZZERS[name], finding))
    assert sum(tally.ends.values()) == cases


@pytest.mark.slow
def test_an_interrupt_whenever_the_state_of_a_thread_is_set() -> None:
    """What a call that falls back has set is set back, wherever an interrupt comes."""
    known = interrupts.lines("fall back", True)
    chosen = [line for line in known if line[0].co_filename.endswith("engine/tensors/state.py")]
    assert len(chosen) > 5
    for line in chosen:
        for occurrence in range(1, min(known[line], 12) + 1):
            interrupts.check_at("fall back", True, 2, line, occurrence)


@pytest.mark.slow
def test_an_interrupt_at_every_line_of_a_trace() -> None:
    """Of what changes and puts back the tensors; `python -m tests.fuzz --every-line` has others."""
    assert interrupts.every_line("trace", False, ["tracing/session.py"]) > 50
    # An optimizer makes its state where the trace is suspended.
    assert interrupts.every_line("train", False, ["tensors/state.py"]) > 5
    # What was written is counted, wherever an interrupt comes behind native code.
    assert interrupts.every_line("count forward", True, ["compiled/differentiable.py"]) > 20
    # What an example answers of sizes belongs to its trace.
    assert interrupts.every_line("sized", False, ["ir/undecided.py"]) > 5


@pytest.mark.slow
def test_the_cases_reach_both_ends() -> None:
    """A fuzzer whose cases are all refused at once, or all fine, would show nothing."""
    tally = run(FUZZERS["checkpoints"], 1, 100)
    checkpoints.SERVER.close()
    assert min(tally.ends.get(f"pickle {end}", 0) for end in ("loaded", "refused")) > 2
    texts = run(FUZZERS["graph_texts"], 1, 200).ends
    assert min(texts["a graph"], texts["refused"]) > 5


def _check(case: list[int]) -> str:
    if any(item > 90 for item in case) and len(case) > 2:
        raise Broken("a large item among several")
    return "fine"


LISTS = Fuzzer(
    "lists", lambda random, size: random.integers(100, size=4 * size).tolist(), _check,
    lambda case: f"print({case})", without_parts,
)  # fmt: skip


def test_what_is_found_is_made_small() -> None:
    tally = run(LISTS, 0, 50)
    assert len(tally.findings) > 10 and "findings" in str(tally)
    for finding in tally.findings:
        assert len(finding.case) == 3 and max(finding.case) > 90
        assert report(LISTS, finding).endswith(f"print({finding.case})")


def test_a_process_that_dies_or_hangs_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys, os\nwhile True:\n    sys.stdin.buffer.read(5)\n    {}\n"
    server = checkpoints.Server()
    for body, message in (("os._exit(3)", "the process ended"), ("", "too long")):
        process = subprocess.Popen(
            [sys.executable, "-c", script.format(body)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        monkeypatch.setattr(server, "_process", process)
        monkeypatch.setattr(checkpoints, "SECONDS", 5.0 if body else 0.5)
        with pytest.raises(Broken, match=message):
            server.ask(b"x")


def test_writers_that_leave_half_a_file_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(folder: Path, number: int) -> None:
        (folder / "ab").mkdir(parents=True)
        (folder / "ab" / "ab12.object").write_bytes(b"graphc-object 1\n{}")

    monkeypatch.setattr(kills, "keeps", careless)
    with pytest.raises(Broken, match=r"header|whole"):
        kills.check(("keep", 1, 0.4, 0.5))


def test_drawing_is_a_function_of_the_seed() -> None:
    for fuzzer in FUZZERS.values():
        first: Any = fuzzer.draw(np.random.default_rng(3), 5)
        assert repr(fuzzer.draw(np.random.default_rng(3), 5)) == repr(first)
        assert fuzzer.program(first)


def test_the_files_that_are_damaged_load_when_whole() -> None:
    server = checkpoints.Server()
    for file in checkpoints.whole():
        assert server.ask(file) == "loaded"
    for file in checkpoints.whole()[:5]:
        assert server.ask(checkpoints.zipped(checkpoints.program_of(file))) == "loaded"
    server.close()
