"""`torch._tensor_str`: how tensors print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from frontend.engine.tensors import printing
from frontend.engine.tensors.printing import set_printoptions as set_printoptions


class _Current:
    """The options in force, to read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(printing.current_options(), name)


PRINT_OPTS = _Current()


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """A block in which tensors print by these options of `set_printoptions`."""
    before = printing.current_options()
    set_printoptions(**options)
    try:
        yield
    finally:
        printing.use_options(before)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """What `repr` gives."""
    return repr(self)


def _tensor_str(self: Any, indent: int) -> str:
    """The numbers of a tensor, as they stand in its text, `indent` columns to the right."""
    return printing.numbers_text(self, indent)
