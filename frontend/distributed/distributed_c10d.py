"""`torch.distributed.distributed_c10d`: the same names as `torch.distributed`, and some that
libraries take from here."""

from __future__ import annotations

from typing import Any

import frontend.distributed as _distributed
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.world import current


def _get_default_group() -> ProcessGroup:
    """All processes. Raises ValueError where there is no group."""
    group: ProcessGroup = current().everybody
    return group


def _get_default_store() -> Any:
    """The store at which the processes met; None where MPI brought them together."""
    return current().store


def _rank_not_in_group(group: Any) -> bool:
    return resolved(group) is None


def __getattr__(name: str) -> Any:
    return getattr(_distributed, name)
