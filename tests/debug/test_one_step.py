"""docs/one_step.md names the files that a step passes, in the order in which it does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "one_step.md"
ROW = re.compile(r"^\| \[[^]]*\]\(\.\./([\w/.]+)\) \| `(\w+)` \|", re.MULTILINE)

# Another step is compiled first: modules are imported then, and no class body counts as a call.
SCRIPT = """
import json, os, sys
os.environ["GRAPHC_CACHE"] = "off"
os.environ["GRAPHC_PROCESSES"] = "1"
{step}
def calls(x, y):
    entered = {{}}
    def note(frame, event, argument):
        if event == "call":
            file = frame.f_code.co_filename
            start = max(file.rfind("/graphc/"), file.rfind("/frontend/"))
            if start >= 0:
                entered.setdefault(f"{{file[start + 1:]}}:{{frame.f_code.co_name}}", len(entered))
    sys.setprofile(note)
    step(x, y)
    sys.setprofile(None)
    return entered
first = torch.randn(6, 8), torch.tensor([0, 1, 2, 3, 0, 1])
second = torch.randn(16, 8), torch.tensor([i % 4 for i in range(16)])
calls(*first)
{step}
print(json.dumps([calls(*second), calls(*second), calls(*second)]))
"""


def test_the_files_are_passed_in_this_order() -> None:
    text = PAGE.read_text("utf-8")
    step = text.partition("```python\n")[2].partition("```")[0]
    result = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT.format(step=step)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    first, _, later = json.loads(result.stdout)
    parts = text.partition("## The first call")[2].split("## Every later call")
    for entered, part in zip((first, later), parts, strict=True):
        rows = [f"{file}:{function}" for file, function in ROW.findall(part)]
        assert rows, "no rows"
        missing = [row for row in rows if row not in entered]
        assert not missing, f"not entered: {missing}"
        places = [entered[row] for row in rows]
        behind = [rows[i] for i in range(1, len(rows)) if places[i] < places[i - 1]]
        assert not behind, f"entered before the row above: {behind}"
