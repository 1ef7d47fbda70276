"""The tests that docs/trust.md names for each promise are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz import state
from tests.fuzz.test_state import FOLLOWED

TESTS = Path(__file__).parent
DOCUMENT = TESTS.parent / "docs" / "trust.md"
ROWS = [
    line.strip("| ").split(" | ")
    for line in DOCUMENT.read_text(encoding="utf-8").partition("| promise |")[2].splitlines()
    if line.count("|") == 3 and not line.startswith(("|---", "| **"))
]


@pytest.mark.parametrize("promise, tests", [row for row in ROWS if len(row) == 2])
def test_a_promise_has_its_tests(promise: str, tests: str) -> None:
    text = ""
    for file, name in re.findall(r"`([\w/]*\.py)?(?:::)?(\w*)`", tests):
        text = (TESTS / file).read_text(encoding="utf-8") if file else text
        assert not name or f"def {name}(" in text
    pieces = [piece.replace("\\", "") for piece in re.findall(r'"([^"]+)"', tests)]
    assert set(pieces) <= state.pieces().keys() & set(FOLLOWED)
    assert text or pieces


def test_there_are_promises() -> None:
    assert len(ROWS) > 30
