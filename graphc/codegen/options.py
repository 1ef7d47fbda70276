"""What a compile depends on besides the graph, and the memory that it may take."""

from __future__ import annotations

from graphc.codegen.target import Target
from graphc.records import record


@record
class CompileOptions:
    """The arguments of `graphc.compile`, decided: `target` is one, `threads` the most that a call
    may run on, with the reason why not more. Without `layouts` those of the target are not
    preferred. `max_bytes`: None for any."""

    level: str
    target: Target
    threads: int = 1
    threads_reason: str = ""
    fusion: bool = True
    plan_memory: bool = True
    layouts: bool = True
    max_bytes: int | None = None
