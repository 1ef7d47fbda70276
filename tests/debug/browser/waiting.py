"""Waiting for a page whose own rules forbid the evaluation that Playwright waits by."""

from __future__ import annotations

import time
from typing import Any

SECONDS = 60.0


def until(page: Any, expression: str) -> None:
    """Wait until a JavaScript expression is true. Raises AssertionError where it stays false."""
    end = time.monotonic() + SECONDS
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"still false: {expression}"
        page.wait_for_timeout(20)
