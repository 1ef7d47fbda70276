"""Data and texts small enough to lie inside a page, and unable to leave it.

JSON is deflated and written in base64, which a browser undoes by itself. Base64 has no character
that means anything in HTML, so no name, shape or line of source can end the script it stands in.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

LONG = 60_000
"""Characters of one text that are kept; its head is what is read."""
MOST_BYTES = 480_000
"""Of all that is packed, so that a page stays below 600 kB, as long as decisions and graphs do."""
LEAST_OF_KERNELS = 100_000
"""Of the texts of a call's kernels, where decisions and graphs alone take so much."""
SPARED = ("llvm", "assembly", "loops", "nest")
"""Texts of a kernel that are left out where there is no room, in this order."""


def packed(content: Any) -> str:
    """Any JSON as a text without quotes, angle brackets or ampersands."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def spared(kernels: dict[str, dict[str, Any]], room: int) -> dict[str, dict[str, Any]]:
    """The texts of kernels, as many as take no more than `room` when they are packed. What stands
    last loses its long ones first; bodies go last of all."""
    kept = {name: {k: _short(v) for k, v in texts.items()} for name, texts in kernels.items()}
    names = list(kernels)[::-1]
    left = [(n, kind) for n in names for kind in SPARED] + [(n, "body") for n in names]
    left.reverse()
    while left and (excess := len(packed(kept)) - room) > 0:
        while left and excess > 0:
            name, kind = left.pop()
            excess -= len(packed(kept[name].pop(kind, ""))) // 2  # together they pack better
    return kept


def _short(text: Any) -> Any:
    if isinstance(text, str) and len(text) > LONG:
        return text[:LONG] + f"\n… {len(text) - LONG} more characters"
    return text
