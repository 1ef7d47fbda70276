"""What `frontend.compile` can be told, checked: the same for every specialization of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getattr_static
from typing import Any

from frontend.engine.sizes.size_rules import checked_names
from frontend.engine.tensors.threads import THREADS
from graphc.records import record
from graphc.runtime.processors import checked_threads
from graphc.system import IMPORTING

LEVELS = ("none", "exact", "relaxed")


@record
class Options:
    """`compile` says what each means. `compiler`: what compiles graphs in place of
    `graphc.compile`, for tools that compare ways to. Raises ValueError for an unknown level,
    TypeError or ValueError for `threads`, `saved_bytes` and `target`."""

    level: str = "exact"
    keep_grads: bool = True
    threads: int | None = None
    max_bytes: int | None = None
    saved_bytes: int | None = None
    target: str | None = None
    dynamic: Any = None
    compiler: Callable[..., Any] | None = None
    fullgraph: bool = False
    apart: bool = False
    """Whether results that share memory in eager mode are refused: eager code goes on with them."""

    def __post_init__(self) -> None:
        if not isinstance(self.fullgraph, bool):
            raise TypeError(f"fullgraph must be True or False, not {self.fullgraph!r}")
        if self.level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {self.level!r}")
        object.__setattr__(self, "threads", checked_threads(self.threads))
        if isinstance(self.dynamic, Mapping):
            checked_names(self.dynamic)
        elif self.dynamic is not None and not isinstance(self.dynamic, bool):
            raise TypeError(
                "dynamic must be True, False, None or names of sizes by parameter and axis, "
                f"{{'x': {{0: 'batch'}}}}, not {self.dynamic!r}"
            )
        budget = self.saved_bytes
        if budget is not None and (type(budget) is not int or budget < 0):
            kind = ValueError if type(budget) is int else TypeError
            raise kind(f"saved_bytes must be a number of bytes, 0 or more, not {budget!r}")
        if self.target is None:
            return
        if not isinstance(self.target, str):
            raise TypeError(f"target must be a name or None, not {type(self.target).__name__}")
        with IMPORTING:
            from graphc.codegen.target import running  # loads LLVM

        running(self.target)

    @property
    def most_threads(self) -> int | None:
        """The most threads a call may run on: those asked for here, or else by `set_num_threads`;
        None for all processors this process may use."""
        return self.threads or THREADS.asked


def open_sizes(function: Any, dynamic: Any) -> Any:
    """`dynamic` as it was given, or, where it was not, what a Module says of its own arguments: an
    imported model knows which of their sizes differ."""
    if dynamic is not None:
        return dynamic
    own = getattr_static(function, "open_sizes", None)  # which runs no __getattr__ of the function
    return own if isinstance(own, Mapping) else None
