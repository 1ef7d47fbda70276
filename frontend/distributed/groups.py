"""Groups of processes, and who is in them: `init_process_group`, `new_group`, ranks and sizes."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from frontend.distributed.exchange import Members, Round, barrier
from frontend.distributed.world import HERE, World, current

log = logging.getLogger("frontend.distributed")

DEFAULT_TIMEOUT = timedelta(minutes=30)
"""How long a collective may take, where `init_process_group` is told nothing."""


class Backend(str):
    """The name of a backend, in small letters. Raises ValueError for one that is not here."""

    UNDEFINED = "undefined"
    MPI = "mpi"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    backend_list = ["undefined", "gloo", "mpi"]
    default_device_backend_map = {"cpu": "gloo"}

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {name!r}")
        wanted = name.lower()
        # PyTorch's way to name one for each kind of device.
        parts = dict(part.partition(":")[::2] for part in wanted.split(",") if ":" in part)
        wanted = parts.get("cpu", wanted)
        if wanted not in ("mpi", "gloo"):
            raise ValueError(
                f"backend {name!r} is not here: processes of CPUs talk by 'mpi' ('gloo' is taken "
                "for it)"
            )
        return super().__new__(cls, wanted)


class ProcessGroup:
    """Several processes, all of `init_process_group` or those of `new_group`."""

    def __init__(self, members: Members, timeout: float, name: str):
        self._members, self._timeout, self.group_name = members, timeout, name

    def rank(self) -> int:
        """The rank of this process in the group."""
        return self._members.me

    def size(self) -> int:
        return self._members.size

    def name(self) -> str:
        return str(current().backend)

    @property
    def group_desc(self) -> str:
        return self.group_name

    def _get_backend_name(self) -> str:
        return self.name()

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name} of ranks {list(self._members.ranks)}>"


class _GroupMeta(type):
    """Reading `group.WORLD` asks for the group there is now."""

    @property
    def WORLD(cls) -> Any:
        return None if HERE.world is None else HERE.world.everybody


class group(metaclass=_GroupMeta):
    """The groups that every process is in."""


class GroupMember(metaclass=_GroupMeta):
    """What `new_group` gives to processes that are not in the group."""

    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return HERE.world is not None


def enter(transport: Any, backend: str, timeout: float, store: Any) -> World:
    """Make this process a rank."""
    world = World(transport, backend, timeout, store)
    HERE.enter(world)
    members = Members(tuple(range(transport.size)), 0)
    world.groups = 1
    world.everybody = ProcessGroup(members, timeout, "0")
    return world


def resolved(chosen: Any) -> ProcessGroup | None:
    """The group that a collective is called on, all processes for None; None where this process is
    not in it."""
    everybody: ProcessGroup = current().everybody
    if chosen is None or chosen is everybody:
        return everybody
    if chosen == GroupMember.NON_GROUP_MEMBER:
        return None
    if not isinstance(chosen, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup or None, not {type(chosen).__name__}")
    return chosen if chosen._members.me >= 0 else None


def get_rank(group: Any = None) -> int:
    """The rank of this process; -1 where it is not in the group."""
    chosen = resolved(group)
    return -1 if chosen is None else chosen._members.me


def get_world_size(group: Any = None) -> int:
    """How many processes there are; -1 where this one is not in the group."""
    chosen = resolved(group)
    return -1 if chosen is None else chosen._members.size


def get_backend(group: Any = None) -> str:
    """The name of the backend: "mpi", or "gloo" where that was asked for."""
    if resolved(group) is None:
        raise ValueError("Invalid process group specified")
    return Backend(current().backend)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all processes of one of a group."""
    chosen = resolved(group)
    if chosen is None or not 0 <= group_rank < chosen.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return chosen._members.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of one of all processes."""
    chosen = resolved(group)
    if chosen is None or global_rank not in chosen._members.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return chosen._members.ranks.index(global_rank)


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks, among all processes, of those of a group."""
    chosen = resolved(group)
    return [] if chosen is None else list(chosen._members.ranks)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank among the processes of this machine: LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment")


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: Any = None,
    pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
    device_id: Any = None, sort_ranks: bool = True,
) -> Any:  # fmt: skip
    """A group of some of the processes. All processes call it, in the same order; those that are
    not in it get GroupMember.NON_GROUP_MEMBER. Raises ValueError for ranks that there are not,
    DistBackendError where the processes name others."""
    world = current()
    count = world.transport.size
    listed = list(range(count)) if ranks is None else [int(rank) for rank in ranks]
    if sort_ranks:
        listed.sort()
    if len(set(listed)) != len(listed) or any(not 0 <= rank < count for rank in listed):
        raise ValueError(f"ranks {listed} are not different ranks of the {count} that there are")
    if backend is not None:
        Backend(backend)
    everybody: ProcessGroup = world.everybody
    identity, world.groups = world.groups, world.groups + 1
    limit = everybody._timeout if timeout is None else timeout.total_seconds()
    if not use_local_synchronization:
        called = Round(everybody._members, f"new_group({listed})")
        world.start(called.name, barrier(called), everybody._timeout).wait()
    members = Members(tuple(listed), identity)
    if members.me < 0:
        return GroupMember.NON_GROUP_MEMBER
    return ProcessGroup(members, limit, group_desc or str(identity))


def new_subgroups(
    group_size: int | None = None, group: Any = None, timeout: timedelta | None = None,
    backend: Any = None, pg_options: Any = None, group_desc: str | None = None,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Groups of `group_size` neighbouring ranks: that of this process, and all."""
    count = get_world_size()
    size = count if group_size is None else group_size
    if size <= 0 or count % size:
        raise ValueError(f"The world size ({count}) must be divisible by group_size={size}")
    groups = [
        new_group(range(start, start + size), timeout, backend) for start in range(0, count, size)
    ]
    return groups[get_rank() // size], groups


def split_world(world: World) -> None:
    """Leave, and forget the world."""
    world.leave("it called destroy_process_group()")
    world.transport.close()
    HERE.world = None
    if hasattr(world.store, "close"):
        world.store.close()


def destroy_process_group(group: Any = None) -> None:
    """Leave all groups, or forget one. Work that was started and not waited for is finished first.
    Raises ValueError where there is no group."""
    world = current()
    if group is not None and group is not world.everybody:
        return
    for work in [*world.works]:
        work.wait()
    split_world(world)
