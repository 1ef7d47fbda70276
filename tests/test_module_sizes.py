"""A module of more than 400 lines says in its first 30 why it is one: `# Long because: ...`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

LIMIT = 400
REASON = "# Long because: "


@pytest.mark.parametrize("package", ["graphc", "frontend"])
def test_no_long_module_without_a_reason(package: str) -> None:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations, f"{package} is not installed"
    root = Path(spec.submodule_search_locations[0])
    long: list[str] = []
    for path in sorted(root.rglob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        if len(lines) > LIMIT and not any(line.startswith(REASON) for line in lines[:30]):
            long.append(f"{package}/{path.relative_to(root)}: {len(lines)} lines")
    assert not long, f"over {LIMIT} lines, no `{REASON}...` at the top:\n" + "\n".join(long)
