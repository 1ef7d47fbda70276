"""docs/tasks.md runs from top to bottom, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    names: dict[str, Any] = {"__name__": "tasks"}
    for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        lines = "\n" * text.count("\n", 0, match.start(1))  # errors name lines of the page
        exec(compile(lines + match[1], str(PAGE), "exec"), names)
    assert names["losses"][-1] < 0.5 * names["losses"][0]
    assert names["accuracy"] > 0.9
    assert [len(reply) for reply in names["replies"]] == [1, 3, 7]
    assert names["replies"][0][0]["small"] > 0.5
    # Traced for the batch, then for any: the smaller last one, the loaded state and the learning
    # rate that falls take no other trace.
    traced = [line for line in names["step"].explain().splitlines() if line.startswith("traced ")]
    assert len(traced) == 2, "\n".join(traced)
