"""`torch._logging`: what PyTorch's compiler is to log."""

from __future__ import annotations

from typing import Any


def set_logs(**artifacts: Any) -> None:
    """Nothing to log: `explain()` of a compiled function tells what was traced, and why again."""
