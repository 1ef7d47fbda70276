"""Where the calls of a graph come from, as nodes keep it in `meta`."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Accepted: copies of nodes keep their `meta` always."""
    yield


def has_preserved_node_meta() -> bool:
    return True


def format_stack() -> list[str]:
    """The lines of the stack, outermost first."""
    return list(reversed([line.strip() for line in traceback.format_stack()[:-1]]))


@contextmanager
def annotate(annotation_dict: dict[Any, Any]) -> Iterator[None]:
    """Accepted: annotations are for PyTorch's own compiler."""
    yield
