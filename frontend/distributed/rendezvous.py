"""How processes find each other: `init_process_group`.

Processes that mpiexec started are MPI's ranks. Others are told who they are by arguments or by the
environment (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), meet at a store, and talk by the local
transport: MPI takes nobody in who came by himself.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from urllib import parse

from frontend.distributed.groups import DEFAULT_TIMEOUT, Backend, enter, log
from frontend.distributed.local import LocalTransport
from frontend.distributed.mpi import MPITransport, is_installed, started_by_mpiexec, tell_script
from frontend.distributed.stores import FileStore, PrefixStore, Store
from frontend.distributed.tcp_store import TCPStore
from frontend.distributed.world import HERE

_INCARNATIONS = [0]
"""How often this process came to a store: each time under another prefix."""


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | None = None,
    world_size: int = -1, rank: int = -1, store: Store | None = None, group_name: str = "",
    pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Become one of several processes. All call it.

    `backend`: "mpi"; "gloo" is taken for it. Started by mpiexec the processes talk by MPI (which
    takes the extra `mpi`), else by shared memory, on one machine. `init_method` is "env://" (the
    default), "tcp://host:port" or "file:///path"; or a `store` is given, with `rank` and
    `world_size`. `timeout` holds for finding each other, and for each collective.

    Raises ValueError for what is not complete, RuntimeError where mpi4py is missing, DistStoreError
    and DistNetworkError where not all come in time.
    """
    if HERE.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )
    name = Backend(backend or "mpi")
    limit = DEFAULT_TIMEOUT if timeout is None else timeout
    explicit = store is not None or rank >= 0 or (init_method or "env://") != "env://"
    if started_by_mpiexec() is not None and not explicit:
        transport: Any = MPITransport(limit.total_seconds())
        tell_script()
        meeting: Any = None
    else:
        alone = name == "mpi" and not explicit and "RANK" not in os.environ
        meeting_place, number, count = (
            _alone() if alone else _meeting(store, init_method, rank, world_size, limit)
        )
        meeting_place.set_timeout(limit)
        _INCARNATIONS[0] += 1
        restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        meeting = PrefixStore(f"group{_INCARNATIONS[0]}.{restart}", meeting_place)
        transport = LocalTransport(number, count, meeting)
    world = enter(transport, name, limit.total_seconds(), meeting)
    share_processors()
    if name == "gloo" and world.transport.rank == 0:
        means = "MPI" if transport.name == "mpi" else "shared memory"
        log.info("backend 'gloo' is taken for 'mpi': the ranks talk by %s", means)


def _alone() -> tuple[Store, int, int]:
    """One process that nobody started as one of several, as PyTorch's MPI has it."""
    from frontend.distributed.stores import HashStore

    return HashStore(), 0, 1


def _meeting(
    store: Store | None, init_method: str | None, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    """The store at which the processes meet, the rank of this one and their number."""
    if store is not None:
        if rank < 0 or world_size <= 0:
            raise ValueError("rank and world_size have to be given with a store")
        return store, rank, world_size
    parts = parse.urlsplit(init_method or "env://")
    asked = parse.parse_qs(parts.query)
    number = rank if rank >= 0 else int(asked.get("rank", ["-1"])[0])
    count = world_size if world_size > 0 else int(asked.get("world_size", ["-1"])[0])
    if parts.scheme == "env":
        number = number if number >= 0 else int(_variable("RANK"))
        count = count if count > 0 else int(_variable("WORLD_SIZE"))
    if number < 0 or count <= 0:
        raise ValueError(f"init_method {init_method!r} needs rank= and world_size=")
    if number >= count:
        raise ValueError(f"rank {number} is none of {count} processes")
    if parts.scheme == "file":
        return FileStore(parts.path or parts.netloc, count), number, count
    if parts.scheme == "env":
        host, port = _variable("MASTER_ADDR"), int(_variable("MASTER_PORT"))
    elif parts.scheme == "tcp" and parts.hostname and parts.port:
        host, port = parts.hostname, parts.port
    else:
        raise ValueError(
            f"No rendezvous handler for {init_method!r}: env://, tcp://host:port and file:///path "
            "are known"
        )
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and parts.scheme == "env"
    serves = number == 0 and not served
    return TCPStore(host, port, count, serves, timeout, wait_for_workers=False), number, count


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set. Start the script by mpiexec, or by "
            "python -m frontend.distributed.run --nproc-per-node N SCRIPT"
        )
    return value


def share_processors() -> None:
    """Each rank of a machine gets its share of the processors, where nothing else was said."""
    from graphc.runtime.processors import available

    ranks = int(os.environ.get("LOCAL_WORLD_SIZE") or HERE.world.transport.size)  # type: ignore[union-attr]
    os.environ.setdefault("GRAPHC_THREADS", str(max(1, available() // max(1, ranks))))


def is_available() -> bool:
    """True: `init_process_group` works, on one machine without anything else."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, for processes that mpiexec starts."""
    return is_installed()


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process: `python -m frontend.distributed.run`."""
    return "TORCHELASTIC_RUN_ID" in os.environ
