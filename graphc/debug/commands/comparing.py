"""`graphc compare`."""

from __future__ import annotations
from typing import Any


def add_compare(commands: Any) -> None:
    pass
