"""How often an object is held, by whatever way the interpreter counts.

What a call itself adds to `sys.getrefcount` differs between versions of Python (3.14 lends locals
without counting them), so it is measured once, on an object that nobody else holds.
"""

from __future__ import annotations

import sys
from typing import Any


def other_references(container: Any, key: Any) -> int:
    """References to `container[key]` besides the container's own."""
    return sys.getrefcount(container[key]) - _OWN


_OWN = 0
_OWN = other_references([object()], 0)
