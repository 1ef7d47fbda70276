"""How often an object is held, by whatever way the interpreter counts.

What a call itself adds to `sys.getrefcount` differs between versions of Python (3.14 lends locals
without counting them), so it is measured once, on an object that nobody else holds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def other_references(container: Any, key: Any) -> int:
    """References to `container[key]` besides the container's own."""
    return sys.getrefcount(container[key]) - _OWN


def is_sole_view(array: np.ndarray) -> bool:
    """Whether an array is a view of one that nobody else holds, which has no more than what aligns
    it besides."""
    if not isinstance(array.base, np.ndarray) or not array.base.flags.owndata:
        return False
    return array.base.nbytes <= array.nbytes + _SPARE and _held(array) == _HELD_BY_VIEW


def _held(array: np.ndarray) -> int:
    return sys.getrefcount(array.base)


_SPARE = 64
_OWN = 0
_OWN = other_references([object()], 0)
_HELD_BY_VIEW = _held(np.empty(2)[1:])
