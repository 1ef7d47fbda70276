"""What a layer refuses: `tests/frontend/nn` holds each case to its error and the first words of its
text, `tests/frontend/peers` to PyTorch's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True, slots=True)
class Refusal:
    """`call(torch)`, of either system, raises `error`; here its text begins with `words`."""

    call: Callable[[Any], Any]
    error: type[Exception]
    words: str

    def __str__(self) -> str:
        return self.words

    def check(self, system: Any) -> None:
        with pytest.raises(self.error, match=f"^{re.escape(self.words)}"):
            self.call(system)
