"""What can go wrong in a call of an object: numbers for it, and the texts that explain them.

A status is 0, or `value << 16 | code`: which text, and a number that belongs into it. What a check
of contents saw lies in the first bytes of the work block. Texts have marks where numbers go.
"""

from __future__ import annotations

VALUE, SEEN, BOUND, FIELD = "\x01", "\x02", "\x03", "\x04"
"""Marks: the status' number, the first and the second number in the work block, and the key of the
field of the state with the status' number."""
VALUE_BITS = 16


class ErrorTexts:
    """The texts of one object, each once."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The number of a text, from 1 on."""
        return self._codes.setdefault(text, len(self._codes) + 1)

    def all(self) -> list[str]:
        """All texts, in the order of their numbers."""
        return list(self._codes)
